"""Knows whose tokens no longer count. In memory, bounded, forgets only what cannot matter any more.

A revocation says "nothing issued up to this moment". It is compared with the moment a token was *issued*:
a token that was stolen before stays dead although it has not expired, and one the user gets afterwards works.
A token that does not say when it was issued is refused for as long as the revocation is remembered.

Ending sessions that are connected is the caller's part: this stops tokens and restore keys from being used.
"""

from arauto.clock import Clock
from arauto.model import Identity
from arauto.session.auth.claims import LIFETIME_MAX_S

__all__ = ["Revocations"]

_PER_HUB_LEN_MAX = 10_000


class Revocations:
    """Per hub: users, sessions and, if there are too many of these, the hub as a whole."""

    __slots__ = ("_clock", "_hubs")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hubs: dict[str, _HubRevocations] = {}

    def revoke_user(self, hub: str, user: str) -> None:
        """Refuse every token issued to this user up to now."""
        self._add(hub, ("user", user), self._clock.wall_ms())

    def remember_user(self, hub: str, user: str, at_ms: int) -> None:
        """Take up a revocation of an earlier run."""
        self._add(hub, ("user", user), at_ms)

    def revoke_session(self, hub: str, session: str) -> None:
        """Refuse every Arauto token issued to this session up to now."""
        self._add(hub, ("session", session), self._clock.wall_ms())

    def revoke_hub(self, hub: str) -> None:
        """Refuse every token issued in this hub up to now."""
        revoked = self._hubs.setdefault(hub, _HubRevocations(0))
        revoked.fold(self._clock.wall_ms())

    def is_revoked(self, hub: str, identity: Identity, session: str = "") -> bool:
        """Whether an identity, and the session it was given to, was revoked after it was established."""
        revoked = self._hubs.get(hub)
        if revoked is None:
            return False
        at_ms = max(
            revoked.all_ms,
            revoked.one_ms.get(("user", identity.user), 0),
            revoked.one_ms.get(("session", session), 0) if session else 0,
        )
        return identity.issued_ms <= at_ms if at_ms else False

    def _add(self, hub: str, who: tuple[str, str], at_ms: int) -> None:
        now_ms = self._clock.wall_ms()
        revoked = self._hubs.setdefault(hub, _HubRevocations(0))
        # Taken out and put back, so that the oldest stand first.
        revoked.one_ms[who] = max(at_ms, revoked.one_ms.pop(who, 0))
        self._forget_outlived(revoked, now_ms)
        if len(revoked.one_ms) > _PER_HUB_LEN_MAX:
            # Forgetting one would revive it, so all are folded into the one rule that holds for every one.
            revoked.fold(now_ms)

    def _forget_outlived(self, revoked: "_HubRevocations", now_ms: int) -> None:
        before_ms = now_ms - LIFETIME_MAX_S * 1_000
        for who, at_ms in list(revoked.one_ms.items())[:8]:
            if at_ms >= before_ms:
                break
            del revoked.one_ms[who]


class _HubRevocations:
    __slots__ = ("all_ms", "one_ms")

    def __init__(self, all_ms: int) -> None:
        self.all_ms = all_ms
        self.one_ms: dict[tuple[str, str], int] = {}

    def fold(self, now_ms: int) -> None:
        """Put one rule for everybody in the place of all single ones, no later one of them weakened."""
        self.all_ms = max(now_ms, self.all_ms, *self.one_ms.values())
        self.one_ms.clear()
