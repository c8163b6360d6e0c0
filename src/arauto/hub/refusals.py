"""What was refused, to whom and why: every refusal is counted, and so many a second go to the journal.

Those of a store that failed cannot go there; they go to the operator's log, with what clients are not told.
"""

import msgspec
import structlog

from arauto.clock import Clock
from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.quota import TokenBucket
from arauto.model import JSON
from arauto.names import check_pattern
from arauto.storage.base import Journal, JournalEntry, Kind
from arauto.telemetry.counters import Counters

__all__ = ["Asker", "Refusals"]

_log = structlog.get_logger("arauto.hub")

_STORAGE_END = 7_000
#: Rows a second, per hub. A client that sends nothing but nonsense must not fill the journal with it.
_ROWS_PER_S = 50.0
#: Lines a second, per hub: a full disk refuses everybody, for the same reason.
_LINES_PER_S = 1.0
_MESSAGE_LEN_MAX = 300
_CHANNEL_LEN_MAX = 100


class Asker(msgspec.Struct, frozen=True, gc=False):
    """Who asked, as far as it is known."""

    session: str = ""
    user: str = ""
    transport: str = ""
    address: str = ""

    @property
    def origin(self) -> str:
        """Transport and address, for the journal."""
        return f"{self.transport} {self.address}".strip()


class Refusals:
    """One per hub, and one for those that never got into a hub."""

    __slots__ = (
        "_bucket",
        "_clock",
        "_counters",
        "_hub",
        "_journal",
        "_left_out",
        "_lines",
        "_lines_left_out",
    )

    def __init__(self, hub: str, counters: Counters, clock: Clock, journal: Journal) -> None:
        self._hub = hub
        self._counters = counters
        self._clock = clock
        self._journal = journal
        self._bucket = TokenBucket(_ROWS_PER_S, clock.monotonic_s())
        self._left_out = 0
        self._lines = TokenBucket(_LINES_PER_S, clock.monotonic_s())
        self._lines_left_out = 0

    def note(self, error: ArautoError, asker: Asker, *, request: str, channel: str = "") -> None:
        """Count a refusal, and record it unless there are too many, or the journal is what failed."""
        self._counters.refuse(int(error.code))
        if Code.STORAGE_FAILED <= error.code < _STORAGE_END:
            if isinstance(error, StorageError):
                self._tell_operator(error, request)
            return
        if not self._bucket.take(self._clock.monotonic_s()):
            self._left_out += 1
            return
        details: dict[str, object] = {
            "code": int(error.code),
            "name": error.code.name,
            "message": error.message[:_MESSAGE_LEN_MAX],
            "field": error.field,
            "request": request,
            "transport": asker.transport,
            "address": asker.address,
        }
        if self._left_out:
            # The next row tells how many are missing before it, so the sums stay right.
            details["leftOut"], self._left_out = self._left_out, 0
        entry = JournalEntry(
            kind=Kind.ERROR,
            ts_ms=self._clock.wall_ms(),
            hub=self._hub,
            channel=_shown(channel),
            session=asker.session,
            user=asker.user,
            content_type=JSON,
            payload=msgspec.json.encode(details),
        )
        self._journal.append(entry, _ignore)

    def _tell_operator(self, error: StorageError, request: str) -> None:
        if not self._lines.take(self._clock.monotonic_s()):
            self._lines_left_out += 1
            return
        left_out, self._lines_left_out = self._lines_left_out, 0
        _log.error(
            "storage refused a request",
            hub=self._hub,
            request=request,
            reason=str(error),
            left_out=left_out,
        )


def _shown(channel: str) -> str:
    """The name, if it can be one; else as much of it as tells what it was. Whoever is refused for a bad name
    has chosen it, and it may be a megabyte, or hold what no database takes.
    """
    try:
        return check_pattern(channel)
    except ArautoError:
        short = channel[:_CHANNEL_LEN_MAX]
        return "".join(
            char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in short
        )


def _ignore(error: object) -> None:
    """Records of refusals are best effort: the store counts and reports its own failures."""
