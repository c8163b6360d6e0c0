"""Reads verification keys: shared secrets, PEM and JWK sets. Pure; weak and ambiguous keys are refused.

A key gets its one algorithm here, from the hub's settings or the key set, never from a token.
"""

from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.utils import base64url_decode

from arauto.codec.json_body import read_once
from arauto.config.problems import nearest
from arauto.errors import ArautoError, Code
from arauto.session.auth.jws import Key
from arauto.settings import JwtSettings

__all__ = ["JWKS_BYTES_MAX", "check_jwt_settings", "keys_from_jwks", "static_key"]

JWKS_BYTES_MAX = 65_536
_JWKS_KEYS_MAX = 100
_KID_LEN_MAX = 256
_SECRET_BYTES_MIN = 32
_SECRET_BYTES_MAX = 1_024
_PEM_BYTES_MAX = 16_384
_RSA_BITS_MIN = 2_048
_RSA_BITS_MAX = 8_192
#: A huge exponent makes every verification slow.
_RSA_EXPONENT_MAX = 2**32

_ALGORITHM_OF = {"RSA": "RS256", "OKP": "EdDSA", "oct": "HS256"}
_ALGORITHMS = ("HS256", "RS256", "EdDSA")


def check_jwt_settings(settings: JwtSettings) -> JwtSettings:
    """Return the settings if a verifier can be built from them. For use when they are set.

    Raises:
        ArautoError: BAD_FIELD, naming the field. Never repeats a value.
    """
    sources = ("secret", "public_key", "jwks_file", "jwks_url")
    given = [name for name in sources if getattr(settings, name)]
    if len(given) != 1:
        raise _bad("exactly one of secret, publicKey, jwksFile and jwksUrl is set", "jwt")
    if given[0] in ("secret", "public_key"):
        static_key(settings)
    elif settings.algorithm:
        raise _bad("the keys of a JWKS name their own algorithms", "jwt.algorithm")
    for name in ("issuer", "audience"):
        if len(getattr(settings, name)) > 1_024:
            raise _bad("at most 1024 characters", f"jwt.{name}")
    return settings


def static_key(settings: JwtSettings) -> Key | None:
    """Return the one key that stands in the settings themselves; None if they name a key set.

    Raises:
        ArautoError: BAD_FIELD, naming the field.
    """
    if settings.algorithm and settings.algorithm not in _ALGORITHMS:
        meant = nearest(settings.algorithm, _ALGORITHMS)
        hint = f"; did you mean {meant}?" if meant else ""
        raise _bad(f"must be one of {', '.join(_ALGORITHMS)}{hint}", "jwt.algorithm")
    if settings.secret:
        if settings.algorithm != "HS256":
            raise _bad("a secret goes with HS256", "jwt.algorithm")
        return _secret_key(settings.secret.encode(errors="surrogatepass"))
    if settings.public_key:
        if settings.algorithm not in ("RS256", "EdDSA"):
            raise _bad("a public key goes with RS256 or EdDSA", "jwt.algorithm")
        return _pem_key(settings.public_key, settings.algorithm)
    return None


def _secret_key(secret: bytes) -> Key:
    if not _SECRET_BYTES_MIN <= len(secret) <= _SECRET_BYTES_MAX:
        raise _bad(
            f"a secret has {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} bytes; make it random",
            "jwt.secret",
        )
    # Whoever puts a public key here would let everyone who knows it sign tokens.
    if secret.lstrip().startswith((b"-----BEGIN", b"ssh-", b"{")):
        raise _bad("this is a key file, not a shared secret", "jwt.secret")
    return Key("HS256", secret)


def _pem_key(pem: str, algorithm: str) -> Key:
    field = "jwt.publicKey"
    if len(pem) > _PEM_BYTES_MAX or "PRIVATE KEY" in pem:
        raise _bad("this is one public key in PEM; keep the private key to the issuer", field)
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise _bad("this is not a public key in PEM", field) from None
    if algorithm == "RS256" and isinstance(key, RSAPublicKey):
        _check_rsa(key.public_numbers(), field)
        return Key("RS256", key)
    if algorithm == "EdDSA" and isinstance(key, Ed25519PublicKey):
        return Key("EdDSA", key)
    raise _bad(f"the key's type does not go with {algorithm} (RSA, Ed25519)", field)


def _check_rsa(numbers: RSAPublicNumbers, field: str) -> None:
    if not _RSA_BITS_MIN <= numbers.n.bit_length() <= _RSA_BITS_MAX:
        raise _bad(f"an RSA key has {_RSA_BITS_MIN} to {_RSA_BITS_MAX} bits", field)
    if not 3 <= numbers.e <= _RSA_EXPONENT_MAX or numbers.e % 2 == 0:
        raise _bad("an RSA exponent is odd and between 3 and 2^32", field)


def keys_from_jwks(data: bytes, *, secrets_allowed: bool) -> dict[str, Key]:
    """Return the usable signature keys of a JWK set by `kid` ("" for a key without one).

    Keys for other purposes or algorithms are passed over, as issuers publish them side by side. A weak or
    broken key of an algorithm we use is an error, and so are two usable keys with one `kid`.

    Args:
        data: the JSON text.
        secrets_allowed: whether shared secrets (`oct`) count: from a file yes, from a URL never.

    Raises:
        ArautoError: BAD_FIELD (`jwks`), also if there is no usable key at all.
    """
    if len(data) > JWKS_BYTES_MAX:
        raise _bad(f"a key set has at most {JWKS_BYTES_MAX} bytes", "jwks")
    try:
        document = read_once(data)
    except ValueError:
        raise _bad("a key set is JSON whose members occur once", "jwks") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > _JWKS_KEYS_MAX:
        raise _bad(f"a key set has a list of at most {_JWKS_KEYS_MAX} keys", "jwks")
    keys: dict[str, Key] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not _is_for_us(entry, secrets_allowed):
            continue
        kid = entry.get("kid", "")
        if not isinstance(kid, str) or len(kid) > _KID_LEN_MAX:
            raise _bad(f"a kid is a string of at most {_KID_LEN_MAX} characters", "jwks")
        if kid in keys:
            raise _bad("two usable keys have the same kid", "jwks")
        keys[kid] = _jwk_key(entry)
    if not keys:
        raise _bad("the key set holds no signature key of RS256, EdDSA or HS256", "jwks")
    return keys


def _is_for_us(entry: dict[str, Any], secrets_allowed: bool) -> bool:
    kty = entry.get("kty")
    algorithm = _ALGORITHM_OF.get(kty) if isinstance(kty, str) else None
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return False
    if kty == "OKP" and entry.get("crv") != "Ed25519":
        return False
    if kty == "oct" and not secrets_allowed:
        return False
    operations = entry.get("key_ops", ["verify"])
    return entry.get("use", "sig") == "sig" and (
        isinstance(operations, list) and "verify" in operations
    )


def _jwk_key(entry: dict[str, Any]) -> Key:
    # Only public members are read; a private part that someone published by mistake is not touched.
    try:
        if entry["kty"] == "oct":
            secret = base64url_decode(entry["k"])
            if not _SECRET_BYTES_MIN <= len(secret) <= _SECRET_BYTES_MAX:
                raise _bad(f"a secret has {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} bytes", "jwks")
            return Key("HS256", secret)
        if entry["kty"] == "OKP":
            return Key("EdDSA", Ed25519PublicKey.from_public_bytes(base64url_decode(entry["x"])))
        modulus, exponent = (int.from_bytes(base64url_decode(entry[m])) for m in ("n", "e"))
        numbers = RSAPublicNumbers(exponent, modulus)
        _check_rsa(numbers, "jwks")
        return Key("RS256", numbers.public_key())
    except ArautoError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, UnsupportedAlgorithm):
        raise _bad("a key of the set is broken", "jwks") from None


def _bad(rule: str, field: str) -> ArautoError:
    return ArautoError(Code.BAD_FIELD, rule, field=field)
