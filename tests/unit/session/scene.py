"""A node with a past: restarted, killed, reconfigured, on a disk that fails; and clients that come and go.

Everything that happens is noted as its actors know it: the publishers by the answers they got, the
subscriber by what it was told and sent. `Scene.check` and the assertions on the way hold the node to the
law of recovery, and `Scene.page` to that of history; neither knows how the node does it.
"""

from dataclasses import dataclass

from arauto.codec.events import (
    Ack,
    Echo,
    HistoryReply,
    HistoryRequest,
    Publication,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
)
from arauto.errors import StorageError
from arauto.hub.environment import HubLimits
from arauto.model import Direction, Identity, Message, Serial, When
from arauto.names import ALL_CHANNELS, is_wide, matches
from arauto.settings import ChannelSettings, NamespaceSettings, Rules
from arauto.storage.base import Storage
from arauto.testing.clock import FakeClock
from tests.unit.session.desk import Client, Desk, grants, publish
from tests.unit.session.disks import on_disk

__all__ = ["CHANNELS", "LIMITS", "Held", "Post", "Scene", "Walk", "rules_of"]

#: Small, so that memory, pages and the recovery limit run out all the time.
LIMITS = HubLimits(recovery_len_max=12, history_page_len=4, channel_close_s=20, hub_close_s=60)
CHANNELS = ("room:1", "room:2", "hall", "/t/1", "/t/1/deep")

#: How long keys are remembered: short, since a channel does not close before.
IDEMPOTENCY_S = 8
#: Before every place.
NOWHERE = Serial(0, 0)


def rules_of(store: When, history_len: int, history_s: float, store_s: float = 0) -> Rules:
    return Rules(
        public=True,
        client_publish=True,
        store=store,
        store_s=store_s,
        retain=When.NEVER,
        live_history_len=history_len,
        live_history_s=history_s,
        idempotency_s=IDEMPOTENCY_S,
    )


@dataclass
class Post:
    """One attempt to publish, as its publisher knows it. Every attempt has a payload of its own."""

    channel: str
    payload: bytes
    ts_ms: int
    boot: int
    key: str = ""
    expires_ms: int = 0
    kept_from_session: str = ""
    kept_from_user: str = ""
    serial: Serial | None = None
    """Its place, once it was acknowledged as new."""
    is_void: bool = False
    """It was refused, or answered as a repetition of another: nobody may ever see it."""

    def is_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_ms <= now_ms


class Held:
    """One subscription as its client sees it, across all its connections."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: dict[str, Serial] = {}
        self.began = False
        self.has: dict[bytes, None] = {}
        self.excused: set[bytes] = set()
        """What it need not have, and may have."""
        self.lost_upto: dict[str, Serial] = {}
        """By channel: what came up to here it need not have either; its publisher may hear of it later."""

    def item(self) -> SubscribeItem:
        if not self.began:
            return SubscribeItem(channel=self.name)
        if is_wide(self.name):
            return SubscribeItem(channel=self.name, positions=dict(self.places))
        return SubscribeItem(channel=self.name, since=self.places.get(self.name))

    def covers(self, channel: str) -> bool:
        return matches(self.name, channel)

    def take(self, message: Message) -> None:
        place = self.places.get(message.channel)
        if self.covers(message.channel) and (place is None or message.serial > place):
            assert message.payload not in self.has, f"{message.payload!r} twice for {self.name}"
            self.places[message.channel] = message.serial
            self.has[message.payload] = None

    def answered(self, result: SubscribeResult, posts: dict[bytes, Post]) -> bool:
        """Take the node's answer; whether it was recovered.

        What was not acknowledged yet is not excused: it comes after the answer, or never.
        """
        assert result.error is None, result.error
        now = dict(result.positions or {})
        if result.serial is not None:
            now[self.name] = result.serial
        if self.began and not result.recovered:
            lost = result.unrecovered if is_wide(self.name) else (self.name,)
            if is_wide(self.name) and self.name in lost:
                lost = CHANNELS
        else:
            lost = () if self.began else CHANNELS
        for channel in lost:
            self.excused |= {
                post.payload
                for post in posts.values()
                if post.channel == channel and post.serial is not None
            }
            self.places.pop(channel, None)
            if channel in now:
                self.places[channel] = self.lost_upto[channel] = now[channel]
        self.places.pop(ALL_CHANNELS, None)
        if ALL_CHANNELS in now:
            self.places[ALL_CHANNELS] = now[ALL_CHANNELS]
        asked, self.began = self.began, True
        return asked and result.recovered


class Scene:
    """See the module. `storage` outlives the scene: what it holds is told apart by the hub's name."""

    def __init__(
        self, rules: Rules, *names: str, clock: FakeClock, storage: Storage, hub: str = "shop"
    ) -> None:
        self.clock = clock
        self.storage, self.disk, self.notes = on_disk(storage)
        self.hub = hub
        self.rules = rules
        self.is_steady = rules.store is When.ALL and not rules.store_s
        """Whether everything was always stored for good, so that recovery is always possible."""
        self.boots = 0
        self.desk: Desk
        self.publisher: Client
        self.client: Client | None = None
        self.key = ""
        self.asked: dict[int, list[Post]] = {}
        self.posts: dict[bytes, Post] = {}
        self.by_place: dict[tuple[str, Serial], bytes] = {}
        """Which payload anybody saw or was told of at a place. No place is given twice."""
        self.latest: dict[str, Serial] = {}
        """The last message of each channel on this connection."""
        self.in_order = True
        """Whether this connection subscribed to everything with one request: then nothing may come twice."""
        self.held = [Held(name) for name in names]
        self.recoveries = {True: 0, False: 0}

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    async def boot(self) -> None:
        self.boots += 1
        self.notes.is_away = False
        self.desk = Desk(
            rules=self.rules,
            hub_limits=LIMITS,
            clock=self.clock,
            storage=self.storage,
            seed=self.boots,
        )
        ann, bob = (Identity(user=user, grants=grants("*", "#")) for user in ("ann", "bob"))
        self.desk.doorman.know(self.hub, b"ann", ann)
        self.desk.doorman.know(self.hub, b"bob", bob)
        # Another session of the same user: what is kept from the user is kept from the client.
        self.publisher = await self.desk.connect(self.hub, credentials=b"ann")
        await self.commit(100)

    # --- the disk ----------------------------------------------------------------------------------

    async def commit(self, count: int) -> None:
        await self.disk.commit(count)
        await self.desk.settle()
        self.read()

    async def refuse(self, count: int, newest: bool) -> None:
        """The disk is full for a moment. A refused place is a hole that nobody fills."""
        self.is_steady = False
        self.disk.refuse(count, newest=newest)
        await self.commit(0)

    async def lose_notes(self) -> None:
        """Until the client is back, the hub cannot note anything."""
        self.is_steady = False
        self.notes.is_away = True

    async def trim(self) -> None:
        """What was exported and has expired leaves the store."""
        await self.storage.journal.trim(self.storage.journal.last_seq, self.now_ms)

    # --- the publishers ----------------------------------------------------------------------------

    async def publish(
        self, channel: str, count: int, marked: bool, ttl_ms: int = 0, echo: Echo = Echo.ALL
    ) -> None:
        await self._publish(self.publisher, channel, count, store=marked, ttl_ms=ttl_ms, echo=echo)

    async def post(self, channel: str, count: int, marked: bool) -> None:
        """Publish, and the disk is fast."""
        await self.publish(channel, count, marked)
        await self.commit(100)

    async def speak(self, channel: str, count: int, echo: Echo) -> None:
        """The subscriber itself publishes."""
        if self.client is not None:
            await self._publish(self.client, channel, count, echo=echo)

    async def retry(self, channel: str, key: str, marked: bool) -> None:
        """Publish with an idempotency key, which may have been used before."""
        await self._publish(self.publisher, channel, 1, store=marked, idempotency_key=key)

    async def _publish(
        self,
        client: Client,
        channel: str,
        count: int,
        *,
        echo: Echo = Echo.ALL,
        ttl_ms: int = 0,
        idempotency_key: str = "",
        store: bool = False,
    ) -> None:
        id = len(self.asked) + 10
        posts = [
            Post(
                channel,
                b"%d.%d" % (id, n),
                self.now_ms,
                self.boots,
                idempotency_key,
                self.now_ms + ttl_ms if ttl_ms else 0,
                client.session.id if echo is Echo.NOT_SESSION else "",
                "ann" if echo is Echo.NOT_USER else "",
            )
            for n in range(count)
        ]
        self.asked[id] = posts
        self.posts |= {post.payload: post for post in posts}
        options = {
            "store": store,
            "echo": echo,
            "ttl_ms": ttl_ms,
            "idempotency_key": idempotency_key,
        }
        await client.do(publish(channel, *(p.payload for p in posts), id=id, **options))
        await self.commit(0)

    def _acknowledged(self, ack: Ack) -> None:
        for post, item in zip(self.asked[ack.id], ack.results, strict=True):
            if item.serial is None:
                post.is_void = True
                self.is_steady = False
            elif item.duplicate:
                self._repeated(post, item.serial)
            else:
                post.serial = item.serial
                self._saw(post.channel, item.serial, post.payload)
                self._must_be_first(post)

    def _repeated(self, post: Post, serial: Serial) -> None:
        post.is_void = True
        seen = self.by_place.get((post.channel, serial))
        # What a process had stored and could not answer any more may be the first: any of those.
        firsts = [
            first
            for first in self.posts.values()
            if (first.channel, first.key) == (post.channel, post.key)
            and not first.is_void
            and (first.payload == seen or (seen is None and first.boot < self.boots))
        ]
        assert firsts, f"{post} is no repetition of what is at {serial}"

    def _must_be_first(self, post: Post) -> None:
        """Where everything is stored, nothing makes a node forget a key within its time."""
        if not post.key or not self.is_steady:
            return
        for other in self.posts.values():
            same = (other.channel, other.key) == (post.channel, post.key) and other is not post
            if same and other.serial is not None and other.serial < post.serial:  # type: ignore[operator]
                assert post.ts_ms - other.ts_ms >= IDEMPOTENCY_S * 1000, f"{post} and {other}"

    def _saw(self, channel: str, serial: Serial, payload: bytes) -> None:
        known = self.by_place.setdefault((channel, serial), payload)
        assert known == payload, f"{channel} {serial}: {known!r} and {payload!r}"

    # --- the world ---------------------------------------------------------------------------------

    async def wait(self, seconds: float) -> None:
        await self.desk.advance(seconds, step_s=seconds)
        await self.commit(0)
        # Nobody here answers pings: who was silent for too long was sent away.
        if not self.publisher.is_connected():
            self.notes.is_away = False  # else its hub, if it has closed, could not open
            self.publisher = await self.desk.connect(self.hub, credentials=b"ann")
        if self.client is not None and not self.client.is_connected():
            self.client = None

    async def change_rules(self, rules: Rules, *where: str) -> None:
        """Others for some namespaces ("room") and channels."""
        self.is_steady = self.is_steady and rules.store is When.ALL and not rules.store_s
        changes: list[tuple[str, str, object]] = [("rules", f"r-{'-'.join(where)}", rules)]
        for name in where:
            bound = changes[0][1]
            if name == "room":
                changes.append(("namespace", name, NamespaceSettings(rules=bound)))
            else:
                changes.append(("channel", name, ChannelSettings(rules=bound)))
        for kind, id, value in changes:
            try:
                await self.desk.set(kind, self.hub, id, value)
            except StorageError:
                assert self.notes.is_away
        await self.commit(0)

    async def restart(self) -> None:
        await self.commit(1_000)
        await self.leave()
        await self.desk.close()
        self.clock.advance(1)
        await self.boot()

    async def kill(self) -> None:
        """The process is gone from one moment to the next, with all that was not on the disk."""
        self.disk.waiting.clear()
        self.client = None
        old = self.desk
        old.directory._closed = True
        old.env.wheel.stop()
        await old.world.tasks.close()
        self.clock.advance(1)
        await self.boot()

    # --- the subscriber ----------------------------------------------------------------------------

    def read(self) -> None:
        for client in (self.publisher, self.client):
            for ack in client.take_all(Ack) if client is not None else ():
                self._acknowledged(ack)
        if self.client is None:
            return
        for event in self.client.take_all(Publication):
            self._received(self.client, event.message)
            for held in self.held:
                if held.began:
                    held.take(event.message)
        for key in self.client.take_all(RestoreKey):
            self.key = key.key

    def _received(self, client: Client, message: Message) -> None:
        """Nothing but what somebody published and was not told is void; at its place, in order, once."""
        post = self.posts[message.payload]
        assert post.channel == message.channel
        assert not post.is_void, f"{post} was delivered"
        assert post.kept_from_session != client.session.id, f"{post} came to its sender"
        assert not post.kept_from_user, f"{post} came to its user"
        assert any(held.covers(message.channel) for held in self.held)
        self._saw(message.channel, message.serial, message.payload)
        if self.in_order:
            before = self.latest.get(message.channel)
            assert before is None or before < message.serial, f"{message.serial} after {before}"
            self.latest[message.channel] = message.serial

    async def leave(self) -> None:
        await self.commit(0)
        if self.client is not None:
            await self.client.drop()
            self.client = None

    async def come_back(self, restored: bool = False, split: bool = False) -> None:
        """Connect, and take up each subscription: with its session or anew, by one request or by several."""
        if self.notes.is_away:
            self.notes.is_away = False
            await self.wait(2)  # until what was not noted is tried again
        client = await self.desk.connect(self.hub, credentials=b"" if restored else b"ann")
        results = await self._restore(client) if restored and self.key else {}
        if restored and not results:
            # Its state is gone, and with it who it was.
            await client.drop()
            client = await self.desk.connect(self.hub, credentials=b"ann")
        asked = [held for held in self.held if held.name not in results]
        # Who asks again and again may be sent again what it has; each answer must be true all the same.
        self.in_order = not (split and len(asked) > 1) and not (asked and results)
        self.latest = {}
        for some in [[held] for held in asked] if split else [asked] if asked else []:
            items = tuple(held.item() for held in some)
            await client.do(SubscribeRequest(id=6, items=items))
            reply = client.take(SubscribeReply, lambda reply: reply.id == 6)
            results |= {r.channel: r for r in reply.results}
        self._check_counts(client, results)
        for held in self.held:
            was_here, may_lose = held.began, self._may_lose(held)
            recovered = held.answered(results[held.name], self.posts)
            if was_here:
                self.recoveries[recovered] += 1
                assert recovered or may_lose, f"{held.name} could be made good"
        self.client = client
        self.read()

    async def _restore(self, client: Client) -> dict[str, SubscribeResult]:
        places = {
            channel: at
            for held in reversed(self.held)
            for channel, at in held.places.items()
            if channel != ALL_CHANNELS
        }
        # As the client does: where several cover a channel, the lowest place.
        for held in self.held:
            for channel in held.places.keys() & places.keys():
                places[channel] = min(places[channel], held.places[channel])
        await client.do(RestoreRequest(id=5, key=self.key, positions=places))
        found = client.take_all(Restored)
        names = {held.name for held in self.held}
        return {r.channel: r for r in found[0].results if r.channel in names} if found else {}

    def _check_counts(self, client: Client, results: dict[str, SubscribeResult]) -> None:
        """The answer says how many follow."""
        if not self.in_order:
            return
        came = [event.message.channel for event in client.inbox if isinstance(event, Publication)]
        for held in self.held:
            if held.began:
                count = sum(held.covers(channel) for channel in came)
                said = results[held.name].recovered_count
                assert said <= count if len(self.held) > 1 else said == count, (said, count)

    def _may_lose(self, held: Held) -> bool:
        """Whether the node may say that it cannot make good what a subscription missed: it is not obliged to
        where it had to forget, where nothing was ever stored in that epoch, where too much was missed, and
        where some of it has expired."""
        place = held.places.get(held.name)
        if not self.is_steady or is_wide(held.name) or place is None or not place.offset:
            return True
        missed = [
            post
            for post in self.posts.values()
            if post.channel == held.name and post.serial is not None and post.serial > place
        ]
        return len(missed) > LIMITS.recovery_len_max or any(post.expires_ms for post in missed)

    def check(self) -> None:
        """Every subscription has everything, but for what it was told of."""
        for held in self.held:
            owed = {
                post.payload
                for post in self.posts.values()
                if post.serial is not None
                and held.covers(post.channel)
                and post.serial > held.lost_upto.get(post.channel, NOWHERE)
                and not post.kept_from_session
                and not post.kept_from_user
                and not post.expires_ms
            }
            missing = owed - set(held.has) - held.excused
            assert not missing, f"a silent hole for {held.name}: {sorted(missing)}"

    # --- the past ----------------------------------------------------------------------------------

    async def page(self, channel: str, walk: "Walk") -> None:
        """Somebody reads the past, page by page, and is told for each whether anything is missing."""
        reader = await self.desk.connect(self.hub, credentials=b"bob")
        await walk.read(self, reader, channel)
        await reader.drop()
        await self.commit(0)


@dataclass(frozen=True)
class Walk:
    """One way to read a channel's past. Places and times are given by what there is: the nth known one."""

    since: int
    until: int
    from_ms: int
    to_ms: int
    limit: int
    direction: Direction
    between: tuple[int, ...] = ()
    """How many messages are published between two pages."""

    async def read(self, scene: Scene, reader: Client, channel: str) -> None:
        since, until = (
            self._place(scene, channel, self.since),
            self._place(scene, channel, self.until),
        )
        times = [post.ts_ms for post in scene.posts.values()] or [scene.now_ms]
        from_ms, to_ms = (
            0 if nth < 0 else times[nth % len(times)] for nth in (self.from_ms, self.to_ms)
        )
        seen: list[Serial] = []
        for turn in range(len(scene.posts) + sum(self.between) + 2):
            asked = HistoryRequest(
                id=7,
                channel=channel,
                since=since,
                until=until,
                from_ms=from_ms,
                to_ms=to_ms,
                limit=self.limit,
                direction=self.direction,
            )
            known = [
                p for p in scene.posts.values() if p.channel == channel and p.serial is not None
            ]
            reply = await reader.ask(asked, HistoryReply)
            seen += self._check(scene, asked, known, reply)
            if not reply.more:
                break
            assert reply.next is not None
            assert reply.messages or reply.next not in (since, until)
            if self.direction is Direction.FORWARD:
                since = reply.next
            else:
                until = reply.next
            if turn < len(self.between):
                await scene.publish(channel, self.between[turn], True)
                await scene.commit(100)
        else:
            raise AssertionError("the past has no end")
        assert len(seen) == len(set(seen)), "a walk met a message twice"
        assert seen == sorted(seen, reverse=self.direction is Direction.BACKWARD)

    def _place(self, scene: Scene, channel: str, nth: int) -> Serial | None:
        """A known place, one of another epoch, the begin of one, or one of the future."""
        if nth < 0:
            return None
        known = sorted(serial for name, serial in scene.by_place if name == channel)
        found = [Serial(e, 0) for e in sorted({serial.epoch for serial in known})] + known
        found += [Serial(known[-1].epoch, known[-1].offset + 5)] if known else []
        return found[nth % len(found)] if found else Serial(1, 1)

    def _check(
        self, scene: Scene, asked: HistoryRequest, known: list[Post], reply: HistoryReply
    ) -> list[Serial]:
        serials = [message.serial for message in reply.messages]
        assert len(serials) <= min(self.limit or LIMITS.history_page_len, LIMITS.history_page_len)
        for message in reply.messages:
            post = scene.posts[message.payload]
            assert post.channel == asked.channel
            assert not post.is_void, f"{post} is part of the past"
            assert not post.is_expired(scene.now_ms), f"{post} has expired"
            assert _is_within(asked, message.serial, message.ts_ms)
            scene._saw(asked.channel, message.serial, message.payload)
        if reply.complete:
            end = reply.next if reply.more else None
            owed = {
                post.payload
                for post in known
                if post.serial is not None
                and _is_within(asked, post.serial, post.ts_ms)
                and (end is None or _is_up_to(self.direction, post.serial, end))
                and not post.is_expired(scene.now_ms)
            }
            missing = owed - {message.payload for message in reply.messages}
            assert not missing, f"{asked} is not complete: {sorted(missing)}"
        return serials


def _is_within(asked: HistoryRequest, serial: Serial, ts_ms: int) -> bool:
    return (
        (asked.since is None or serial > asked.since)
        and (asked.until is None or serial < asked.until)
        and (not asked.from_ms or ts_ms >= asked.from_ms)
        and (not asked.to_ms or ts_ms <= asked.to_ms)
    )


def _is_up_to(direction: Direction, serial: Serial, end: Serial) -> bool:
    return serial <= end if direction is Direction.FORWARD else serial >= end
