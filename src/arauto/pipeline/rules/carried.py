"""Rules on their way to Spark's workers: bytes, which every worker's process reads once.

Spark sends what a task needs with each task of each batch. Reading hundreds of rules and making them ready to
run would then take longer than the batch.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from arauto.correlation.program import Program
from arauto.correlation.rule_index import RuleIndex

__all__ = ["Carried"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, Program]).decode

#: Sets of rules that a worker keeps ready: those of both queries, and of the ones before them.
_KEPT_MAX = 4
_kept: "dict[str, tuple[Mapping[str, Program], RuleIndex]]" = {}


class Carried:
    """A set of rules that can be sent anywhere.

    Args:
        programs: the rules, by the name of their state.
    """

    def __init__(self, programs: Mapping[str, Program]) -> None:
        self._packed = _encode(dict(programs))
        self._digest = hashlib.sha256(self._packed).hexdigest()

    @property
    def programs(self) -> Mapping[str, Program]:
        """The rules, by the name of their state; the same objects each time."""
        return self._ready()[0]

    @property
    def index(self) -> RuleIndex:
        """The rules, by what rows they look at."""
        return self._ready()[1]

    def _ready(self) -> tuple[Mapping[str, Program], RuleIndex]:
        ready = _kept.get(self._digest)
        if ready is None:
            programs = _decode(self._packed)
            while len(_kept) >= _KEPT_MAX:
                _kept.pop(next(iter(_kept)), None)
            ready = _kept[self._digest] = (programs, RuleIndex(programs))
        return ready
