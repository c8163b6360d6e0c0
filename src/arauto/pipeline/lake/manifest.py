"""What a table consists of: commits, and the state they add up to. Pure.

A commit adds files, removes files, or both at once. A batch of a query is committed once: the state
remembers how far each query has come, so whoever repeats a batch after a crash finds it done.
"""

from collections.abc import Iterable, Mapping

import msgspec

from arauto.pipeline.lake.coverage import Coverage, merge

__all__ = ["Commit", "FileEntry", "State", "fold", "select"]


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class FileEntry(_Record, frozen=True):
    """One Parquet file, with what readers choose it by."""

    path: str
    """Relative to the table's directory."""
    rows: int
    size_bytes: int
    min_ms: int
    """The earliest time in it, in ms since 1970."""
    max_ms: int
    first_hub: str = ""
    last_hub: str = ""
    kinds: tuple[int, ...] = ()
    """Of journal rows: the kinds there may be in it; () = any."""
    commit: int = 0
    """The batch's commit that added it; 0 for what was written anew from others. Who follows a table reads
    the files of each new commit, and never those that were only merged."""


class Commit(_Record, frozen=True):
    """One step from a state to the next."""

    number: int
    made_ms: int
    schema_version: int
    query: str = ""
    """Whose batch this is; "" for what is no batch (compaction, retention, erasure)."""
    batch_id: int = -1
    added: tuple[FileEntry, ...] = ()
    removed: tuple[str, ...] = ()
    coverage: Mapping[str, Coverage] = {}
    """Which rows of the journal it brought, by node."""
    notes: Mapping[str, int] = {}
    """What happened on the way, such as duplicates dropped. Summed up in the state."""


class State(_Record, frozen=True):
    """A table at one commit."""

    number: int = 0
    files: Mapping[str, FileEntry] = {}
    batches: Mapping[str, int] = {}
    """The last batch of each query."""
    coverage: Mapping[str, Coverage] = {}
    notes: Mapping[str, int] = {}
    schema_version: int = 0
    made_ms: int = 0

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.values())

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files.values())


def fold(state: State, commit: Commit) -> State:
    """The state after a commit.

    Raises:
        ValueError: the commit does not follow the state, or removes what is not there.
    """
    if commit.number != state.number + 1:
        raise ValueError(f"commit {commit.number} does not follow {state.number}")
    files = dict(state.files)
    for path in commit.removed:
        if files.pop(path, None) is None:
            raise ValueError(f"commit {commit.number} removes {path}, which is not there")
    for file in commit.added:
        came = commit.number if commit.query else 0
        files[file.path] = msgspec.structs.replace(file, commit=came)
    batches = dict(state.batches)
    if commit.query:
        batches[commit.query] = max(commit.batch_id, batches.get(commit.query, -1))
    coverage = dict(state.coverage)
    for node, ranges in commit.coverage.items():
        coverage[node] = merge((*coverage.get(node, ()), *ranges))
    notes = dict(state.notes)
    for name, count in commit.notes.items():
        notes[name] = notes.get(name, 0) + count
    return State(
        number=commit.number,
        files=files,
        batches=batches,
        coverage=coverage,
        notes=notes,
        schema_version=max(state.schema_version, commit.schema_version),
        made_ms=commit.made_ms,
    )


def select(
    files: Iterable[FileEntry],
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    hub: str | None = None,
) -> list[FileEntry]:
    """Files that may hold rows of this time (`to_ms` exclusive) and hub."""
    return [
        file
        for file in files
        if (from_ms is None or file.max_ms >= from_ms)
        and (to_ms is None or file.min_ms < to_ms)
        and (hub is None or not file.last_hub or file.first_hub <= hub <= file.last_hub)
    ]
