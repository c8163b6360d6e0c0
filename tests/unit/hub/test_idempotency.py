"""The window of idempotency keys, against a model that forgets nothing but what is over."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arauto.hub import idempotency
from arauto.hub.idempotency import KEY_BYTES, IdempotencyWindow
from arauto.hub.live_memory import KeyMemory
from arauto.hub.share import Pool
from arauto.model import Serial
from arauto.telemetry.counters import Counters
from arauto.testing.clock import FakeClock

users = st.sampled_from(["", "ann", "bob"])
keys = st.sampled_from(["k1", "k2", "k3"])


def memory(counters: Counters | None = None) -> KeyMemory:
    """Room without a limit. No key that a test names is over by this clock."""
    return KeyMemory(Pool(), 0, counters or Counters(), FakeClock(0))


class WindowAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.memory = memory()
        self.window = IdempotencyWindow(self.memory)
        self.model: dict[tuple[str, str], tuple[int, Serial]] = {}
        self.now_ms = 1_000
        self.offset = 0

    @rule(by_ms=st.integers(0, 60))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms

    # The time a key is kept may change with the channel's rules, so it differs from key to key.
    @rule(user=users, key=keys, kept_ms=st.integers(0, 100))
    def publish(self, user: str, key: str, kept_ms: int) -> None:
        self.offset += 1
        serial = Serial(2, self.offset)
        self.window.remember(user, key, serial, self.now_ms + kept_ms)
        self.model[user, key] = (self.now_ms + kept_ms, serial)

    @rule(user=users, key=keys)
    def look(self, user: str, key: str) -> None:
        expires_ms, serial = self.model.get((user, key), (0, None))
        wanted = serial if expires_ms > self.now_ms else None
        assert self.window.find(user, key, self.now_ms) == wanted

    @rule(user=users, key=keys, ago=st.integers(0, 3))
    def a_publication_fails(self, user: str, key: str, ago: int) -> None:
        failed = Serial(2, self.offset - ago)
        self.window.forget(user, key, failed)
        if self.model.get((user, key), (0, None))[1] == failed:
            del self.model[user, key]

    @rule()
    def move_to_another_node(self) -> None:
        left, self.memory = self.memory, memory()
        moved = IdempotencyWindow(self.memory)
        for user, key, epoch, offset, expires_ms in self.window.entries():
            moved.remember(user, key, Serial(epoch, offset), expires_ms)
        self.window.forget_all()
        assert left.used_bytes == 0
        self.window = moved

    @rule()
    def the_hub_needs_room(self) -> None:
        if len(self.window):
            scope, key, _, _, expires_ms = self.window.entries()[0]
            assert self.window.oldest_ms == expires_ms
            assert self.memory.drop_oldest()
            del self.model[scope, key]

    @invariant()
    def what_is_held_is_counted(self) -> None:
        assert self.memory.used_bytes == len(self.window) * KEY_BYTES


TestWindowAgainstModel = WindowAgainstModel.TestCase


def test_one_users_keys_say_nothing_about_anothers() -> None:
    window = IdempotencyWindow(memory())
    window.remember("ann", "k", Serial(2, 1), 10)
    assert window.find("bob", "k", 0) is None
    assert window.find("", "k", 0) is None
    assert window.find("ann", "k", 0) == Serial(2, 1)


def test_the_window_is_bounded_and_forgets_the_oldest_first() -> None:
    counters = Counters()
    window = IdempotencyWindow(memory(counters))
    for number in range(idempotency._KEYS_MAX + 5):
        window.remember("ann", f"k{number}", Serial(2, number), 10)
    assert len(window) == idempotency._KEYS_MAX
    assert counters.keys_evicted == 5
    assert window.find("ann", "k4", 0) is None
    assert window.find("ann", "k5", 0) == Serial(2, 5)


def test_a_failed_attempt_does_not_take_a_later_ones_key_away() -> None:
    window = IdempotencyWindow(memory())
    window.remember("ann", "k", Serial(2, 1), 10)
    window.remember("ann", "k", Serial(2, 9), 30)
    window.forget("ann", "k", Serial(2, 1))
    assert window.find("ann", "k", 20) == Serial(2, 9)
