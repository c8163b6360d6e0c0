"""Secrets of a hub are write-only: shown as a mask, and the mask, sent back, keeps them. Pure."""

import hashlib

import msgspec

from arauto.errors import ArautoError, Code
from arauto.settings import AuthProvider, HubSettings, JwtSettings

__all__ = ["MASK", "masked", "unmasked", "version_of"]

MASK = "***"


def masked(settings: HubSettings) -> HubSettings:
    """The settings as they may be shown."""
    provider, jwt = settings.auth_provider, settings.jwt
    if provider is not None and provider.headers:
        provider = msgspec.structs.replace(provider, headers=dict.fromkeys(provider.headers, MASK))
    if jwt is not None and jwt.secret:
        jwt = msgspec.structs.replace(jwt, secret=MASK)
    return msgspec.structs.replace(settings, auth_provider=provider, jwt=jwt)


def unmasked(settings: HubSettings, current: HubSettings | None) -> HubSettings:
    """The settings as they are to be stored: what is masked in them is taken from the current ones.

    Raises:
        ArautoError: BAD_FIELD if there is nothing to keep.
    """
    kept = current or HubSettings()
    return msgspec.structs.replace(
        settings,
        auth_provider=_provider(settings.auth_provider, kept.auth_provider),
        jwt=_jwt(settings.jwt, kept.jwt),
    )


def _jwt(given: JwtSettings | None, current: JwtSettings | None) -> JwtSettings | None:
    if given is None or not _is_mask(given.secret):
        return given
    if current is None or not current.secret:
        raise _nothing_kept("jwt.secret")
    return msgspec.structs.replace(given, secret=current.secret)


def _provider(given: AuthProvider | None, current: AuthProvider | None) -> AuthProvider | None:
    if given is None or MASK not in given.headers.values():
        return given
    # Else whoever may change the address could have the secrets sent to a server of their own.
    if current is not None and given.url != current.url:
        raise ArautoError(
            Code.BAD_FIELD,
            "a new url needs its headers given anew; kept secrets go to the old one only",
            field="authProvider.headers",
        )
    headers = dict(given.headers)
    for name, value in headers.items():
        if _is_mask(value):
            if current is None or name not in current.headers:
                raise _nothing_kept("authProvider.headers")
            headers[name] = current.headers[name]
    return msgspec.structs.replace(given, headers=headers)


def _is_mask(text: str) -> bool:
    return text == MASK


def _nothing_kept(field: str) -> ArautoError:
    return ArautoError(
        Code.BAD_FIELD, f"{MASK} keeps a stored secret, and there is none", field=field
    )


def version_of(settings: msgspec.Struct) -> str:
    """A short text that changes with the settings.

    Secrets count only as being there or not: a digest of them would let a reader try guesses.
    """
    shown = masked(settings) if isinstance(settings, HubSettings) else settings
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]
