"""Opens compact signed tokens (RFC 7515, 7519): strict about their form, one algorithm per key. Pure.

Nothing a token says is used before its signature is checked, except `alg` (must equal the key's), `typ`
(chooses between Arauto's own tokens and a hub's) and `kid` (looked up among the hub's own keys). A token
can never bring, name or point to a key. All refusals look alike from outside; `reason` is for the log.
"""

import re
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from arauto.codec.json_body import read_once
from arauto.errors import ArautoError, Code

__all__ = ["TOKEN_BYTES_MAX", "Header", "Key", "TokenError", "open_token", "read_header", "sign"]

TOKEN_BYTES_MAX = 8_192
_KID_LEN_MAX = 256

#: Three base64url parts, none empty, no padding.
_COMPACT = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\Z")

#: Members that change how a token must be read, or that carry or point to a key of the sender's choice.
_REFUSED_HEADERS = frozenset({"crit", "b64", "zip", "enc", "jwk", "jku", "x5u", "x5c"})

_JWS = jwt.PyJWS(
    algorithms=["HS256", "HS384", "HS512", "RS256", "EdDSA"],
    options={"verify_signature": True, "enforce_minimum_key_length": True},
)


class TokenError(ArautoError):
    """A refused token. The public text is the same for every reason.

    Attributes:
        reason: a word for logs and tests; never taken from the token.
    """

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        if expired:
            super().__init__(Code.TOKEN_EXPIRED, "the token has expired", field="credentials")
        else:
            super().__init__(Code.TOKEN_INVALID, "the token is not valid here", field="credentials")
        self.reason = reason


class Key(msgspec.Struct, frozen=True):
    """A verification key with the one algorithm it may be used with."""

    algorithm: str
    material: bytes | RSAPublicKey | Ed25519PublicKey

    def __repr__(self) -> str:
        return f"Key({self.algorithm})"  # the material may be a secret


class Header(msgspec.Struct, frozen=True):
    """The unverified header's three members that matter; "" where absent."""

    alg: str
    typ: str
    kid: str


def read_header(token: bytes) -> Header | None:
    """Return the header of something that has the form of a compact token; None if it has not.

    Raises:
        TokenError: it has the form, but is too long or its header breaks a rule.
    """
    form = _COMPACT.match(token) if len(token) <= TOKEN_BYTES_MAX else None
    if form is None:
        if len(token) > TOKEN_BYTES_MAX and token.count(b".") == 2:
            raise TokenError("too-long")
        return None
    members = _object(_decode_part(form[1]), "header")
    for name in members:
        if name in _REFUSED_HEADERS:
            raise TokenError("header-refused")
    alg, typ, kid = (members.get(name, "") for name in ("alg", "typ", "kid"))
    if not isinstance(alg, str) or not isinstance(typ, str) or not isinstance(kid, str):
        raise TokenError("header-type")
    if len(kid) > _KID_LEN_MAX or ("kid" in members and not kid):
        raise TokenError("header-kid")
    return Header(alg, typ, kid)


def open_token(token: bytes, header: Header, key: Key) -> dict[str, Any]:
    """Check the signature and return the claims. Times and other claims are the caller's to check.

    Raises:
        TokenError: wrong algorithm, wrong signature, or claims that are not one JSON object.
    """
    if header.alg != key.algorithm:
        raise TokenError("alg")
    try:
        # mypy: PyJWT's types name only some of the keys it accepts.
        opened = _JWS.decode_complete(token, key.material, algorithms=[key.algorithm])
    except jwt.InvalidSignatureError:
        raise TokenError("signature") from None
    except jwt.PyJWTError:
        raise TokenError("form") from None
    return _object(opened["payload"], "claims")


def sign(claims: bytes, secret: bytes, algorithm: str, typ: str) -> str:
    """Return a compact token over JSON claims, signed with a shared secret."""
    return _JWS.encode(claims, secret, algorithm=algorithm, headers={"typ": typ})


def _decode_part(part: bytes) -> bytes:
    try:
        return jwt.utils.base64url_decode(part)
    except ValueError:
        raise TokenError("base64") from None


def _object(data: bytes, what: str) -> dict[str, Any]:
    """Parse one JSON object; refuse repeated members, on which two readers may disagree, and NaN."""
    try:
        value = read_once(data.decode())
    except ValueError:
        raise TokenError(f"{what}-json") from None
    if not isinstance(value, dict):
        raise TokenError(f"{what}-json")
    return value
