"""What the commands that talk to a node share: where it is, who we are, and how failures end."""

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer
from rich.text import Text

from arauto.cli.console import errors
from arauto.client import Client, ConnectionLostError, RequestTimeoutError, State, Tuning
from arauto.errors import ArautoError
from arauto.printable import printable

__all__ = [
    "EXIT_REFUSED",
    "EXIT_UNREACHABLE",
    "CredentialsOption",
    "FlavourOption",
    "HubOption",
    "QuietOption",
    "TimeoutOption",
    "TokenOption",
    "UrlOption",
    "fail",
    "make_client",
    "say",
    "show_client_log",
]

EXIT_REFUSED, EXIT_UNREACHABLE = 1, 3

DEFAULT_URL = "ws://127.0.0.1:8080"

_PANEL = "Connection"
_SECRET_BYTES_MAX = 65_536

UrlOption = Annotated[
    str,
    typer.Option(
        "--url", envvar="ARAUTO_URL", metavar="URL", help="The node.", rich_help_panel=_PANEL
    ),
]
HubOption = Annotated[
    str,
    typer.Option(
        "--hub", envvar="ARAUTO_HUB", metavar="NAME", help="The hub.", rich_help_panel=_PANEL
    ),
]
TokenOption = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="ARAUTO_TOKEN",
        metavar="TOKEN",
        show_default=False,
        help="Connect with this token; @FILE reads it from a file.",
        rich_help_panel=_PANEL,
    ),
]
CredentialsOption = Annotated[
    str,
    typer.Option(
        "--credentials",
        metavar="TEXT",
        show_default=False,
        help="Sent to the hub's auth provider; @FILE reads them from a file.",
        rich_help_panel=_PANEL,
    ),
]
FlavourOption = Annotated[
    Literal["proto", "json"],
    typer.Option(
        "--flavour", help="How messages travel on the wire.", rich_help_panel=_PANEL, metavar="NAME"
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.05,
        metavar="SECONDS",
        help="How long to try to connect.",
        rich_help_panel=_PANEL,
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but what was asked for, and errors.")
]


def make_client(
    *,
    url: str,
    hub: str,
    token: str,
    credentials: str,
    flavour: Literal["proto", "json"],
    timeout_s: float,
    on_state_change: Callable[[State, State], object] | None = None,
) -> Client:
    """A client as the options describe it.

    Raises:
        typer.BadParameter: an option makes no sense.
    """
    try:
        return Client(
            url,
            hub=hub,
            token=_secret(token, "--token").strip() or None,
            credentials=_secret(credentials, "--credentials") or None,
            flavour=flavour,
            on_state_change=on_state_change,
            tuning=Tuning(connect_timeout_s=timeout_s),
        )
    except ArautoError as error:
        where = f"--{error.field}: " if error.field else ""
        raise typer.BadParameter(f"{where}{error.message}") from None


def _secret(given: str, option: str) -> str:
    """The value of an option that need not stand on the command line, where others could see it."""
    if not given.startswith("@"):
        return given
    try:
        with Path(given[1:]).expanduser().open("rb") as file:
            return file.read(_SECRET_BYTES_MAX).decode().removesuffix("\n")
    except OSError as error:
        raise typer.BadParameter(f"{option}: {given[1:]}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{option}: {given[1:]} is not text") from None
    except RuntimeError:
        raise typer.BadParameter(f"{option}: {given[1:]}: no such home directory") from None


def fail(error: ArautoError, url: str) -> NoReturn:
    """Say why it did not work, in one line, and end with the code that stands for it."""
    if isinstance(error, ConnectionLostError | RequestTimeoutError):
        said = f"could not connect to {url}: {_reason(error)}"
        code = EXIT_UNREACHABLE
    else:
        field = f"{error.field}: " if error.field else ""
        said = f"refused: {field}{error.message} ({int(error.code)} {error.code.name})"
        code = EXIT_REFUSED
    say(said, "red")
    if isinstance(error, ConnectionLostError):
        say("Is a node running there? `arauto demo` starts one to try things with.")
    raise typer.Exit(code)


def say(text: str, style: str = "dim") -> None:
    """A line beside the output proper, for the person who watches."""
    errors().print(Text(printable(text), style=style))


#: How the client logs what the node refused without being asked (`arauto.client.session`).
_NODE_SAYS = "the node says: %s"


class _Told(logging.Handler):
    """Shows what the client logs about trouble; its other lines are for those who look for bugs."""

    def __init__(self, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet
        self._reason = ""
        self.connected_before = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            if record.msg == _NODE_SAYS and not self.connected_before:
                return  # it is why the command ends, which says so
            say(record.getMessage(), "yellow")
            return
        args = record.args if isinstance(record.args, tuple) else ()
        lost = [arg for arg in args if isinstance(arg, ConnectionLostError)]
        if not lost or not self.connected_before or self._quiet:
            return
        reason = _reason(lost[0])
        if reason != self._reason:  # an hour of attempts is one line, not a thousand
            self._reason = reason
            say(f"connection lost: {reason}; trying again")

    def on_state_change(self, before: State, now: State) -> None:
        if now is State.CONNECTED:
            if self.connected_before and not self._quiet:
                say("connected again")
            self.connected_before = True
            self._reason = ""


def show_client_log(quiet: bool) -> Callable[[State, State], object]:
    """Show on stderr when the connection is lost and when it is back.

    Returns:
        What to give the client as `on_state_change`.
    """
    told = _Told(quiet)
    log = logging.getLogger("arauto.client")
    log.handlers = [told]
    log.propagate = False
    log.setLevel(logging.INFO)
    return told.on_state_change


def _reason(error: ArautoError) -> str:
    """Why there is no connection, without the numbers and addresses that systems put into it."""
    cause = error.__cause__
    if isinstance(cause, socket.gaierror):
        return "there is no host of that name"  # its number is none of the system's
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno).lower()
    return error.message
