"""The matcher: events of one key in, matches out, and one small blob of state in between.

Events wait until the watermark has passed them, so nothing older can come any more; then they are looked
at in the order (time, node, seq). The order in which they arrived, and how they were cut into calls, makes
no difference. Bounds in time are exclusive, and a deadline comes before an event of the same millisecond.
"""

from collections.abc import Sequence as Sequence_
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from arauto.correlation.absence import Absence
from arauto.correlation.bounds import (
    CALL_BYTES_MAX,
    MEMORY_BYTES_MAX,
    WAITING_BYTES_MAX,
    bytes_of,
    refused,
)
from arauto.correlation.hold import Hold
from arauto.correlation.matches import Output, Plan, finish, prepared, size_of
from arauto.correlation.program import Event, Kind, Match, Program
from arauto.correlation.quorum import Nothing, Quorum
from arauto.correlation.sequence import Sequence
from arauto.correlation.windows import Windows

__all__ = ["Outcome", "advance"]

_order = attrgetter("ts_ms", "node", "seq")


class Outcome(msgspec.Struct, frozen=True):
    """What came of a call.

    Attributes:
        state: to be given back at the next call for this key; None if there is nothing to keep.
        matches: in the order of their decisions.
        deadline_ms: call again when the watermark is there, also without events; None: no need to.
        dropped: events that were late, or for which there was no room.
        too_large: values, attempts and matches that were cut or left out, because they took too many bytes.
    """

    state: bytes | None
    matches: list[Match]
    deadline_ms: int | None
    dropped: int
    too_large: int = 0


class _Memory(Protocol):
    """What a kind of rule remembers for one key."""

    def is_empty(self) -> bool: ...

    def deadline_ms(self, plan: Plan) -> int | None: ...

    def expire(self, plan: Plan, at_ms: int, output: Output) -> None: ...

    def feed(self, plan: Plan, event: Event, output: Output) -> None: ...


class _State(msgspec.Struct, array_like=True, gc=False):
    """The blob. `seen_ms` is the watermark of the last call, `quiet_ms` the end of the cooldown."""

    seen_ms: int
    quiet_ms: int
    pending: list[Event]
    memory: msgspec.Raw


_MEMORIES: dict[Kind, Any] = {
    "match": Nothing,
    "hold": Hold,
    "sequence": Sequence,
    "absence": Absence,
    "quorum": Quorum,
    "count": Windows,
    "change": Windows,
}
_memory_decoders = {kind: msgspec.msgpack.Decoder(type_) for kind, type_ in _MEMORIES.items()}
_decode_state = msgspec.msgpack.Decoder(_State).decode
_encode = msgspec.msgpack.Encoder().encode


def advance(
    program: Program,
    key: str,
    state: bytes | None,
    events: Sequence_[Event],
    watermark_ms: int,
) -> Outcome:
    """Look at what has become final for one key of one rule.

    Args:
        program: the compiled rule.
        key: the key as `rows.RowReader` gives it.
        state: what the last call for this rule and key returned.
        events: new events, in any order.
        watermark_ms: no event older than this will come any more.
    """
    plan = prepared(program)
    refused_before = refused.count
    memory: _Memory
    if state is None:
        seen_ms = quiet_ms = 0
        pending = list(events)
        memory = _MEMORIES[program.kind]()
    else:
        held = _decode_state(state)
        seen_ms, quiet_ms = held.seen_ms, held.quiet_ms
        pending = held.pending
        pending.extend(events)
        memory = _memory_decoders[program.kind].decode(held.memory)
    output = Output()
    pending = _waiting(plan, memory, pending, max(watermark_ms, seen_ms), seen_ms, output)
    if len(pending) > (room := _room(program, pending)):
        output.dropped += len(pending) - room
        del pending[room:]
    matches: list[Match] = []
    left = CALL_BYTES_MAX
    for draft in output.drafts:
        if draft.ts_ms < quiet_ms:
            continue
        quiet_ms = draft.ts_ms + program.cooldown_ms
        if left > 0:
            match = finish(plan, key, draft)
            left -= size_of(match)
            matches.append(match)
        else:
            refused.count += 1
    memory, raw = _packed(program, memory)
    watermark_ms = max(watermark_ms, seen_ms)
    quiet_ms = quiet_ms if quiet_ms > watermark_ms else 0
    if not pending and not quiet_ms and memory.is_empty():
        return Outcome(None, matches, None, output.dropped, refused.count - refused_before)
    return Outcome(
        _encode(_State(watermark_ms, quiet_ms, pending, raw)),
        matches,
        _next_call_ms(plan, memory, pending, quiet_ms),
        output.dropped,
        refused.count - refused_before,
    )


def _room(program: Program, pending: list[Event]) -> int:
    """How many of the events that wait may stay."""
    most = min(program.buffer_rows, len(pending))
    if not program.texts:
        return most
    left = WAITING_BYTES_MAX
    for number in range(most):
        left -= sum(bytes_of(text) for text in pending[number].texts if text is not None)
        if left < 0:
            return number
    return most


def _packed(program: Program, memory: _Memory) -> tuple[_Memory, msgspec.Raw]:
    """What is remembered, and its bytes; not all of it if those are too many."""
    raw = _encode(memory)
    while len(raw) > MEMORY_BYTES_MAX:
        if isinstance(memory, Sequence) and memory.runs:
            refused.count += memory.shed()
        else:
            refused.count += 1
            memory = _MEMORIES[program.kind]()
        raw = _encode(memory)
    return memory, msgspec.Raw(raw)


def _waiting(
    plan: Plan,
    memory: _Memory,
    pending: list[Event],
    watermark_ms: int,
    seen_ms: int,
    output: Output,
) -> list[Event]:
    """Feed what is final to the memory and return what is not."""
    if len(pending) > 1:
        pending.sort(key=_order)
    done, before = 0, ("", -1)
    for event in pending:
        if event.ts_ms >= watermark_ms:
            break
        done += 1
        place = (event.node, event.seq)
        if place == before or event.ts_ms < seen_ms:
            output.dropped += 1  # A duplicate, or later than its watermark.
            continue
        before = place
        _expire(plan, memory, event.ts_ms, output)
        memory.feed(plan, event, output)
    _expire(plan, memory, watermark_ms, output)
    return pending[done:]


def _expire(plan: Plan, memory: _Memory, now_ms: int, output: Output) -> None:
    while (at_ms := memory.deadline_ms(plan)) is not None and at_ms <= now_ms:
        memory.expire(plan, at_ms, output)


def _next_call_ms(plan: Plan, memory: _Memory, pending: list[Event], quiet_ms: int) -> int | None:
    times = [memory.deadline_ms(plan)]
    if pending:
        times.append(pending[0].ts_ms + 1)
    elif memory.is_empty():
        times.append(quiet_ms)  # Only to be forgotten.
    return min((time for time in times if time is not None), default=None)
