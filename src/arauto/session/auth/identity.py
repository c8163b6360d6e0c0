"""Builds an `Identity` from what an auth provider or a token said. Pure; every limit is here.

What comes from outside is decoded to strict records first: an unknown field is refused, because a field that
is silently ignored today may be one that someone relies on to *restrict* a session tomorrow.
"""

from typing import Annotated

import msgspec

from arauto.errors import ArautoError, Code
from arauto.grants import GRANTS_LEN_MAX, check_grants
from arauto.model import Grant, Grants, Identity
from arauto.names import check_channel

__all__ = [
    "EXTRA_BYTES_MAX",
    "EXTRA_LEN_MAX",
    "USER_BYTES_MAX",
    "WireExtra",
    "WireGrant",
    "WireGrants",
    "build_identity",
    "check_user",
    "grants_of",
    "wire_of",
]

#: Leaves room for the longest namespace (64) and a colon in a channel name of 255 bytes.
USER_BYTES_MAX = 128
EXTRA_LEN_MAX = 32
EXTRA_BYTES_MAX = 4_096

WireExtra = Annotated[dict[str, str], msgspec.Meta(max_length=EXTRA_LEN_MAX)]


class WireGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One channel grant as JSON: `{"channel": "stock:*", "publish": false, "subscribe": true}`."""

    channel: str
    publish: bool = False
    subscribe: bool = False


WireChannels = Annotated[list[WireGrant], msgspec.Meta(max_length=GRANTS_LEN_MAX)]
WireRpcs = Annotated[list[str], msgspec.Meta(max_length=GRANTS_LEN_MAX)]


class WireGrants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `grants` claim of a token: `{"channels": [...], "rpcs": [...]}`."""

    channels: WireChannels = []
    rpcs: WireRpcs = []


def grants_of(wire: WireGrants) -> Grants:
    """Turn decoded JSON into grants; they are not checked yet."""
    return Grants(
        channels=tuple(Grant(g.channel, g.publish, g.subscribe) for g in wire.channels),
        rpcs=tuple(wire.rpcs),
    )


def wire_of(grants: Grants) -> WireGrants:
    """The inverse of `grants_of`."""
    return WireGrants(
        channels=[WireGrant(g.channel, g.publish, g.subscribe) for g in grants.channels],
        rpcs=list(grants.rpcs),
    )


def check_user(user: str) -> str:
    """Return the user id if it can stand in a user channel's name, whatever the hub's namespace.

    Raises:
        ArautoError: BAD_FIELD.
    """
    try:
        check_channel(f"u:{user}")
        size_bytes = len(user.encode())
    except (ArautoError, UnicodeEncodeError):
        size_bytes = 0
    if not 1 <= size_bytes <= USER_BYTES_MAX:
        raise ArautoError(
            Code.BAD_FIELD,
            f"a user id is 1-{USER_BYTES_MAX} bytes of visible characters, without white space, * or #",
            field="user",
        )
    return user


def build_identity(
    user: str, grants: Grants, extra: dict[str, str], expires_ms: int, issued_ms: int
) -> Identity:
    """Check every part that came from outside and put all together.

    Raises:
        ArautoError: BAD_FIELD, naming the part.
    """
    check_user(user)
    check_grants(grants)
    if len(extra) > EXTRA_LEN_MAX:
        raise ArautoError(Code.BAD_FIELD, f"at most {EXTRA_LEN_MAX} entries", field="extra")
    try:
        size_bytes = sum(len(k.encode()) + len(v.encode()) for k, v in extra.items())
    except UnicodeEncodeError:
        raise ArautoError(Code.BAD_FIELD, "extra is valid UTF-8", field="extra") from None
    if size_bytes > EXTRA_BYTES_MAX:
        raise ArautoError(Code.BAD_FIELD, f"at most {EXTRA_BYTES_MAX} bytes", field="extra")
    return Identity(user, grants, extra, expires_ms, issued_ms)
