"""A batch of rules that fails again and again, also after restarts: finds out whose rows it fails with, and
lets the others go on.

Whatever Python raises for a row or a key is caught where it is raised. What is left kills: a worker, or Java.
So the record is on disk, beside the checkpoint. After some starts that all came to the same batch, workers
write down whose row or key they are at, before they look at it (that costs, so not before). Who is named
whenever the batch fails is set aside: the hub's rows of this batch are passed over, and, if that does not
help, what its rules hold begins anew. Failures that are known not to come from rows do not count.
"""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from arauto.pipeline.lake.log import sync

__all__ = [
    "CAREFUL_AFTER",
    "CAREFUL_STARTS",
    "Aside",
    "Care",
    "Trouble",
    "done_upto",
    "last_done",
    "planned",
]

_log = structlog.get_logger(__name__)

#: Starts at the same batch before workers write down where they are, and how many such starts there are
#: before somebody is set aside.
CAREFUL_AFTER = 4
CAREFUL_STARTS = 3

_NUMBER = re.compile(r"\d{1,18}\Z")


class Aside(msgspec.Struct, frozen=True):
    """Rows of a hub that rules pass over: those up to these places."""

    hub: str
    upto: dict[str, int]


class _Record(msgspec.Struct, kw_only=True):
    batch: int
    starts: int = 0
    suspects: list[str] | None = None
    aside: list[Aside] = []


@dataclass(frozen=True, slots=True)
class Care:
    """What workers are told when a query starts. Sent to them."""

    notes: Path | None = None
    """Where to write down whose row one is at; None = do not."""
    aside: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Hub → node → the last seq that is passed over."""

    def at(self, hub: str) -> None:
        """A worker is about to look at something of this hub; "" = at nothing any more."""
        if self.notes is not None:
            (self.notes / str(os.getpid())).write_text(hub, encoding="utf-8")

    def passes_over(self, hub: str, node: str, seq: int) -> bool:
        """Whether a row is set aside."""
        return seq <= self.aside.get(hub, {}).get(node, 0)


class Trouble:
    """The record of one query.

    Args:
        checkpoint: the query's; need not exist yet.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._directory = checkpoint.with_name(f"{checkpoint.name}.trouble")
        self._file = self._directory / "record.json"
        self._notes = self._directory / "notes"

    def begin(self) -> tuple[Care, list[str]]:
        """(what workers are to know, hubs whose rules must begin anew). Before each start of the query."""
        batch = _unfinished(self._checkpoint)
        record = self._read()
        if batch is None:
            self.forget()
            return Care(), []
        if record is None or record.batch != batch:
            record = _Record(batch=batch)
        anew = self._judge(record)
        record.starts += 1
        self._directory.mkdir(parents=True, exist_ok=True)
        self._write(record)
        shutil.rmtree(self._notes, ignore_errors=True)
        careful = record.starts > CAREFUL_AFTER
        if careful:
            self._notes.mkdir()
        aside = {each.hub: each.upto for each in record.aside}
        return Care(self._notes if careful else None, aside), anew

    def is_over(self) -> bool:
        """Whether the batch that failed is done; workers need not be careful any more."""
        record = self._read()
        done = last_done(self._checkpoint)
        return record is not None and done is not None and done >= record.batch

    def excuse(self) -> None:
        """The start that was last failed, or was ended, for a reason that lies in no row."""
        record = self._read()
        if record is not None and record.starts:
            record.starts -= 1
            self._write(record)
        shutil.rmtree(self._notes, ignore_errors=True)

    def forget(self) -> None:
        """There is no trouble any more."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _judge(self, record: _Record) -> list[str]:
        """Take the last start's notes into the record; the hubs whose rules must begin anew."""
        named = self._named()
        if named:
            known = record.suspects
            record.suspects = sorted(named & set(known) if known else named) or sorted(named)
        if record.starts < CAREFUL_AFTER + CAREFUL_STARTS or not record.suspects:
            return []
        known_aside = {each.hub for each in record.aside}
        anew = [hub for hub in record.suspects if hub in known_aside]
        fresh = [hub for hub in record.suspects if hub not in known_aside]
        upto = _end(self._checkpoint, record.batch)
        record.aside += [Aside(hub, upto) for hub in fresh]
        for hub in fresh:
            _log.error(
                "rows of a hub are set aside, since a batch with them fails again and again",
                hub=hub,
                batch=record.batch,
                upto=upto,
            )
        for hub in anew:
            _log.error("a hub's rules begin anew, since what they hold fails", hub=hub)
        record.starts, record.suspects = CAREFUL_AFTER, None
        return anew

    def _named(self) -> set[str]:
        """Whom the workers of the last start were at when it ended."""
        if not self._notes.is_dir():
            return set()
        return {path.read_text(encoding="utf-8") for path in self._notes.iterdir()} - {""}

    def _read(self) -> _Record | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            # Then counting begins again, which only takes longer.
            return None

    def _write(self, record: _Record) -> None:
        written = self._file.with_suffix(".new")
        written.write_bytes(msgspec.json.encode(record))
        written.rename(self._file)
        sync(self._directory)


def last_done(checkpoint: Path) -> int | None:
    """The last batch that is done."""
    return _last(checkpoint / "commits")


def done_upto(checkpoint: Path) -> dict[str, int] | None:
    """How far the last batch goes that is done; None if there is none."""
    done = last_done(checkpoint)
    return _end(checkpoint, done) if done is not None else None


def planned(checkpoint: Path) -> dict[str, int]:
    """How far the last batch goes that was begun; nothing if there is none."""
    begun = _last(checkpoint / "offsets")
    return _end(checkpoint, begun) if begun is not None else {}


def _unfinished(checkpoint: Path) -> int | None:
    """The batch that was begun and is not done."""
    begun, done = _last(checkpoint / "offsets"), last_done(checkpoint)
    return begun if begun is not None and (done is None or begun > done) else None


def _last(directory: Path) -> int | None:
    if not directory.is_dir():
        return None
    return max((int(name) for name in os.listdir(directory) if _NUMBER.match(name)), default=None)


def _end(checkpoint: Path, batch: int) -> dict[str, int]:
    """How far a batch goes, as Spark has written it down: a version, a line of its own, then our offsets."""
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    try:
        return msgspec.json.decode(lines[2], type=dict[str, int])
    except (IndexError, msgspec.DecodeError):
        return {}
