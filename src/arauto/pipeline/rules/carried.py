"""Rules on their way to Spark's workers: bytes, which every worker's process reads once.

Spark sends what a task needs with each task of each batch. Reading hundreds of rules and making them ready to
run would then take longer than the batch.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from arauto.correlation.program import Program
from arauto.correlation.rule_index import RuleIndex
from arauto.pipeline.lake.erasures import Erasures
from arauto.pipeline.rules.since import Since

__all__ = ["Carried"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(
    tuple[dict[str, Program], dict[str, Since], dict[str, dict[str, int]]]
).decode

#: Sets of rules that a worker keeps ready: those of both queries, and of the ones before them.
_KEPT_MAX = 4
_kept: "dict[str, _Ready]" = {}


@dataclass(frozen=True, slots=True)
class _Ready:
    programs: Mapping[str, Program]
    since: Mapping[str, Since]
    erased: Mapping[str, Mapping[str, int]]
    index: RuleIndex


class Carried:
    """A set of rules that can be sent anywhere.

    Args:
        programs: the rules, by the name of their state.
        since: from when on they see rows, by the same; who is not in it sees all that come.
        erasures: whose rows they do not see.
    """

    def __init__(
        self,
        programs: Mapping[str, Program],
        since: Mapping[str, Since] | None = None,
        erasures: Erasures | None = None,
    ) -> None:
        erased: dict[str, dict[str, int]] = {program.hub: {} for program in programs.values()}
        for hub, user, at_ms in erasures.users if erasures is not None else ():
            if hub in erased:
                erased[hub][user] = at_ms
        self._packed = _encode((dict(programs), dict(since or {}), erased))
        self._digest = hashlib.sha256(self._packed).hexdigest()

    @property
    def programs(self) -> Mapping[str, Program]:
        """The rules, by the name of their state; the same objects each time."""
        return self._ready().programs

    @property
    def index(self) -> RuleIndex:
        """The rules, by what rows they look at."""
        return self._ready().index

    @property
    def since(self) -> Mapping[str, Since]:
        """From when on rules see rows, by the name of their state."""
        return self._ready().since

    @property
    def erased(self) -> Mapping[str, Mapping[str, int]]:
        """Hub → user → up to when rules see nothing of theirs, in ms since 1970."""
        return self._ready().erased

    def _ready(self) -> _Ready:
        ready = _kept.get(self._digest)
        if ready is None:
            programs, since, erased = _decode(self._packed)
            while len(_kept) >= _KEPT_MAX:
                _kept.pop(next(iter(_kept)), None)
            ready = _kept[self._digest] = _Ready(programs, since, erased, RuleIndex(programs))
        return ready
