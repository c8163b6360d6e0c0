"""Keeps secrets, payloads and control characters out of log lines. Pure.

Three nets, each for what slips through the one before: fields whose name says that they are secret,
values that are known to be secret (those of the configuration), and text that looks like a secret
(tokens, credentials in URLs). Bytes are never shown at all, only their number.
"""

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, quote_plus

__all__ = ["MASK", "Redactor"]

MASK = "***"

_TEXT_LEN_MAX = 2_048
_TRACE_LEN_MAX = 16_384
_SCAN_LEN_MAX = 65_536
_DEPTH_MAX = 4
_ITEMS_MAX = 50

#: A shorter "secret" would mask ordinary words.
_KNOWN_LEN_MIN = 6

_SECRET_WORDS = frozenset(
    {
        *("apikey", "authorization", "cookie", "credential", "credentials", "jwt", "key", "keys"),
        *("passphrase", "passwd", "password", "secret", "secrets", "signature", "token", "tokens"),
    }
)
#: What may follow such a word without being secret itself: `token_error`, `jwks_key_id`.
_HARMLESS_ENDS = frozenset(
    {
        *("algorithm", "code", "error", "file", "id", "issuer", "kind", "name", "path", "reason"),
        *("status", "type", "url"),
    }
)
_PAYLOAD_WORDS = frozenset({"body", "content", "data", "frame", "payload", "payloads"})
#: Fields that may run over several lines.
_TRACES = frozenset({"exception", "stack"})

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_LINE_BREAK = re.compile(r"[\n\t]")

_LOOKS_SECRET: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
        ),
        MASK,
    ),
    (re.compile(r"\beyJ[\w-]{4,}\.[\w-]+(?:\.[\w-]*){0,3}"), MASK),
    (re.compile(r"\b(bearer|basic)(\s+|%20)[\w.~+/=%-]{4,}", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(r"(://[^/\s:@]{0,255}:)[^@\s/]{1,255}@"), rf"\1{MASK}@"),
    (
        re.compile(
            r"\b([\w-]{0,32}(?:token|secret|passw(?:or)?d|credentials|api[_-]?key|restore[_-]?key|"
            r"authorization))([\"']?\s{0,3}[=:]\s{0,3}b?[\"']?)(?!\s)[^\s\"',;&}]+",
            re.IGNORECASE,
        ),
        rf"\1\2{MASK}",
    ),
)


class Redactor:
    """Cleans the fields of a log line; a structlog processor.

    Args:
        secrets: values that must never appear, wherever they turn up. Very short ones are left out.
    """

    __slots__ = ("_known", "_secrets")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Never show this value either."""
        if len(secret) < _KNOWN_LEN_MIN:
            return
        # A line break in a secret is shown escaped; in a URL it is shown percent-encoded.
        self._secrets |= {secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]}
        longest_first = sorted(self._secrets, key=lambda text: (-len(text), text))
        self._known = re.compile("|".join(re.escape(text) for text in longest_first))

    def __call__(
        self, logger: object, method: str, event_dict: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        return {
            key: value if key.startswith("_") else self._field(key, value, 0)
            for key, value in event_dict.items()
        }

    def text(self, text: str, *, len_max: int = _TEXT_LEN_MAX) -> str:
        """Return text without anything that is or looks like a secret, cut to a bounded length."""
        text = text[:_SCAN_LEN_MAX]
        if self._known is not None:
            text = self._known.sub(MASK, text)
        for pattern, instead in _LOOKS_SECRET:
            text = pattern.sub(instead, text)
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode()
        text = _CONTROL.sub(_escape, text)
        return text if len(text) <= len_max else text[:len_max] + "…"

    def _field(self, key: str, value: object, depth: int) -> object:
        words = [word.lower() for word in _WORD.findall(key)]
        last = words[-1] if words else ""
        if value is not None:
            is_plain = isinstance(value, bool | int | float)
            named = bool(_SECRET_WORDS.intersection(words))
            # `token_ttl_s: 300` is worth reading; `token: 300` is not shown.
            if last in _SECRET_WORDS or (named and not is_plain and last not in _HARMLESS_ENDS):
                return MASK
            if last in _PAYLOAD_WORDS and not is_plain:
                return _size(value)
        if key in _TRACES and isinstance(value, str):
            return self.text(value, len_max=_TRACE_LEN_MAX)
        return self._value(value, depth)

    def _value(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return int(value) if abs(value) < 2**63 else str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return _size(value)
        if isinstance(value, str):
            return _LINE_BREAK.sub(_escape, self.text(value))
        if depth < _DEPTH_MAX and isinstance(value, Mapping):
            return {
                self._name(key): self._field(str(key), item, depth + 1)
                for key, item in list(value.items())[:_ITEMS_MAX]
            }
        if depth < _DEPTH_MAX and isinstance(value, list | tuple):
            return [self._value(item, depth + 1) for item in value[:_ITEMS_MAX]]
        return _LINE_BREAK.sub(_escape, self.text(_described(value)))

    def _name(self, key: object) -> str:
        return _LINE_BREAK.sub(_escape, self.text(str(key), len_max=128))


def _escape(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def _size(value: object) -> str:
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    if isinstance(value, str):
        return f"<{len(value)} characters>"
    return MASK


def _described(value: object) -> str:
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception as error:  # a broken __repr__ must not cost the log line
        return f"<{type(value).__name__}: {type(error).__name__} in its text form>"
