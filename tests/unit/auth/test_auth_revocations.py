"""Revocation (T7): what was issued before it is dead, what is issued after it lives."""

import pytest

from arauto.entropy import SeededEntropy
from arauto.model import Identity
from arauto.session.auth import revocations as module
from arauto.session.auth.claims import LIFETIME_MAX_S
from arauto.session.auth.jws import TokenError
from arauto.session.auth.revocations import Revocations
from arauto.session.auth.tokens import SessionTokens
from arauto.testing.clock import FakeClock


class Kit:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.revocations = Revocations(self.clock)
        self.tokens = SessionTokens(
            secret="k" * 32,
            clock=self.clock,
            entropy=SeededEntropy(1),
            revocations=self.revocations,
            ttl_s=3_600,
        )

    def login(self, user: str = "alice", session: str = "s-1", hub: str = "shop") -> str:
        identity = Identity(user, issued_ms=self.clock.wall_ms())
        return self.tokens.issue_session_token(hub, session, identity)[0]

    def accepts(self, token: str, hub: str = "shop") -> bool:
        try:
            self.tokens.verify_session_token(token, hub)
        except TokenError as error:
            if error.reason != "revoked":
                raise
            return False
        return True


@pytest.fixture
def kit() -> Kit:
    return Kit()


def test_a_token_issued_before_the_revocation_is_refused_and_a_later_one_works(kit: Kit) -> None:
    before = kit.login()
    kit.clock.advance(1)
    kit.revocations.revoke_user("shop", "alice")
    kit.clock.advance(0.001)
    after = kit.login()
    assert not kit.accepts(before)
    assert kit.accepts(after)


@pytest.mark.parametrize(
    ("issued_ms", "is_refused"),
    [(5_000, True), (5_399, True), (5_400, True), (5_401, False), (6_000, False)],
)
def test_whole_seconds_count_from_their_beginning_and_fractions_to_the_millisecond(
    issued_ms: int, is_refused: bool
) -> None:
    """An `iat` of whole seconds says 5 for what was issued at 5.9, so it falls with a revocation at 5.4."""
    revocations = Revocations(FakeClock(5_400))
    revocations.revoke_user("shop", "alice")
    identity = Identity("alice", issued_ms=issued_ms)
    assert revocations.is_revoked("shop", identity, "s-1") is is_refused


def test_a_revocation_goes_by_the_time_of_issue_and_not_by_the_time_of_use(kit: Kit) -> None:
    """CVE-2020-26892: compared with the present, a revoked token came back to life."""
    token = kit.login()
    kit.clock.advance(1)
    kit.revocations.revoke_user("shop", "alice")
    for _ in range(10):
        kit.clock.advance(300)
        assert not kit.accepts(token)


def test_a_new_token_for_an_old_identity_is_as_dead_as_the_old_one(kit: Kit) -> None:
    """Issued after the revocation, but to someone who proved who they are before it."""
    old = Identity("alice", issued_ms=kit.clock.wall_ms())
    kit.clock.advance(1)
    kit.revocations.revoke_user("shop", "alice")
    kit.clock.advance(1)
    token, _ = kit.tokens.issue_session_token("shop", "s-1", old)
    assert not kit.accepts(token)
    assert kit.revocations.is_revoked("shop", old)


def test_what_does_not_say_when_it_was_issued_is_refused(kit: Kit) -> None:
    unknown = Identity("alice")
    assert not kit.revocations.is_revoked("shop", unknown)
    kit.revocations.revoke_user("shop", "alice")
    kit.clock.advance(1)
    assert kit.revocations.is_revoked("shop", unknown)


def test_a_revocation_touches_neither_other_users_nor_other_hubs(kit: Kit) -> None:
    tokens = {
        (hub, user): kit.login(user, hub=hub)
        for hub in ("shop", "bank")
        for user in ("alice", "bob")
    }
    kit.clock.advance(1)
    kit.revocations.revoke_user("shop", "alice")
    accepted = {key for key, token in tokens.items() if kit.accepts(token, key[0])}
    assert accepted == tokens.keys() - {("shop", "alice")}


def test_one_session_can_be_revoked_alone(kit: Kit) -> None:
    one, two = kit.login(session="s-1"), kit.login(session="s-2")
    kit.clock.advance(1)
    kit.revocations.revoke_session("shop", "s-1")
    assert not kit.accepts(one)
    assert kit.accepts(two)


def test_a_user_named_like_a_session_is_not_taken_for_it(kit: Kit) -> None:
    token = kit.login(user="s-2", session="s-1")
    kit.clock.advance(1)
    kit.revocations.revoke_session("shop", "s-2")
    assert kit.accepts(token)


def test_a_whole_hub_can_be_revoked(kit: Kit) -> None:
    here, there = kit.login(), kit.login(hub="bank")
    kit.clock.advance(1)
    kit.revocations.revoke_hub("shop")
    assert not kit.accepts(here)
    assert kit.accepts(there, "bank")
    kit.clock.advance(1)
    assert kit.accepts(kit.login())


def test_too_many_revocations_become_one_for_the_hub_and_none_is_forgotten(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PER_HUB_LEN_MAX", 10)
    first = kit.login("user-0")
    kit.clock.advance(1)
    for n in range(11):
        kit.revocations.revoke_user("shop", f"user-{n}")
    assert not kit.accepts(first)
    kit.clock.advance(1)
    assert kit.accepts(kit.login("user-0"))


def test_a_clock_that_is_set_back_does_not_weaken_a_revocation(kit: Kit) -> None:
    token = kit.login()
    kit.clock.advance(10)
    kit.revocations.revoke_user("shop", "alice")
    kit.clock.jump_wall(-60_000)
    kit.revocations.revoke_user("shop", "alice")
    kit.revocations.revoke_hub("shop")
    kit.clock.jump_wall(60_000)
    assert not kit.accepts(token)


def test_revocations_are_forgotten_only_when_no_token_can_be_older(kit: Kit) -> None:
    kit.revocations.revoke_user("shop", "alice")
    old = Identity("alice", issued_ms=kit.clock.wall_ms() - 1)
    kit.clock.advance(LIFETIME_MAX_S - 1)
    kit.revocations.revoke_user("shop", "bob")
    assert kit.revocations.is_revoked("shop", old)
    kit.clock.advance(2)
    kit.revocations.revoke_user("shop", "bob")
    assert not kit.revocations.is_revoked("shop", old)
