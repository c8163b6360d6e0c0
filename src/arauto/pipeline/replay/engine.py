"""Publishes messages of the past, in order and on time, and remembers how far it came.

A batch is published, then counted, and its place is saved within a second or 500 messages. A crash in
between leaves messages that are published and not known to be: their ids are the same next time, so the node
does not publish them again while it remembers the ids, and what its channels still hold is looked at besides.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arauto.errors import ArautoError, Code
from arauto.limits import BATCH_LEN_MAX
from arauto.pipeline.node_api import NodeApi, Outcome, Outgoing
from arauto.pipeline.replay.pace import Pace, Schedule
from arauto.pipeline.replay.progress import Progress, ProgressFile
from arauto.pipeline.replay.spec import Past, ReplaySpec, again, waves

__all__ = ["Limits", "Replayer", "World", "limits_for"]

_BATCH_LEN_MAX = 100
_BATCH_BYTES_MAX = 1024 * 1024
_SAVE_EVERY_S = 1.0
_SAVE_EVERY_LEN = 500
_STEP_S = 0.5
#: More messages than can be published between two saves.
_DOUBT_LEN = 1_000
#: How much of a hub's quota a replay may use.
_QUOTA_SHARE = 0.5
#: How much clocks of node and pipeline may differ.
_CLOCKS_MS = 60_000


@dataclass(frozen=True, slots=True)
class World:
    """Time, for tests to own."""

    now_s: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Limits:
    """What a replay keeps to.

    Args:
        rate_max: messages a second.
        run_max: messages of one channel in one request.
        patience_s: how long the node may take nothing before the replay gives up.
        skip_refused: go on when a message is refused for good.
    """

    rate_max: float
    run_max: int = 1
    patience_s: float = 120.0
    skip_refused: bool = False


def limits_for(api: NodeApi, spec: ReplaySpec, *, skip_refused: bool = False) -> Limits:
    """What the hub's quota leaves for a replay.

    Under a quota some messages of a request may be refused and later ones taken, so each channel gets one
    message at a time. Without one nothing in between is refused, and requests may be full.

    Raises:
        ArautoError: NODE_UNREACHABLE, ADMIN_DENIED.
    """
    rate = float(spec.rate_max)
    try:
        quota = api.messages_per_s(spec.to_hub)
    except ArautoError as error:
        if error.code is not Code.UNKNOWN_HUB:
            raise
        # It may come into being with the first message, with who knows what quota.
        return Limits(rate, run_max=1, skip_refused=skip_refused)
    if not quota:
        return Limits(rate, run_max=BATCH_LEN_MAX, skip_refused=skip_refused)
    rate = max(1.0, min(rate, quota * _QUOTA_SHARE))
    return Limits(rate, run_max=1, skip_refused=skip_refused)


class Replayer:
    """Runs one replay over whatever pieces of the past it is given.

    Args:
        api: the node.
        file: where progress is kept.
        progress: where to go on from.
        limits: what to keep to.
        on_progress: called after each batch.
        world: time.
    """

    def __init__(
        self,
        api: NodeApi,
        file: ProgressFile,
        progress: Progress,
        limits: Limits,
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        world: World | None = None,
    ) -> None:
        self.progress = progress
        self._api = api
        self._file = file
        self._limits = limits
        self._on_progress = on_progress
        self._world = world or World()
        self._pace = Pace(limits.rate_max, self._world.now_s())
        self._schedule: Schedule | None = None
        self._saved_s = self._world.now_s()
        self._unsaved = 0
        self._took_s = self._saved_s
        # A run before this one may have published more than it could save.
        self._doubtful = _DOUBT_LEN if progress.saved_ms else 0
        self._doubt_ms = max(0, progress.saved_ms - _CLOCKS_MS)
        if not progress.saved_ms:
            progress.saved_ms = self._wall_ms()
        self._there: dict[str, set[str]] = {}

    def run(self, messages: Iterable[Past]) -> None:
        """Publish messages, which come in order, after those of earlier calls.

        Raises:
            ArautoError: the node refused a message for good, or took nothing for too long.
        """
        try:
            self._run(messages)
        finally:
            self.save()

    def finish(self) -> None:
        """All is published."""
        self.progress.done = True
        self.save()

    def save(self) -> None:
        self._file.save(self.progress)
        self._saved_s = self._world.now_s()
        self._unsaved = 0

    def _run(self, messages: Iterable[Past]) -> None:
        batch: list[Past] = []
        size_bytes = 0
        for past in messages:
            due_s = self._due_s(past)
            full = len(batch) >= min(_BATCH_LEN_MAX, self._pace.burst)
            full = full or size_bytes + len(past.payload) > _BATCH_BYTES_MAX
            if batch and (full or due_s > self._world.now_s()):
                self._publish(batch)
                batch, size_bytes = [], 0
            self._sleep_until(due_s)
            batch.append(past)
            size_bytes += len(past.payload)
        if batch:
            self._publish(batch)

    def _due_s(self, past: Past) -> float:
        if self._schedule is None:
            speed = self.progress.spec.speed
            self._schedule = Schedule(speed, past.ts_ms, self._world.now_s())
        return self._schedule.due_s(past.ts_ms)

    def _sleep_until(self, due_s: float) -> None:
        while (left_s := due_s - self._world.now_s()) > 0:
            self._world.sleep(min(left_s, _STEP_S))

    def _publish(self, batch: list[Past]) -> None:
        messages = [again(past, self.progress.spec) for past in batch]
        if self._doubtful:
            messages = self._not_there(messages)
        for wave in waves(messages, self._limits.run_max):
            self._publish_wave(wave)
        self._move_to(batch[-1])
        self._unsaved += len(batch)
        self._on_progress(self.progress)
        late = self._world.now_s() - self._saved_s >= _SAVE_EVERY_S
        if late or self._unsaved >= _SAVE_EVERY_LEN:
            self.save()

    def _move_to(self, past: Past) -> None:
        self.progress.move_to(past)
        # What an earlier run published and could not save is older than this place. Until all of it is
        # passed, a run that takes this up must look as far back as this one does.
        if not self._doubtful:
            self.progress.saved_ms = self._wall_ms()

    def _wall_ms(self) -> int:
        return self._world.wall_ns() // 1_000_000

    def _publish_wave(self, left: list[Outgoing]) -> None:
        hub, world, pace = self.progress.spec.to_hub, self._world, self._pace
        self._took_s = world.now_s()
        while left:
            while (wait_s := pace.wait_s(len(left), world.now_s())) > 0:
                world.sleep(min(wait_s, _STEP_S))
            began_s = world.now_s()
            pace.take(len(left), began_s)
            try:
                outcomes = self._api.publish_once(hub, left)
            except ArautoError as error:
                if not error.retryable:
                    raise
                outcomes = [Outcome(error)] * len(left)
            now_s = world.now_s()
            later = self._count(left, outcomes)
            if len(later) < len(left):
                self._took_s = now_s
            if later:
                pace.refused(now_s)
                self._check_patience(outcomes, now_s)
            else:
                pace.answered(now_s - began_s, now_s)
            left = later

    def _count(self, sent: list[Outgoing], outcomes: list[Outcome]) -> list[Outgoing]:
        """Note what became of messages; those that are to be sent again."""
        later: list[Outgoing] = []
        for message, outcome in zip(sent, outcomes, strict=True):
            if outcome.error is None:
                self.progress.published += not outcome.duplicate
                self.progress.repeated += outcome.duplicate
            elif outcome.error.retryable:
                later.append(message)
            elif self._limits.skip_refused:
                self.progress.refused += 1
            else:
                raise ArautoError(
                    outcome.error.code,
                    f"the node refused a message for {message.channel}: {outcome.error.message}",
                    field=outcome.error.field,
                )
        return later

    def _check_patience(self, outcomes: list[Outcome], now_s: float) -> None:
        if now_s - self._took_s <= self._limits.patience_s:
            return
        error = next(o.error for o in outcomes if o.error is not None and o.error.retryable)
        raise ArautoError(
            error.code if error.code is Code.NODE_UNREACHABLE else Code.TOO_MANY_PENDING,
            f"the node took nothing for {self._limits.patience_s:g} s; the last word: {error}",
        )

    def _not_there(self, messages: list[Outgoing]) -> list[Outgoing]:
        """Leave out what a run before a crash published and could not save, as far as channels show it."""
        self._doubtful = max(0, self._doubtful - len(messages))
        hub = self.progress.spec.to_hub
        missing: list[Outgoing] = []
        for message in messages:
            if message.channel not in self._there:
                self._there[message.channel] = self._api.ids_since(
                    hub, message.channel, self._doubt_ms
                )
            if message.id in self._there[message.channel]:
                self.progress.repeated += 1
            else:
                missing.append(message)
        if not self._doubtful:
            self._there.clear()
        return missing
