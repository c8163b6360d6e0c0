"""Write the vector files from the sample records. `--check` writes nothing and fails if they are stale."""

import json
import sys
from pathlib import Path
from typing import Any

from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.codec.sse import SseCodec
from tests.unit.codec.newer import NEWER_EVENTS, NEWER_REQUESTS
from tests.unit.codec.samples import EVENTS, REQUESTS

HERE = Path(__file__).resolve().parent


def vectors() -> dict[str, list[dict[str, Any]]]:
    """Return what each file holds."""
    proto, text, sse = ProtoCodec(), JsonCodec(), SseCodec()
    files: dict[str, list[dict[str, Any]]] = {"requests": [], "events": [], "sse": []}
    for name, request in REQUESTS.items():
        files["requests"].append(
            _vector(name, proto.encode_request(request), text.encode_request(request))
        )
    for name, event in EVENTS.items():
        files["events"].append(_vector(name, proto.encode_event(event), text.encode_event(event)))
        chunk = sse.encode_event(event).decode()
        files["sse"].append({"name": name, "event": files["events"][-1]["event"], "chunk": chunk})
    files["newer_requests"] = [
        {**_vector(name, *both), "means": means, "code": code}
        for name, (means, code, both) in NEWER_REQUESTS.items()
    ]
    files["newer_events"] = [
        {**_vector(name, *both), "means": means} for name, (means, both) in NEWER_EVENTS.items()
    ]
    return files


def _vector(name: str, proto: bytes, text: bytes) -> dict[str, Any]:
    event = json.loads(text)["event"]
    return {"name": name, "event": event, "proto": proto.hex(), "json": text.decode()}


def contents() -> dict[Path, str]:
    """Return the text of each file by its path."""
    return {
        HERE / f"{name}.json": json.dumps(items, indent=1, ensure_ascii=False) + "\n"
        for name, items in vectors().items()
    }


def stale() -> list[str]:
    """Return the names of the files that differ from what would be written now."""
    return [
        path.name
        for path, text in contents().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write, or check; return the exit status."""
    if "--check" in sys.argv[1:]:
        names = stale()
        for name in names:
            print(f"{name} is stale: run python -m tests.vectors.generate", file=sys.stderr)
        return 1 if names else 0
    for path, text in contents().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
