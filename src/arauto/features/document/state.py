"""A document with its version, and how it comes back after a crash. Pure; knows no store and no channel.

The life of a change:

    change = state.change(operations, ...)      applied in memory; refused changes leave no trace
    push change.data to the operation log       by the caller, one change at a time
    state.confirm(change.version)               it is durable: acknowledge and broadcast it
    state.revert(change.version)                it is not: the document is as it was

Between `change` and `confirm` the value is ahead of what is durable: nobody may be shown it.

A snapshot plus the log entries after it rebuild the document. Entries at or below the snapshot's version
are left-overs and skipped. An entry whose version is not above the one before it supersedes what it
overlaps: a push that failed may have reached the log all the same, and the change that took its place
carries the same version.
"""

from collections.abc import Sequence

import msgspec

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document.encode import (
    dump_change,
    load_change,
    load_document,
    pack_document,
    seal,
)
from arauto.features.document.patch import Applied, Document, apply
from arauto.features.document.value import CEILING, LIMITS, Limits, Value
from arauto.storage.base import Snapshot

__all__ = ["Change", "DocumentState"]


class Change(msgspec.Struct, frozen=True, gc=False):
    """One accepted request: what turned `version` - 1 into `version`."""

    version: int
    operations: tuple[Operation, ...]
    """In plain RFC 6902 form, whatever mode they were accepted in: for subscribers."""
    data: bytes
    """The same, for the operation log."""


class DocumentState:
    """A value and its version. A new document is an empty object at version 0."""

    __slots__ = ("_document", "_pending", "version")

    def __init__(self) -> None:
        self._document = Document({})
        self.version = 0
        self._pending: list[Applied] = []
        """Changes not yet confirmed, oldest first; the newest made `version`."""

    @property
    def value(self) -> Value:
        """The live value: encode it before the next change, never keep or change it."""
        return self._document.value

    @property
    def nodes(self) -> int:
        return self._document.nodes

    @property
    def size_bytes(self) -> int:
        """An estimate of the value's size, from above."""
        return self._document.size_bytes

    @property
    def held_bytes(self) -> int:
        """An estimate of the memory the value takes, from above."""
        return self._document.held_bytes

    @property
    def visited_nodes(self) -> int:
        """How many values all changes have visited, those that failed too. Only grows."""
        return self._document.visited_nodes

    @property
    def confirmed_version(self) -> int:
        """The newest version that is durable."""
        return self.version - len(self._pending)

    # --- changing -------------------------------------------------------------------------------

    def change(
        self,
        operations: Sequence[Operation],
        *,
        if_version: int = -1,
        strict: bool = False,
        limits: Limits = LIMITS,
    ) -> Change:
        """Apply a request: all its operations and one version more, or nothing.

        Raises:
            ArautoError: VERSION_MISMATCH if `if_version` ≥ 0 is not the current version; BAD_FIELD if
                there are no operations; whatever `patch.apply` raises.
        """
        if 0 <= if_version != self.version:
            raise ArautoError(
                Code.VERSION_MISMATCH,
                f"the document is at version {self.version}, not {if_version}",
                field="if_version",
            )
        if not operations:
            raise ArautoError(
                Code.BAD_FIELD, "a change has at least one operation", field="operations"
            )
        applied = apply(self._document, operations, strict=strict, limits=limits)
        version = self.version + 1
        try:
            data = dump_change(version, applied.operations)
        except ArautoError:
            applied.revert()
            raise
        self.version = version
        self._pending.append(applied)
        return Change(version, applied.operations, data)

    def confirm(self, version: int) -> None:
        """Everything up to this version is durable. Confirming again does nothing."""
        del self._pending[: max(0, version - self.confirmed_version)]

    def revert(self, version: int) -> None:
        """Undo this change and every later one. Does nothing if it is confirmed or undone already."""
        while self._pending and self.version >= version:
            self._pending.pop().revert()
            self.version -= 1

    # --- keeping and moving ---------------------------------------------------------------------

    def pack(self) -> bytes:
        """A consistent picture of the document, cheap to take; `encode.seal` makes it a snapshot's data
        and may run in a thread.

        Raises:
            ArautoError: CONFLICT while a change is not confirmed.
        """
        if self._pending:
            raise ArautoError(Code.CONFLICT, "a change of this document is still being stored")
        return pack_document(self.version, self._document.value)

    def snapshot(self) -> Snapshot:
        """The document as it is kept in the store. Raises as `pack` does."""
        return Snapshot(self.version, seal(self.pack()))

    @classmethod
    def restore(cls, snapshot: Snapshot | None, changes: Sequence[bytes]) -> "DocumentState":
        """Rebuild a document from its last snapshot and the operation log, oldest first.

        Raises:
            StorageError: STORAGE_CORRUPT if something cannot be read, or a version is missing.
        """
        state = cls()
        if snapshot is not None:
            state.import_state(snapshot.data)
            if state.version != snapshot.version:
                raise _corrupt("a document snapshot has two different versions")
        for version, operations in _surviving(changes):
            if version <= state.version:
                continue
            if version != state.version + 1:
                raise _corrupt(f"the changes of a document lack version {state.version + 1}")
            try:
                apply(state._document, operations, strict=True, limits=CEILING)
            except ArautoError:
                raise _corrupt(f"a document's stored change {version} cannot be applied") from None
            state.version = version
        return state

    def export_state(self) -> bytes:
        """The whole state, for another node. Raises as `pack` does."""
        return seal(self.pack())

    def import_state(self, data: bytes) -> None:
        """Take over an exported state.

        Raises:
            StorageError: STORAGE_CORRUPT; then nothing has changed.
        """
        version, value = load_document(data)
        self._document = Document(value)
        self.version = version
        self._pending.clear()


def _surviving(changes: Sequence[bytes]) -> list[tuple[int, tuple[Operation, ...]]]:
    kept: list[tuple[int, tuple[Operation, ...]]] = []
    for data in changes:
        version, operations = load_change(data)
        while kept and kept[-1][0] >= version:
            kept.pop()
        kept.append((version, operations))
    return kept


def _corrupt(message: str) -> StorageError:
    return StorageError(Code.STORAGE_CORRUPT, message)
