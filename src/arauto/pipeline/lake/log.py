"""A table's commits as files: read in order, and published one at a time, each whole or not at all.

`_commits/<number>.json` holds one commit. Its name is taken with a hard link, which exactly one of two
writers gets; the other reads what came before it and decides anew. Every 50th commit leaves the whole
state beside it, so that opening a table reads at most 50 small files.
"""

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.manifest import Commit, State, fold

__all__ = ["CommitLog", "sync"]

_log = structlog.get_logger(__name__)

_STATE_EVERY = 50
_STATES_KEPT = 2
_ATTEMPTS_MAX = 100
#: Behind the JSON, which has no line breaks.
_CHECKSUM = b"\nsha256:"
_NAME = re.compile(r"(\d{20})\.(json|state)\Z")

T = TypeVar("T")

_encode = msgspec.json.Encoder(order="sorted").encode
_decode_commit = msgspec.json.Decoder(Commit).decode
_decode_state = msgspec.json.Decoder(State).decode


class CommitLog:
    """The log of one table.

    Args:
        directory: the table's directory.
        schema_version: the newest version this program understands.
    """

    def __init__(self, directory: Path, schema_version: int) -> None:
        self._directory = directory / "_commits"
        self._schema_version = schema_version
        self._state = State()

    def state(self) -> State:
        """The table as it is now.

        Raises:
            ArautoError: LAKE_CORRUPT, SCHEMA_MISMATCH.
        """
        self._state = self._read(self._state)
        if self._state.schema_version > self._schema_version:
            raise ArautoError(
                Code.SCHEMA_MISMATCH,
                f"{self._directory.parent.name} was written with schema version "
                f"{self._state.schema_version}, and this program knows {self._schema_version}",
            )
        return self._state

    def commit(self, decide: Callable[[State], Commit | None]) -> State | None:
        """Publish what `decide` makes of the current state; None from it means there is nothing to do.

        `decide` is called again when another writer was quicker.

        Raises:
            ArautoError: LAKE_BUSY, others were quicker again and again.
        """
        for _ in range(_ATTEMPTS_MAX):
            state = self.state()
            commit = decide(state)
            if commit is None:
                return None
            following = fold(state, commit)
            if self._publish(commit):
                self._state = following
                if commit.number % _STATE_EVERY == 0:
                    self._save_state(following)
                return following
        raise ArautoError(Code.LAKE_BUSY, "others keep changing this table; try again")

    def _read(self, known: State) -> State:
        names = self._names()
        if not names:
            return State()
        states = [number for number, kind in names if kind == "state"]
        start = known
        if states and states[-1] > known.number:
            start = self._newest_whole(states, known)
        last = names[-1][0]
        for number in range(start.number + 1, last + 1):
            try:
                start = fold(start, self._load(number))
            except ValueError as error:
                raise ArautoError(Code.LAKE_CORRUPT, f"{self._directory}: {error}") from error
        return start

    def _newest_whole(self, states: list[int], known: State) -> State:
        """The newest kept state that can be read and is newer than what is known; else that.

        The commits since the last state but one are kept, so one that is damaged is no loss.

        Raises:
            ArautoError: LAKE_CORRUPT, none can be read, and the commits that made them are gone.
        """
        failed: ArautoError | None = None
        for number in reversed(states):
            if number <= known.number:
                break
            try:
                return self._decoded(self._path(number, "state"), _decode_state)
            except ArautoError as error:
                _log.warning("a kept state is damaged; an older one will do", error=error.message)
                failed = failed or error
        if failed is not None and not self._path(known.number + 1).exists():
            raise failed
        return known

    def _load(self, number: int) -> Commit:
        return self._decoded(self._path(number), _decode_commit)

    def _decoded(self, path: Path, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(_checked(path.read_bytes()))
        except (OSError, msgspec.DecodeError) as error:
            raise ArautoError(Code.LAKE_CORRUPT, f"{path}: {error}") from error

    def _publish(self, commit: Commit) -> bool:
        """Whether the number was still free."""
        self._directory.mkdir(parents=True, exist_ok=True)
        final = self._path(commit.number)
        written = self._directory / f".{commit.number}-{os.getpid()}-{id(commit):x}"
        _write(written, _encode(commit))
        try:
            os.link(written, final)
        except FileExistsError:
            return False
        finally:
            written.unlink(missing_ok=True)
        sync(self._directory)
        return True

    def _save_state(self, state: State) -> None:
        """Keep the whole state, and forget commits that two kept states make needless."""
        written = self._directory / f".state-{state.number}-{os.getpid()}"
        _write(written, _encode(state))
        written.rename(self._path(state.number, "state"))
        sync(self._directory)
        states = [number for number, kind in self._names() if kind == "state"]
        for number, kind in self._names():
            if len(states) > _STATES_KEPT and number < states[-_STATES_KEPT]:
                self._path(number, kind).unlink(missing_ok=True)

    def _names(self) -> list[tuple[int, str]]:
        if not self._directory.is_dir():
            return []
        found = (_NAME.match(name) for name in os.listdir(self._directory))
        return sorted((int(match[1]), match[2]) for match in found if match)

    def _path(self, number: int, kind: str = "json") -> Path:
        return self._directory / f"{number:020d}.{kind}"


def _checked(written: bytes) -> bytes:
    """What a file holds, compared with its checksum. Files of earlier versions have none.

    Without it a changed digit is believed: with a greater number of a batch, those up to it never come.
    """
    data, mark, checksum = written.partition(_CHECKSUM)
    if mark and checksum != _checksum(data):
        raise msgspec.DecodeError("it does not match its checksum")
    return data


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:16].encode()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data + _CHECKSUM + _checksum(data))
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Have a file's or directory's contents on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
