"""What every part of the configuration is made of: the base record, value ranges and secrecy.

The parts themselves stand in `realtime.py`, `edges.py`, `backends.py` and `operation.py`, one class per
category; `schema.py` puts them together. The string under a field is its documentation: `document.py`
reads it from the source, so it must stay a plain literal.
"""

from typing import Annotated, Any

import msgspec

__all__ = [
    "RESERVED",
    "Bytes",
    "Count",
    "FilePath",
    "Interval",
    "MemoryBytes",
    "Name",
    "Port",
    "PositiveCount",
    "Ratio",
    "Seconds",
    "Section",
    "is_secret",
    "public_view",
    "secret_values",
]

_YEAR_S = 366 * 86_400

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
PositiveCount = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 32)]
MemoryBytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=100 * _YEAR_S)]
Interval = Annotated[float, msgspec.Meta(gt=0, le=_YEAR_S)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

FilePath = Annotated[str, msgspec.Meta(extra={"path": True})]
"""A file or directory; `~` at its beginning is somebody's home directory, as in a shell."""

RESERVED = msgspec.Meta(extra={"reserved": True})
"""Marks a field that is accepted and does nothing yet; its documentation says for what it is meant."""

_MASK = "***"

#: Fields whose values are never shown. By name, so that the hub settings' own secrets are covered too;
#: headers are among them because credentials for other services travel there.
_SECRET_FIELDS = frozenset({"headers", "otlp_headers", "password", "secret", "secret_key", "token"})


def is_secret(field_name: str) -> bool:
    """Whether the value of a field of this (snake_case) name must never be shown."""
    return field_name in _SECRET_FIELDS


class Section(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """One category of the configuration. Its text form hides secrets, so it may be logged."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({public_view(self)!r})"

    def __rich_repr__(self) -> Any:
        yield from public_view(self).items()


def public_view(part: msgspec.Struct) -> dict[str, Any]:
    """Return a configuration (or a part of one) as plain values by outside names, secrets masked."""
    view: dict[str, Any] = {}
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if is_secret(field.name) and value:
            view[field.encode_name] = _MASK
        elif isinstance(value, msgspec.Struct):
            view[field.encode_name] = public_view(value)
        else:
            view[field.encode_name] = msgspec.to_builtins(value)
    return view


def secret_values(part: msgspec.Struct) -> list[str]:
    """Return the values of all secret fields, for those who must keep them out of sight."""
    found: list[str] = []
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, msgspec.Struct):
            found += secret_values(value)
        elif is_secret(field.name) and value:
            found += value.values() if isinstance(value, dict) else [value]
    return found
