"""`arauto pipeline rules`: what a rule's author sees."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from arauto.cli.pipeline.rules import _tried, app
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline.context import Context
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.schemas import JOURNAL
from tests.pipeline.rules.support import T0, message, programs, row_tuple
from tests.pipeline.sink.nodes import TOKEN, KeepingNode, running_node

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


def test_a_pushed_rule_is_listed_and_shown(node: KeepingNode, file: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    # The node shares this process's output, and says what was changed.
    assert run("push", str(file), "--hub", "shop").splitlines()[-1] == "shop/spike version 1"
    [listed] = map(json.loads, run("list", "--json").splitlines())
    assert (listed["hub"], listed["rule"], listed["enabled"]) == ("shop", "spike", True)
    assert run("show", "spike", "--hub", "shop") == _RULE


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
