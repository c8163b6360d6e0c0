"""Which ports somebody asked the demo to use: by an option, or by the variables a node has for them."""

from collections.abc import Mapping
from typing import Self

import msgspec
import typer

__all__ = ["Ports"]

_CLIENT, _ADMIN = "ARAUTO_CONNECTION__PORT", "ARAUTO_ADMIN__PORT"
_MAX = 65_535


class Ports(msgspec.Struct, frozen=True):
    """None = nobody asked for one."""

    client: int | None = None
    admin: int | None = None

    @classmethod
    def of(cls, *, client: int | None, admin: int | None, environ: Mapping[str, str]) -> Self:
        """The ports of the options, else those of the environment.

        Raises:
            typer.BadParameter: a variable holds no port, or both ports are the same.
        """
        ports = cls(
            _variable(environ, _CLIENT) if client is None else client,
            _variable(environ, _ADMIN) if admin is None else admin,
        )
        if ports.client and ports.client == ports.admin:
            raise typer.BadParameter(
                f"clients and administrators cannot both have port {ports.client}"
            )
        return ports


def _variable(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "").strip()
    if name not in environ:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _MAX):
        raise typer.BadParameter(
            f"{name}: expected a whole number from 0 to {_MAX}, found {text!r}"
        )
    return int(text)
