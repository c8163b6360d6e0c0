"""`arauto bench`: how fast is it here, next to its peers?"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from arauto.bench.build import find_generator
from arauto.bench.failure import BenchError
from arauto.bench.generator import Load
from arauto.bench.page import write_report
from arauto.bench.peers import FLAVOURS, PEERS
from arauto.bench.plan import Plan, run_plan, sample_every
from arauto.bench.profile import PROFILERS, profile_node
from arauto.bench.results import Comparison, IdleResult, LatencyResult, Report
from arauto.bench.runs import OnStep, compare, measure_idle, measure_latency, running_targets
from arauto.bench.tables import (
    Table,
    check_table,
    comparison_table,
    idle_table,
    latency_table,
    rich_table,
)
from arauto.cli.console import errors

__all__ = ["app"]

app = typer.Typer(
    help="Measure Arauto next to its peers on this machine, in one run, with ratios.",
    no_args_is_help=True,
)

_errors = errors()
_WIDE = 140


def _names(known: tuple[str, ...], what: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        for name in _split(value):
            if name not in known:
                raise typer.BadParameter(f"unknown {what} {name!r}: choose from {', '.join(known)}")
        return value

    return check


def _split(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


_Peers = Annotated[
    str,
    typer.Option(
        help="Peers to measure too, separated by commas; those not installed are left out.",
        callback=_names(tuple(PEERS), "peer"),
    ),
]
_Flavour = Annotated[
    str,
    typer.Option(
        help="Arauto's wire flavours: proto, json or both. Empty = peers only.",
        callback=_names(FLAVOURS, "flavour"),
    ),
]
_Subscribers = Annotated[int, typer.Option(min=1, help="Subscribers of the one channel.")]
_InFlight = Annotated[
    int, typer.Option(min=1, help="Messages that may be under way before the publisher waits.")
]
_Seconds = Annotated[float, typer.Option(min=0.1, help="How long one measurement lasts.")]
_Warmup = Annotated[float, typer.Option(min=0.0, help="Seconds of load before it is measured.")]
_Rounds = Annotated[int, typer.Option(min=1, help="How often each target is measured, in turns.")]
_Payload = Annotated[int, typer.Option(min=20, max=65_536, help="Bytes of each message.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of tables.")]

_ALL_PEERS = ",".join(PEERS)
_ALL_FLAVOURS = ",".join(FLAVOURS)


@contextmanager
def _progress(total: int) -> Iterator[OnStep]:
    """Show a bar on stderr; each step names what is measured now."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_errors, transient=True) as bar:
        task = bar.add_task("starting servers", total=total)
        began = False

        def on_step(text: str) -> None:
            nonlocal began
            bar.update(task, description=text, advance=1 if began else 0)
            began = True

        yield on_step


def _print_table(table: Table) -> None:
    # Where nobody watches (a file, a pipe) there is no width to keep to.
    console = Console() if sys.stdout.isatty() else Console(width=_WIDE)
    if table.rows:
        console.print(rich_table(table))
    for note in table.notes:
        console.print(note, style="yellow", markup=False, highlight=False)


def _show(
    result: Comparison | LatencyResult | IdleResult, table: Table, as_json: bool, note: str
) -> None:
    """Print a result, and end as `_end` says."""
    if as_json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        _print_table(table)
        if note:
            _errors.print(note, style="yellow")
    _end(result)


def _end(*results: Comparison | LatencyResult | IdleResult) -> None:
    """End with code 1 if Arauto has no figure somewhere, or somebody's count is wrong."""
    wrong = False
    for result in results:
        inexact = [row.label for row in result.rows if not getattr(row, "is_exact", True)]
        for label in inexact:
            said = f"{result.name}, {label}: not everyone got every message once"
            _errors.print(said, style="red")
        wrong |= bool(inexact) or any(label.startswith("arauto") for label in result.left_out)
    if wrong:
        raise typer.Exit(1)


def _throughput(
    load: Load,
    name: str,
    peers: str,
    flavour: str,
    rounds: int,
    as_json: bool,
    *,
    stored: bool = False,
) -> None:
    generator = find_generator()
    targets_len = len(_split(peers)) + len(_split(flavour))
    with (
        _progress(targets_len * rounds) as on_step,
        running_targets(_split(peers), _split(flavour), stored=stored) as targets,
    ):
        result = compare(generator, targets, load, name=name, rounds=rounds, on_step=on_step)
    _show(result, comparison_table(result), as_json, generator.note)


@app.command()
def fanout(
    subscribers: _Subscribers = 1000,
    in_flight: _InFlight = 64,
    seconds: _Seconds = 3.0,
    warmup: _Warmup = 1.0,
    rounds: _Rounds = 3,
    payload_bytes: _Payload = 100,
    peers: _Peers = _ALL_PEERS,
    flavour: _Flavour = _ALL_FLAVOURS,
    as_json: _Json = False,
) -> None:
    """One publisher, one channel, many subscribers: deliveries per second."""
    load = Load(
        mode="fanout",
        subscribers=subscribers,
        in_flight=in_flight,
        seconds=seconds,
        warmup_s=warmup,
        payload_bytes=payload_bytes,
    )
    name = f"fan-out, {subscribers} subscribers, {in_flight} in flight"
    _throughput(load, name, peers, flavour, rounds, as_json)


@app.command()
def spread(
    channels: Annotated[
        int, typer.Option(min=1, help="Channels, with one subscriber each.")
    ] = 1000,
    in_flight: _InFlight = 256,
    seconds: _Seconds = 3.0,
    warmup: _Warmup = 1.0,
    rounds: _Rounds = 3,
    payload_bytes: _Payload = 100,
    peers: _Peers = _ALL_PEERS,
    flavour: _Flavour = _ALL_FLAVOURS,
    as_json: _Json = False,
) -> None:
    """One publisher going round many channels with one subscriber each."""
    load = Load(
        mode="spread",
        subscribers=channels,
        in_flight=in_flight,
        seconds=seconds,
        warmup_s=warmup,
        payload_bytes=payload_bytes,
    )
    name = f"spread, {channels} channels, {in_flight} in flight"
    _throughput(load, name, peers, flavour, rounds, as_json)


@app.command()
def stored(
    in_flight: _InFlight = 4096,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Messages in one request.")] = 1,
    publishers: Annotated[int, typer.Option(min=1, max=1000, help="Connections that publish.")] = 1,
    seconds: _Seconds = 3.0,
    warmup: _Warmup = 1.0,
    rounds: _Rounds = 3,
    payload_bytes: _Payload = 100,
    flavour: _Flavour = _ALL_FLAVOURS,
    as_json: _Json = False,
) -> None:
    """Publications that are on disk before they are acknowledged: acknowledgements per second."""
    if batch > in_flight:
        raise typer.BadParameter("a batch is at most as large as --in-flight", param_hint="--batch")
    load = Load(
        mode="stored",
        in_flight=in_flight,
        batch=batch,
        publishers=publishers,
        seconds=seconds,
        warmup_s=warmup,
        payload_bytes=payload_bytes,
    )
    name = f"stored, {batch} per request, {in_flight} in flight"
    _throughput(load, name, "", flavour, rounds, as_json, stored=True)


@app.command()
def latency(
    subscribers: _Subscribers = 1000,
    rate: Annotated[
        float | None,
        typer.Option(min=0.1, help="Publications per second; default: half of each one's maximum."),
    ] = None,
    stalled: Annotated[
        int, typer.Option(min=0, help="Measure again with so many subscribers that never read.")
    ] = 1,
    seconds: _Seconds = 5.0,
    warmup: _Warmup = 1.0,
    rounds: _Rounds = 3,
    payload_bytes: _Payload = 100,
    peers: _Peers = "",
    flavour: _Flavour = _ALL_FLAVOURS,
    as_json: _Json = False,
) -> None:
    """How late messages arrive at a steady rate, alone and with stalled readers."""
    generator = find_generator()
    load = Load(
        mode="latency",
        subscribers=subscribers,
        stalled=stalled,
        sample_every=sample_every(subscribers),
        seconds=seconds,
        warmup_s=warmup,
        payload_bytes=payload_bytes,
    )
    name = f"latency, {subscribers} subscribers"
    targets_len = len(_split(peers)) + len(_split(flavour))
    with (
        _progress(targets_len * (rounds + 1)) as on_step,
        running_targets(_split(peers), _split(flavour)) as targets,
    ):
        result = measure_latency(
            generator, targets, load, name=name, rounds=rounds, rate=rate, on_step=on_step
        )
    _show(result, latency_table(result), as_json, generator.note)


@app.command()
def idle(
    sessions: Annotated[
        int, typer.Option(min=1, help="Connections, each on its own channel.")
    ] = 15_000,
    peers: _Peers = "",
    flavour: _Flavour = "proto",
    as_json: _Json = False,
) -> None:
    """Memory of sessions that do nothing."""
    generator = find_generator()
    name = f"idle, {sessions:,} sessions"
    with _progress(len(_split(peers)) + len(_split(flavour))) as on_step:
        result = measure_idle(
            generator, _split(peers), _split(flavour), sessions, name=name, on_step=on_step
        )
    _show(result, idle_table(result), as_json, generator.note)


@app.command(name="all")
def all_(
    seconds: _Seconds = 3.0,
    warmup: _Warmup = 1.0,
    rounds: _Rounds = 3,
    sessions: Annotated[int, typer.Option(min=1, help="Idle sessions to hold.")] = 15_000,
    peers: _Peers = _ALL_PEERS,
    flavour: _Flavour = _ALL_FLAVOURS,
    output: Annotated[Path, typer.Option(help="Directory for the results.")] = Path(
        "bench/results"
    ),
    as_json: _Json = False,
) -> None:
    """The whole table, held against Arauto's goals and written to bench/results/."""
    plan = Plan(
        peers=_split(peers),
        flavours=_split(flavour),
        rounds=rounds,
        seconds=seconds,
        warmup_s=warmup,
        sessions=sessions,
    )
    generator = find_generator()
    with _progress(plan.steps) as on_step:
        report = run_plan(plan, generator, Path.cwd(), on_step)
    data_path, page_path = write_report(report, output)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        _show_report(report)
        _errors.print(f"written: {data_path} {page_path}")
        if generator.note:
            _errors.print(generator.note, style="yellow")
    _end(*report.comparisons, *report.latencies, *report.idle)


def _show_report(report: Report) -> None:
    tables = [
        *(comparison_table(comparison) for comparison in report.comparisons),
        *(latency_table(result) for result in report.latencies),
        *(idle_table(result) for result in report.idle),
        check_table(report.checks),
    ]
    for table in tables:
        _print_table(table)


@app.command()
def profile(
    mode: Annotated[str, typer.Option(help="fanout, spread or stored.")] = "fanout",
    subscribers: _Subscribers = 1000,
    in_flight: _InFlight = 64,
    seconds: _Seconds = 5.0,
    flavour: _Flavour = "proto",
    tool: Annotated[str, typer.Option(help=f"One of: {', '.join(PROFILERS)}.")] = "cprofile",
    lines: Annotated[int, typer.Option(min=1, help="Functions to show.")] = 30,
) -> None:
    """Where a node's time goes under load."""
    if mode not in ("fanout", "spread", "stored"):
        raise typer.BadParameter("choose fanout, spread or stored", param_hint="--mode")
    if tool not in PROFILERS:
        raise typer.BadParameter(f"choose from {', '.join(PROFILERS)}", param_hint="--tool")
    load = Load(mode=mode, subscribers=subscribers, in_flight=in_flight, seconds=seconds)
    try:
        sys.stdout.write(profile_node(find_generator(), load, _split(flavour)[0], tool, lines))
    except BenchError as error:
        _errors.print(str(error), style="red")
        raise typer.Exit(1) from error
