"""Fuzzes the JSON flavour: requests and events, and payloads that are not what they are said to be."""

import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["arauto"]):
    from fuzz.codec_laws import check_json

if __name__ == "__main__":
    atheris.Setup(sys.argv, check_json)
    atheris.Fuzz()
