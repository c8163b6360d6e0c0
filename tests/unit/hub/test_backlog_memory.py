"""What waits for slow readers is bounded in sum, per hub and per node, not only for each connection."""

from arauto.codec.events import Pong
from arauto.errors import Code
from arauto.hub.fanout import Turn
from arauto.hub.outbox import Outbox
from arauto.hub.share import Pool, Share
from arauto.model import SlowPolicy
from arauto.telemetry.counters import Counters
from arauto.testing.clock import FakeClock
from tests.unit.hub.test_outbox import Transport, a_lane, an_outbox, put

CONNECTION_BYTES = 1_000_000


class Hub:
    """Connections of one hub that stand still."""

    def __init__(self, pool: Pool, limit_bytes: int = 0) -> None:
        self.clock = FakeClock()
        self.turn = Turn(self.clock)
        self.memory = Share(pool, limit_bytes)
        self.counters = Counters()
        self.transports: list[Transport] = []
        self.offset = 0

    def stalled(self, count: int) -> list[Outbox]:
        found = []
        for _ in range(count):
            outbox, transport = an_outbox(self.turn, CONNECTION_BYTES, self.memory, self.counters)
            outbox.pause()
            self.transports.append(transport)
            found.append(outbox)
        return found

    def publish(self, policy: SlowPolicy, outboxes: list[Outbox], size_bytes: int) -> None:
        self.offset += 1
        put(a_lane(self.turn, *outboxes, policy=policy), self.offset, size_bytes)
        self.clock.run_soon()

    @property
    def ended(self) -> list[Code]:
        return [each.closed_with for each in self.transports if each.closed_with is not None]


def test_beyond_the_hubs_bytes_a_slow_reader_that_wants_more_is_disconnected() -> None:
    hub = Hub(Pool(), limit_bytes=100_000)
    readers = hub.stalled(10)
    hub.publish(SlowPolicy.DISCONNECT, readers, 9_000)
    assert hub.ended == []
    hub.publish(SlowPolicy.DISCONNECT, readers, 9_000)
    assert 0 < len(hub.ended) < 10
    assert set(hub.ended) == {Code.SLOW_CONSUMER}
    assert hub.memory.used_bytes <= 100_000
    assert hub.counters.backlogs_refused == len(hub.ended) == hub.counters.slow_disconnects


def test_beyond_the_hubs_bytes_a_channel_that_may_drop_drops_its_oldest() -> None:
    hub = Hub(Pool(), limit_bytes=100_000)
    readers = hub.stalled(10)
    for _ in range(20):
        hub.publish(SlowPolicy.DROP_OLDEST, readers, 2_000)
    assert hub.ended == []
    assert hub.counters.dropped > 0
    assert hub.counters.backlogs_refused > 0
    for reader in readers:
        reader.resume()
    assert all(b"x" * 2_000 in transport.data for transport in hub.transports)
    assert hub.memory.used_bytes == 0


def test_who_pauses_for_a_moment_does_not_pay_for_those_that_stand_still() -> None:
    hub = Hub(Pool(), limit_bytes=50_000)
    hub.publish(SlowPolicy.DISCONNECT, hub.stalled(1), 49_000)
    [brief] = hub.stalled(1)
    hub.publish(SlowPolicy.DISCONNECT, [brief], 3_000)
    brief.send(Pong(id=1))
    hub.clock.run_soon()
    assert hub.ended == []
    brief.resume()
    assert b"x" * 3_000 in hub.transports[1].data


def test_a_hub_with_very_many_slow_readers_leaves_room_to_the_others() -> None:
    pool = Pool(1_000_000, leaves_room=True)
    crowded, calm = Hub(pool), Hub(pool)
    readers = crowded.stalled(100)
    for _ in range(5):
        crowded.publish(SlowPolicy.DISCONNECT, readers, 9_000)
    assert 400_000 < crowded.memory.used_bytes <= 500_000
    slow = calm.stalled(20)
    calm.publish(SlowPolicy.DISCONNECT, slow, 9_000)
    assert calm.ended == []


def test_what_was_read_or_disconnected_gives_its_bytes_back() -> None:
    pool = Pool(leaves_room=True)
    hub = Hub(pool)
    reading, leaving, *_ = readers = hub.stalled(5)
    for policy in SlowPolicy:
        hub.publish(policy, readers, 5_000)
    before_bytes = hub.memory.used_bytes
    assert before_bytes > 5 * 3 * 5_000
    reading.resume()
    leaving.close()
    assert hub.memory.used_bytes == before_bytes * 3 // 5
    for each in readers:
        each.close()
    assert hub.memory.used_bytes == 0
    hub.memory.close()
    assert (pool.granted_bytes, pool.shares) == (0, {})


def test_connections_that_keep_up_are_not_counted_at_all() -> None:
    hub = Hub(Pool(), limit_bytes=1)
    readers = hub.stalled(3)
    for reader in readers:
        reader.resume()
    hub.publish(SlowPolicy.DISCONNECT, readers, 9_000)
    assert hub.ended == []
    assert (hub.memory.used_bytes, hub.counters.backlogs_refused) == (0, 0)
