"""For whose changes of rules everybody waits: each hub's, so many times, and no more.

Rows are looked at later by all rules of all hubs while one hub's new rule is made known, and again while the
query starts anew. So a hub has a bucket of such waits, and each costs it one. While it is empty nobody waits
for the hub: the stream passes its changes, which begin once there is a wait in the bucket again, or when the
query starts anew for others.
"""

import time
from collections.abc import Callable, Iterable

__all__ = ["EVERY_S", "WAITS", "Patience"]

#: A bucket holds so many waits, and gets one more every so often.
WAITS = 5
EVERY_S = 60.0


class Patience:
    """Of one query. Holds hubs whose rules were changed in the last minutes.

    Args:
        now_s: a clock that never goes back.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._full_s: dict[str, float] = {}
        """By hub: when its bucket is full again. Full buckets are not kept."""

    def over(self) -> frozenset[str]:
        """The hubs that nobody waits for now."""
        now_s = self._now_s()
        self._full_s = {hub: full_s for hub, full_s in self._full_s.items() if full_s > now_s}
        most_s = (WAITS - 1) * EVERY_S
        return frozenset(hub for hub, full_s in self._full_s.items() if full_s - now_s > most_s)

    def spend(self, hubs: Iterable[str]) -> None:
        """Everybody has waited for these hubs, together."""
        now_s = self._now_s()
        for hub in hubs:
            self._full_s[hub] = max(self._full_s.get(hub, now_s), now_s) + EVERY_S
