"""What the matcher works with: a program made ready to run, and matches made from what it found."""

import hashlib
import math
from typing import Any

import msgspec

from arauto.correlation.bounds import PAYLOAD_BYTES_MAX, bytes_of, refused
from arauto.correlation.expression import Value, walk
from arauto.correlation.interpreter import KEY, compiled
from arauto.correlation.program import Event, Match, Program

__all__ = ["Draft", "Output", "Plan", "event_match", "finish", "prepared", "size_of"]

_PLANS_MAX = 1000
_REST_BYTES = 16_384
_MATCH_BYTES = 256
_EXACT = 2**53

Plain = str | float | int | bool | None
Payload = dict[str, Plain]


class Draft(msgspec.Struct, gc=False):
    """A match before its payload is worked out: most drafts of a rule with a cooldown are not needed.

    Attributes:
        env: role → event, and whatever else the payload's expressions look up.
    """

    first: tuple[str, int]
    last: tuple[str, int]
    ts_ms: int
    env: dict[str, Any]


class Output(msgspec.Struct, gc=False):
    """What one call of the matcher produces, as it grows."""

    drafts: list[Draft] = msgspec.field(default_factory=list)
    dropped: int = 0

    def events(self, first: Event, last: Event, ts_ms: int, roles: dict[str, Any]) -> None:
        """Note a match of events."""
        env = {**roles, "first": first, "last": last}
        self.drafts.append(Draft((first.node, first.seq), (last.node, last.seq), ts_ms, env))


class Plan:
    """A program with its conditions and payload as functions."""

    __slots__ = ("_masks", "_tests", "base_slots", "has_tests", "payload", "program", "when")

    def __init__(self, program: Program) -> None:
        self.program = program
        whens = [step.when for step in program.steps]
        self._masks = [1 << when.bit if when.bit >= 0 else 0 for when in whens]
        self._tests = [compiled(when.expr) if when.expr else None for when in whens]
        #: Whether conditions look at remembered events.
        self.has_tests = any(self._tests)
        self.payload = [(name, compiled(expr)) for name, expr in program.payload.items()]
        self.when = compiled(program.when) if program.when else None
        trees = [*(when.expr for when in whens if when.expr), *program.payload.values()]
        slots = [node for tree in trees for node in walk(tree) if node.of == "base"]
        #: (is a number, index) of the values a base is kept of.
        self.base_slots = {(node.type == "number", int(float(str(node.value)))) for node in slots}

    def holds(self, step: int, event: Event, env: dict[str, Any]) -> bool:
        """Whether a step's condition is true for the event; false and NULL are the same here."""
        test = self._tests[step]
        if test is None:
            return event.bits & self._masks[step] != 0
        env[""] = event
        return test(env) is True


_plans: dict[int, Plan] = {}


def prepared(program: Program) -> Plan:
    """The plan of a program, made once per process. Programs are few and live long."""
    plan = _plans.get(id(program))
    if plan is None or plan.program is not program:
        if len(_plans) >= _PLANS_MAX:
            _plans.clear()
        plan = _plans[id(program)] = Plan(program)
    return plan


def event_match(program: Program, key: str, event: Event) -> Match:
    """The match that one event makes by itself."""
    place = (event.node, event.seq)
    env = {"first": event, "last": event}
    return finish(prepared(program), key, Draft(place, place, event.ts_ms, env))


def finish(plan: Plan, key: str, draft: Draft) -> Match:
    """Work out a match's payload and id."""
    program = plan.program
    env = {**draft.env, KEY: msgspec.json.decode(key, type=list[str])}
    identity = [program.ref, key, draft.first, draft.last, draft.ts_ms]
    return Match(
        id=hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:32],
        rule_ref=program.ref,
        hub=program.hub,
        channel=program.channel,
        key=key,
        first=draft.first,
        last=draft.last,
        ts_ms=draft.ts_ms,
        payload=_bounded({name: _plain(function(env)) for name, function in plan.payload}),
    )


def size_of(match: Match) -> int:
    """How many bytes a match takes, about."""
    texts = sum(bytes_of(value) for value in match.payload.values() if isinstance(value, str))
    return _MATCH_BYTES + len(match.key) + texts


def _bounded(payload: Payload) -> Payload:
    """The payload with its texts cut, if it is larger than a match may be."""
    texts = [value for value in payload.values() if isinstance(value, str)]
    # In JSON a character takes six bytes at most. Names and all else are bounded by the rule's own length.
    if (
        sum(map(len, texts)) * 6 + _REST_BYTES <= PAYLOAD_BYTES_MAX
        or _size(payload) <= PAYLOAD_BYTES_MAX
    ):
        return payload
    refused.count += 1
    most_len = PAYLOAD_BYTES_MAX // len(texts)
    while _size(cut := {name: _cut(value, most_len) for name, value in payload.items()}) > (
        PAYLOAD_BYTES_MAX
    ):
        most_len //= 2
    return cut


def _size(payload: Payload) -> int:
    return len(msgspec.json.encode(payload))


def _cut(value: Plain, most_len: int) -> Plain:
    return f"{value[:most_len]}…" if isinstance(value, str) and len(value) > most_len else value


def _plain(value: Value) -> Plain:
    """The value as JSON can carry it; whole numbers without their `.0`."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < _EXACT else value
