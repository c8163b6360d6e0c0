"""Fuzzes server-sent events: Last-Event-ID headers, and payloads that try to leave their event."""

import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["arauto"]):
    from fuzz.codec_laws import check_sse

if __name__ == "__main__":
    atheris.Setup(sys.argv, check_sse)
    atheris.Fuzz()
