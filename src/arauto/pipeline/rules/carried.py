"""Rules on their way to Spark's workers: bytes, which every worker's process reads once.

Spark sends what a task needs with each task of each batch. Reading hundreds of rules and making them ready to
run would then take longer than the batch.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from arauto.correlation.program import Program
from arauto.correlation.rule_index import RuleIndex
from arauto.pipeline.rules.since import Since

__all__ = ["Carried"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[dict[str, Program], dict[str, Since]]).decode

#: Sets of rules that a worker keeps ready: those of both queries, and of the ones before them.
_KEPT_MAX = 4
_kept: "dict[str, tuple[Mapping[str, Program], Mapping[str, Since], RuleIndex]]" = {}


class Carried:
    """A set of rules that can be sent anywhere.

    Args:
        programs: the rules, by the name of their state.
        since: from when on they see rows, by the same; who is not in it sees all that come.
    """

    def __init__(
        self, programs: Mapping[str, Program], since: Mapping[str, Since] | None = None
    ) -> None:
        self._packed = _encode((dict(programs), dict(since or {})))
        self._digest = hashlib.sha256(self._packed).hexdigest()

    @property
    def programs(self) -> Mapping[str, Program]:
        """The rules, by the name of their state; the same objects each time."""
        return self._ready()[0]

    @property
    def index(self) -> RuleIndex:
        """The rules, by what rows they look at."""
        return self._ready()[2]

    @property
    def since(self) -> Mapping[str, Since]:
        """From when on rules see rows, by the name of their state."""
        return self._ready()[1]

    def _ready(self) -> tuple[Mapping[str, Program], Mapping[str, Since], RuleIndex]:
        ready = _kept.get(self._digest)
        if ready is None:
            programs, since = _decode(self._packed)
            while len(_kept) >= _KEPT_MAX:
                _kept.pop(next(iter(_kept)), None)
            ready = _kept[self._digest] = (programs, since, RuleIndex(programs))
        return ready
