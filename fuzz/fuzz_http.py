"""Fuzzes the client port's HTTP: requests, headers, bodies, chunks, pipelines and upgrades, cut anyhow."""

import logging
import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["arauto", "uvicorn.protocols"]):
    from fuzz.http_laws import check_http

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    atheris.Setup(sys.argv, check_http)
    atheris.Fuzz()
