"""Which web pages may connect. Pure.

Browsers send the page's origin with every WebSocket and cross-site request; anything else (servers, tools)
sends none and is not restricted by this. Comparison is exact: scheme, host and port. Only where TLS may have
ended in a proxy, a page knows https and this node http.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

__all__ = ["is_allowed", "is_same", "normalise"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LEN_MAX = 512


def is_allowed(origin: str | None, host: str | None, secure: bool, allowed: Iterable[str]) -> bool:
    """Whether a page of `origin` may use this node, which it addressed as `host`: a name that nobody else
    can let lead here, else None.
    """
    if origin is None:
        return True
    wanted = normalise(origin)
    if wanted is None:
        return "*" in allowed
    if is_same(origin, host, secure):
        return True
    return any(entry == "*" or normalise(entry) == wanted for entry in allowed)


def is_same(origin: str, host: str | None, secure: bool) -> bool:
    """Whether a page of `origin` was served under the name it asks for."""
    wanted = normalise(origin)
    if host is None or wanted is None:
        return False
    schemes = ("https",) if secure else ("http", "https")
    return any(wanted == normalise(f"{scheme}://{host}") for scheme in schemes)


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
