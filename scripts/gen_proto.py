"""Generate src/arauto/codec/arauto_pb2.py and .pyi from proto/arauto.proto.

`--check` writes nothing and fails if the committed files are stale.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = ROOT / "proto"
TARGET_DIR = ROOT / "src" / "arauto" / "codec"
NAMES = ("arauto_pb2.py", "arauto_pb2.pyi")


def generate(out_dir: Path) -> None:
    """Run protoc into a directory.

    Raises:
        SystemExit: protoc refused the schema; it has already said why.
    """
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={PROTO_DIR}",
            f"--python_out={out_dir}",
            f"--pyi_out={out_dir}",
            str(PROTO_DIR / "arauto.proto"),
        ]
    )
    if status != 0:
        raise SystemExit(status)
    # protoc writes bare `Mapping` in the stub, which strict checking refuses.
    stub = out_dir / "arauto_pb2.pyi"
    stub.write_text('# mypy: disable-error-code="type-arg"\n' + _text(stub), encoding="utf-8")


def stale() -> list[str]:
    """Return the committed files that differ from what protoc would write now."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        return [name for name in NAMES if _text(Path(scratch) / name) != _text(TARGET_DIR / name)]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    """Generate, or check; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="fail if the committed files are stale"
    )
    if not parser.parse_args().check:
        generate(TARGET_DIR)
        return 0
    names = stale()
    for name in names:
        print(f"{name} is stale: run python scripts/gen_proto.py", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    raise SystemExit(main())
