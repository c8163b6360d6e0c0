"""Which web pages may connect. Pure.

Browsers send the page's origin with every WebSocket and cross-site request; anything else (servers, tools)
sends none and is not restricted by this. Comparison is exact: scheme, host and port.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

__all__ = ["is_allowed", "normalise"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LEN_MAX = 512


def is_allowed(origin: str | None, host: str | None, secure: bool, allowed: Iterable[str]) -> bool:
    """Whether a page of `origin` may use this node, which it addressed as `host`."""
    if origin is None:
        return True
    wanted = normalise(origin)
    if wanted is None:
        return "*" in allowed
    if host is not None and wanted == normalise(f"{'https' if secure else 'http'}://{host}"):
        return True
    return any(entry == "*" or normalise(entry) == wanted for entry in allowed)


def normalise(origin: str) -> tuple[str, str, int] | None:
    """(scheme, host, port), or None if it is not an http(s) origin ("null" among others)."""
    if len(origin) > _LEN_MAX:
        return None
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return None
    if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname.lower(), port or _DEFAULT_PORTS[parts.scheme]
