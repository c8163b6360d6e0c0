"""Applies a node's document operations to a local copy, without changing the value it had before. Pure.

A node checks operations, limits them and broadcasts what took effect in plain RFC 6902 form; so all that
is left to do here is the effect. What is on the path is copied, the rest is shared: a value that was handed
out stays what it was, and a small change to a large document stays small.
"""

from collections.abc import Callable, Sequence
from typing import Any

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code

__all__ = ["apply", "resolve"]


def apply(value: Any, operations: Sequence[Operation]) -> Any:
    """Return the value after the operations; the value given stays as it was.

    Raises:
        ArautoError: BAD_OPERATION or TEST_FAILED. The local copy is not what the node has: get it anew.
    """
    for operation in operations:
        path = _segments(operation.path)
        if operation.op in ("add", "replace"):
            value = _put(value, path, operation.value, insert=operation.op == "add")
        elif operation.op == "remove":
            value = _remove(value, path)
        elif operation.op == "move":
            source = _segments(operation.source)
            moved = _find(value, source)
            value = (
                _put(_remove(value, source), path, moved, insert=True) if source != path else value
            )
        elif operation.op == "copy":
            value = _put(value, path, _find(value, _segments(operation.source)), insert=True)
        elif operation.op == "test":
            # The node tested before it changed anything; here the path alone shows a stale copy.
            _find(value, path)
        else:
            raise _stale(f"{operation.op} is no operation")
    return value


def resolve(value: Any, pointer: str) -> Any:
    """The part of a value a JSON Pointer names.

    Raises:
        ArautoError: NOT_FOUND.
    """
    try:
        return _find(value, _segments(pointer))
    except ArautoError as error:
        raise ArautoError(Code.NOT_FOUND, f"there is nothing at {pointer}", field="path") from error


def _segments(pointer: str) -> list[str]:
    if not pointer:
        return []
    text = pointer[1:] if pointer[0] == "/" else pointer
    return [segment.replace("~1", "/").replace("~0", "~") for segment in text.split("/")]


def _find(value: Any, path: list[str]) -> Any:
    for segment in path:
        value = _child(value, segment)
    return value


def _put(value: Any, path: list[str], new: Any, *, insert: bool) -> Any:
    if not path:
        return new

    def change(parent: Any, last: str) -> None:
        if isinstance(parent, dict):
            parent[last] = new
        elif insert:
            at = len(parent) if last == "-" else _index(last)
            if at > len(parent):
                raise _stale("the index lies past the end")
            parent.insert(at, new)
        else:
            _child(parent, last)
            parent[_index(last)] = new

    return _changed(value, path, change)


def _remove(value: Any, path: list[str]) -> Any:
    if not path:
        return None

    def change(parent: Any, last: str) -> None:
        _child(parent, last)
        del parent[last if isinstance(parent, dict) else _index(last)]

    return _changed(value, path, change)


def _changed(value: Any, path: list[str], change: Callable[[Any, str], None]) -> Any:
    """Copy every container on the path, then change the last one."""
    root = parent = _copy(value)
    for segment in path[:-1]:
        child = _copy(_child(parent, segment))
        parent[segment if isinstance(parent, dict) else _index(segment)] = child
        parent = child
    change(parent, path[-1])
    return root


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list):
        return list(value)
    raise _stale("the parent is neither an object nor an array")


def _child(parent: Any, segment: str) -> Any:
    try:
        if isinstance(parent, dict):
            return parent[segment]
        if isinstance(parent, list):
            return parent[_index(segment)]
    except LookupError:
        pass
    raise _stale("there is nothing at this path")


def _index(segment: str) -> int:
    if segment.isascii() and segment.isdigit():
        return int(segment)
    raise _stale("an array's element is named by its index")


def _stale(why: str) -> ArautoError:
    return ArautoError(Code.BAD_OPERATION, why, field="operations")
