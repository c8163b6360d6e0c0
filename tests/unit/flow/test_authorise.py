"""May this session do that? The first check that speaks decides; if none does, the answer is no."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import Code
from arauto.flow.authorise import Granted, may_read, publish_refusal, subscribe_refusal
from arauto.grants import GrantSet
from arauto.model import Grant, Grants
from arauto.settings import HubSettings, Rules


@dataclass
class Who:
    user: str = ""
    granted: Granted | None = None


ANONYMOUS = Who()


def ann(*grants: Grant) -> Who:
    return Who("ann", GrantSet(Grants(channels=grants)))


rules = st.builds(
    Rules, public=st.booleans(), allow_anonymous=st.booleans(), client_publish=st.booleans()
)
settings = st.builds(HubSettings, allow_anonymous=st.booleans(), user_channel=st.booleans())
people = st.sampled_from(
    [
        ANONYMOUS,
        ann(),
        ann(Grant("room:*", subscribe=True)),
        ann(Grant("room:*", publish=True)),
        ann(Grant("room:*", publish=True, subscribe=True)),
    ]
)
names = st.sampled_from(["room:1", "hall:1", "u:ann", "u:bob"])


def _may_subscribe_literally(who: Who, name: str, rules: Rules, settings: HubSettings) -> bool:
    if who.granted is None:
        return settings.allow_anonymous and rules.allow_anonymous and rules.public
    own = settings.user_channel and name == "u:" + who.user
    return own or rules.public or who.granted.may_subscribe(name)


def _may_publish_literally(who: Who, name: str, rules: Rules, settings: HubSettings) -> bool:
    if who.granted is None:
        anonymous = settings.allow_anonymous and rules.allow_anonymous
        return anonymous and rules.public and rules.client_publish
    own = settings.user_channel and name == "u:" + who.user
    if own or who.granted.may_publish(name):
        return True
    return rules.client_publish and _may_subscribe_literally(who, name, rules, settings)


@given(people, names, rules, settings)
def test_the_decisions_agree_with_the_rules_spelled_out(
    who: Who, name: str, rules: Rules, settings: HubSettings
) -> None:
    may_subscribe = _may_subscribe_literally(who, name, rules, settings)
    assert (subscribe_refusal(who, name, rules, settings) is None) == may_subscribe
    assert may_read(who, name, rules, settings) == may_subscribe
    may_publish = _may_publish_literally(who, name, rules, settings)
    assert (publish_refusal(who, name, rules, settings) is None) == may_publish


@given(people, names, rules, settings)
def test_a_refusal_names_the_field_and_never_the_channel(
    who: Who, name: str, rules: Rules, settings: HubSettings
) -> None:
    for refusal in (
        subscribe_refusal(who, name, rules, settings),
        publish_refusal(who, name, rules, settings),
    ):
        if refusal is not None:
            assert refusal.field == "channel"
            assert name not in refusal.message


@given(names, rules, settings)
def test_authenticating_never_takes_away_what_an_anonymous_session_had(
    name: str, rules: Rules, settings: HubSettings
) -> None:
    for refusal in (subscribe_refusal, publish_refusal):
        if refusal(ANONYMOUS, name, rules, settings) is None:
            assert refusal(ann(), name, rules, settings) is None


@pytest.mark.parametrize(
    ("who", "code"),
    [(ANONYMOUS, Code.ANONYMOUS_DENIED), (ann(), Code.SUBSCRIBE_DENIED)],
)
def test_the_code_says_whether_authenticating_would_help(who: Who, code: Code) -> None:
    refusal = subscribe_refusal(who, "room:1", Rules(allow_anonymous=False), HubSettings())
    assert refusal is not None
    assert refusal.code is code


def test_an_explicit_grant_to_publish_overrides_the_rule_against_it() -> None:
    closed = Rules(public=True, client_publish=False)
    writer = ann(Grant("room:*", publish=True))
    assert publish_refusal(writer, "room:1", closed, HubSettings()) is None
    assert publish_refusal(ann(), "room:1", closed, HubSettings()) is not None


def test_client_publish_is_no_way_into_a_channel_one_may_not_read() -> None:
    private = Rules(public=False, client_publish=True)
    assert publish_refusal(ann(), "room:1", private, HubSettings()) is not None
    assert publish_refusal(ANONYMOUS, "room:1", private, HubSettings()) is not None


def test_nobody_may_publish_to_a_pattern() -> None:
    everything = ann(Grant("*", publish=True))
    for pattern in ("room:*", "#", "*"):
        assert publish_refusal(everything, pattern, Rules(), HubSettings()) is not None


def test_a_user_channel_is_its_users_alone() -> None:
    assert subscribe_refusal(ann(), "u:ann", Rules(), HubSettings()) is None
    assert subscribe_refusal(ann(), "u:bob", Rules(), HubSettings()) is not None
    assert subscribe_refusal(ann(), "u:ann", Rules(), HubSettings(user_channel=False)) is not None
    other = HubSettings(user_channel_namespace="me")
    assert subscribe_refusal(ann(), "me:ann", Rules(), other) is None
    assert subscribe_refusal(ann(), "u:ann", Rules(), other) is not None
