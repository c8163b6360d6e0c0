"""One channel: gives serials, runs features, fans out. Messages are processed one after another.

Everything here is synchronous once the channel is open; what must be durable first waits in `_inflight`
in arrival order, and what comes after it waits behind it, so subscribers see serial order always.
Neighbours: `hub.py` finds and opens channels, `fanout.py` delivers, `features/` attach through `hooks.py`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from mypy_extensions import mypyc_attr

from arauto.codec.events import Echo, PublishItem
from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.audience import Audience
from arauto.hub.hooks import Committer, Feature, Recent, Resumed, overrides
from arauto.hub.idempotency import IdempotencyWindow
from arauto.hub.inflight import ChannelState, PublishReply, Waiting
from arauto.hub.recovery import Recovery, decide
from arauto.model import Message, Serial
from arauto.settings import Rules

if TYPE_CHECKING:
    from arauto.hub.hub import Hub

__all__ = ["Channel", "PublishReply", "Sender"]

#: One publication in 64 is timed.
_SAMPLE_MASK = 63


class Sender(msgspec.Struct, frozen=True, gc=False):
    """Who publishes. Services and administrators have no session."""

    session: str = ""
    user: str = ""
    origin: str = ""
    """Where it comes from, if there is no session to tell: "http 10.0.0.7"."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Channel(Audience):
    """A topic inside a hub. Subclasses are channel types (documents …)."""

    __slots__ = (
        "_committer",
        "_inflight",
        "_keys",
        "_on_marked",
        "_on_message",
        "_recent",
        "_ttl_ms",
        "_wall_ms",
        "epoch",
        "is_open",
        "offset",
        "ts_ms",
    )

    def __init__(self, hub: "Hub", name: str) -> None:
        super().__init__(hub, name)
        self.is_open = False
        self._wall_ms = self.env.clock.wall_ms
        self.epoch = 0
        self.offset = 0
        self.ts_ms = 0
        self._on_message: tuple[Callable[[Message], None], ...] = ()
        self._on_marked: tuple[Callable[[Message], None], ...] = ()
        self._recent: Recent | None = None
        self._committer: Committer | None = None
        self._keys: IdempotencyWindow | None = None
        self._inflight: deque[Waiting] | None = None
        self._attach_features()

    # --- opening and closing -----------------------------------------------------------------------

    @property
    def opens_at_once(self) -> bool:
        """Whether opening needs no storage."""
        return self._committer is None and not any(
            overrides(feature, "on_open") for feature in self._features
        )

    def open_now(self) -> None:
        """Open a channel that needs no storage."""
        self.epoch = self.env.new_epoch(fully_stored=False)
        self.hub.continuity.note(self.name, self.epoch, fully_stored=False)
        self.is_open = True
        self.refresh_matches()

    async def open(self) -> None:
        """Open, resuming the stored sequence if there is one."""
        committer = self._committer
        resumed = await committer.resume() if committer is not None else None
        commits_all = committer is not None and committer.commits_all
        if resumed is not None:
            self.epoch = resumed.last.epoch
        self.start_epoch()
        if resumed is not None:
            self._resume(resumed, commits_all=commits_all)
        self.hub.continuity.note(self.name, self.epoch, fully_stored=commits_all)
        for feature in self._features:
            await feature.on_open()
        self.is_open = True
        self.refresh_matches()

    def _resume(self, resumed: Resumed, *, commits_all: bool) -> None:
        last, latest = resumed.last, resumed.latest
        self.ts_ms = resumed.ts_ms
        # A fully stored epoch can go on: every message anybody saw is in the store. Any other epoch
        # may have given out offsets the store never saw, and must not be continued.
        if commits_all and self.hub.continuity.may_continue(self.name, last.epoch):
            self.epoch = last.epoch
            self.offset = last.offset
            if self._recent is not None:
                same = [m for m in latest if m.epoch == last.epoch]
                self._recent.restart(same[0].offset - 1 if same else last.offset)
                for message in same:
                    self._recent.on_message(message)
        for user, key, serial, ts_ms in resumed.keys:
            self._remember(user, key, serial, ts_ms)
        for message in latest:
            if message.id:
                self._remember(message.user, message.id, message.serial, message.ts_ms)

    async def close(self) -> None:
        """Release everything. Subscribers, if any are left, are simply dropped."""
        self.is_open = False
        for feature in self._features:
            feature.on_close()
        self._lanes = []
        self.subscribers = {}
        self._matched = {}

    def on_deserted(self) -> None:
        self.hub.touch(self)

    @property
    def is_storing(self) -> bool:
        """Whether messages are on their way to the disk."""
        return bool(self._inflight)

    @property
    def is_idle(self) -> bool:
        """Whether nobody listens, nothing is under way and no idempotency key has to be remembered."""
        if self.subscribers or self._matched or self._inflight:
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
        self._recent = next((f for f in wanted if isinstance(f, Recent)), None)
        self._committer = next((f for f in wanted if isinstance(f, Committer)), None)

    def feature(self, name: str) -> Feature | None:
        return next((f for f in self._features if f.name == name), None)

    def apply_rules(self, rules: Rules) -> None:
        """Take new rules: features come and go, subscribers are told nothing (sessions re-check access)."""
        if rules == self.rules:
            return
        had = {feature.name for feature in self._features}
        stored_all = self._committer is not None and self._committer.commits_all
        self.rules = rules
        self._attach_features()
        for feature in self._features:
            if feature.name in had:
                feature.on_rules(rules)
            else:
                feature.on_attach((*self.subscribers, *self._matched))
        for lane in self._lanes:
            lane.spill()
            lane.policy = rules.slow_policy
        if stored_all != (self._committer is not None and self._committer.commits_all):
            self.start_epoch()
            self.hub.continuity.note(self.name, self.epoch, fully_stored=not stored_all)
        self._matched_generation = -1
        self.refresh_matches()

    def start_epoch(self) -> None:
        """Begin a new sequence; earlier serials can no longer be recovered from."""
        commits_all = self._committer is not None and self._committer.commits_all
        # Larger than the last one even if the wall clock went back.
        self.epoch = max(self.env.new_epoch(fully_stored=commits_all), self.epoch + 1)
        if bool(self.epoch & 1) != commits_all:
            self.epoch += 1
        self.offset = 0
        if self._recent is not None:
            self._recent.restart(0)

    # --- publishing --------------------------------------------------------------------------------

    @property
    def serial(self) -> Serial:
        """The place of the last message that was delivered."""
        if self._inflight:
            # Those behind it have serials already, but nobody has seen them.
            first = self._inflight[0].message
            return Serial(first.epoch, first.offset - 1)
        return Serial(self.epoch, self.offset)

    def publish(self, draft: PublishItem, sender: Sender, reply: PublishReply | None) -> None:
        """Give the draft a serial and deliver it, durable first where the rules say so.

        `reply` is called once, now or later; None if nobody wants to know.
        """
        now_ms = self._wall_ms()
        key = draft.idempotency_key
        if key and self._answer_duplicate(sender.user, key, now_ms, reply):
            return
        committer = self._committer
        commit = committer is not None and committer.wants(draft.store)
        inflight = self._inflight
        if inflight and len(inflight) >= self.env.limits.stored_inflight_max:
            if reply is not None:
                reply(None, False, _too_many_pending())
            return
        message = self._stamp(draft, sender, now_ms)
        if key:
            self._remember(message.user, key, message.serial, message.ts_ms)
        started_s = 0.0 if message.offset & _SAMPLE_MASK else self.env.clock.monotonic_s()
        if not commit and not inflight:
            self._deliver(message)
            if started_s:
                self._observe(started_s)
            if reply is not None:
                reply(Serial(message.epoch, message.offset), False, None)
            return
        waiting = Waiting(message, reply, started_s, ready=not commit)
        if inflight is None:
            inflight = self._inflight = deque()
        inflight.append(waiting)
        if commit:
            assert committer is not None
            committer.commit(message, partial(self._on_committed, waiting))

    def _stamp(self, draft: PublishItem, sender: Sender, now_ms: int) -> Message:
        self.offset += 1
        if now_ms > self.ts_ms:
            self.ts_ms = now_ms
        ttl_ms = draft.ttl_ms or self._ttl_ms
        exclude = ""
        if draft.echo:
            exclude = _exclusion(draft.echo, sender)
        return Message(
            self.hub.name,
            self.name,
            draft.payload,
            self.epoch,
            self.offset,
            self.ts_ms,
            draft.content_type,
            draft.idempotency_key,
            sender.session,
            sender.user,
            exclude,
            draft.key,
            draft.headers,
            self.ts_ms + ttl_ms if ttl_ms else 0,
            draft.retain,
            draft.store,
            sender.origin,
        )

    def _answer_duplicate(
        self, user: str, key: str, now_ms: int, reply: PublishReply | None
    ) -> bool:
        serial = self._keys.find(user, key, now_ms) if self._keys is not None else None
        if serial is None:
            return False
        if reply is not None:
            # The first attempt may still be on its way to the disk: then both share its outcome.
            for waiting in self._inflight or ():
                if (
                    waiting.message.offset == serial.offset
                    and waiting.message.epoch == serial.epoch
                ):
                    waiting.replies.append(reply)
                    return True
            reply(serial, True, None)
        return True

    def _remember(self, user: str, key: str, serial: Serial, ts_ms: int) -> None:
        if self._keys is None:
            self._keys = IdempotencyWindow()
        expires_ms = ts_ms + int(self.rules.idempotency_s * 1000)
        if self._keys.remember(user, key, serial, expires_ms):
            self.hub.counters.keys_evicted += 1

    def _on_committed(self, waiting: Waiting, error: StorageError | None) -> None:
        waiting.ready = True
        waiting.error = error
        if error is not None:
            # Its sender need not wait for those before it, whose outcome may be long in coming.
            self._refuse(waiting, error)
        inflight = self._inflight
        while inflight and inflight[-1].error is not None:
            # What was refused must not fill the queue while the store is away.
            inflight.pop()
        while inflight and inflight[0].ready:
            self._settle(inflight.popleft())

    def _settle(self, waiting: Waiting) -> None:
        if waiting.error is not None:
            return
        message = waiting.message
        self._deliver(message)
        self.hub.counters.stored += waiting.stored
        if waiting.started_s:
            self._observe(waiting.started_s)
        serial = message.serial
        for index, reply in enumerate(waiting.replies):
            reply(serial, index > 0, None)

    def _refuse(self, waiting: Waiting, error: StorageError) -> None:
        message = waiting.message
        if message.id and self._keys is not None:
            self._keys.forget(message.user, message.id, message.serial)
        for reply in waiting.replies:
            reply(None, False, error)

    def _observe(self, started_s: float) -> None:
        elapsed_s = self.env.clock.monotonic_s() - started_s
        self.hub.counters.publish_time.observe(int(elapsed_s * 1e9))

    def _deliver(self, message: Message) -> None:
        for hook in self._on_message:
            hook(message)
        if message.retain:
            for hook in self._on_marked:
                hook(message)
        if self._matched_generation != self.hub.patterns.generation:
            self.refresh_matches()
        excluded = self._excluded(message) if message.exclude else None
        deliveries = 0
        for lane in self._lanes:
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
        elif not self.subscribers:
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
            stored_all=current and bool(self.epoch & 1),
            missed_max=self.env.limits.recovery_len_max,
        )

    def recent_after(self, offset: int) -> Sequence[Message]:
        """What live history holds after an offset."""
        return self._recent.after(offset) if self._recent is not None else ()

    @property
    def recent_floor(self) -> int:
        """Live history holds everything after this offset."""
        return self._recent.floor if self._recent is not None else self.serial.offset

    # --- handover ----------------------------------------------------------------------------------

    def export_state(self) -> bytes:
        """The channel's whole state as bytes, for handover and replication."""
        keys = self._keys.entries() if self._keys is not None else []
        features = {f.name: f.export_state() for f in self._features}
        place = (self.epoch, self.offset, self.ts_ms)
        return ChannelState(
            self.hub.name, self.name, *place, keys, features, self.export_own_state()
        ).pack()

    def import_state(self, data: bytes) -> None:
        """Take over a state written by `export_state`, on a freshly made channel of the same name.

        Raises:
            ArautoError: CONFLICT if it cannot be read, or is not of this channel; then the channel is of
                no more use.
        """
        state = ChannelState.unpack(data, self.hub.name, self.name)
        self.epoch, self.offset, self.ts_ms = state.epoch, state.offset, state.ts_ms
        if state.keys:
            self._keys = IdempotencyWindow()
            for user, key, epoch, offset, expires_ms in state.keys:
                self._keys.remember(user, key, Serial(epoch, offset), expires_ms)
        self.import_own_state(state.own)
        try:
            for feature in self._features:
                if feature.name in state.features:
                    feature.import_state(state.features[feature.name])
        except msgspec.MsgspecError as error:
            raise ArautoError(Code.CONFLICT, "a feature's state cannot be read") from error
        self.is_open = True

    def export_own_state(self) -> bytes:
        """What the channel type itself holds; a plain channel holds nothing."""
        return b""

    def import_own_state(self, data: bytes) -> None:
        """The counterpart of `export_own_state`."""


def _exclusion(echo: Echo, sender: Sender) -> str:
    if echo is Echo.NOT_USER and sender.user:
        return "u:" + sender.user
    return "s:" + sender.session if sender.session else ""


def _too_many_pending() -> ArautoError:
    return ArautoError(
        Code.TOO_MANY_PENDING, "too many messages of this channel wait to be stored; retry later"
    )
