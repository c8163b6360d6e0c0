"""`arauto pipeline mine`: find what goes together, and what follows what."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arauto.cli.console import Output, errors
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    parse_time,
    read_config,
    say_if_hub_is_missing,
    starting_spark,
)
from arauto.config.addresses import admin_url, lake_dir
from arauto.errors import ArautoError, Code
from arauto.names import check_hub, check_kept
from arauto.pipeline.lake.alone import check_writable
from arauto.printable import printable

if TYPE_CHECKING:
    from arauto.config.schema import Config
    from arauto.pipeline.mining.options import MiningOptions
    from arauto.pipeline.mining.run import Mined

__all__ = ["mine"]

_CHANGES_SHOWN = 20


_Hub = Annotated[str, typer.Option(help="Whose messages.")]
_Items = Annotated[
    list[str],
    typer.Option(
        metavar="PATH",
        help="What to look at: payload.items[*].sku, payload.kind, headers.region, channel. "
        "Several give items such as payload.kind=buy.",
    ),
]
_Kind = Annotated[
    Literal["sets", "sequences"], typer.Option(help="What goes together, or what follows what.")
]
_Per = Annotated[
    Literal["", "message", "session", "user"],
    typer.Option(help="What makes a basket: a message, or what one session or user sent."),
]
_Window = Annotated[int, typer.Option(metavar="SECONDS", min=1, help="… within so many seconds.")]
_Channel = Annotated[str, typer.Option(help="Messages of this channel only.")]
_Support = Annotated[
    float, typer.Option(min=0, max=1, help="Share of baskets a pattern must be in.")
]
_Confidence = Annotated[float, typer.Option(min=0, max=1, help="How often a rule must hold.")]
_Tolerance = Annotated[
    float, typer.Option(min=0, help="Share by which a number must move to be told.")
]
_From = Annotated[
    str, typer.Option("--from", metavar="TIME", help="Messages since: 2026-11-16, 2h, 7d.")
]
_To = Annotated[str, typer.Option(metavar="TIME", help="Messages before.")]
_Publish = Annotated[
    str | None, typer.Option(metavar="CHANNEL", help="Publish what changed to this channel.")
]
_Show = Annotated[int, typer.Option(min=1, help="Patterns to print of each kind.")]


def mine(
    hub: _Hub,
    items: _Items,
    kind: _Kind = "sets",
    per: _Per = "",
    window: _Window = 3_600,
    channel: _Channel = "",
    support: _Support = 0.01,
    confidence: _Confidence = 0.5,
    tolerance: _Tolerance = 0.2,
    from_: _From = "",
    to: _To = "",
    publish: _Publish = None,
    show: _Show = 20,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Find what goes together, and what follows what, in a hub's messages.

    Results are stored in the table `mined` under a run number; the same question asked again is compared
    with its last run.

    arauto pipeline mine --hub shop --items 'payload.items[*].sku' --from 7d
    """
    now = datetime.now(UTC)
    times = {
        "from_ms": parse_time(from_, now) if from_ else None,
        "to_ms": parse_time(to, now) if to else None,
    }
    settings = read_config(config, data_dir)
    console = errors()
    if publish is not None:
        _check_publishing(settings, hub, publish)
    check_writable(lake_dir(settings) / "_mining")
    with starting_spark(settings, "arauto-mine", console, master=master) as context:
        from arauto.pipeline.mining.options import MiningOptions
        from arauto.pipeline.mining.run import mine as run_mining

        options = MiningOptions(
            hub,
            kind,
            tuple(items),
            per=per or ("message" if kind == "sets" else "session"),
            window_s=window,
            support_min=support,
            confidence_min=confidence,
            tolerance=tolerance,
            channel=channel,
        )
        with console.status("mining …"):
            mined = run_mining(context.lake, options, now_ms=int(now.timestamp() * 1000), **times)
            if not mined.bounded.baskets:
                say_if_hub_is_missing(console, context, hub)
        _show(Output(), mined, options, show)
        if publish is not None:
            _publish(settings, mined, options, publish, console)


def _show(output: Console, mined: "Mined", options: "MiningOptions", show: int) -> None:
    from arauto.pipeline.mining.show import change_counts, first_changes, top_patterns

    for kind in ("set", "rule") if options.kind == "sets" else ("sequence",):
        table = Table(title=f"{kind}s", title_justify="left")
        extra = ("confidence", "lift") if kind == "rule" else ()
        for name in ("pattern", "baskets", "share", *extra):
            table.add_column(name, justify="left" if name == "pattern" else "right")
        for found in top_patterns(mined, kind, show):
            cells = [f"{found.support:,}", f"{found.share:.1%}"]
            if extra:
                cells += [f"{found.confidence or 0:.0%}", f"{found.lift or 0:.2f}"]
            table.add_row(Text(printable(found.text)), *cells)
        output.print(table if table.row_count else f"no {kind}s")
    told = ", ".join(f"{count} {name}" for name, count in change_counts(mined.changes).items())
    since = " since the run before" if mined.run > 1 else ", the first run of this question"
    output.print(f"run {mined.run}: {told}{since}", style="bold")
    if mined.run > 1:
        for change in first_changes(mined.changes, _CHANGES_SHOWN):
            output.print(Text(f"  {change.change:<8}{printable(change.text)}"))
    bounded = mined.bounded
    output.print(
        f"{bounded.baskets:,} baskets, {bounded.sampled:,} looked at, patterns in at least "
        f"{bounded.count_min:,}; left out: {bounded.rare_items:,} rare items, "
        f"{bounded.stop_items:,} that are everywhere; {bounded.shortened:,} baskets cut to "
        f"{bounded.size_max}",
        style="dim",
    )


def _check_publishing(settings: "Config", hub: str, channel: str) -> None:
    """Whether changes can be told, before a run is stored whose changes nobody would hear of."""
    from arauto.pipeline.node_api import NodeApi, Retry

    check_hub(hub)
    check_kept(channel)
    if not settings.admin.token:
        raise ArautoError(Code.BAD_CONFIG, "admin.token is not set", field="admin.token")
    with NodeApi(
        admin_url(settings), settings.admin.token, retry=Retry(attempts_max=3, total_s=5)
    ) as api:
        # Any question about the hub will do: it must be there, and the token be good.
        api.messages_per_s(hub)


def _publish(
    settings: "Config", mined: "Mined", options: "MiningOptions", channel: str, console: Console
) -> None:
    from arauto.config.addresses import admin_url
    from arauto.pipeline.mining.run import change_messages
    from arauto.pipeline.node_api import NodeApi

    try:
        with NodeApi(admin_url(settings), settings.admin.token) as api:
            outcomes = api.publish(options.hub, change_messages(mined, options, channel))
        failed = [outcome.error for outcome in outcomes if outcome.error]
        console.print(f"published to {channel}: {len(outcomes) - len(failed)} of {len(outcomes)}")
        if failed:
            raise failed[0]
    except ArautoError:
        # The next run is compared with this one, and will not tell these changes again.
        console.print(
            f"run {mined.run} of job {options.job} is stored, and not all of its changes were "
            "published; they are in the table mined",
            style="yellow",
        )
        raise
