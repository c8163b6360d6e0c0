"""`arauto pipeline rules`: check, try, show and set correlation rules."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arauto.cli.console import Output, errors, forget_output
from arauto.cli.lazy import Command
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    parse_time,
    read_config,
    say_if_hub_is_missing,
    starting_spark,
)
from arauto.cli.pipeline.rules_warnings import UNSTORED, listed, tell, warnings_of
from arauto.config.addresses import admin_url, lake_dir
from arauto.config.problems import nearest
from arauto.config.schema import Config
from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import FILE_BYTES_MAX, examine_rules
from arauto.correlation.rule import Rule
from arauto.errors import ArautoError, Code
from arauto.names import check_hub, check_id
from arauto.pipeline.node_api import CorrelationRecord, NodeApi
from arauto.printable import one_line, printable

if TYPE_CHECKING:
    from arauto.correlation.program import Program
    from arauto.pipeline.context import Context
    from arauto.pipeline.rules.known import Shown

__all__ = ["app"]

_CELL_LEN_MAX = 120
_LOOK_S = 0.5

app = typer.Typer(
    name="rules",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Rules in YAML or JSON, separated by lines of ---.")
]
_Hub = Annotated[str, typer.Option(help="The hub whose messages the rules look at.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


@app.callback()
def _rules() -> None:
    """Correlation rules: what has to happen on channels for an alert to be published.

    Write a file, `check` it, `try` it on the past, then `push` it to the node.
    """


@app.command(cls=Command)
def check(file: _File, as_json: _AsJson = False) -> None:
    """Say what is wrong with rules, with the line, or how they will run.

    Exit code 0: they are fine. 1: one is not.
    """
    rows = []
    for rule in _load(file):
        program = compile_rule("hub", rule)
        rows.append(
            {
                "rule": rule.name,
                "version": rule.version,
                "kind": rule.kind,
                "runs": program.path,
                "publishes": rule.emit.channel,
            }
        )
    _print(rows, as_json=as_json)


@app.command("try", cls=Command)
def try_(
    file: _File,
    hub: _Hub,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Since: 2026-11-16T10:30, 2h, 7d.")
    ] = "1d",
    to: Annotated[str, typer.Option(metavar="TIME", help="Until; else now.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Show at most so many.")] = 50,
    as_json: _AsJson = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Run rules over what the lake holds of a hub, and print what would have fired. Publishes nothing.

    arauto pipeline rules try alerts.yaml --hub shop --from 7d
    """
    now = datetime.now(UTC)
    from_ms = parse_time(from_, now)
    to_ms = parse_time(to, now) if to else int(now.timestamp() * 1_000)
    rules = _load(file)
    programs = [compile_rule(hub, rule) for rule in rules]
    settings = read_config(config, data_dir)
    console = errors()
    with (
        starting_spark(settings, "arauto-rules", console, master=master) as context,
        console.status("trying …"),
    ):
        counts, rows = _tried(context, programs, (from_ms, to_ms), limit)
        if not rows:
            say_if_hub_is_missing(console, context, hub)
    _print(rows, as_json=as_json)
    for program in programs:
        count = counts.get(program.rule, 0)
        console.print(Text(f"{program.rule} would have fired {count:,} times"))
    if not all(counts.get(rule.name) for rule in rules):
        _tell_unseen(console, settings, hub, rules)
    if sum(counts.values()) > len(rows):
        console.print(f"the first {len(rows)} are shown", style="yellow")


@app.command("list", cls=Command)
def list_(
    hub: Annotated[str, typer.Option(help="Of this hub only.")] = "",
    as_json: _AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the node's rules, and how they are doing in the pipeline over this machine's lake."""
    with _api(config) as api:
        records = [record for record in api.correlations() if hub in ("", record.hub)]
        warnings = listed(api, [record for record in records if record.enabled])
    doing = _doing(config, records)
    rows = [
        {
            "hub": record.hub,
            "rule": record.id,
            "version": record.rule_version,
            "enabled": record.enabled,
            "owner": record.owner,
            **_doing_cells(doing.get((record.hub, record.id))),
            **({"warnings": warnings.get((record.hub, record.id), [])} if as_json else {}),
        }
        for record in records
    ]
    _print(rows, as_json=as_json)
    if not as_json:
        tell(errors(), warnings)


@app.command(cls=Command)
def push(
    file: _File,
    hub: _Hub,
    disabled: Annotated[bool, typer.Option("--disabled", help="Keep them from running.")] = False,
    wait: Annotated[
        float,
        typer.Option(metavar="N", min=0, help="Wait until they run, at most so many seconds."),
    ] = 0,
    config: ConfigFile = None,
) -> None:
    """Set the rules of a file on the node. A running pipeline takes them up within seconds.

    They see all that is published from now on, whenever they begin to run. Another text needs a higher
    version.

    Exit code 1: refused, or they do not run yet.
    """
    check_hub(hub)
    rules = _load(file)
    output, console = Output(), errors()
    records = []
    with _api(config) as api:
        for count, rule in enumerate(rules):
            try:
                record = api.put_correlation(hub, rule.name, rule.text, enabled=not disabled)
            except ArautoError as error:
                raise _refused(api, file, hub, rules[count:], error) from error
            records.append(record)
            state = "" if record.enabled else " (disabled)"
            output.print(Text(f"{record.hub}/{record.id} version {record.rule_version}{state}"))
    tell(console, {(record.hub, record.id): record.warnings for record in records})
    if disabled:
        return
    if wait:
        with console.status("waiting until they run …"):
            doing = _waited(config, records, wait)
    else:
        doing = _doing(config, records)
    for said in _told(doing):
        console.print(Text(printable(said)), style="dim")
    if wait and any(each.state != "running" for each in doing.values()):
        raise typer.Exit(1)


@app.command(cls=Command)
def show(
    rule: Annotated[str, typer.Argument(help="Its name.")], hub: _Hub, config: ConfigFile = None
) -> None:
    """Print a rule of the node as it was written."""
    with _api(config) as api:
        found = [r for r in api.correlations() if (r.hub, r.id) == (hub, rule)]
    if not found:
        raise ArautoError(Code.NOT_FOUND, f"hub {hub} has no correlation rule {rule}")
    Output().print(Text(printable(found[0].text.rstrip("\n"))))


@app.command(cls=Command)
def delete(
    rule: Annotated[str, typer.Argument(help="Its name.")], hub: _Hub, config: ConfigFile = None
) -> None:
    """Delete a rule of the node, whoever set it. What it was waiting for is forgotten.

    Exit code 1: there is none of that name.
    """
    check_hub(hub)
    # A rule called `..` would be the hub, to whoever reads the address.
    check_id(rule, "rule")
    with _api(config) as api:
        api.delete_correlation(hub, rule)
    Output().print(Text(printable(f"{hub}/{rule} deleted")))


def _doing(
    config: Path | None, records: Iterable[CorrelationRecord]
) -> "dict[tuple[str, str], Shown]":
    from arauto.pipeline.rules.known import shown

    enabled = [(each.hub, each.id, each.version) for each in records if each.enabled]
    return shown(lake_dir(read_config(config)), enabled)


def _waited(
    config: Path | None, records: Sequence[CorrelationRecord], wait_s: float
) -> "dict[tuple[str, str], Shown]":
    """How they are doing once all run, or the time is over."""
    end_s = time.monotonic() + wait_s
    while True:
        doing = _doing(config, records)
        if all(each.state == "running" for each in doing.values()) or time.monotonic() > end_s:
            return doing
        time.sleep(_LOOK_S)


def _told(doing: "Mapping[tuple[str, str], Shown]") -> Iterator[str]:
    """What to say of rules that were just set."""
    for (hub, rule), each in doing.items():
        if each.state == "running":
            yield f"{hub}/{rule} runs, and sees what was published since {_time(each.since_ms)}"
    states = {each.state for each in doing.values()}
    if "starting" in states:
        yield "the pipeline takes them up within seconds; they see all that is published from now on"
    if "later" in states:
        yield "rules of this hub were changed often: these run in a minute or two, and see what comes then"
    if "waits" in states:
        yield "no pipeline runs over this lake; once one does, they see all that was published from now on"
    yield from sorted(states - {"running", "starting", "later", "waits"})


def _doing_cells(doing: "Shown | None") -> dict[str, str]:
    if doing is None:
        return {"state": "disabled", "since": ""}
    state = doing.state
    if doing.running_ms:
        state = f"running since {_time(doing.running_ms)}"
    return {"state": state, "since": _time(doing.since_ms) if doing.since_ms else ""}


def _time(ms: int) -> str:
    return (
        datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    )


def _load(file: Path) -> list[Rule]:
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise ArautoError(Code.BAD_RULE, f"{file}: larger than {FILE_BYTES_MAX} bytes")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ArautoError(Code.BAD_RULE, f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ArautoError(Code.BAD_RULE, f"{file}: not UTF-8") from None
    rules, found = examine_rules(text)
    if found:
        # One as ever; several beneath each other, so that all of them can be mended at once.
        said = [f"{file}: {error.message}" for error in found]
        head = [f"{file}: {len(found)} problems"] if len(found) > 1 else []
        raise ArautoError(found[0].code, "\n".join([*head, *said]), field=found[0].field)
    if not rules:
        raise ArautoError(Code.BAD_RULE, f"{file}: no rule in it")
    return rules


def _api(config: Path | None) -> NodeApi:
    settings = read_config(config)
    if not settings.admin.token:
        raise ArautoError(Code.BAD_CONFIG, "admin.token is not set", field="admin.token")
    return NodeApi(admin_url(settings), settings.admin.token)


def _refused(
    api: NodeApi, file: Path, hub: str, left: Sequence[Rule], error: ArautoError
) -> ArautoError:
    """Which rule of a file was refused, and which others are not set either."""
    if error.code is Code.UNKNOWN_HUB:
        near = nearest(hub, api.hubs())
        meant = f"; did you mean {near}?" if near else ""
        return ArautoError(error.code, f"the node has no hub {hub}{meant}", field="hub")
    said = f"{file}: {left[0].name}: {error.message}"
    if len(left) > 1:
        names = ", ".join(rule.name for rule in left[1:])
        said += f"; those after it are not set either: {names}"
    return ArautoError(error.code, said, field=error.field)


def _tell_unseen(console: Console, settings: Config, hub: str, rules: list[Rule]) -> None:
    """What may be why rules found nothing, if a node can be asked."""
    try:
        with NodeApi(admin_url(settings), settings.admin.token) as api:
            tell(console, warnings_of(api, hub, rules))
    except ArautoError:
        console.print(UNSTORED, style="dim")


def _tried(
    context: "Context", programs: "list[Program]", span_ms: tuple[int, int], limit: int
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """How often each rule fired, and the first matches."""
    from arauto.pipeline.rules.batch import matches_batch
    from arauto.pipeline.sql.output import utc_text

    from_ms, to_ms = span_ms
    rows = context.lake.table("journal").read(from_ms=from_ms, to_ms=to_ms, hub=programs[0].hub)
    found = matches_batch(rows, programs, until_ms=to_ms).persist()
    try:
        counts = {row["rule"]: row["count"] for row in found.groupBy("rule").count().collect()}
        first = found.orderBy("ts", "id").limit(limit).collect()
    finally:
        found.unpersist()
    shown = [
        {
            "time": utc_text(row["ts"]),
            "rule": row["rule"],
            "key": row["key"],
            "channel": row["channel"],
            "payload": row["payload"],
        }
        for row in first
    ]
    return counts, shown


def _print(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    try:
        if as_json:
            sys.stdout.write("".join(msgspec.json.encode(row).decode() + "\n" for row in rows))
            sys.stdout.flush()
        elif rows:
            output = Output()
            table = _table(rows)
            width = table.__rich_measure__(output, output.options).maximum
            if not output.is_terminal:
                output.width = max(output.width, width)
            # Times and names that are broken inside cannot be read, nor copied.
            output.print(table if width <= output.width else _records(rows))
    except BrokenPipeError:
        forget_output()


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="dim")
    for name in rows[0]:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _records(rows: list[dict[str, Any]]) -> Text:
    """A field per line."""
    indent = max(map(len, rows[0])) + 2
    shown = Text()
    for row in rows:
        for name, value in row.items():
            shown.append(f"{name:<{indent}}", "dim").append_text(_cell(value)).append("\n")
        shown.append("\n")
    return shown[:-2]


def _cell(value: object) -> Text:
    # What messages hold must not steer the terminal, and is not markup either.
    return Text(one_line(str(value)[:_CELL_LEN_MAX]))
