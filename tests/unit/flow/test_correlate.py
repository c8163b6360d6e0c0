"""May this client have that correlation rule? Only if it may do by itself all that the rule does."""

from dataclasses import dataclass

import pytest

from arauto.errors import Code
from arauto.flow.correlate import METHOD, correlation_refusal, use_refusal
from arauto.model import Grant, Grants, Identity
from arauto.session.oneshot import Caller
from arauto.settings import HubSettings, Rules

CLOSED = Rules()
OPEN = Rules(public=True, client_publish=True)


@dataclass
class Asked:
    reads: tuple[str, ...] = ("orders:1",)
    emits: str = "alerts:1"
    reads_messages_only: bool = True


def ann(*grants: Grant, rpcs: tuple[str, ...] = (METHOD,)) -> Caller:
    return Caller(Identity(user="ann", grants=Grants(channels=grants, rpcs=rpcs)))


READ_ORDERS = Grant("orders:*", subscribe=True)
WRITE_ALERTS = Grant("alerts:*", publish=True)


def refusal(
    who: Caller, asked: Asked, rules: Rules = CLOSED, settings: HubSettings | None = None
) -> tuple[Code, str] | None:
    found = correlation_refusal(who, asked, lambda name: rules, settings or HubSettings())
    return (found.code, found.field) if found is not None else None


def test_who_may_read_write_and_call_may_have_the_rule() -> None:
    assert refusal(ann(READ_ORDERS, WRITE_ALERTS), Asked()) is None
    assert refusal(ann(READ_ORDERS, WRITE_ALERTS), Asked(reads=("orders:*",))) is None
    assert refusal(ann(READ_ORDERS, WRITE_ALERTS, rpcs=("arauto.*",)), Asked()) is None


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (Caller(None), Code.UNAUTHENTICATED),
        (Caller(Identity(user="", grants=Grants(rpcs=("*",)))), Code.UNAUTHENTICATED),
        (ann(rpcs=()), Code.CALL_DENIED),
        (ann(rpcs=("arauto.correlations",)), Code.CALL_DENIED),
    ],
)
def test_rules_are_for_users_with_a_grant_to_call(who: Caller, code: Code) -> None:
    found = use_refusal(who)
    assert found is not None
    assert found.code is code
    assert refusal(who, Asked(), OPEN) == (code, "")


@pytest.mark.parametrize(
    "reads", [("orders:1", "bills:1"), ("*",), ("orders:1", "orders:*", "#:1"), ("/a",)]
)
def test_every_channel_and_pattern_it_listens_to_must_be_readable(reads: tuple[str, ...]) -> None:
    who = ann(READ_ORDERS, WRITE_ALERTS)
    assert refusal(who, Asked(reads=reads)) == (Code.SUBSCRIBE_DENIED, "from.channels")


def test_public_rules_let_it_listen_to_a_channel_but_never_to_a_pattern() -> None:
    who = ann(WRITE_ALERTS)
    assert refusal(who, Asked(reads=("news",)), OPEN) is None
    for wide in ("news*", "/news"):
        assert refusal(who, Asked(reads=(wide,)), OPEN) == (
            Code.SUBSCRIBE_DENIED,
            "from.channels",
        )


def test_its_own_user_channel_may_be_read_and_written_another_users_not() -> None:
    assert refusal(ann(), Asked(reads=("u:ann",), emits="u:ann")) is None
    assert refusal(ann(), Asked(reads=("u:bob",), emits="u:ann")) is not None
    assert refusal(ann(), Asked(reads=("u:ann",), emits="u:bob")) is not None


def test_where_it_publishes_the_owner_must_be_allowed_to_publish() -> None:
    who = ann(READ_ORDERS, Grant("alerts:*", subscribe=True))
    assert refusal(who, Asked()) == (Code.PUBLISH_DENIED, "emit.channel")
    assert refusal(who, Asked(), Rules(client_publish=True)) is None


def test_nothing_but_messages_is_for_clients() -> None:
    who = ann(Grant("*", publish=True, subscribe=True))
    asked = Asked(reads_messages_only=False)
    assert refusal(who, asked) == (Code.SUBSCRIBE_DENIED, "from.kinds")
