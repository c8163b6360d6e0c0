"""What the document tests share: short constructors, strategies, and a naive twin of the engine."""

import contextlib
import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from arauto.codec.events import Operation

__all__ = [
    "OracleError",
    "add",
    "batches_for",
    "cases",
    "copy_",
    "documents",
    "move",
    "oracle_apply",
    "remove",
    "replace",
    "same",
    "test_",
    "values",
]


def add(path: str, value: Any) -> Operation:
    return Operation(op="add", path=path, value=value)


def remove(path: str) -> Operation:
    return Operation(op="remove", path=path)


def replace(path: str, value: Any) -> Operation:
    return Operation(op="replace", path=path, value=value)


def move(source: str, path: str) -> Operation:
    return Operation(op="move", path=path, source=source)


def copy_(source: str, path: str) -> Operation:
    return Operation(op="copy", path=path, source=source)


def test_(path: str, value: Any) -> Operation:
    return Operation(op="test", path=path, value=value)


test_.__test__ = False  # type: ignore[attr-defined]


# --- strategies: few names and small arrays, so that pointers often hit something ---------------------

_names = st.sampled_from(["a", "b", "0", "1", "", "x/y", "m~n", "-", "é"])
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from([0, 1, 1.0, 0.0, True, False, "1", b"1"])
)
values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)
documents: st.SearchStrategy[Any] = st.dictionaries(_names, values, max_size=4) | values

_segments = st.sampled_from(["a", "b", "0", "1", "2", "-", "", "x~1y", "m~0n", "é", "01"])
_tails = st.lists(_segments, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
_wild_pointers = _tails | _tails.map(lambda text: text.removeprefix("/")) | st.just("/~2")
_wild_operations = st.builds(
    Operation,
    op=st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "bogus"]),
    path=_wild_pointers,
    source=_wild_pointers,
    value=values,
)


@st.composite
def batches_for(draw: st.DrawFn, document: Any, max_size: int = 5) -> list[Operation]:
    """Operations that mostly fit the document as it will be when their turn comes."""
    batch: list[Operation] = []
    for _ in range(draw(st.integers(0, max_size))):
        if draw(st.integers(0, 9)) == 9:
            batch.append(draw(_wild_operations))
        else:
            batch.append(draw(_fitting_operations(document)))
        with contextlib.suppress(OracleError):
            document = oracle_apply(document, batch[-1:])
    return batch


@st.composite
def _fitting_operations(draw: st.DrawFn, document: Any) -> Operation:
    places = dict(_places(document, ""))
    existing = st.sampled_from(sorted(places))
    fresh = st.builds(str.__add__, existing, _tails)
    op = draw(st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]))
    path = draw(existing | fresh if op in ("add", "move", "copy") else existing)
    value = draw(values)
    if op == "test" and draw(st.booleans()):
        value = places[path]
    return Operation(op=op, path=path, source=draw(existing), value=value)


def _places(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    yield pointer, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, f"{pointer}/{index}")


def _with_batch(document: Any) -> st.SearchStrategy[tuple[Any, list[Operation]]]:
    return st.tuples(st.just(document), batches_for(document))


cases = documents.flatmap(_with_batch)
"""A document and a batch for it."""


# --- the oracle: RFC 6902 in its own words, on a deep copy -------------------------------------------


class OracleError(Exception):
    """The batch is not applicable."""


def oracle_apply(document: Any, operations: Sequence[Operation]) -> Any:
    """Strict mode, slow and plain."""
    box = {"root": copy.deepcopy(document)}
    for operation in operations:
        _oracle_one(box, operation)
    return box["root"]


def _oracle_one(box: dict[str, Any], operation: Operation) -> None:
    path = _split(operation.path)
    value = copy.deepcopy(operation.value)
    match operation.op:
        case "add":
            _add(box, path, value)
        case "remove":
            _remove(box, path)
        case "replace":
            _get(box, path)
            if path:
                _put(box, path, value)
            else:
                box["root"] = value
        case "move":
            source = _split(operation.source)
            moved = _get(box, source)
            if source != path:
                if path[: len(source)] == source:
                    raise OracleError
                _remove(box, source)
                _add(box, path, moved)
        case "copy":
            _add(box, path, copy.deepcopy(_get(box, _split(operation.source))))
        case "test":
            if not same(_get(box, path), value):
                raise OracleError
        case _:
            raise OracleError


def _split(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise OracleError
    if re.search("~[^01]|~$", pointer):
        raise OracleError
    parts = pointer.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _index(segment: str, highest: int) -> int:
    if not re.fullmatch("0|[1-9][0-9]*", segment) or int(segment) > highest:
        raise OracleError
    return int(segment)


def _get(box: dict[str, Any], path: list[str]) -> Any:
    node = box["root"]
    for segment in path:
        if isinstance(node, list):
            node = node[_index(segment, len(node) - 1)]
        elif isinstance(node, dict) and segment in node:
            node = node[segment]
        else:
            raise OracleError
    return node


def _add(box: dict[str, Any], path: list[str], value: Any) -> None:
    if not path:
        box["root"] = value
        return
    parent = _get(box, path[:-1])
    if isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent))
        parent.insert(at, value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise OracleError


def _put(box: dict[str, Any], path: list[str], value: Any) -> None:
    parent = _get(box, path[:-1])
    parent[int(path[-1]) if isinstance(parent, list) else path[-1]] = value


def _remove(box: dict[str, Any], path: list[str]) -> None:
    if not path:
        raise OracleError
    _get(box, path)
    parent = _get(box, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]


def same(left: Any, right: Any) -> bool:
    """Equality by type and content, written differently from the one under test."""
    return bool(_tagged(left) == _tagged(right))


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        return ("object", {key: _tagged(item) for key, item in value.items()})
    if isinstance(value, list):
        return ("array", [_tagged(item) for item in value])
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return ("number", value)
    return (type(value).__name__, value)
