"""Queries against a lake of two hubs: what they give, and what they never give."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.sql import run
from arauto.pipeline.sql.plan import check_plan
from arauto.pipeline.sql.run import Answer, Limits, ask, run_query
from arauto.pipeline.sql.views import VIEWS, open_views
from tests.pipeline.sql.lakes import NOON_MS, SECRET, make_lake
from tests.pipeline.waiting import LAST_RESORT_S

LIMITS = Limits(rows_max=100, timeout_s=LAST_RESORT_S)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_lake(spark, Path(tmp_path_factory.mktemp("lake")))


@pytest.fixture(scope="module")
def shop(lake: Lake) -> SparkSession:
    return open_views(lake, "shop")


@pytest.fixture
def leftovers(spark: SparkSession, lake: Lake) -> Iterator[None]:
    """What another part of the same program may have made: views with all rows, under all kinds of names."""
    everything = lake.table("messages").read()
    everything.createOrReplaceTempView("messages")
    everything.createOrReplaceTempView("secrets")
    everything.createOrReplaceGlobalTempView("secrets")
    yield
    for name in ("messages", "secrets"):
        spark.catalog.dropTempView(name)
    spark.catalog.dropGlobalTempView("secrets")


def refusal(lake: Lake, text: str) -> ArautoError:
    with pytest.raises(ArautoError) as caught:
        ask(lake, text, LIMITS, hub="shop")
    return caught.value


def test_a_hub_sees_its_own_rows(lake: Lake) -> None:
    answer = ask(lake, "SELECT hub, count(*) AS n FROM messages GROUP BY hub", LIMITS, hub="shop")
    assert answer == Answer(("hub", "n"), [("shop", 10)], is_cut=False)


def test_an_operator_sees_all(lake: Lake) -> None:
    answer = ask(lake, "SELECT hub, count(*) FROM messages GROUP BY hub ORDER BY hub", LIMITS)
    assert answer.rows == [("mall", 10), ("shop", 10)]


def test_only_rows_of_the_time_asked_for_are_seen(lake: Lake) -> None:
    five = {"from_ms": NOON_MS + 5 * 60_000, "to_ms": NOON_MS + 10 * 60_000}
    assert ask(lake, "SELECT count(*) FROM messages", LIMITS, **five).rows == [(5,)]  # type: ignore[arg-type]


def test_windows_and_the_column_user_work(lake: Lake) -> None:
    text = (
        "SELECT user, window(ts, '10 minutes').start AS s, count(*) AS n FROM messages GROUP BY ALL"
    )
    assert len(ask(lake, text, LIMITS, hub="shop").rows) == 2


def test_columns_may_be_called_like_what_is_refused(lake: Lake) -> None:
    text = "WITH x AS (SELECT user, 1 AS `current_user` FROM messages) SELECT max(`current_user`) FROM x"
    assert ask(lake, text, LIMITS, hub="shop").rows == [(1,)]


def test_an_empty_table_has_no_rows(lake: Lake) -> None:
    assert ask(lake, "SELECT * FROM matches", LIMITS, hub="shop").rows == []


@pytest.mark.usefixtures("leftovers")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM messages",
        "SELECT * FROM messages WHERE hub = 'mall' OR true",
        "WITH messages AS (SELECT * FROM messages) SELECT * FROM messages",
        "WITH shop AS (SELECT * FROM messages), messages AS (SELECT * FROM shop) SELECT * FROM messages",
        "SELECT * FROM messages a FULL JOIN messages b ON a.hub <> b.hub",
        "SELECT (SELECT max(text) FROM messages WHERE hub = 'mall')",
        "SELECT max(text), min(text), collect_set(hub), max(headers['h']) FROM messages",
        "SELECT * FROM messages LEFT ANTI JOIN (SELECT 'shop' AS hub) x USING (hub)",
        "SELECT * FROM messages TABLESAMPLE (100 PERCENT)",
        "SELECT '${spark.sql.warehouse.dir}', '${env:PATH}', '${system:user.home}'",
    ],
)
def test_no_query_of_a_hub_shows_anything_else(lake: Lake, text: str) -> None:
    shown = repr(ask(lake, text, LIMITS, hub="shop"))
    for never in (SECRET, "mall", str(lake.root), "/bin", "warehouse'", "/root'", "/home/"):
        if f"'{never}'" not in text:
            assert never not in shown.replace("${spark.sql.warehouse.dir}", "")


def test_a_failing_cast_does_not_tell_what_another_hub_wrote(lake: Lake) -> None:
    # All rows lie in one file: if the cast ran before the filter on the hub, its error would quote the text.
    answer = ask(
        lake, "SELECT count(*) FROM messages WHERE cast(text AS int) >= 0", LIMITS, hub="shop"
    )
    assert answer.rows == [(10,)]
    assert SECRET not in refusal(lake, "SELECT cast(channel AS int) FROM messages").message


@pytest.mark.usefixtures("leftovers")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM secrets",
        "SELECT * FROM global_temp.secrets",
        "SELECT * FROM system.session.messages",
        "SELECT * FROM spark_catalog.default.messages",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM IDENTIFIER('global_temp.secrets')",
        "SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv', 'HOME')",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT TRANSFORM(hub) USING 'cat' FROM messages",
        "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' USING json SELECT * FROM messages",
        "WITH x AS (SELECT 1) INSERT INTO messages SELECT * FROM x",
        "SET spark.sql.runSQLOnFiles=true",
        "CREATE TEMPORARY VIEW messages AS SELECT 1",
        "ADD JAR '/tmp/x.jar'",
        "BEGIN SELECT 1; END",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "CACHE TABLE messages",
        "EXPLAIN SELECT 1",
        "SHOW TABLES",
        "SELECT 1; SELECT 2",
        "SELECT sum(size_bytes) OVER w FROM messages WINDOW w AS (PARTITION BY reflect('a', 'b'))",
        "SELECT sum(size_bytes) OVER w FROM messages WINDOW w AS (ORDER BY (SELECT max(x) FROM secrets))",
        "SELECT * FROM messages LATERAL VIEW made_up(hub) x AS y",
        "SELECT * FROM messages LATERAL VIEW system.builtin.explode(array(hub)) x AS y",
        "SELECT _metadata FROM messages",
        "SELECT messages.`_METADATA`.file_path FROM messages",
        "SELECT _metadata.* FROM messages",
    ],
)
def test_what_spark_parses_is_refused_as_well(shop: SparkSession, text: str) -> None:
    """The second check holds by itself: here nobody looked at the text before."""
    with pytest.raises(ArautoError) as caught:
        check_plan(shop, text, VIEWS)
    assert caught.value.code is Code.BAD_QUERY


@pytest.mark.usefixtures("leftovers")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM secrets",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
        "SELECT input_file_name() FROM messages",
        "SELECT _metadata.file_path FROM messages",
        "SELECT * FROM python_worker_logs()",
        "SELECT current_user",
        "SELECT session_user",
        "SELECT `current_user`",
        "SELECT `Session_User`",
        "SELECT user FROM counters",
        "SELECT `user` FROM counters",
        # Java takes the long s for an s.
        "SELECT `u\u017fer` FROM counters",
        "SELECT hub FROM messages WHERE EXISTS (SELECT 1 FROM counters WHERE `current_user` = 'root')",
        "WITH x AS (SELECT `user` AS u FROM counters) SELECT upper(u) FROM x",
        "SELECT count(*) OVER w FROM counters WINDOW w AS (PARTITION BY `current_user`)",
        "SELECT * FROM VALUES (`current_user`) AS t(a)",
    ],
)
def test_what_runs_has_nothing_else_to_reach(shop: SparkSession, text: str) -> None:
    """The third check holds by itself: here nobody looked at the query at all."""
    with pytest.raises(ArautoError) as caught:
        run_query(shop, text, LIMITS)
    assert caught.value.code is Code.BAD_QUERY


def test_the_sessions_own_functions_stay_whole(spark: SparkSession, shop: SparkSession) -> None:
    assert shop is not spark
    assert spark.sql("SELECT reflect('java.lang.Math', 'abs', -1)").collect()[0][0] == "1"


def test_unknown_columns_are_a_clear_error(lake: Lake) -> None:
    error = refusal(lake, "SELECT nothing_like_it FROM messages")
    assert error.code is Code.BAD_QUERY
    assert "nothing_like_it" in error.message
    assert "\n" not in error.message


def test_more_rows_than_allowed_are_an_error_and_not_half_an_answer(lake: Lake) -> None:
    error = refusal(lake, "SELECT id FROM range(1000000000)")
    assert error.code is Code.QUERY_LIMIT


def test_rows_can_be_limited_and_the_answer_says_that_it_is_cut(lake: Lake) -> None:
    answer = ask(lake, "SELECT id FROM range(1000) ORDER BY id", LIMITS, hub="shop", limit=3)
    assert answer == Answer(("id",), [(0,), (1,), (2,)], is_cut=True)
    assert not ask(lake, "SELECT id FROM range(3)", LIMITS, hub="shop", limit=3).is_cut


def test_a_limit_over_the_allowed_one_does_not_help(lake: Lake) -> None:
    with pytest.raises(ArautoError) as caught:
        ask(lake, "SELECT id FROM range(1000)", LIMITS, hub="shop", limit=1_000)
    assert caught.value.code is Code.QUERY_LIMIT


def test_an_endless_join_is_cancelled_in_time(lake: Lake) -> None:
    endless = "SELECT count(*) FROM range(10000000) a CROSS JOIN range(10000000) b WHERE a.id * b.id % 7 = 8"
    with pytest.raises(ArautoError) as caught:
        ask(lake, endless, Limits(rows_max=10, timeout_s=2), hub="shop")
    assert caught.value.code is Code.QUERY_LIMIT
    assert "2 s" in caught.value.message
    # It would take days to end by itself.
    assert not [thread for thread in threading.enumerate() if thread.name == "sql-deadline"]
    # And the session goes on.
    assert ask(lake, "SELECT 1", LIMITS, hub="shop").rows == [(1,)]


def test_ctrl_c_cancels_the_query_and_the_next_is_answered(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "SELECT count(*) FROM range(10000000) a CROSS JOIN range(10000000) b WHERE a.id * b.id % 7 = 8"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    cancelled = threading.Event()
    cancel = SparkContext.cancelJobGroup

    def cancel_and_tell(context: SparkContext, name: str) -> None:
        cancel(context, name)
        cancelled.set()

    monkeypatch.setattr(SparkContext, "cancelJobGroup", cancel_and_tell)

    def press() -> None:
        tracker = lake.spark.sparkContext.statusTracker()
        while not tracker.getActiveJobsIds():
            threading.Event().wait(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(lake, group, LIMITS, hub="shop")
    finally:
        signal.signal(signal.SIGINT, before)
        presser.join()
    assert cancelled.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "sql-deadline"]
    assert ask(lake, "SELECT 1", LIMITS, hub="shop").rows == [(1,)]


#: Looks at 150,000 letters 150,000 times.
_LONG = "instr(repeat('a', 300000), concat(repeat('a', 150000), 'b'))"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"SELECT {_LONG}", id="in the optimizer"),
        pytest.param(f"SELECT id FROM range(3) LIMIT {_LONG}", id="in a limit"),
        pytest.param(f"SELECT * FROM VALUES ({_LONG}) AS t(a)", id="in the parser"),
    ],
)
def test_a_constant_that_takes_long_is_not_waited_for(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(run, "_GRACE_S", 0.1)
    with pytest.raises(ArautoError) as caught:
        ask(lake, text, Limits(rows_max=10, timeout_s=0.1), hub="shop")
    assert caught.value.code is Code.QUERY_LIMIT
    left = [thread for thread in threading.enumerate() if thread.name == "sql-query"]
    assert left
    # It ends by itself, and leaves nothing to the tests after this one.
    for thread in left:
        thread.join()


def test_a_result_that_fits_no_memory_is_a_limit(lake: Lake) -> None:
    error = refusal(lake, "SELECT repeat('x', 2147483647)")
    assert error.code in (Code.QUERY_LIMIT, Code.BAD_QUERY)
    assert ask(lake, "SELECT 1", LIMITS, hub="shop").rows == [(1,)]


def test_a_hub_that_is_no_hub_is_refused(lake: Lake) -> None:
    with pytest.raises(ArautoError) as caught:
        ask(lake, "SELECT 1", LIMITS, hub="shop' OR '1'='1")
    assert caught.value.code is Code.BAD_HUB_NAME
