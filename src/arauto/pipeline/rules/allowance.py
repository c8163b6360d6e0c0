"""How many alerts a hub may publish. Everybody's alerts go out in the same job, so nobody's may fill it.

What is above that is not lost: it is in the table `matches`. A hub has a bucket of tokens, and a batch may
take what is in it. The tasks of a batch know nothing of each other and may together take more; that is a
debt, which the hub's next alerts wait for.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

__all__ = ["Allowance", "Room"]

#: A bucket holds what comes in so many seconds: alerts come in bursts.
_BURST_S = 10
_UNLIMITED = 1 << 62


class Room:
    """What each hub may publish in one task of a batch. Sent to the workers."""

    def __init__(self, others: int = _UNLIMITED, by_hub: Mapping[str, int] | None = None) -> None:
        self._others = others
        self._left = dict(by_hub or {})

    def for_task(self) -> "Room":
        """A room of its own, since tasks in one process share what they were sent."""
        return Room(self._others, self._left)

    def admit(self, hubs: Iterable[str]) -> list[bool]:
        """For each alert of these hubs, in order: whether it may be published."""
        admitted: list[bool] = []
        for hub in hubs:
            left = self._left.get(hub, self._others)
            admitted.append(left > 0)
            self._left[hub] = left - 1
        return admitted


class Allowance:
    """One for all queries; they run in threads of their own.

    Args:
        per_s: alerts per second of each hub; 0 = no limit.
        now_s: a clock that never goes back.
    """

    def __init__(self, per_s: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._now_s = now_s
        self._lock = Lock()
        self._missing: dict[str, float] = {}
        """By hub: the tokens that are not in its bucket. Full buckets are not kept."""
        self._seen_s = now_s()

    def room(self) -> Room:
        """What the hubs may publish now."""
        if not self._per_s:
            return Room()
        with self._lock:
            self._refill()
            size = self._per_s * _BURST_S
            return Room(size, {hub: int(size - gone) for hub, gone in self._missing.items()})

    def spend(self, published: Mapping[str, int]) -> None:
        """A batch has published so many alerts of each hub."""
        if not self._per_s:
            return
        with self._lock:
            for hub, alerts in published.items():
                self._missing[hub] = self._missing.get(hub, 0.0) + alerts

    def _refill(self) -> None:
        now_s = self._now_s()
        come = (now_s - self._seen_s) * self._per_s
        self._seen_s = now_s
        self._missing = {hub: gone - come for hub, gone in self._missing.items() if gone > come}
