"""`arauto pipeline rules`: what a rule's author sees."""

import json
import os
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from arauto.cli.console import errors
from arauto.cli.pipeline.common import read_config
from arauto.cli.pipeline.rules import _print, _tell_unseen, _tried, app
from arauto.cli.pipeline.rules_warnings import UNSTORED
from arauto.config.schema import Config
from arauto.correlation.document import load_rules
from arauto.errors import ArautoError, Code
from arauto.pipeline.context import Context
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rules.known import Known, KnownRule, known_path, write_known
from arauto.pipeline.rules.since import Since
from arauto.pipeline.schemas import JOURNAL
from tests.pipeline.rules.support import T0, message, programs, row_tuple
from tests.pipeline.sink.nodes import TOKEN, KeepingNode, free_port, running_node

_RULE = """rule: spike
version: 1
match: payload.price > 100
emit: {channel: alerts, payload: {price: payload.price}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "rules.yaml"
    made.write_text(_RULE)
    return made


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeepingNode]:
    with running_node() as started:
        started.put("/v1/hubs/shop", {})
        monkeypatch.setenv("ARAUTO_ADMIN__TOKEN", TOKEN)
        monkeypatch.setenv("ARAUTO_PIPELINE__API_URL", started.url)
        yield started


def test_check_says_how_rules_will_run(file: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(file), "--json"])
    assert json.loads(done.output) == {
        "rule": "spike",
        "version": 1,
        "kind": "match",
        "runs": "stateless",
        "publishes": "alerts",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_RULE.replace("payload.price > 100", "prise > 100"), "line 3"),
        ("# nothing\n", "no rule in it"),
        ("rule: [", "line 1"),
    ],
)
def test_check_names_the_file_and_the_line(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    error = CliRunner().invoke(app, ["check", str(file)]).exception
    assert isinstance(error, ArautoError)
    assert error.code is Code.BAD_RULE
    assert str(file) in error.message
    assert said in error.message


@pytest.mark.parametrize("command", [["check"], ["push", "--hub", "shop"]])
def test_all_errors_of_a_file_are_told_line_by_line(file: Path, command: list[str]) -> None:
    wrong = _RULE.replace("version: 1", "version: x").replace("payload.price > 100", "prise > 100")
    file.write_text(f"{wrong}---\n{_RULE}---\nrule: other\n")
    error = CliRunner().invoke(app, [*command, str(file)]).exception
    assert isinstance(error, ArautoError)
    head, *lines = error.message.splitlines()
    assert head == f"{file}: 3 problems"
    assert [line.split(": ")[1] for line in lines] == [
        "line 3, column 8",
        "line 2, column 10",
        "line 11, column 1",
    ]


def test_a_pushed_rule_is_listed_and_shown(node: KeepingNode, file: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    # The node shares this process's output, and says what was changed.
    assert "shop/spike version 1\n" in run("push", str(file), "--hub", "shop")
    [listed] = map(json.loads, run("list", "--json").splitlines())
    assert (listed["hub"], listed["rule"], listed["enabled"]) == ("shop", "spike", True)
    assert listed["state"] == "waits"
    assert run("show", "spike", "--hub", "shop") == _RULE


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_time_is_broken_however_narrow_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    row = {"hub": "shop", "rule": "rush-of-orders", "version": 1, "enabled": True, "owner": ""}
    times = {"state": "running since 2026-11-20T00:00:01Z", "since": "2026-11-20T00:00:00Z"}
    _print([row | times, row | times], as_json=False)
    shown = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert [shown.count(time) for time in times.values()] == [2, 2]
    assert ("\n\n" in shown) == (width < 200), "a field per line where a table is too wide"


@pytest.mark.usefixtures("node")
def test_of_several_rules_the_one_that_is_refused_is_named(file: Path) -> None:
    push = ["push", str(file), "--hub", "shop"]
    assert CliRunner().invoke(app, push).exit_code == 0
    others = [_RULE.replace("spike", name) for name in ("first", "last", "least")]
    changed = _RULE.replace("100", "200")
    file.write_text("---\n".join([others[0], changed, *others[1:]]))
    done = CliRunner().invoke(app, push)
    assert "shop/first version 1\n" in done.stdout
    assert isinstance(done.exception, ArautoError)
    assert done.exception.code is Code.CONFLICT
    assert done.exception.message == (
        f"{file}: spike: a changed rule needs a version above 1; "
        "those after it are not set either: last, least"
    )


def test_for_a_hub_that_is_not_there_the_nearest_name_is_offered(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(engine={"allowDynamicHubs": False}) as node:
        node.put("/v1/hubs/shop", {})
        monkeypatch.setenv("ARAUTO_ADMIN__TOKEN", TOKEN)
        monkeypatch.setenv("ARAUTO_PIPELINE__API_URL", node.url)
        for hub, meant in (("shpo", "; did you mean shop?"), ("warehouse", "")):
            error = CliRunner().invoke(app, ["push", str(file), "--hub", hub]).exception
            assert isinstance(error, ArautoError)
            assert error.code is Code.UNKNOWN_HUB
            assert error.message == f"the node has no hub {hub}{meant}"


def test_rules_on_channels_that_do_not_store_are_told_when_pushed_and_listed(
    node: KeepingNode, file: Path
) -> None:
    node.put("/v1/hubs/shop/rules/quiet", {"store": "never"})
    node.put("/v1/hubs/shop/namespaces/couriers", {"rules": "quiet"})
    file.write_text(f"from: {{channels: ['couriers:*']}}\n{_RULE}")
    said = (
        "shop/spike sees no message of couriers:*: no channel it covers stores any (store: never)"
    )
    for command in (["push", str(file), "--hub", "shop"], ["list"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0
        assert said in done.stderr
        assert UNSTORED in done.stderr
    [listed] = map(json.loads, CliRunner().invoke(app, ["list", "--json"]).stdout.splitlines())
    assert listed["warnings"] == [said.removeprefix("shop/spike ")]

    node.put("/v1/hubs/shop/rules/quiet", {"store": "all"})
    assert "couriers" not in CliRunner().invoke(app, ["list"]).stderr


def test_a_try_that_finds_nothing_says_what_may_be_why(
    node: KeepingNode, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.put("/v1/hubs/shop/rules/quiet", {"store": "never"})
    node.put("/v1/hubs/shop", {"defaultRules": "quiet"})
    rules = load_rules(_RULE)
    _tell_unseen(errors(), read_config(None), "shop", rules)
    said = capsys.readouterr().err
    assert "shop/spike sees no message of *: no channel it covers stores any" in said
    assert UNSTORED in said
    monkeypatch.setenv("ARAUTO_PIPELINE__API_URL", f"http://127.0.0.1:{free_port()}")
    _tell_unseen(errors(), read_config(None), "shop", rules)
    assert capsys.readouterr().err == f"{UNSTORED}\n"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b"])
def test_what_is_no_name_of_a_rule_deletes_nothing(node: KeepingNode, name: str) -> None:
    error = CliRunner().invoke(app, ["delete", name, "--hub", "shop"]).exception
    assert isinstance(error, ArautoError)
    assert error.code is Code.BAD_FIELD
    with node.api() as api:
        assert api.messages_per_s("shop") >= 0  # The hub is still there.


@pytest.mark.usefixtures("node")
def test_a_deleted_rule_is_gone_and_cannot_be_deleted_twice(file: Path) -> None:
    run = partial(CliRunner().invoke, app)
    assert run(["push", str(file), "--hub", "shop"]).exit_code == 0
    other = run(["delete", "spike", "--hub", "mall"]).exception
    assert isinstance(other, ArautoError)
    done = run(["delete", "spike", "--hub", "shop"])
    assert (done.exit_code, "shop/spike deleted\n" in done.output) == (0, True)
    assert run(["list", "--json"]).output == ""
    again = run(["delete", "spike", "--hub", "shop"]).exception
    assert isinstance(again, ArautoError)
    assert again.code is Code.NOT_FOUND


def test_push_says_from_when_on_a_rule_sees_messages_and_waits_until_it_runs(
    node: KeepingNode, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARAUTO_PIPELINE__LAKE_DIR", str(tmp_path / "lake"))
    monkeypatch.setenv("COLUMNS", "200")
    push = ["push", str(file), "--hub", "shop"]
    done = CliRunner().invoke(app, push)
    assert "no pipeline runs over this lake; once one does" in done.output

    checkpoint = tmp_path / "lake" / "_checkpoints" / "rules" / "v2"
    write_known(checkpoint, Known())
    done = CliRunner().invoke(app, [*push, "--wait", "0.1"])
    assert done.exit_code == 1
    assert "within seconds; they see all that is published from now on" in done.output

    with node.api() as api:
        [record] = api.correlations()
    rule = KnownRule(
        hub="shop", rule="spike", version=record.version, since=Since("n1", 3, 1_789_999_200_000)
    )
    write_known(checkpoint, Known(rules=(rule,), running_ms=1_789_999_201_000))
    done = CliRunner().invoke(app, [*push, "--wait", "60"])
    assert done.exit_code == 0
    assert "runs, and sees what was published since 2026-09-21T14:00:00Z" in done.output
    [listed] = map(json.loads, CliRunner().invoke(app, ["list", "--json"]).output.splitlines())
    assert listed["state"] == "running since 2026-09-21T14:00:01Z"
    assert listed["since"] == "2026-09-21T14:00:00Z"

    write_known(checkpoint, Known(problems={"shop/spike": "line 1: no"}))
    done = CliRunner().invoke(app, [*push, "--wait", "0.1"])
    assert (done.exit_code, "line 1: no" in done.output) == (1, True)

    long_ago_s = 1_000_000_000
    os.utime(known_path(checkpoint), (long_ago_s, long_ago_s))
    assert "no pipeline runs" in CliRunner().invoke(app, push).output


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock on the wall is hours off UTC."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/Sao_Paulo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_trying_rules_on_the_past_shows_what_would_have_fired(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path)
    prices = (50, 150, 250, 350)
    rows = [message(n, n * 1_000, f'{{"price": {price}}}') for n, price in enumerate(prices)]
    # Another hub's message is none of this hub's business.
    rows.append(message(9, 1_500, '{"price": 999}', hub="other"))
    frame = spark.createDataFrame([row_tuple(row) for row in rows], JOURNAL)
    lake.table("journal").append(frame, query="test", batch_id=0)
    span_ms = (T0, T0 + 3_000)
    counts, shown = _tried(Context(Config(), spark, lake), programs(_RULE), span_ms, 1)
    assert counts == {"spike": 2}
    assert [row["payload"] for row in shown] == ['{"price":"150"}']
    # A second after T0.
    assert shown[0]["time"] == "2026-09-21T14:00:01.000Z"
