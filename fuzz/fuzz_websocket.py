"""Fuzzes WebSocket fragments, control frames, UTF-8 and close payloads."""

import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["arauto"]):
    from fuzz.codec_laws import check_websocket

if __name__ == "__main__":
    atheris.Setup(sys.argv, check_websocket)
    atheris.Fuzz()
