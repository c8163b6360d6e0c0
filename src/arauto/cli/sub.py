"""`arauto sub`: print messages as they come."""

import asyncio
from typing import Annotated

import typer

from arauto.cli.connection import (
    DEFAULT_URL,
    CredentialsOption,
    FlavourOption,
    HubOption,
    QuietOption,
    TimeoutOption,
    TokenOption,
    UrlOption,
    fail,
    make_client,
    say,
    show_client_log,
)
from arauto.cli.console import Output, forget_output, leave_ctrl_c
from arauto.cli.messages import JsonPrinter, Printer, TextPrinter, format_serial, parse_serial
from arauto.cli.signals import run_until_asked, stop_signals
from arauto.cli.watch import Watch, is_document
from arauto.errors import ArautoError
from arauto.model import Serial
from arauto.names import check_pattern, is_pattern, is_wide
from arauto.printable import printable

__all__ = ["sub"]


_Channels = Annotated[
    list[str],
    typer.Argument(
        metavar="CHANNEL",
        help="Channels, patterns ('stock:*'), topics (/orders, and all below) or documents (doc:board).",
        show_default=False,
    ),
]
_History = Annotated[
    int, typer.Option("--history", metavar="N", min=0, help="First the last N messages.")
]
_Since = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="EPOCH:OFFSET",
        help="Continue one channel after this place: everything missed comes first.",
        show_default=False,
    ),
]
_Count = Annotated[
    int,
    typer.Option("--count", "-n", metavar="N", min=0, help="Stop after N messages; 0 = never."),
]
_Presence = Annotated[
    bool, typer.Option("--presence", help="Show who is there, who comes and who leaves.")
]
_Json = Annotated[
    bool, typer.Option("--json", help="One JSON object per line, as in the JSON flavour.")
]


def sub(
    channels: _Channels,
    history: _History = 0,
    since: _Since = "",
    count: _Count = 0,
    presence: _Presence = False,
    as_json: _Json = False,
    quiet: QuietOption = False,
    hub: HubOption = "default",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = "",
    credentials: CredentialsOption = "",
    flavour: FlavourOption = "proto",
    timeout: TimeoutOption = 5.0,
) -> None:
    """Print messages as they come, until Ctrl-C.

    Example: arauto sub 'stock:*' /orders --hub shop

    Exit code 0: stopped, or all of --count came. 1: refused. 2: wrong usage. 3: could not connect.
    """
    start = _check(channels, history, since)
    client = make_client(
        url=url,
        hub=hub,
        token=token,
        credentials=credentials,
        flavour=flavour,
        timeout_s=timeout,
        on_state_change=show_client_log(quiet),
    )
    listed = [name for name in channels if presence and not is_wide(name)]
    printer: Printer = JsonPrinter() if as_json else TextPrinter(Output(), listed)
    watch = Watch(
        client,
        printer,
        history=history,
        since=start,
        count=count,
        presence=presence,
        tell=None if quiet else say,
    )
    try:
        ended = asyncio.run(_run(watch, list(dict.fromkeys(channels)), f"{hub} at {url}"))
    except ArautoError as error:
        fail(error, url)
    except BrokenPipeError:
        forget_output()
        return
    if not ended:
        leave_ctrl_c()
    if watch.last is not None and not quiet and _can_continue(channels):
        say(f"to continue from here: --since {format_serial(watch.last)}")


def _can_continue(channels: list[str]) -> bool:
    """Whether one place says where to go on. Patterns and topics have a place in each of their channels."""
    return len(channels) == 1 and not is_wide(channels[0]) and not is_document(channels[0])


def _check(channels: list[str], history: int, since: str) -> Serial | None:
    for channel in channels:
        try:
            check_pattern(channel)
        except ArautoError as error:
            raise typer.BadParameter(error.message, param_hint=printable(channel)) from None
        if is_document(channel) and is_pattern(channel):
            raise typer.BadParameter(
                "documents are opened by name, without * and #", param_hint=printable(channel)
            )
    if (since or history) and any(is_pattern(name) or is_document(name) for name in channels):
        raise typer.BadParameter("--since and --history need channels, not patterns or documents")
    if since and (history or len(channels) > 1):
        raise typer.BadParameter("--since goes with one channel and without --history")
    if since and not _can_continue(channels):
        raise typer.BadParameter(
            "--since needs a channel, not a topic: what lies below has places of its own"
        )
    try:
        return parse_serial(since) if since else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None


async def _run(watch: Watch, channels: list[str], where: str) -> bool:
    with stop_signals() as asked:
        return await run_until_asked(watch.run(channels, where), asked)
