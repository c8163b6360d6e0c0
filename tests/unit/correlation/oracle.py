"""Naive matchers: the whole history of one key in order, no state, no chunks; obvious by reading.

Each takes the compiled rule (for its numbers only), all events sorted, and the final watermark, and gives
(first, last, decided at) of every match. Conditions are read from bits: bit n is step n, except that a
step of a sequence that needs memory is `p < first.p`, and the bits of the others close up.
"""

from collections.abc import Callable, Sequence

from arauto.correlation.program import Event, Program

Found = tuple[tuple[str, int], tuple[str, int], int]

_UNITS_PERCENT = 1.05


def place(event: Event) -> tuple[str, int]:
    return event.node, event.seq


def order(event: Event) -> tuple[int, str, int]:
    return event.ts_ms, event.node, event.seq


def has(event: Event, step: int) -> bool:
    return bool(event.bits >> step & 1)


def history(events: Sequence[Event], watermark_ms: int) -> list[Event]:
    return sorted((e for e in events if e.ts_ms < watermark_ms), key=order)


def oracle(program: Program, events: Sequence[Event], watermark_ms: int) -> list[Found]:
    """Every match, in the order of decisions, with the rule's cooldown."""
    found = _KINDS[program.kind](program, history(events, watermark_ms), watermark_ms)
    kept: list[Found] = []
    for match in found:
        if not kept or match[2] >= kept[-1][2] + program.cooldown_ms:
            kept.append(match)
    return kept


def _match(_: Program, events: list[Event], __: int) -> list[Found]:
    return [(place(e), place(e), e.ts_ms) for e in events if has(e, 0)]


def _hold(program: Program, events: list[Event], watermark_ms: int) -> list[Found]:
    if program.has_base:
        return _hold_over_base(program, events, watermark_ms)
    found: list[Found] = []
    i = 0
    while i < len(events):
        if not has(events[i], 0):
            i += 1
            continue
        end_ms = events[i].ts_ms + program.span_ms
        inside = [e for e in events[i:] if e.ts_ms < end_ms]
        cancels = [e for e in events[i + 1 :] if has(e, 1)]
        if cancels and cancels[0].ts_ms < end_ms:
            i = events.index(cancels[0]) + 1
            continue
        if end_ms <= watermark_ms:
            found.append((place(events[i]), place(inside[-1]), end_ms))
        if not cancels:
            break
        i = events.index(cancels[0]) + 1
    return found


def _hold_over_base(program: Program, events: list[Event], watermark_ms: int) -> list[Found]:
    """For rules that start at 1.05 times the base and are cancelled below that."""
    found: list[Found] = []
    rest = [e for e in events if e.nums[0] is not None]
    base: float | None = None
    while rest:
        event, rest = rest[0], rest[1:]
        price = event.nums[0] or 0.0
        if base is None or price < _UNITS_PERCENT * base:
            base = price
            continue
        end_ms = event.ts_ms + program.span_ms
        inside = [event, *(e for e in rest if e.ts_ms < end_ms)]
        fallen = [e for e in inside if (e.nums[0] or 0.0) < _UNITS_PERCENT * base]
        if fallen:
            rest = [e for e in rest if order(e) > order(fallen[0])]
            base = fallen[0].nums[0]
        elif end_ms <= watermark_ms:
            found.append((place(event), place(inside[-1]), end_ms))
            rest = [e for e in rest if e.ts_ms >= end_ms]
            base = inside[-1].nums[0]
        else:
            break
    return found


def _sequence(program: Program, events: list[Event], watermark_ms: int) -> list[Found]:
    if program.prefer == "first_begun":
        return _leftmost(program, events, watermark_ms)
    attempts = []
    for n, event in enumerate(events):
        if has(event, 0):
            last, decided_ms, by_deadline = _attempt(program, event, events[n + 1 :])
            if last is not None and decided_ms <= watermark_ms:
                # At one moment deadlines come before events, older attempts before younger ones.
                when = (decided_ms, not by_deadline, order(last) if not by_deadline else ())
                attempts.append((when, order(event), event, last, decided_ms))
    found: list[Found] = []
    barrier: tuple[int, str, int] = (-1, "", 0)
    for _, start, first, last, decided_ms in sorted(attempts, key=lambda a: (a[0], a[1])):
        if program.skip == "past_last" and start <= barrier:
            continue
        if program.skip == "to_last" and start < barrier:
            continue
        barrier = max(barrier, order(last))
        found.append((place(first), place(last), decided_ms))
    return found


def _leftmost(program: Program, events: list[Event], watermark_ms: int) -> list[Found]:
    """Attempts one after another; what becomes of one is known when all before it are decided."""
    found: list[Found] = []
    barrier: tuple[int, str, int] = (-1, "", 0)
    known_ms = 0
    for n, event in enumerate(events):
        free = order(event) >= barrier if program.skip == "to_last" else order(event) > barrier
        if not has(event, 0) or not free:
            continue
        last, decided_ms, _ = _attempt(program, event, events[n + 1 :])
        known_ms = max(known_ms, decided_ms)
        if known_ms > watermark_ms:
            break
        if last is not None:
            barrier = order(last)
            found.append((place(event), place(last), known_ms))
    return found


def _fits(program: Program, first: Event, event: Event, step: int) -> bool:
    bit = program.steps[step].when.bit
    if bit >= 0:
        return has(event, bit)
    price, before = event.nums[0], first.nums[0]
    return price is not None and before is not None and price < before


def _attempt(program: Program, first: Event, later: list[Event]) -> tuple[Event | None, int, bool]:
    """What starts here: its last event (None: no match), when that is decided, and if by a deadline."""
    steps = program.steps
    end_ms = first.ts_ms + program.span_ms
    at, times, last = 0, 1, first

    def complete() -> bool:
        missing = [s for s in steps[at + 1 :] if not s.absent and s.least > 0]
        return times >= steps[at].least and not missing

    for event in [e for e in later if e.ts_ms < end_ms]:
        nexts: list[int] = []
        if times >= steps[at].least:
            required = [
                n for n in range(at + 1, len(steps)) if not steps[n].absent and steps[n].least
            ]
            nexts = list(range(at + 1, (required[0] if required else len(steps) - 1) + 1))
        fitting = next((n for n in nexts if _fits(program, first, event, n)), None)
        most = steps[at].most
        if fitting is not None and steps[fitting].absent:
            return None, event.ts_ms, False
        if fitting is not None:
            at, times, last = fitting, 1, event
        elif _fits(program, first, event, at) and (most is None or times < most):
            times, last = times + 1, event
        elif program.strict:
            return None, event.ts_ms, False
        if complete() and not steps[-1].absent:
            return last, last.ts_ms, False
    return last if steps[-1].absent and complete() else None, end_ms, True


def _absence(program: Program, events: list[Event], watermark_ms: int) -> list[Found]:
    after, expect = (step.when.bit for step in program.steps)
    found: list[Found] = []
    free_from = (-1, "", 0)
    for n, event in enumerate(events):
        if not has(event, after) or order(event) < free_from:
            continue
        end_ms = event.ts_ms + program.span_ms
        came = [e for e in events[n + 1 :] if e.ts_ms < end_ms and has(e, expect)]
        if came:
            free_from = order(came[0])
        else:
            free_from = (end_ms, "", 0)
            if end_ms <= watermark_ms:
                found.append((place(event), place(event), end_ms))
    return found


def _quorum(program: Program, events: list[Event], _: int) -> list[Found]:
    found: list[Found] = []
    used = 0
    for n, event in enumerate(events):
        near = [e for e in events[used : n + 1] if event.ts_ms - e.ts_ms < max(program.span_ms, 1)]
        if program.span_ms == 0:
            near = [event]
        lasts = [
            max((e for e in near if has(e, s)), key=order)
            for s in range(len(program.steps))
            if any(has(e, s) for e in near)
        ]
        if len(lasts) >= program.needed and event in lasts:
            found.append((place(min(lasts, key=order)), place(event), event.ts_ms))
            used = n + 1
    return found


def _windows(program: Program, events: list[Event], watermark_ms: int) -> list[Found]:
    """For the conditions the tests use: `count() >= 2 and sum(of) > 0`, or 2 members of one mind."""
    assert program.window is not None
    length_ms, every_ms = program.window.length_ms, program.window.every_ms
    found: list[Found] = []
    for end_ms in range(every_ms, watermark_ms + 1, every_ms):
        inside = [e for e in events if end_ms - length_ms <= e.ts_ms < end_ms]
        if inside and _fires(program, inside):
            found.append((place(inside[0]), place(inside[-1]), end_ms))
    return found


def _fires(program: Program, inside: list[Event]) -> bool:
    if program.kind == "count":
        values = [e.nums[0] for e in inside if e.nums[0] is not None]
        return len(inside) >= 2 and bool(values) and sum(values) > 0
    moves = []
    for member in {e.texts[0] for e in inside}:
        prices = [e.nums[0] for e in inside if e.texts[0] == member and e.nums[0] is not None]
        if member is not None and prices and prices[0]:
            percent = (prices[-1] - prices[0]) / abs(prices[0]) * 100
            moves += [percent > 0] if abs(percent) >= 2 else []
    return len(moves) >= 2 and len(set(moves)) == 1


_KINDS: dict[str, Callable[[Program, list[Event], int], list[Found]]] = {
    "match": _match,
    "hold": _hold,
    "sequence": _sequence,
    "absence": _absence,
    "quorum": _quorum,
    "count": _windows,
    "change": _windows,
}
