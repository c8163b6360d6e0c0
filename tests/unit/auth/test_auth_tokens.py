"""Session tokens: what they carry, where and how long they count, and that nothing else passes for one."""

import base64
import json
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.entropy import SeededEntropy
from arauto.errors import ArautoError, Code
from arauto.model import Grant, Grants, Identity
from arauto.session.auth.identity import USER_BYTES_MAX, build_identity
from arauto.session.auth.jws import TOKEN_BYTES_MAX, TokenError
from arauto.session.auth.revocations import Revocations
from arauto.session.auth.tokens import (
    SESSION_TYP,
    SessionTokens,
    admin_token_matches,
    bearer_of,
)
from arauto.testing.clock import FakeClock

SECRET = "s3ssion-secret-that-nobody-must-ever-see"

ALICE = Identity(
    user="alice",
    grants=Grants(
        channels=(Grant("stock:*", False, True), Grant("orders:#:new", True, False)),
        rpcs=("billing:*",),
    ),
    extra={"role": "buyer", "name": "Alícia"},
)


class Kit:
    """A token issuer with its clock and revocations at hand."""

    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()
        self.revocations = Revocations(self.clock)
        self.tokens = SessionTokens(
            secret=options.pop("secret", SECRET),
            clock=self.clock,
            entropy=SeededEntropy(1),
            revocations=self.revocations,
            **options,
        )

    def issue(self, hub: str = "shop", identity: Identity = ALICE) -> str:
        return self.tokens.issue_session_token(hub, "s-1", identity)[0]

    def refuses(self, token: str | bytes, hub: str = "shop") -> TokenError:
        with pytest.raises(TokenError) as caught:
            self.tokens.verify_session_token(token, hub)
        return caught.value


def forge(
    claims: dict[str, Any], *, secret: str = SECRET, typ: str = SESSION_TYP, alg: str = "HS256"
) -> str:
    return jwt.PyJWS().encode(json.dumps(claims).encode(), secret, alg, headers={"typ": typ})


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded


def test_a_token_brings_back_the_identity_it_was_issued_for() -> None:
    kit = Kit()
    token, expires_ms = kit.tokens.issue_session_token("shop", "s-1", ALICE)
    read = kit.tokens.read_session_token(token, "shop")
    assert read.session == "s-1"
    assert (read.identity.user, read.identity.grants) == ("alice", ALICE.grants)
    assert read.identity.extra == ALICE.extra
    assert read.identity.expires_ms == expires_ms == kit.clock.wall_ms() + 300_000


@given(
    st.text(min_size=1, max_size=40).map(lambda s: "".join(c for c in s if c.isalnum()) or "x"),
    st.lists(
        st.builds(Grant, st.sampled_from(["a", "a:*", "/t", "#:x"]), st.booleans(), st.booleans()),
        max_size=8,
    ),
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.text(st.characters(codec="utf-8"), max_size=20),
        max_size=5,
    ),
)
def test_any_valid_identity_survives_the_round_trip(
    user: str, grants: list[Grant], extra: dict[str, str]
) -> None:
    kit = Kit()
    try:
        identity = build_identity(user, Grants(tuple(grants), ("m",)), extra, 0, 0)
    except ArautoError:
        return  # a name that is not in normal form
    back = kit.tokens.verify_session_token(kit.issue(identity=identity), "shop")
    assert (back.user, back.grants, back.extra) == (user, identity.grants, extra)


def test_a_token_is_refused_in_every_other_hub() -> None:
    kit = Kit()
    token = kit.issue("shop")
    for other in ("bank", "SHOP", "shop2", "sho", ""):
        assert kit.refuses(token, other).code is Code.TOKEN_INVALID


def test_a_token_lives_exactly_as_long_as_it_says() -> None:
    kit = Kit(ttl_s=10)
    token = kit.issue()
    kit.clock.advance(9.999)
    assert kit.tokens.verify_session_token(token, "shop").user == "alice"
    kit.clock.advance(0.001)
    assert kit.refuses(token).code is Code.TOKEN_EXPIRED


def test_an_expired_token_of_another_hub_is_invalid_rather_than_expired() -> None:
    kit = Kit(ttl_s=10)
    token = kit.issue("bank")
    kit.clock.advance(11)
    assert kit.refuses(token, "shop").code is Code.TOKEN_INVALID


def test_a_token_never_outlives_the_identity_and_renewing_does_not_lengthen_it() -> None:
    kit = Kit(ttl_s=300)
    brief = Identity(user="alice", expires_ms=kit.clock.wall_ms() + 60_000)
    token, expires_ms = kit.tokens.issue_session_token("shop", "s-1", brief)
    assert expires_ms == brief.expires_ms
    kit.clock.advance(30)
    again = kit.tokens.verify_session_token(token, "shop")
    assert kit.tokens.issue_session_token("shop", "s-2", again)[1] == brief.expires_ms
    kit.clock.advance(30)
    with pytest.raises(ArautoError) as caught:
        kit.tokens.issue_session_token("shop", "s-3", again)
    assert caught.value.code is Code.TOKEN_EXPIRED


def test_every_change_of_a_single_byte_is_noticed() -> None:
    kit = Kit()
    token = kit.issue().encode()
    for at in range(len(token)):
        for other in (token[at] ^ 1, ord("A") if token[at] != ord("A") else ord("B"), ord(".")):
            if other != token[at]:
                changed = token[:at] + bytes([other]) + token[at + 1 :]
                assert kit.refuses(changed).code is Code.TOKEN_INVALID, (at, other)


def test_cutting_or_lengthening_a_token_is_noticed() -> None:
    kit = Kit()
    token = kit.issue()
    for end in range(len(token)):
        assert kit.refuses(token[:end]).code is Code.TOKEN_INVALID
    for tail in ("=", "==", "A", ".", " ", "\n", ".AAAA"):
        assert kit.refuses(token + tail).code is Code.TOKEN_INVALID
        assert kit.refuses(tail + token).code is Code.TOKEN_INVALID


def test_text_beyond_ascii_is_no_token() -> None:
    kit = Kit()
    for text in ("ü", "e30.e30.é", "\ud800"):
        assert kit.refuses(text).code is Code.TOKEN_INVALID


def test_the_same_secret_and_claims_under_another_type_are_not_a_session_token() -> None:
    """RFC 8725 §3.11: kinds of token must not pass for each other, whatever the keys."""
    kit = Kit()
    claims = claims_of(kit.issue())
    assert kit.tokens.verify_session_token(forge(claims), "shop").user == "alice"
    for typ in ("JWT", "at+jwt", SESSION_TYP.upper(), "arauto-session"):
        assert kit.refuses(forge(claims, typ=typ)).reason == "typ"


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "someone"},
        {"iss": None},
        {"aud": "bank"},
        {"aud": ["shop"]},  # ours is always one string
        {"aud": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a b"},
        {"sub": "*"},
        {"sid": ""},
        {"sid": "s" * 129},
        {"sid": None},
        {"jti": ""},
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": True},
        {"exp": 9e300},
        {"exp": -1},
        {"iat": 2_000_000_000},
        {"iat": None},
        {"auth_time": 1_900_000_000},
        {"auth_time": -1},
        {"auth_time": None},
        {"nbf": 1},
        {"hub": "shop"},
        {"admin": True},  # T4: a claim we do not know is refused, not ignored
        {"grants": {"channels": [{"channel": "*", "publish": True, "admin": True}]}},
        {"grants": {"channels": [{"channel": "a b", "publish": True}]}},
        {"grants": {"channels": [{"channel": "a", "publish": 1}]}},
        {"grants": []},
        {"extra": {"a": 1}},
        {"extra": "x"},
    ],
    ids=str,
)
def test_a_well_signed_token_with_a_wrong_claim_is_refused(change: dict[str, Any]) -> None:
    kit = Kit()
    claims = claims_of(kit.issue())
    claims.update(change)
    claims = {name: value for name, value in claims.items() if value is not None}
    assert kit.refuses(forge(claims)).code is Code.TOKEN_INVALID


def test_other_secrets_and_algorithms_are_refused() -> None:
    kit = Kit()
    claims = claims_of(kit.issue())
    long_secret = SECRET * 2
    assert kit.refuses(forge(claims, secret="x" * 40)).reason == "signature"
    assert kit.refuses(forge(claims, alg="HS512", secret=long_secret)).reason == "alg"
    none = jwt.PyJWS().encode(json.dumps(claims).encode(), "", None, headers={"typ": SESSION_TYP})
    assert kit.refuses(none).code is Code.TOKEN_INVALID
    assert kit.refuses(none + "AA").code is Code.TOKEN_INVALID


def test_what_does_not_fit_into_a_token_is_an_error_and_not_a_cut_off_token() -> None:
    kit = Kit()
    many = tuple(Grant(f"a-long-channel-name:{n:04}", True, True) for n in range(200))
    with pytest.raises(ArautoError) as caught:
        kit.tokens.issue_session_token("shop", "s-1", Identity("alice", Grants(channels=many)))
    assert caught.value.code is Code.BAD_FIELD
    few = Identity("alice", Grants(channels=many[:60]))
    assert len(kit.issue(identity=few)) <= TOKEN_BYTES_MAX


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_each_offered_algorithm_works(algorithm: str) -> None:
    kit = Kit(algorithm=algorithm, secret="k" * 64)
    assert kit.tokens.verify_session_token(kit.issue(), "shop").user == "alice"


@pytest.mark.parametrize(
    "options",
    [
        {"secret": "short"},
        {"secret": "s" * 31},
        {"algorithm": "HS512", "secret": "s" * 63},
        {"algorithm": "none"},
        {"algorithm": "RS256"},
        {"issuer": ""},
        {"ttl_s": 0},
        {"ttl_s": 32 * 86_400},
    ],
    ids=str,
)
def test_weak_or_senseless_configuration_is_refused_without_repeating_it(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ArautoError) as caught:
        Kit(**options)
    assert caught.value.code is Code.BAD_CONFIG
    assert str(options.get("secret", "\0")) not in str(caught.value)


def test_admin_tokens_are_compared_whole() -> None:
    assert admin_token_matches("correct horse", "correct horse")
    for wrong in ("", "correct", "correct horse ", "Correct horse", "\ud800", "ü"):
        assert not admin_token_matches(wrong, "correct horse")


def test_without_a_configured_admin_token_nobody_is_an_administrator() -> None:
    assert not admin_token_matches("", "")
    assert not admin_token_matches("x", "")


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER  abc ", "abc"),
        ("Basic abc", ""),
        ("Bearer", ""),
        ("", ""),
        ("abc", ""),
        ("Bearer " + "a" * 9_000, "a" * 9_000),
    ],
)
def test_bearer_headers_are_read(header: str, token: str) -> None:
    assert bearer_of(header) == token


@pytest.mark.parametrize(
    "user",
    ["", " ", "a b", "a*", "#", "a\x00", "a\n", "\u2028", "x" * (USER_BYTES_MAX + 1), "e\u0301"],
)
def test_a_user_id_that_cannot_name_a_channel_is_refused(user: str) -> None:
    with pytest.raises(ArautoError) as caught:
        build_identity(user, Grants(), {}, 0, 0)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "user")


@pytest.mark.parametrize("user", ["a", "auth0|5f7c", "urn:user:1", "zoé@shop.example", "x" * 128])
def test_ordinary_user_ids_are_taken(user: str) -> None:
    assert build_identity(user, Grants(), {}, 0, 0).user == user


@pytest.mark.parametrize(
    "extra",
    [{str(n): "" for n in range(33)}, {"a": "x" * 4_096}, {"\ud800": ""}, {"a": "\udfff"}],
    ids=["too many", "too large", "bad name", "bad value"],
)
def test_extras_are_bounded(extra: dict[str, str]) -> None:
    with pytest.raises(ArautoError) as caught:
        build_identity("a", Grants(), extra, 0, 0)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "extra")
