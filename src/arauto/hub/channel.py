"""One channel: gives serials, runs features, fans out. Messages are processed one after another.

Everything here is synchronous once the channel is open; what must be durable first waits in `_inflight`
in arrival order, and what comes after it waits behind it, so subscribers see serial order always.
Neighbours: `hub.py` finds and opens channels, `fanout.py` delivers, `features/` attach through `hooks.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from arauto.codec.events import PublishItem
from arauto.errors import StorageError
from arauto.hub.audience import Audience
from arauto.hub.epoch import NOT_KEPT, is_fully_stored
from arauto.hub.fanout import Lane
from arauto.hub.hooks import Committer, Feature, Recent, Resumed, overrides
from arauto.hub.idempotency import IdempotencyWindow
from arauto.hub.inflight import (
    NOT_TIMED,
    ChannelState,
    Inflight,
    PublishReply,
    Waiting,
    too_many_waiting,
)
from arauto.hub.recovery import Recovery, decide
from arauto.hub.sender import Sender, scope_of
from arauto.model import Message, Serial
from arauto.settings import Rules
from arauto.telemetry.counters import SAMPLE_MASK

if TYPE_CHECKING:
    from arauto.hub.hub import Hub

__all__ = ["Channel", "PublishReply"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Channel(Audience):
    """A topic inside a hub. Subclasses are channel types (documents …)."""

    __slots__ = (
        "_committer",
        "_inflight",
        "_keys",
        "_on_marked",
        "_on_message",
        "_sampler",
        "_ttl_ms",
        "_wall_ms",
        "epoch",
        "is_open",
        "offset",
        "recent",
        "ts_ms",
    )

    def __init__(self, hub: "Hub", name: str) -> None:
        super().__init__(hub, name)
        self.is_open = False
        self._wall_ms = self.env.clock.wall_ms
        self._sampler = self.env.metrics.sampler
        self.epoch = 0
        self.offset = 0
        self.ts_ms = 0
        self._on_message: tuple[Callable[[Message], None], ...] = ()
        self._on_marked: tuple[Callable[[Message], None], ...] = ()
        self.recent: Recent | None = None  # live history, where the rules want it
        self._committer: Committer | None = None
        self._keys: IdempotencyWindow | None = None
        self._inflight: Inflight | None = None
        self._attach_features()

    # --- opening and closing -----------------------------------------------------------------------

    @property
    def opens_at_once(self) -> bool:
        """Whether opening needs no storage."""
        return (
            self._committer is None
            and not self.hub.continuity.may_know(self.name)
            and not self.hub.stored_keys.may_know(self.name)
            and not any(overrides(feature, "on_open") for feature in self._features)
        )

    def open_now(self) -> None:
        """Open a channel that needs no storage."""
        self.epoch = self.hub.new_epoch(fully_stored=False)
        self.is_open = True

    async def open(self) -> None:
        """Open, resuming the stored sequence if there is one.

        Raises:
            StorageError: the store could not be read, or would not forget what no longer holds.
        """
        continuity = self.hub.continuity
        committer, kept_ms = self._committer, self.kept_ms
        resumed = await committer.resume() if committer is not None else None
        noted = await continuity.noted(self.name, kept_ms) if kept_ms != NOT_KEPT else 0
        self.epoch = last_epoch = resumed.last.epoch if resumed is not None else 0
        self.start_epoch()
        if resumed is not None:
            self._resume(resumed, may_continue=noted == last_epoch)
        if noted > last_epoch:
            self.epoch = noted  # it had no message
        if resumed is not None or self.hub.stored_keys.may_know(self.name):
            for key in await self.hub.stored_keys.read(self.name, self.rules.idempotency_s):
                self._remember(*key)
        if kept_ms != NOT_KEPT:
            await continuity.note(self.name, self.epoch, kept_ms)
        else:
            await continuity.withdraw(self.name)  # before anybody can see what is not stored
        for feature in self._features:
            await feature.on_open()
        self.is_open = True

    def _resume(self, resumed: Resumed, *, may_continue: bool) -> None:
        last = resumed.last
        self.ts_ms = resumed.ts_ms
        self.hub.ts_ms = max(self.hub.ts_ms, resumed.ts_ms)
        # A fully stored epoch can go on: every message anybody saw is in the store. Any other epoch
        # may have given out offsets the store never saw, and must not be continued.
        if not may_continue:  # nobody knows any more for how long it was kept
            self.hub.departed.note(self.name, last, resumed.ts_ms, self.hub.ts_ms, stored=False)
        else:
            self.epoch = last.epoch
            self.offset = last.offset
            if self.recent is not None:
                self.recent.resume(last, resumed.latest)

    async def close(self) -> None:
        """Release everything. Subscribers, if any are left, are simply dropped."""
        self.is_open = False
        self._depart(stored=is_fully_stored(self.epoch))
        self._lanes = []
        self.subscribers = {}
        self._covering = {}
        self.let_go()

    def let_go(self) -> None:
        """Part from the features, which hold the channel as it holds them: it is of no more use. What is
        still on its way to the disk needs them; its last message does this."""
        if self._inflight:
            return
        for feature in self._features:
            feature.on_close()
        self._features = ()
        self._on_message = self._on_marked = ()
        if self._keys is not None:
            self._keys.forget_all()
        self.recent = self._committer = None

    def _depart(self, *, stored: bool) -> None:
        """An epoch is over: have the hub remember that it had messages, those on their way to the disk too,
        and whether the store has them."""
        place = Serial(self.epoch, self.offset)
        if place.offset:
            self.hub.departed.note(self.name, place, self.ts_ms, self.hub.ts_ms, stored=stored)

    def on_deserted(self) -> None:
        self.hub.touch(self)

    @property
    def kept_ms(self) -> int:
        """How long the store has every message; 0 = for good, NOT_KEPT = not every message is stored."""
        stores_all = self._committer is not None and self._committer.commits_all
        return int(self.rules.store_s * 1000) if stores_all else NOT_KEPT

    @property
    def is_storing(self) -> bool:
        """Whether messages are on their way to the disk."""
        return bool(self._inflight)

    @property
    def is_idle(self) -> bool:
        """Whether nobody listens, nothing is under way and no idempotency key has to be remembered."""
        if not self.is_deserted or self._inflight:
            return False
        return self._keys is None or self._keys.is_over(self.env.clock.wall_ms())

    # --- features ----------------------------------------------------------------------------------

    def _attach_features(self) -> None:
        current = {feature.name: feature for feature in self._features}
        wanted: list[Feature] = []
        for spec in self.env.features:
            if not spec.wanted(self.rules):
                continue
            feature = current.pop(spec.name, None)
            wanted.append(feature if feature is not None else spec.build(self))
        for gone in current.values():
            gone.on_close()
        self._features = tuple(wanted)
        self._ttl_ms = int(self.rules.message_ttl_s * 1000)
        hooked = [f for f in wanted if overrides(f, "on_message")]
        self._on_message = tuple(f.on_message for f in hooked if f.wants_every_message())
        self._on_marked = tuple(f.on_message for f in hooked if not f.wants_every_message())
        self.recent = next((f for f in wanted if isinstance(f, Recent)), None)
        self._committer = next((f for f in wanted if isinstance(f, Committer)), None)

    def feature(self, name: str) -> Feature | None:
        return next((f for f in self._features if f.name == name), None)

    def apply_rules(self, rules: Rules) -> None:
        """Take new rules: features come and go, subscribers are told nothing (sessions re-check access)."""
        if rules == self.rules:
            return
        had = {feature.name for feature in self._features}
        kept_ms = self.kept_ms
        self.rules = rules
        self._attach_features()
        for feature in self._features:
            if feature.name in had:
                feature.on_rules(rules)
            else:
                feature.on_arrivals(self.members)
        for lane in self._lanes:
            lane.spill()
            lane.policy = rules.slow_policy
        if kept_ms != self.kept_ms:
            # What was kept for a time only leaves no trace, and from now on nobody knows that time.
            self._depart(stored=kept_ms == 0)
            self.start_epoch()
            self.hub.continuity.changed(self, kept_ms=self.kept_ms)
        self.rematch()

    def hold_back(self) -> Waiting:
        """Deliver nothing from here on until the barrier that this returns is `lift`ed."""
        first = Message(self.hub.name, self.name, b"", self.epoch, self.offset + 1, self.ts_ms)
        barrier = Waiting(first, None, NOT_TIMED, ready=False)
        barrier.is_barrier = True
        self._wait(barrier)
        return barrier

    def lift(self, barrier: Waiting) -> None:
        barrier.ready = True
        self._release()

    def refuse_behind(self, barrier: Waiting, error: StorageError) -> None:
        """Refuse what waits for nothing but the barrier."""
        inflight = self._inflight
        assert inflight is not None
        while (waiting := inflight.take_behind(barrier)) is not None:
            self._refuse(waiting, error)
            self._give_back(waiting.message)

    def start_epoch(self) -> None:
        """Begin a new sequence; earlier serials can no longer be recovered from."""
        self.epoch = self.hub.new_epoch(fully_stored=self.kept_ms != NOT_KEPT, above=self.epoch)
        self.offset = 0
        if self.recent is not None:
            self.recent.restart(0)

    # --- publishing --------------------------------------------------------------------------------

    @property
    def serial(self) -> Serial:
        """The place of the last message that was delivered; those behind it nobody has seen."""
        if self._inflight:
            first = self._inflight.first
            return Serial(first.epoch, first.offset - 1)
        return Serial(self.epoch, self.offset)

    def publish(self, draft: PublishItem, sender: Sender, reply: PublishReply | None) -> None:
        """Give the draft a serial and deliver it, durable first where the rules say so.

        `reply` is called once, now or later; None if nobody wants to know.
        """
        now_ms = self._wall_ms()
        key = draft.idempotency_key
        scope = ""
        if key:
            # Sessions, which publish the most, have no origin.
            scope = scope_of(sender.user, sender.origin) if sender.origin else sender.user
            if self._answer_duplicate(scope, key, now_ms, reply):
                return
        committer = self._committer
        commit = committer is not None and committer.wants(draft.store)
        inflight = self._inflight
        if inflight and len(inflight) >= self.env.limits.stored_inflight_max:
            if reply is not None:
                reply(None, False, too_many_waiting())
            return
        message = self._stamp(draft, sender, now_ms)
        if key:
            self._remember(scope, key, message.serial, message.ts_ms)
        sampler = self._sampler
        sampler.count += 1
        started_ns = NOT_TIMED if sampler.count & SAMPLE_MASK else self.env.clock.fine_ns()
        if not commit and not inflight:
            self._deliver(message, self._lanes)
            if started_ns != NOT_TIMED:
                self._observe(started_ns)
            if reply is not None:
                reply(Serial(message.epoch, message.offset), False, None)
            return
        waiting = Waiting(message, reply, started_ns, ready=not commit)
        self._wait(waiting)
        if commit:
            assert committer is not None
            committer.commit(message, partial(self._on_committed, waiting))

    def _wait(self, waiting: Waiting) -> None:
        if self._inflight is None:
            self._inflight = Inflight()
        self._inflight.add(waiting)

    def _stamp(self, draft: PublishItem, sender: Sender, now_ms: int) -> Message:
        self.offset += 1
        hub = self.hub
        if now_ms > hub.ts_ms:
            hub.ts_ms = now_ms
        ts_ms = self.ts_ms = hub.ts_ms
        ttl_ms = draft.ttl_ms or self._ttl_ms
        exclude = sender.excluded_by(draft.echo) if draft.echo else ""
        return Message(
            hub.name,
            self.name,
            draft.payload,
            self.epoch,
            self.offset,
            ts_ms,
            draft.content_type,
            draft.idempotency_key,
            sender.session,
            sender.user,
            exclude,
            draft.key,
            draft.headers,
            ts_ms + ttl_ms if ttl_ms else 0,
            draft.retain,
            draft.store,
            sender.origin,
        )

    def _answer_duplicate(
        self, scope: str, key: str, now_ms: int, reply: PublishReply | None
    ) -> bool:
        serial = self._keys.find(scope, key, now_ms) if self._keys is not None else None
        if serial is None:
            return False
        if reply is None:
            return True
        # The first attempt may still be on its way to the disk: then both share its outcome.
        if self._inflight is None or not self._inflight.share_outcome(serial, reply):
            reply(serial, True, None)
        return True

    def _remember(self, scope: str, key: str, serial: Serial, ts_ms: int) -> None:
        if self._keys is None:
            self._keys = IdempotencyWindow(self.hub.holdings.idempotency)
        expires_ms = ts_ms + int(self.rules.idempotency_s * 1000)
        self._keys.remember(scope, key, serial, expires_ms)

    def _on_committed(self, waiting: Waiting, error: StorageError | None) -> None:
        waiting.ready = True
        waiting.error = error
        if error is not None:
            # Its sender need not wait for those before it, whose outcome may be long in coming.
            self._refuse(waiting, error)
        inflight = self._inflight
        assert inflight is not None
        while (refused := inflight.take_refused()) is not None:
            self._give_back(refused)
        self._release()

    def _give_back(self, refused: Message) -> None:
        """The last message was refused: its place goes to the next. Nobody was told of it, and after a
        restart the store would not know of it either."""
        if refused.epoch == self.epoch:
            self.offset = refused.offset - 1

    def _release(self) -> None:
        inflight = self._inflight
        assert inflight is not None
        while (waiting := inflight.take_ready()) is not None:
            self._settle(waiting)
        if not self.is_open:
            self.let_go()

    def _settle(self, waiting: Waiting) -> None:
        if waiting.is_barrier:
            return
        message = waiting.message
        # What is over has its place and was published last; nobody sees it.
        self._deliver(message, [] if waiting.is_over(self._wall_ms()) else self._lanes)
        self.hub.counters.stored += waiting.stored
        if waiting.started_ns != NOT_TIMED:
            self._observe(waiting.started_ns)
        for index, reply in enumerate(waiting.replies):
            reply(message.serial, index > 0, None)

    def _refuse(self, waiting: Waiting, error: StorageError) -> None:
        message = waiting.message
        if message.id and self._keys is not None:
            scope = scope_of(message.user, message.origin)
            self._keys.forget(scope, message.id, message.serial)
        for reply in waiting.replies:
            reply(None, False, error)

    def _observe(self, started_ns: int) -> None:
        self.hub.counters.publish_time.observe(self.env.clock.fine_ns() - started_ns)

    def _deliver(self, message: Message, lanes: list[Lane]) -> None:
        for hook in self._on_message:
            hook(message)
        if message.retain:
            for hook in self._on_marked:
                hook(message)
        excluded = self._excluded(message) if message.exclude else None
        deliveries = 0
        for lane in lanes:
            frame = lane.format.encode_message(message)
            if excluded:
                lane.put_except(frame, message, excluded)
            else:
                lane.put(frame, message)
            deliveries += len(lane.outboxes)
        if deliveries:
            counters = self.hub.counters
            counters.deliveries += deliveries
            counters.messages_out += deliveries
        elif self.is_deserted:
            self.hub.touch(self)

    # --- recovery ----------------------------------------------------------------------------------

    def recovery_from(self, since: Serial) -> Recovery:
        """How a subscriber that last saw `since` can be brought up to date."""
        top = self.serial
        # While the last messages of an epoch that is over are being stored, memory is of the next.
        current = top.epoch == self.epoch
        return decide(
            since,
            top,
            self.recent_floor if current else top.offset,
            stored_all=current and is_fully_stored(self.epoch),
            missed_max=self.env.limits.recovery_len_max,
        )

    def recent_after(self, offset: int) -> Sequence[Message]:
        """What live history holds after an offset."""
        return self.recent.after(offset) if self.recent is not None else ()

    def place_at(self, ms: int) -> Serial | None:
        """The place of the last message up to a time, if live history still knows it."""
        before = self.hub.departed.get(self.name)
        if before is not None and max(before.unstored_ms, before.stored_ms) > ms:
            return None  # it lies in an epoch that is over
        serial = self.serial
        if self.ts_ms <= ms:
            return serial
        if self.recent is None or serial.epoch != self.epoch:
            return None
        offset = self.recent.offset_at(ms)
        return Serial(self.epoch, offset) if offset is not None else None

    @property
    def recent_floor(self) -> int:
        """Live history holds everything after this offset."""
        return self.recent.floor if self.recent is not None else self.serial.offset

    # --- handover ----------------------------------------------------------------------------------

    def export_state(self) -> bytes:
        """The channel's whole state as bytes, for handover and replication."""
        keys = self._keys.entries() if self._keys is not None else []
        features = {f.name: f.export_state() for f in self._features}
        place = (self.hub.name, self.name, self.epoch, self.offset, self.ts_ms)
        return ChannelState(*place, keys, features, self.export_own_state()).pack()

    def import_state(self, data: bytes) -> None:
        """Take over a state written by `export_state`, on a freshly made channel of the same name.

        Raises:
            ArautoError: CONFLICT if it cannot be read, or is not of this channel; then the channel is of
                no more use.
        """
        state = ChannelState.unpack(data, self.hub.name, self.name)
        self.epoch, self.offset, self.ts_ms = state.epoch, state.offset, state.ts_ms
        self.hub.ts_ms = max(self.hub.ts_ms, state.ts_ms)
        if state.keys:
            memory = self.hub.holdings.idempotency
            self._keys = IdempotencyWindow.of_entries(state.keys, memory)
        self.import_own_state(state.own)
        state.give_to(self._features)
        self.is_open = True

    def export_own_state(self) -> bytes:
        """What the channel type itself holds; a plain channel holds nothing."""
        return b""

    def import_own_state(self, data: bytes) -> None:
        """The counterpart of `export_own_state`."""
