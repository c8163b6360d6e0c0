"""`arauto pub`: publish messages."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, NoReturn

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
    show_client_log,
)
from arauto.cli.payloads import Form, Payload, read_payload
from arauto.cli.publishing import Publisher, Receipts, Source
from arauto.cli.signals import EXIT_FORCED, run_until_asked, stop_signals
from arauto.client import Draft
from arauto.errors import ArautoError
from arauto.model import BINARY
from arauto.names import check_channel
from arauto.printable import printable

__all__ = ["pub"]

_FILE_BYTES_MAX = 16 * 1024 * 1024


_Channel = Annotated[str, typer.Argument(metavar="CHANNEL", help="Where to.")]
_Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="The message; - publishes each line of standard input that is not empty.",
        show_default=False,
    ),
]
_JsonData = Annotated[
    bool, typer.Option("--json-data", help="DATA must be JSON. Else: JSON if it is, or text.")
]
_Text = Annotated[bool, typer.Option("--text", help="DATA is text, even if it is JSON.")]
_BinaryFile = Annotated[
    Path | None,
    typer.Option("--binary-file", metavar="FILE", help="Publish the bytes of a file."),
]
_Retain = Annotated[bool, typer.Option("--retain", help="Keep it for those who subscribe later.")]
_Store = Annotated[bool, typer.Option("--store", help="Make it durable before it is acknowledged.")]
_Key = Annotated[
    str, typer.Option(metavar="KEY", help="What it is the latest value of.", show_default=False)
]
_IdempotencyKey = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="The same key again within the channel's window delivers nothing.",
        show_default=False,
    ),
]
_Ttl = Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Void after this; 0 = never.")]
_Repeat = Annotated[int, typer.Option(metavar="N", min=1, help="Publish it N times.")]
_Interval = Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Wait between messages.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object per message.")]


def pub(
    channel: _Channel,
    data: _Data = None,
    json_data: _JsonData = False,
    text: _Text = False,
    binary_file: _BinaryFile = None,
    retain: _Retain = False,
    store: _Store = False,
    key: _Key = "",
    idempotency_key: _IdempotencyKey = "",
    ttl: _Ttl = 0.0,
    repeat: _Repeat = 1,
    interval: _Interval = 0.0,
    as_json: _Json = False,
    quiet: QuietOption = False,
    hub: HubOption = "default",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = "",
    credentials: CredentialsOption = "",
    flavour: FlavourOption = "proto",
    timeout: TimeoutOption = 5.0,
) -> None:
    """Publish messages and print the place each one got, as EPOCH:OFFSET.

    Example: arauto pub stock:42 '{"level": 7}' --hub shop --retain

    Exit code 0: all acknowledged. 1: refused. 2: wrong usage. 3: could not connect.
    """
    try:
        check_channel(channel)
    except ArautoError as error:
        raise typer.BadParameter(error.message, param_hint=printable(channel)) from None
    form = _form(json_data=json_data, text=text)
    given = _given(data, binary_file, form)
    if given is None and repeat > 1:
        raise typer.BadParameter("--repeat needs DATA, not lines of standard input")
    source = Source(given, form, repeat)
    client = make_client(
        url=url,
        hub=hub,
        token=token,
        credentials=credentials,
        flavour=flavour,
        timeout_s=timeout,
        on_state_change=show_client_log(quiet),
    )
    like = Draft(
        channel=channel,
        data=b"",
        retain=retain,
        store=store,
        key=key,
        idempotency_key=idempotency_key,
        ttl_s=ttl,
    )
    publisher = Publisher(client, like, Receipts(channel, as_json=as_json, quiet=quiet), interval)
    try:
        finished = asyncio.run(_run(publisher, source))
    except ArautoError as error:
        fail(error, url)
    except ValueError as error:
        _bad_data(str(error))
    if not finished:
        raise typer.Exit(EXIT_FORCED)


def _form(*, json_data: bool, text: bool) -> Form:
    if json_data and text:
        raise typer.BadParameter("--json-data and --text contradict each other")
    return Form.JSON if json_data else Form.TEXT if text else Form.GUESS


def _given(data: str | None, binary_file: Path | None, form: Form) -> Payload | None:
    """The message to publish; None if messages come from standard input."""
    if (data is None) == (binary_file is None):
        raise typer.BadParameter("give either DATA, or - for standard input, or --binary-file")
    if binary_file is not None:
        try:
            with binary_file.open("rb") as file:
                return Payload(file.read(_FILE_BYTES_MAX), BINARY)
        except OSError as error:
            raise typer.BadParameter(f"--binary-file: {error.strerror}") from None
    if data is None or data == "-":
        return None
    try:
        # Arguments need not be text; this is what was typed.
        return read_payload(os.fsencode(data), form)
    except ValueError as error:
        _bad_data(str(error))


def _bad_data(why: str) -> NoReturn:
    raise typer.BadParameter(printable(why), param_hint="DATA")


async def _run(publisher: Publisher, source: Source) -> bool:
    with stop_signals() as asked:
        return await run_until_asked(publisher.run(source), asked)
