"""`arauto pipeline replay`: publish the past again."""

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from arauto.cli.console import errors, leave_ctrl_c
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    parse_time,
    progress_bar,
    read_config,
    starting_spark,
)
from arauto.config.addresses import admin_url, lake_dir
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline.node_api import NodeApi
from arauto.pipeline.replay.engine import Limits, limits_for
from arauto.pipeline.replay.progress import Progress, ProgressFile, open_progress
from arauto.pipeline.replay.spec import RATE_MAX, TARGET, ReplaySpec, check_spec
from arauto.printable import printable

if TYPE_CHECKING:
    from arauto.pipeline.context import Context
    from arauto.pipeline.replay.job import Preview

__all__ = ["parse_speed", "replay"]

EXIT_INTERRUPTED = 130

_Channels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CHANNEL...",
        help="Names, patterns or topics, quoted: 'stock:*'.",
        show_default=False,
    ),
]
_Hub = Annotated[str, typer.Option(metavar="HUB", help="Whose messages.")]
_From = Annotated[
    str, typer.Option("--from", metavar="TIME", help="2026-11-16T10:30, or 2h, 7d ago.")
]
_Until = Annotated[str, typer.Option(metavar="TIME", help="Messages before; else up to now.")]
_To = Annotated[
    str, typer.Option(metavar="CHANNEL", help="Where to, with {id} and {channel}; or: same.")
]
_ToHub = Annotated[str, typer.Option(metavar="HUB", help="Another hub.")]
_Speed = Annotated[
    str, typer.Option(metavar="N", help="original, full, or a factor such as 2 or 0.5.")
]
_Rate = Annotated[int, typer.Option(metavar="N", help="Messages a second, at most.")]
_Id = Annotated[str, typer.Option("--id", metavar="ID", help="Its name; else made up.")]
_Derived = Annotated[
    bool,
    typer.Option("--include-derived", help="Also what the pipeline or another replay published."),
]
_Skip = Annotated[
    bool,
    typer.Option("--skip-refused", help="Leave out what the node refuses, instead of stopping."),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be published.")]
_Resume = Annotated[
    str, typer.Option(metavar="ID", help="Take up a replay where it stopped.", show_default=False)
]


def replay(
    channels: _Channels = None,
    hub: _Hub = "default",
    from_: _From = "1h",
    until: _Until = "",
    to: _To = TARGET,
    to_hub: _ToHub = "",
    speed: _Speed = "original",
    rate: _Rate = RATE_MAX,
    id_: _Id = "",
    include_derived: _Derived = False,
    skip_refused: _Skip = False,
    dry_run: _DryRun = False,
    resume: _Resume = "",
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Publish messages of the past again: in order, marked as a replay, giving way to live traffic.

    Example: arauto pipeline replay 'stock:*' --hub shop --from 2h --speed 10

    Exit code 0: all published. 1: failed. 2: wrong usage. 130: stopped; --resume goes on.
    """
    console = errors()
    now = datetime.now(UTC)
    spec: ReplaySpec | None = None
    if bool(channels) == bool(resume):
        raise typer.BadParameter("give either channels, or --resume with the id of a replay")
    if channels:
        spec = ReplaySpec(
            id=id_ or f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            hub=hub,
            channels=tuple(channels),
            from_ms=parse_time(from_, now),
            to_ms=parse_time(until, now) if until else int(now.timestamp() * 1000),
            target=to,
            target_hub=to_hub,
            speed=parse_speed(speed),
            rate_max=rate,
            derived=include_derived,
        )
        check_spec(spec)
    settings = read_config(config, data_dir)
    if dry_run:
        there = Progress(spec=spec) if spec else ProgressFile(lake_dir(settings), resume).load()
        with starting_spark(settings, "arauto-replay", console, master=master) as context:
            _show(console, there.spec, _looked_at(context, console, there.spec, there.place))
        return
    with open_progress(lake_dir(settings), spec, resume) as (file, progress), _api(settings) as api:
        limits = limits_for(api, progress.spec, skip_refused=skip_refused)
        with (
            starting_spark(settings, "arauto-replay", console, master=master) as context,
            _resumable(console, progress),
        ):
            _run(context, console, api, file, progress, limits)


def parse_speed(text: str) -> float:
    """The factor that a speed stands for; 0 = as fast as possible.

    Raises:
        typer.BadParameter: it is no speed.
    """
    words = {"original": 1.0, "full": 0.0}
    try:
        return words[text] if text in words else float(text.removesuffix("x"))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no speed: write original, full, 2 or 0.5") from None


def _api(settings: Config) -> NodeApi:
    if not settings.admin.token:
        raise ArautoError(
            Code.BAD_CONFIG,
            "admin.token is empty; give the node and the pipeline the same one",
            field="admin.token",
        )
    return NodeApi(admin_url(settings), settings.admin.token)


def _run(
    context: "Context",
    console: Console,
    api: NodeApi,
    file: ProgressFile,
    progress: Progress,
    limits: Limits,
) -> None:
    from arauto.pipeline.replay.job import run_replay

    spec = progress.spec
    found = _looked_at(context, console, spec, progress.place)
    _show(console, spec, found)
    if limits.rate_max < spec.rate_max:
        console.print(f"the hub's quota leaves {limits.rate_max:g} messages a second for this")
    before = progress.handled
    with progress_bar(console) as bar:
        task = bar.add_task(f"replay {spec.id}", total=found.summary.rows)

        def show(now: Progress) -> None:
            bar.update(task, completed=now.handled - before)

        run_replay(context.lake, api, file, progress, limits, on_progress=show)
    refused = f", {progress.refused:,} refused" if progress.refused else ""
    repeated = f", {progress.repeated:,} were there already" if progress.repeated else ""
    console.print(f"replay {spec.id} is done: {progress.published:,} published{repeated}{refused}")


def _looked_at(
    context: "Context", console: Console, spec: ReplaySpec, after: tuple[int, str, int] | None
) -> "Preview":
    from arauto.pipeline.replay.job import preview

    with console.status("looking at the past …"):
        return preview(context.lake, spec, after)


def _show(console: Console, spec: ReplaySpec, found: "Preview") -> None:
    summary = found.summary
    if not summary.rows:
        console.print(f"no messages of these channels in hub {spec.hub} at that time")
        return
    first, last = (
        datetime.fromtimestamp(ms / 1000, UTC) for ms in (summary.first_ms, summary.last_ms)
    )
    console.print(
        f"{summary.rows:,} messages of {summary.channels:,} channels, {summary.size_bytes:,} bytes, "
        f"from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
    )
    for channel, count in found.channels:
        console.print(Text(f"  {count:>12,}  {printable(channel)}"))
    if summary.channels > len(found.channels):
        console.print(f"  and {summary.channels - len(found.channels):,} more channels")
    where = f"{spec.target} of hub {spec.to_hub}"
    pace = f"{spec.speed:g} × the original speed" if spec.speed else "full speed"
    lasts = timedelta(seconds=round(found.duration_s))
    console.print(Text(f"replay {spec.id} to {where}, at {pace}: takes {lasts} at least"))


@contextmanager
def _resumable(console: Console, progress: Progress) -> Iterator[None]:
    """Whatever ends the replay early, say how to go on."""
    # What ends a service ends this as Ctrl-C does: with its place saved.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    hint = f"go on with: arauto pipeline replay --resume {progress.spec.id}"
    try:
        yield
    except KeyboardInterrupt:
        leave_ctrl_c()
        console.print(f"stopped after {progress.handled:,} messages; {hint}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except ArautoError:
        console.print(f"stopped after {progress.handled:,} messages; when this is mended, {hint}")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
