"""Keys: which are taken, which are refused when they are set, and that no refusal repeats a value."""

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from arauto.errors import ArautoError, Code
from arauto.session.auth.keys import (
    JWKS_BYTES_MAX,
    check_jwt_settings,
    keys_from_jwks,
    static_key,
)
from arauto.settings import JwtSettings

SECRET = "a-hub-secret-with-enough-characters-in-it"
RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
WEAK_RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def pem(key: Any) -> str:
    data: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return data.decode()


def private_pem(key: Any) -> str:
    data: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return data.decode()


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rsa_jwk(key: rsa.RSAPrivateKey = RSA_KEY, **more: Any) -> dict[str, Any]:
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": "r", "n": number(numbers.n), "e": number(numbers.e), **more}


def ed_jwk(**more: Any) -> dict[str, Any]:
    public = ED_KEY.public_key().public_bytes_raw()
    return {"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": b64(public), **more}


def oct_jwk(secret: bytes = SECRET.encode(), **more: Any) -> dict[str, Any]:
    return {"kty": "oct", "kid": "o", "k": b64(secret), **more}


def read(*keys: Any, secrets_allowed: bool = True) -> dict[str, str]:
    data = json.dumps({"keys": list(keys)}).encode()
    found = keys_from_jwks(data, secrets_allowed=secrets_allowed)
    return {kid: key.algorithm for kid, key in found.items()}


@pytest.mark.parametrize(
    "settings",
    [
        JwtSettings(algorithm="HS256", secret=SECRET),
        JwtSettings(algorithm="RS256", public_key=pem(RSA_KEY)),
        JwtSettings(algorithm="EdDSA", public_key=pem(ED_KEY)),
        JwtSettings(jwks_file="/etc/arauto/jwks.json"),
        JwtSettings(jwks_url="https://id.example/jwks", issuer="x", audience="y"),
    ],
    ids=["secret", "RSA", "Ed25519", "file", "URL"],
)
def test_sensible_settings_are_taken(settings: JwtSettings) -> None:
    assert check_jwt_settings(settings) is settings


BAD_SETTINGS: dict[str, tuple[JwtSettings, str]] = {
    "no source": (JwtSettings(), "jwt"),
    "two sources": (
        JwtSettings(algorithm="HS256", secret=SECRET, jwks_url="https://id.example/"),
        "jwt",
    ),
    "short secret": (JwtSettings(algorithm="HS256", secret="s" * 31), "jwt.secret"),
    "huge secret": (JwtSettings(algorithm="HS256", secret="s" * 1_025), "jwt.secret"),
    "public key as secret": (JwtSettings(algorithm="HS256", secret=pem(RSA_KEY)), "jwt.secret"),
    "JWK as secret": (JwtSettings(algorithm="HS256", secret=json.dumps(oct_jwk())), "jwt.secret"),
    "secret without algorithm": (JwtSettings(secret=SECRET), "jwt.algorithm"),
    "secret with RS256": (JwtSettings(algorithm="RS256", secret=SECRET), "jwt.algorithm"),
    "secret with none": (JwtSettings(algorithm="none", secret=SECRET), "jwt.algorithm"),
    "secret with HS512": (JwtSettings(algorithm="HS512", secret=SECRET), "jwt.algorithm"),
    "key with HS256": (JwtSettings(algorithm="HS256", public_key=pem(RSA_KEY)), "jwt.algorithm"),
    "key without algorithm": (JwtSettings(public_key=pem(RSA_KEY)), "jwt.algorithm"),
    "RSA with EdDSA": (JwtSettings(algorithm="EdDSA", public_key=pem(RSA_KEY)), "jwt.publicKey"),
    "Ed25519 with RS256": (JwtSettings(algorithm="RS256", public_key=pem(ED_KEY)), "jwt.publicKey"),
    "weak RSA": (JwtSettings(algorithm="RS256", public_key=pem(WEAK_RSA_KEY)), "jwt.publicKey"),
    "EC key": (
        JwtSettings(algorithm="RS256", public_key=pem(ec.generate_private_key(ec.SECP256R1()))),
        "jwt.publicKey",
    ),
    "Ed448 key": (
        JwtSettings(algorithm="EdDSA", public_key=pem(ed448.Ed448PrivateKey.generate())),
        "jwt.publicKey",
    ),
    "private key": (
        JwtSettings(algorithm="RS256", public_key=private_pem(RSA_KEY)),
        "jwt.publicKey",
    ),
    "no PEM": (JwtSettings(algorithm="RS256", public_key="hello there"), "jwt.publicKey"),
    "huge PEM": (JwtSettings(algorithm="RS256", public_key="x" * 20_000), "jwt.publicKey"),
    "algorithm with JWKS": (
        JwtSettings(algorithm="RS256", jwks_file="/jwks.json"),
        "jwt.algorithm",
    ),
    "huge issuer": (JwtSettings(jwks_file="/j", issuer="i" * 1_025), "jwt.issuer"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_unsafe_settings_are_refused_when_they_are_set(name: str) -> None:
    settings, field = BAD_SETTINGS[name]
    with pytest.raises(ArautoError) as caught:
        check_jwt_settings(settings)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, field)
    for value in (settings.secret, settings.public_key):
        assert not value or value not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_keys_text_form_does_not_show_it() -> None:
    key = static_key(JwtSettings(algorithm="HS256", secret=SECRET))
    assert SECRET not in repr(key)
    assert SECRET not in str(key)


def test_each_usable_key_of_a_set_gets_its_one_algorithm() -> None:
    assert read(rsa_jwk(), ed_jwk(), oct_jwk()) == {"r": "RS256", "e": "EdDSA", "o": "HS256"}
    assert read(rsa_jwk(alg="RS256", use="sig", key_ops=["verify"])) == {"r": "RS256"}


def test_keys_for_other_uses_and_algorithms_are_passed_over() -> None:
    others = [
        rsa_jwk(alg="RS512"),
        rsa_jwk(alg="PS256"),
        rsa_jwk(alg="HS256"),
        rsa_jwk(use="enc"),
        rsa_jwk(key_ops=["encrypt"]),
        rsa_jwk(key_ops="verify"),
        ed_jwk(crv="Ed448"),
        ed_jwk(crv="X25519"),
        ed_jwk(alg="RS256"),
        oct_jwk(alg="HS512"),
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "none"},
        {"kty": ["RSA"]},
        {},
        "RSA",
        None,
    ]
    assert read(*others, ed_jwk()) == {"e": "EdDSA"}


def test_a_published_secret_is_no_key() -> None:
    """Whoever can fetch the set could sign with it."""
    assert read(oct_jwk(), ed_jwk(), secrets_allowed=False) == {"e": "EdDSA"}
    with pytest.raises(ArautoError):
        read(oct_jwk(), secrets_allowed=False)


BAD_SETS: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"<html>",
    "list": b"[]",
    "no keys": b"{}",
    "keys null": b'{"keys":null}',
    "keys object": b'{"keys":{}}',
    "keys empty": b'{"keys":[]}',
    "deep": b'{"keys":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "too large": b'{"keys":[]}' + b" " * JWKS_BYTES_MAX,
    "too many": json.dumps({"keys": [{}] * 101}).encode(),
    "not UTF-8": b'{"keys":["\xff"]}',
    "weak RSA": json.dumps({"keys": [rsa_jwk(WEAK_RSA_KEY)]}).encode(),
    "huge RSA": json.dumps({"keys": [rsa_jwk(n=number((1 << 8_200) + 1))]}).encode(),
    "huge exponent": json.dumps({"keys": [rsa_jwk(e=number((1 << 64) + 1))]}).encode(),
    "even exponent": json.dumps({"keys": [rsa_jwk(e=number(65_536))]}).encode(),
    "exponent one": json.dumps({"keys": [rsa_jwk(e=number(1))]}).encode(),
    "RSA without n": json.dumps({"keys": [{"kty": "RSA", "e": "AQAB"}]}).encode(),
    "RSA with numbers": json.dumps({"keys": [rsa_jwk(n=5)]}).encode(),
    "short Ed25519": json.dumps({"keys": [ed_jwk(x="AAAA")]}).encode(),
    "Ed25519 null": json.dumps({"keys": [ed_jwk(x=None)]}).encode(),
    "weak secret": json.dumps({"keys": [oct_jwk(b"s" * 31)]}).encode(),
    "same kid twice": json.dumps({"keys": [rsa_jwk(), ed_jwk(kid="r")]}).encode(),
    "no kid twice": json.dumps({"keys": [rsa_jwk(kid=""), ed_jwk(kid="")]}).encode(),
    "two sets": b'{"keys":[],' + json.dumps({"keys": [ed_jwk()]}).encode()[1:],
    "a key with two values": json.dumps({"keys": [ed_jwk()]})
    .replace('"x"', '"x":"AA","x"')
    .encode(),
    "a kid with two spellings": json.dumps({"keys": [ed_jwk()]})
    .replace('"kid"', '"kid":"a","\\u006bid"')
    .encode(),
    "kid number": json.dumps({"keys": [rsa_jwk(kid=1)]}).encode(),
    "kid huge": json.dumps({"keys": [rsa_jwk(kid="k" * 257)]}).encode(),
}


@pytest.mark.parametrize("name", BAD_SETS)
def test_a_broken_weak_or_ambiguous_set_is_refused_whole(name: str) -> None:
    with pytest.raises(ArautoError) as caught:
        keys_from_jwks(BAD_SETS[name], secrets_allowed=True)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "jwks")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            JwtSettings(algorithm="HS265", secret=SECRET),
            "must be one of HS256, RS256, EdDSA; did you mean HS256?",
        ),
        (
            JwtSettings(algorithm="eddsa", public_key=pem(RSA_KEY)),
            "must be one of HS256, RS256, EdDSA; did you mean EdDSA?",
        ),
        (JwtSettings(algorithm="x", secret=SECRET), "must be one of HS256, RS256, EdDSA"),
        (JwtSettings(algorithm="RS256", secret=SECRET), "a secret goes with HS256"),
    ],
)
def test_a_mistyped_algorithm_is_told_which_there_are(settings: JwtSettings, message: str) -> None:
    with pytest.raises(ArautoError) as caught:
        check_jwt_settings(settings)
    assert (caught.value.field, caught.value.message) == ("jwt.algorithm", message)
