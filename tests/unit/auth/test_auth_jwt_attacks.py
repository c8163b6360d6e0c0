"""T5: a table of bad tokens against a hub's JWT settings. All are refused, all with the same public error."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from arauto.errors import ArautoError, Code
from arauto.session.auth.jws import TOKEN_BYTES_MAX
from arauto.session.auth.jwt import JwtVerifier
from arauto.session.auth.revocations import Revocations
from arauto.settings import JwtSettings
from arauto.testing.clock import FakeClock

NOW_S = 1_700_000_000
SECRET = "hub-secret-of-forty-characters-0123456789"
OTHER_SECRET = "another-secret-of-forty-characters-01234"

RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
ED_KEY = ed25519.Ed25519PrivateKey.generate()
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


HS = JwtSettings(algorithm="HS256", secret=SECRET, issuer="https://id.example")
RS = JwtSettings(algorithm="RS256", public_key=pem(RSA_KEY), issuer="https://id.example")
ED = JwtSettings(algorithm="EdDSA", public_key=pem(ED_KEY), issuer="https://id.example")


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def good_claims(**change: Any) -> dict[str, Any]:
    claims: dict[str, Any] = {
        "iss": "https://id.example",
        "aud": "shop",
        "sub": "alice",
        "iat": NOW_S - 10,
        "exp": NOW_S + 600,
        "grants": {"channels": [{"channel": "stock:*", "subscribe": True}], "rpcs": ["math:*"]},
        "extra": {"role": "buyer"},
    }
    claims.update(change)
    return {name: value for name, value in claims.items() if value is not ...}


def raw(header: Any, claims: Any, sign: Callable[[bytes], bytes] | None = None) -> bytes:
    """A token from parts that need not make sense; strings are taken as JSON text."""
    parts = [
        b64((part if isinstance(part, str) else json.dumps(part)).encode())
        for part in (header, claims)
    ]
    signed = ".".join(parts).encode()
    return signed + b"." + b64((sign or hs)(signed)).encode()


def hs(data: bytes, secret: str = SECRET, digest: str = "sha256") -> bytes:
    return hmac.new(secret.encode(), data, digest).digest()


def hs_token(header: dict[str, Any] | None = None, **change: Any) -> bytes:
    return raw({"alg": "HS256", "typ": "JWT", **(header or {})}, good_claims(**change))


def rs(data: bytes) -> bytes:
    return RSA_KEY.sign(data, padding.PKCS1v15(), hashes.SHA256())


def rs_token(header: dict[str, Any] | None = None, **change: Any) -> bytes:
    return raw({"alg": "RS256", "typ": "JWT", **(header or {})}, good_claims(**change), rs)


def ed_token(header: dict[str, Any] | None = None, **change: Any) -> bytes:
    return raw({"alg": "EdDSA", **(header or {})}, good_claims(**change), ED_KEY.sign)


def flip_last(token: bytes) -> bytes:
    head, _, signature = token.rpartition(b".")
    data = bytearray(base64.urlsafe_b64decode(signature + b"=" * (-len(signature) % 4)))
    data[-1] ^= 1
    return head + b"." + b64(bytes(data)).encode()


_deep = "[" * 2_000 + "]" * 2_000
_rs_der = RSA_KEY.public_key().public_bytes(
    serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
)
_own_jwk = json.loads(pyjwt.algorithms.RSAAlgorithm.to_jwk(OTHER_RSA_KEY.public_key()))

BAD: dict[str, tuple[JwtSettings, bytes]] = {
    # Not signed, or not by the key's own algorithm.
    "alg none": (HS, raw({"alg": "none"}, good_claims(), lambda _: b"x")),
    "alg none, empty signature": (HS, hs_token().rpartition(b".")[0] + b"."),
    "alg None": (HS, raw({"alg": "None"}, good_claims())),
    "alg nOnE": (RS, raw({"alg": "nOnE"}, good_claims(), rs)),
    "alg missing": (HS, raw({"typ": "JWT"}, good_claims())),
    "alg null": (HS, raw({"alg": None}, good_claims())),
    "alg empty": (HS, raw({"alg": ""}, good_claims())),
    "alg number": (HS, raw({"alg": 256}, good_claims())),
    "alg list": (HS, raw({"alg": ["HS256"]}, good_claims())),
    "alg lower case": (HS, raw({"alg": "hs256"}, good_claims())),
    "alg with space": (HS, raw({"alg": "HS256 "}, good_claims())),
    "alg twice": (HS, raw('{"alg":"none","alg":"HS256"}', good_claims())),
    "HS512 with the right secret": (
        HS,
        raw({"alg": "HS512"}, good_claims(), lambda d: hs(d, digest="sha512")),
    ),
    "RS to HS, public key as PEM": (
        RS,
        raw({"alg": "HS256"}, good_claims(), lambda d: hs(d, RS.public_key)),
    ),
    "RS to HS, public key as PEM without the last newline": (
        RS,
        raw({"alg": "HS256"}, good_claims(), lambda d: hs(d, RS.public_key.strip())),
    ),
    "RS to HS, public key as DER": (
        RS,
        raw(
            {"alg": "HS256"},
            good_claims(),
            lambda d: hmac.new(_rs_der, d, hashlib.sha256).digest(),
        ),
    ),
    "RS header, HS signature by the public key": (
        RS,
        raw({"alg": "RS256"}, good_claims(), lambda d: hs(d, RS.public_key)),
    ),
    "EdDSA to HS, public key as PEM": (
        ED,
        raw({"alg": "HS256"}, good_claims(), lambda d: hs(d, ED.public_key)),
    ),
    "HS to RS": (HS, rs_token()),
    "RS to EdDSA": (RS, ed_token()),
    "EdDSA to RS": (ED, rs_token()),
    "PS256 with the right RSA key": (
        RS,
        raw(
            {"alg": "PS256"},
            good_claims(),
            lambda d: RSA_KEY.sign(
                d, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256()
            ),
        ),
    ),
    "RS512 with the right RSA key": (
        RS,
        raw(
            {"alg": "RS512"},
            good_claims(),
            lambda d: RSA_KEY.sign(d, padding.PKCS1v15(), hashes.SHA512()),
        ),
    ),
    "ES256": (
        RS,
        raw({"alg": "ES256"}, good_claims(), lambda d: EC_KEY.sign(d, ec.ECDSA(hashes.SHA256()))),
    ),
    # Signed, but not by the hub's key.
    "another secret": (HS, raw({"alg": "HS256"}, good_claims(), lambda d: hs(d, OTHER_SECRET))),
    "empty secret": (HS, raw({"alg": "HS256"}, good_claims(), lambda d: hs(d, ""))),
    "another RSA key": (
        RS,
        raw(
            {"alg": "RS256"},
            good_claims(),
            lambda d: OTHER_RSA_KEY.sign(d, padding.PKCS1v15(), hashes.SHA256()),
        ),
    ),
    "another Ed25519 key": (
        ED,
        raw({"alg": "EdDSA"}, good_claims(), ed25519.Ed25519PrivateKey.generate().sign),
    ),
    "HS signature changed in one bit": (HS, flip_last(hs_token())),
    "RS signature changed in one bit": (RS, flip_last(rs_token())),
    "EdDSA signature changed in one bit": (ED, flip_last(ed_token())),
    "signature of zeros": (HS, raw({"alg": "HS256"}, good_claims(), lambda _: bytes(32))),
    "EdDSA signature of zeros": (ED, raw({"alg": "EdDSA"}, good_claims(), lambda _: bytes(64))),
    "signature cut short": (HS, raw({"alg": "HS256"}, good_claims(), lambda d: hs(d)[:16])),
    "signature too long": (HS, raw({"alg": "HS256"}, good_claims(), lambda d: hs(d) + b"x")),
    "signature of another token": (
        HS,
        hs_token(sub="root").rpartition(b".")[0] + b"." + hs_token().rpartition(b".")[2],
    ),
    # The token brings or points to a key, or asks to be read in another way.
    "crit": (HS, hs_token({"crit": ["exp"]})),
    "crit unknown": (HS, hs_token({"crit": ["http://example/x"], "http://example/x": 1})),
    "crit empty": (HS, hs_token({"crit": []})),
    "crit null": (HS, hs_token({"crit": None})),
    "b64 false": (HS, hs_token({"b64": False, "crit": ["b64"]})),
    "zip": (HS, hs_token({"zip": "DEF"})),
    "enc": (HS, hs_token({"enc": "A256GCM"})),
    "embedded jwk": (
        RS,
        raw(
            {"alg": "RS256", "jwk": _own_jwk},
            good_claims(),
            lambda d: OTHER_RSA_KEY.sign(d, padding.PKCS1v15(), hashes.SHA256()),
        ),
    ),
    "jku": (RS, rs_token({"jku": "http://127.0.0.1:1/jwks.json"})),
    "x5u": (RS, rs_token({"x5u": "http://169.254.169.254/latest"})),
    "x5c": (RS, rs_token({"x5c": ["MIIB"]})),
    "kid number": (HS, hs_token({"kid": 1})),
    "kid object": (HS, hs_token({"kid": {"$ne": ""}})),
    "kid empty": (HS, hs_token({"kid": ""})),
    "kid huge": (HS, hs_token({"kid": "k" * 300})),
    "typ of a logout token": (HS, hs_token({"typ": "logout+jwt"})),
    "typ of a DPoP proof": (HS, hs_token({"typ": "dpop+jwt"})),
    "typ number": (HS, hs_token({"typ": 1})),
    "typ of a session token": (HS, hs_token({"typ": "arauto-session+jwt"})),
    # Form.
    "empty": (HS, b""),
    "one dot": (HS, b"a.b"),
    "only dots": (HS, b".."),
    "four parts": (HS, hs_token() + b".e30"),
    "five parts": (HS, b"e30.e30.e30.e30.e30"),
    "header is no JSON": (HS, raw("alg", good_claims())),
    "header is a list": (HS, raw("[]", good_claims())),
    "header is deep": (HS, raw('{"alg":"HS256","a":' + _deep + "}", {})),
    "header is not UTF-8": (HS, b64(b'{"alg":"HS256\xff"}').encode() + b".e30.e30"),
    "claims are a list": (HS, raw({"alg": "HS256"}, "[]")),
    "claims are null": (HS, raw({"alg": "HS256"}, "null")),
    "claims are deep": (HS, raw({"alg": "HS256"}, '{"a":' + _deep + "}")),
    "claims hold NaN": (HS, raw({"alg": "HS256"}, '{"exp":NaN}')),
    "a claim stands twice": (
        HS,
        raw({"alg": "HS256"}, json.dumps(good_claims())[:-1] + ',"sub":"root"}'),
    ),
    "padding": (HS, hs_token() + b"="),
    "plain base64 letters": (HS, hs_token().replace(b".", b"+.", 1)),
    "white space before": (HS, b" " + hs_token()),
    "line break after": (HS, hs_token() + b"\n"),
    "NUL after": (HS, hs_token() + b"\0"),
    "over 8 kB": (HS, hs_token(extra={"a": "x" * TOKEN_BYTES_MAX})),
    "over 8 kB of signature": (HS, hs_token() + b"A" * TOKEN_BYTES_MAX),
    # Time.
    "no exp": (HS, hs_token(exp=...)),
    "exp null": (HS, hs_token(exp=None)),
    "exp string": (HS, hs_token(exp=str(NOW_S + 600))),
    "exp true": (HS, hs_token(exp=True)),
    "exp list": (HS, hs_token(exp=[NOW_S + 600])),
    "exp zero": (HS, hs_token(exp=0)),
    "exp negative": (HS, hs_token(exp=-1)),
    "exp in milliseconds": (HS, hs_token(exp=(NOW_S + 600) * 1_000)),
    "exp 1e400": (
        HS,
        raw({"alg": "HS256"}, json.dumps(good_claims(exp=7)).replace(": 7", ": 1e400")),
    ),
    "exp too far": (HS, hs_token(exp=NOW_S + 366 * 86_400)),
    "exp before iat": (HS, hs_token(iat=NOW_S, exp=NOW_S - 1)),
    "nbf in the future": (HS, hs_token(nbf=NOW_S + 31)),
    "nbf string": (HS, hs_token(nbf="0")),
    "nbf null": (HS, hs_token(nbf=None)),
    "iat in the future": (HS, hs_token(iat=NOW_S + 31)),
    "iat string": (HS, hs_token(iat="now")),
    # For someone else.
    "no aud": (HS, hs_token(aud=...)),
    "aud null": (HS, hs_token(aud=None)),
    "aud of another hub": (HS, hs_token(aud="bank")),
    "aud in another case": (HS, hs_token(aud="Shop")),
    "aud with the hub as a part": (HS, hs_token(aud="shop.example")),
    "aud empty": (HS, hs_token(aud="")),
    "aud empty list": (HS, hs_token(aud=[])),
    "aud list of others": (HS, hs_token(aud=["bank", "mail"])),
    "aud list with a number": (HS, hs_token(aud=["shop", 1])),
    "aud huge list": (HS, hs_token(aud=["shop"] * 17)),
    "aud object": (HS, hs_token(aud={"shop": True})),
    "iss of another": (HS, hs_token(iss="https://evil.example")),
    "iss missing": (HS, hs_token(iss=...)),
    "iss list": (HS, hs_token(iss=["https://id.example"])),
    "hub claim of another hub": (HS, hs_token(hub="bank")),
    "hub claim null": (HS, hs_token(hub=None)),
    # The identity.
    "no sub": (HS, hs_token(sub=...)),
    "sub null": (HS, hs_token(sub=None)),
    "sub number": (HS, hs_token(sub=1)),
    "sub empty": (HS, hs_token(sub="")),
    "sub wildcard": (HS, hs_token(sub="*")),
    "sub with a line break": (HS, hs_token(sub="alice\nroot")),
    "sub with a NUL": (HS, hs_token(sub="alice\0")),
    "sub too long": (HS, hs_token(sub="a" * 129)),
    "sub with half a surrogate": (HS, hs_token(sub="\ud800")),
    "grants list": (HS, hs_token(grants=[])),
    "grants null": (HS, hs_token(grants=None)),
    "grants with an unknown member": (HS, hs_token(grants={"admin": True})),
    "grant with an unknown member": (
        HS,
        hs_token(grants={"channels": [{"channel": "a", "subscribe": True, "until": 1}]}),
    ),
    "grant without a channel": (HS, hs_token(grants={"channels": [{"publish": True}]})),
    "grant with a number for a flag": (
        HS,
        hs_token(grants={"channels": [{"channel": "a", "publish": 1}]}),
    ),
    "grant on a malformed pattern": (
        HS,
        hs_token(grants={"channels": [{"channel": "a#", "publish": True}]}),
    ),
    "extra with a number": (HS, hs_token(extra={"a": 1})),
    "extra too large": (HS, hs_token(extra={"a": "x" * 4_100})),
}


class _NoFetch:
    def __init__(self) -> None:
        self.urls: list[str] = []

    async def __call__(self, hub: str, url: str) -> bytes:
        self.urls.append(url)
        raise ArautoError(Code.AUTH_UNAVAILABLE, "not in this test")


def verifier(fetch: _NoFetch | None = None) -> JwtVerifier:
    clock = FakeClock(NOW_S * 1_000)
    return JwtVerifier(clock=clock, revocations=Revocations(clock), fetch=fetch or _NoFetch())


def test_the_table_is_long_enough() -> None:
    assert len(BAD) >= 60


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_token_is_refused_with_the_one_public_error(name: str) -> None:
    settings, token = BAD[name]
    fetch = _NoFetch()
    with pytest.raises(ArautoError) as caught:
        await verifier(fetch).verify("shop", settings, token)
    error = caught.value
    assert error.code is Code.TOKEN_INVALID, getattr(error, "reason", "")
    assert str(error) == "[2003 TOKEN_INVALID] the token is not valid here (credentials)"
    assert error.__cause__ is None, "the cause could hold the key or the token"
    assert fetch.urls == [], "a token never causes a request to an address of its choice"


@pytest.mark.parametrize(
    ("settings", "token"),
    [
        (HS, hs_token()),
        (RS, rs_token()),
        (ED, ed_token()),
        (HS, hs_token({"typ": "at+jwt"})),
        (HS, hs_token({"typ": "application/JWT"})),
        (HS, hs_token({"kid": "../../etc/passwd"})),  # one key, no choice: the kid is never used
        (HS, hs_token({"kid": "x' OR '1'='1", "x5t": "abc"})),
        (HS, hs_token(aud=["bank", "shop"])),
        (HS, hs_token(hub="shop")),
        (HS, hs_token(nbf=NOW_S + 30, iat=NOW_S + 30)),
        (HS, hs_token(iat=...)),
        (HS, hs_token(email="alice@shop.example", groups=["a"])),
    ],
)
async def test_a_good_token_is_taken(settings: JwtSettings, token: bytes) -> None:
    verified = await verifier().verify("shop", settings, token)
    identity = verified.identity
    assert identity.user == "alice"
    assert [(g.channel, g.publish, g.subscribe) for g in identity.grants.channels] == [
        ("stock:*", False, True)
    ]
    assert identity.grants.rpcs == ("math:*",)
    assert identity.extra == {"role": "buyer"}
    assert identity.expires_ms == (NOW_S + 600) * 1_000


@pytest.mark.parametrize(
    ("settings", "make"), [(HS, hs_token), (RS, rs_token), (ED, ed_token)], ids=["HS", "RS", "Ed"]
)
async def test_a_token_that_was_right_once_is_called_expired(
    settings: JwtSettings, make: Callable[..., bytes]
) -> None:
    with pytest.raises(ArautoError) as caught:
        await verifier().verify("shop", settings, make(iat=NOW_S - 700, exp=NOW_S))
    assert caught.value.code is Code.TOKEN_EXPIRED


@pytest.mark.parametrize(
    "change", [{"aud": "bank"}, {"iss": "x"}, {"sub": 1}, {"grants": []}, {"nbf": NOW_S + 999}]
)
async def test_an_expired_token_that_was_never_right_is_called_invalid(
    change: dict[str, Any],
) -> None:
    with pytest.raises(ArautoError) as caught:
        await verifier().verify("shop", HS, hs_token(**{"iat": 1, "exp": NOW_S - 1, **change}))
    assert caught.value.code is Code.TOKEN_INVALID


async def test_a_wrongly_signed_expired_token_is_not_called_expired() -> None:
    with pytest.raises(ArautoError) as caught:
        await verifier().verify("shop", HS, flip_last(hs_token(iat=1, exp=2)))
    assert caught.value.code is Code.TOKEN_INVALID


async def test_an_audience_of_the_settings_takes_the_place_of_the_hubs_name() -> None:
    settings = JwtSettings(algorithm="HS256", secret=SECRET, audience="https://api.example")
    checked = verifier()
    token = hs_token(aud="https://api.example")
    assert (await checked.verify("shop", settings, token)).identity.user == "alice"
    with pytest.raises(ArautoError):
        await checked.verify("shop", settings, hs_token(aud="shop"))


async def test_revoked_users_tokens_are_refused_by_their_time_of_issue() -> None:
    clock = FakeClock(NOW_S * 1_000)
    revocations = Revocations(clock)
    checked = JwtVerifier(clock=clock, revocations=revocations, fetch=_NoFetch())
    revocations.revoke_user("shop", "alice")
    clock.advance(5)
    for token in (hs_token(), hs_token(iat=...)):
        with pytest.raises(ArautoError) as caught:
            await checked.verify("shop", HS, token)
        assert caught.value.code is Code.TOKEN_INVALID
    assert (await checked.verify("shop", HS, hs_token(iat=NOW_S + 1))).identity.user == "alice"
    assert (await checked.verify("shop", HS, hs_token(sub="bob"))).identity.user == "bob"


async def test_two_hubs_with_different_secrets_do_not_take_each_others_tokens() -> None:
    """T2: also when the audience would fit, and whichever was asked first."""
    bank = JwtSettings(algorithm="HS256", secret=OTHER_SECRET, issuer=HS.issuer)
    both = ["shop", "bank"]
    for first, second in ((HS, bank), (bank, HS)):
        checked = verifier()
        ours = {
            "shop": hs_token(aud=both),
            "bank": raw({"alg": "HS256"}, good_claims(aud=both), lambda d: hs(d, OTHER_SECRET)),
        }
        for settings in (first, second):
            hub, other = ("shop", "bank") if settings is HS else ("bank", "shop")
            assert (await checked.verify(hub, settings, ours[hub])).identity.user == "alice"
            with pytest.raises(ArautoError):
                await checked.verify(hub, settings, ours[other])


async def test_a_changed_secret_counts_from_the_next_token_on() -> None:
    checked = verifier()
    await checked.verify("shop", HS, hs_token())
    changed = JwtSettings(algorithm="HS256", secret=OTHER_SECRET, issuer=HS.issuer)
    with pytest.raises(ArautoError) as caught:
        await checked.verify("shop", changed, hs_token())
    assert caught.value.code is Code.TOKEN_INVALID


async def test_unusable_stored_settings_let_nobody_in() -> None:
    for settings in (
        JwtSettings(),
        JwtSettings(algorithm="HS256", secret="short"),
        JwtSettings(algorithm="none", secret=SECRET),
    ):
        with pytest.raises(ArautoError) as caught:
            await verifier().verify("shop", settings, hs_token())
        assert caught.value.code is Code.AUTH_UNAVAILABLE
