"""Changes a document by JSON Patch operations (RFC 6902), all of them or none. Pure.

The document is changed in place and every step leaves its inverse in an undo log, so a small change to
a large document costs what the change costs, not what the document does. What `apply` returns can still
be reverted later, as long as nothing newer has been applied: that is how a change that could not be made
durable disappears again.

*Strict* mode is RFC 6902 to the letter. *Friendly* mode first makes way: missing parents on an
operation's path are created, a scalar that stands in the way gives place to a container, and `replace`
of something missing becomes `add`. Either way `apply` returns operations in plain RFC 6902 form, so
whoever keeps a copy needs no knowledge of the friendly rules.

`docs/topics/documents.md` has the rules in words; `pointer.py` and `value.py` are the neighbours.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code
from arauto.features.document.pointer import (
    END,
    array_index,
    format_pointer,
    is_index,
    parse_pointer,
)
from arauto.features.document.value import (
    ELEMENT_BYTES,
    LIMITS,
    Limits,
    Size,
    Value,
    check,
    check_key,
    clone,
    equal,
    fit,
    key_bytes,
    measure,
    member_bytes,
)

__all__ = ["Applied", "Document", "apply"]


class _Missing(Enum):
    MISSING = 0


_MISSING: Final = _Missing.MISSING
_Found: TypeAlias = Value | Literal[_Missing.MISSING]


class Document:
    """A value and its exact size. Only `apply` changes it; readers must not keep or change `value`."""

    __slots__ = ("held_bytes", "nodes", "size_bytes", "value", "visited_nodes")

    def __init__(self, value: Value) -> None:
        size = measure(value)
        self.value = value
        self.nodes = size.nodes
        self.size_bytes = size.size_bytes
        self.held_bytes = size.held_bytes
        self.visited_nodes = 0
        """How many values all changes have visited, those that failed too. Only grows."""

    def resize(self, nodes: int, size_bytes: int, held_bytes: int) -> None:
        self.nodes = nodes
        self.size_bytes = size_bytes
        self.held_bytes = held_bytes


class Applied:
    """Operations that took effect, in plain RFC 6902 form, and the way back."""

    __slots__ = ("_undo", "operations")

    def __init__(self, operations: tuple[Operation, ...], undo: list[Callable[[], object]]) -> None:
        self.operations = operations
        self._undo = undo

    def revert(self) -> None:
        """Undo everything. Only right while this is the newest change of its document."""
        while self._undo:
            self._undo.pop()()


def apply(
    document: Document,
    operations: Sequence[Operation],
    *,
    strict: bool = False,
    limits: Limits = LIMITS,
) -> Applied:
    """Apply all operations in order, or none.

    The values of the operations are copied: the caller may keep and send them.

    Raises:
        ArautoError: BAD_OPERATION, TEST_FAILED, DOCUMENT_TOO_LARGE or BATCH_TOO_LARGE, with the field
            at fault, such as `operations[2].path`. The document is as it was.
    """
    if len(operations) > limits.operations_max:
        raise ArautoError(
            Code.BATCH_TOO_LARGE,
            f"a change has at most {limits.operations_max} operations",
            field="operations",
        )
    batch = _Batch(document, strict, limits)
    for index, operation in enumerate(operations):
        try:
            batch.run(operation)
        except BaseException as error:
            batch.finish().revert()
            if isinstance(error, ArautoError):
                error.field = f"operations[{index}].{error.field}"
            raise
    return batch.finish()


class _Target:
    """A place to write to: a member or element, or the root (no parent)."""

    __slots__ = ("key", "old", "parent", "segments")

    def __init__(
        self,
        segments: list[str],
        parent: dict[str, Value] | list[Value] | None,
        key: str | int,
        old: _Found,
    ) -> None:
        self.segments = segments
        self.parent = parent
        self.key = key
        self.old = old
        """What will be overwritten; missing if something is put in between."""


class _Batch:
    """One request while it is applied: the undo log, the operations as they took effect, the budget."""

    __slots__ = ("_document", "_effective", "_limits", "_strict", "_undo", "_work_nodes")

    def __init__(self, document: Document, strict: bool, limits: Limits) -> None:
        self._document = document
        self._strict = strict
        self._limits = limits
        self._work_nodes = 0
        self._effective: list[Operation] = []
        self._undo: list[Callable[[], object]] = [
            partial(document.resize, document.nodes, document.size_bytes, document.held_bytes)
        ]

    def finish(self) -> Applied:
        return Applied(tuple(self._effective), self._undo)

    def run(self, operation: Operation) -> None:
        handler = _HANDLERS.get(operation.op)
        if handler is None:
            raise _bad(f"op is one of {', '.join(_HANDLERS)}", "op")
        handler(self, operation)

    # --- the six operations ---------------------------------------------------------------------

    def add(self, operation: Operation) -> None:
        segments = self._parse(operation.path, "path")
        self._make_way(segments)
        self._write(segments, operation, insert=True)

    def replace(self, operation: Operation) -> None:
        segments = self._parse(operation.path, "path")
        self._make_way(segments)
        if not self._strict and self._find(segments) is _MISSING:
            operation = msgspec.structs.replace(operation, op="add")
        self._write(segments, operation, insert=operation.op == "add")

    def remove(self, operation: Operation) -> None:
        segments = self._parse(operation.path, "path")
        old = self._detach(segments, "path")
        self._release(old)
        self._took_effect(operation, segments)

    def copy(self, operation: Operation) -> None:
        source = self._parse(operation.source, "source")
        segments = self._parse(operation.path, "path")
        self._make_way(segments, source)
        value = self._existing(source, "source")
        size = measure(value)
        target = self._target(segments, insert=True)
        # Counted before it is copied: copying a large part into itself again and again ends here.
        self._release(target.old)
        self._reserve(size, len(segments) + size.height)
        self._visit(2 * size.nodes)
        self._put(target, clone(value))
        self._took_effect(operation, segments, source)

    def move(self, operation: Operation) -> None:
        source = self._parse(operation.source, "source")
        segments = self._parse(operation.path, "path")
        value = self._existing(source, "source")
        if source != segments:
            if source == segments[: len(source)]:
                raise _bad("a value cannot be moved into itself", "path")
            self._make_way(segments)
            if len(segments) > len(source):
                size = measure(value)
                self._visit(size.nodes)
                self._check_depth(len(segments) + size.height)
            self._detach(source, "source")
            target = self._target(segments, insert=True)
            self._release(target.old)
            self._put(target, value)
        self._took_effect(operation, segments, source)

    def test(self, operation: Operation) -> None:
        segments = self._parse(operation.path, "path")
        self._visit(
            check(
                operation.value,
                self._limits,
                nodes_room=self._limits.nodes_max,
                bytes_room=self._limits.size_bytes_max,
            ).nodes
        )
        value = self._find(segments)
        if value is _MISSING:
            raise ArautoError(Code.TEST_FAILED, "there is nothing at this path", field="path")
        if not equal(value, operation.value):
            raise ArautoError(
                Code.TEST_FAILED, "the document has another value here", field="value"
            )
        self._took_effect(operation, segments)

    # --- finding places -------------------------------------------------------------------------

    def _parse(self, text: str, field: str) -> list[str]:
        return parse_pointer(
            text, strict=self._strict, segments_max=self._limits.depth_max, field=field
        )

    def _find(self, segments: Sequence[str]) -> _Found:
        node: _Found = self._document.value
        for segment in segments:
            node = _child(node, segment)
        return node

    def _existing(self, segments: Sequence[str], field: str) -> Value:
        value = self._find(segments)
        if value is _MISSING:
            raise _bad("there is nothing at this path", field)
        return value

    def _target(self, segments: list[str], *, insert: bool) -> _Target:
        if not segments:
            return _Target(segments, None, "", self._document.value)
        parent = self._find(segments[:-1])
        last = segments[-1]
        if isinstance(parent, dict):
            old = parent.get(last, _MISSING)
            if old is _MISSING and not insert:
                raise _bad("there is nothing at this path", "path")
            return _Target(segments, parent, last, old)
        if isinstance(parent, list):
            index = array_index(last, len(parent))
            if index is None:
                raise _bad("an array's element is named by its index, or - after the last", "path")
            if index > len(parent) - (not insert):
                raise _bad("the index lies past the end of the array", "path")
            return _Target(segments, parent, index, _MISSING if insert else parent[index])
        if parent is _MISSING:
            raise _bad("the parent of this path does not exist", "path")
        raise _bad("the parent of this path is neither an object nor an array", "path")

    def _make_way(self, segments: list[str], source: list[str] | None = None) -> None:
        """Friendly mode: see to it that the path's parent exists.

        Rewrites `-` inside the path to the index that the new element got. `source` is what a copy is
        about to read: it must not be what gives place.
        """
        if self._strict:
            return
        node: Value = self._document.value
        for at, segment in enumerate(segments):
            if not isinstance(node, dict | list):
                if source == segments[:at]:
                    raise _bad("the value to copy stands in its own way", "path")
                way = Operation(
                    op="replace", path=format_pointer(segments[:at]), value=_skeleton(segments, at)
                )
                self._write(segments[:at], way, insert=False)
                return
            if at == len(segments) - 1:
                return
            child = _child(node, segment)
            if child is _MISSING:
                if segment == END and isinstance(node, list):
                    segments[at] = str(len(node))
                way = Operation(
                    op="add",
                    path=format_pointer(segments[: at + 1]),
                    value=_skeleton(segments, at + 1),
                )
                self._write(segments[: at + 1], way, insert=True)
                return
            node = child

    # --- changing and counting ------------------------------------------------------------------

    def _write(self, segments: list[str], operation: Operation, *, insert: bool) -> None:
        target = self._target(segments, insert=insert)
        self._release(target.old)
        document, limits = self._document, self._limits
        size = check(
            operation.value,
            limits,
            nodes_room=limits.nodes_max - document.nodes,
            bytes_room=limits.size_bytes_max - document.size_bytes,
            depth=len(segments),
        )
        self._visit(size.nodes)
        self._reserve(size, 0)
        self._put(target, clone(operation.value))
        self._took_effect(operation, segments)

    def _put(self, target: _Target, value: Value) -> None:
        parent, key, old = target.parent, target.key, target.old
        if parent is None:
            self._undo.append(partial(setattr, self._document, "value", old))
            self._document.value = value
        elif isinstance(parent, dict):
            assert isinstance(key, str)
            if old is _MISSING:
                size_bytes = check_key(key, self._limits)
                self._reserve(Size(0, size_bytes, 0, size_bytes + member_bytes(key)), 0)
                self._undo.append(partial(_delete, parent, key))
            else:
                self._undo.append(partial(parent.__setitem__, key, old))
            _set(parent, key, value)
        else:
            assert isinstance(key, int)
            if old is _MISSING:
                self._document.held_bytes += ELEMENT_BYTES
                self._undo.append(partial(parent.__delitem__, key))
                parent.insert(key, value)
            else:
                self._undo.append(partial(parent.__setitem__, key, old))
                parent[key] = value

    def _detach(self, segments: list[str], field: str) -> Value:
        """Take a value out. Its own size stays counted; its name's does not."""
        if not segments:
            raise _bad("the root can be replaced, not removed", field)
        value = self._existing(segments, field)
        parent = self._find(segments[:-1])
        last = segments[-1]
        if isinstance(parent, dict):
            _delete(parent, last)
            self._undo.append(partial(_set, parent, last, value))
            size_bytes = key_bytes(last)
            self._document.size_bytes -= size_bytes
            self._document.held_bytes -= size_bytes + member_bytes(last)
        else:
            assert isinstance(parent, list)
            index = int(last)
            del parent[index]
            self._document.held_bytes -= ELEMENT_BYTES
            self._undo.append(partial(parent.insert, index, value))
        return value

    def _release(self, value: _Found) -> None:
        if value is _MISSING:
            return
        size = measure(value)
        self._visit(size.nodes)
        self._document.nodes -= size.nodes
        self._document.size_bytes -= size.size_bytes
        self._document.held_bytes -= size.held_bytes

    def _reserve(self, size: Size, depth: int) -> None:
        document, limits = self._document, self._limits
        document.nodes += size.nodes
        document.size_bytes += size.size_bytes
        document.held_bytes += size.held_bytes
        if size.nodes and document.nodes > limits.nodes_max:
            raise _too_large(f"a document has at most {limits.nodes_max} values")
        if document.size_bytes > limits.size_bytes_max:
            raise _too_large(f"a document has at most {limits.size_bytes_max} bytes")
        self._check_depth(depth)

    def _check_depth(self, depth: int) -> None:
        if depth > self._limits.depth_max:
            raise _too_large(f"a document is at most {self._limits.depth_max} levels deep")

    def _visit(self, nodes: int) -> None:
        self._document.visited_nodes += nodes
        self._work_nodes += nodes
        if self._work_nodes > self._limits.work_nodes_max:
            raise ArautoError(
                Code.BATCH_TOO_LARGE,
                f"one change visits at most {self._limits.work_nodes_max} values; split it",
                field="path",
            )

    def _took_effect(
        self, operation: Operation, segments: list[str], source: list[str] | None = None
    ) -> None:
        if not self._strict:
            path = format_pointer(segments)
            origin = operation.source if source is None else format_pointer(source)
            if path != operation.path or origin != operation.source:
                operation = Operation(
                    op=operation.op, path=path, source=origin, value=operation.value
                )
        self._effective.append(operation)


_HANDLERS: Final[dict[str, Callable[[_Batch, Operation], None]]] = {
    "add": _Batch.add,
    "remove": _Batch.remove,
    "replace": _Batch.replace,
    "move": _Batch.move,
    "copy": _Batch.copy,
    "test": _Batch.test,
}


def _child(node: _Found, segment: str) -> _Found:
    if isinstance(node, dict):
        return node.get(segment, _MISSING)
    if isinstance(node, list):
        index = array_index(segment, len(node))
        if index is not None and index < len(node):
            return node[index]
    return _MISSING


def _skeleton(segments: list[str], start: int) -> Value:
    """Empty containers for the segments from `start` on: an array for an index or -, else an object."""
    inner: Value = [] if is_index(segments[-1]) else {}
    for at in range(len(segments) - 2, start - 1, -1):
        segment = segments[at]
        if not is_index(segment):
            inner = {segment: inner}
        elif segment in ("0", END):
            segments[at] = "0"
            inner = [inner]
        else:
            raise _bad("a new array starts at index 0", "path")
    return inner


def _set(members: dict[str, Value], name: str, value: Value) -> None:
    members[name] = value
    fit(members)


def _delete(members: dict[str, Value], name: str) -> None:
    del members[name]
    fit(members)


def _too_large(rule: str) -> ArautoError:
    return ArautoError(Code.DOCUMENT_TOO_LARGE, rule, field="path")


def _bad(rule: str, field: str) -> ArautoError:
    return ArautoError(Code.BAD_OPERATION, rule, field=field)
