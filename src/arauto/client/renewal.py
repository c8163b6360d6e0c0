"""Keeps the client authenticated: authenticates again before the node's word runs out, and after.

The node says how long an authentication holds. Somewhere between 70 % and 85 % of that time, by chance so
that clients which came together do not return together, the proof is read again and sent on the same
connection: subscriptions stay, nothing is reconnected. What fails is tried again, further and further apart.

Where the time was over first (the function for tokens was too slow, the node does not tell the time, the
machine slept), the node says TOKEN_EXPIRED and ends what an anonymous session may not have. Then
`is_holding` is true: requests wait instead of being sent, subscriptions that the node ended wait to be asked
for again, from their places, and the renewal comes at once. That ends when it worked, with the connection,
or when there is no hope.
"""

import logging
from collections.abc import Awaitable, Callable

from arauto.client.backoff import Backoff, delay_s
from arauto.client.proof import Proof
from arauto.clock import Clock, Timer
from arauto.entropy import Entropy
from arauto.errors import ArautoError
from arauto.tasks import TaskSet

__all__ = ["Renewal"]

_log = logging.getLogger("arauto.client")

#: The part of the time after which to renew: early enough for several attempts.
_EARLIEST, _LATEST = 0.70, 0.85

#: Renewals start at least so far apart, whatever the node says.
_APART_S = 1.0

#: Nothing is planned further ahead, because timers have an end; a renewal more does no harm.
_AHEAD_MAX_S = 30 * 86_400.0


class Renewal:
    """The authentication of one client, over time.

    Args:
        ask: authenticates on the current connection; raises the refusal.
        on_failure: told why a renewal failed.
        on_release: called when nothing is held any more.
    """

    __slots__ = (
        "_ask",
        "_attempt",
        "_backoff",
        "_clock",
        "_entropy",
        "_is_paused",
        "_is_renewing",
        "_last_s",
        "_on_failure",
        "_on_release",
        "_proof",
        "_round",
        "_tasks",
        "_timer",
        "_until_s",
        "is_holding",
    )

    def __init__(
        self,
        proof: Proof,
        clock: Clock,
        entropy: Entropy,
        backoff: Backoff,
        tasks: TaskSet,
        *,
        ask: Callable[[bytes], Awaitable[None]],
        on_failure: Callable[[ArautoError], None],
        on_release: Callable[[], None],
    ) -> None:
        self._proof = proof
        self._clock = clock
        self._entropy = entropy
        self._backoff = backoff
        self._tasks = tasks
        self._ask = ask
        self._on_failure = on_failure
        self._on_release = on_release
        self.is_holding = False
        """Whether the client is nobody for now, and about to be somebody again."""
        self._until_s = 0.0
        """When the authentication ends; 0 = never, or unknown."""
        self._last_s = float("-inf")
        self._attempt = 0
        """Renewals that failed in a row."""
        self._timer: Timer | None = None
        self._round = 0
        """What an earlier round still waits for is of no interest."""
        self._is_renewing = False
        self._is_paused = False

    # --- what the node says ------------------------------------------------------------------------

    def authenticated(self, expires_in_ms: int) -> None:
        """The node knows who we are, for so long; 0 = without end, or it does not say."""
        now_s = self._clock.monotonic_s()
        until_s = now_s + expires_in_ms / 1000 if expires_in_ms else 0.0
        gained = not until_s or until_s > self._until_s + _APART_S
        stuck = self._is_renewing and not gained and not self._proof.makes_fresh
        self._cancel()
        self._attempt = 0
        self._until_s = until_s
        if not stuck:
            # Else the same proof ends at the same time, however often it is shown: wait for that.
            self._plan_ahead()
        self._release()

    def expired(self) -> None:
        """The node took the identity away."""
        self._until_s = 0.0
        self._proof.expired()
        self.is_holding = self._proof.is_renewable
        if self.is_holding and not self._is_renewing:
            self._plan(0.0)

    def disconnected(self) -> None:
        """The connection is gone; the next one begins by authenticating."""
        self._cancel()
        self.is_holding = False
        self._until_s = 0.0

    def holds_back(self, number: int) -> bool:
        """Whether a refusal with this number only means that the client is nobody for now."""
        return self.is_holding and 2000 <= number < 3000

    # --- the client authenticates by itself --------------------------------------------------------

    def pause(self) -> None:
        """The client is about to become somebody else: renewing who it was would undo that."""
        self._cancel()
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        if self.is_holding:
            self._plan(0.0)
        else:
            self._plan_ahead()

    # --- renewing ----------------------------------------------------------------------------------

    def _plan_ahead(self) -> None:
        if self._until_s and self._proof.is_renewable:
            left_s = self._until_s - self._clock.monotonic_s()
            self._plan(left_s * self._entropy.uniform(_EARLIEST, _LATEST))

    def _plan(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_paused:
            return
        soonest_s = self._last_s + _APART_S - self._clock.monotonic_s()
        wait_s = min(max(wait_s, soonest_s), _AHEAD_MAX_S)
        if wait_s > 0:
            self._timer = self._clock.call_later(wait_s, self._start)
        else:
            self._start()

    def _start(self) -> None:
        self._timer = None
        self._last_s = self._clock.monotonic_s()
        self._round += 1
        self._is_renewing = True
        self._tasks.spawn(self._renew(self._round))

    async def _renew(self, round: int) -> None:
        try:
            credentials = await self._proof.renewed()
            if round == self._round:
                await self._ask(credentials)
        except ArautoError as error:
            if round == self._round:
                self._failed(error)

    def _failed(self, error: ArautoError) -> None:
        self._cancel()
        self._attempt += 1
        self._on_failure(error)
        if self._proof.cures(error):
            wait_s = _APART_S + delay_s(self._backoff, self._attempt, self._entropy.uniform)
            _log.warning("the authentication was not renewed; again in %.2f s: %s", wait_s, error)
            self._plan(wait_s)
        else:
            _log.warning("the authentication cannot be renewed: %s", error)
            self._release()

    def _release(self) -> None:
        if self.is_holding:
            self.is_holding = False
            self._on_release()

    def _cancel(self) -> None:
        self._round += 1
        self._is_renewing = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
