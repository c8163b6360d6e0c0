"""What is refused before Spark sees it, and where the fault is."""

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.sql.check import TEXT_LEN_MAX, check_query

VIEWS = ("messages", "sessions", "rollup_5m")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select * from messages",
        "SELECT * FROM `Messages` AS m WHERE m.hub = 'x';",
        "WITH messages AS (SELECT * FROM messages) SELECT count(*) FROM messages",
        "SELECT user, count(*) FROM messages GROUP BY user ORDER BY 2 DESC LIMIT 3",
        "SELECT window(ts, '5 minutes').start, count(*) FROM messages GROUP BY window(ts, '5 minutes')",
        "SELECT sum(size_bytes) OVER w FROM messages WINDOW w AS (PARTITION BY hub ORDER BY ts)",
        "SELECT * FROM messages UNION ALL SELECT * FROM messages",
        "SELECT channel FROM messages EXCEPT SELECT channel FROM messages",
        "SELECT get_json_object(text, '$.a'), try_variant_get(parse_json(text), '$.a', 'int') FROM messages",
        "SELECT kll_sketch_get_quantile_bigint(kll_merge_agg_bigint(durations), 0.5) FROM rollup_5m",
        "SELECT x.n FROM messages LATERAL VIEW explode(split(text, ',')) x AS n",
        "SELECT hub FROM messages WHERE user IN (SELECT user FROM sessions)",
        "SELECT count(*) FILTER (WHERE size_bytes > 3) FROM messages GROUP BY ALL",
        "SELECT * FROM range(3)",
    ],
)
def test_queries_over_known_views_are_fine(text: str) -> None:
    check_query(text, VIEWS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW messages",
        "DROP TABLE messages",
        "CREATE TABLE x AS SELECT * FROM messages",
        "CREATE TEMPORARY VIEW x AS SELECT 1",
        "CREATE FUNCTION f AS 'x.Y'",
        "INSERT INTO messages SELECT * FROM messages",
        "WITH x AS (SELECT 1) INSERT INTO messages SELECT * FROM x",
        "FROM messages INSERT INTO sessions SELECT *",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT * FROM messages",
        "UPDATE messages SET hub = 'x'",
        "DELETE FROM messages",
        "MERGE INTO messages USING sessions ON true WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE messages",
        "SET spark.sql.runSQLOnFiles=true",
        "RESET",
        "ADD JAR '/tmp/x.jar'",
        "LIST FILES",
        "CACHE TABLE messages",
        "REFRESH TABLE messages",
        "SHOW TABLES",
        "SHOW CREATE TABLE messages",
        "DESCRIBE messages",
        "EXPLAIN SELECT 1",
        "USE other",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "DECLARE x INT",
        "BEGIN SELECT 1; END",
        "CALL x()",
        "TABLE messages",
        "VALUES (1), (2)",
        "SELECT * FROM nowhere",
        "SELECT * FROM journal",
        "SELECT * FROM parquet.`/etc`",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM `parquet`.`/etc`",
        "SELECT * FROM jdbc.x",
        "SELECT * FROM default.messages",
        "SELECT * FROM spark_catalog.default.messages",
        "SELECT * FROM global_temp.messages",
        "SELECT * FROM system.session.messages",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM IDENTIFIER('mess' || 'ages')",
        "SELECT IDENTIFIER('reflect')('a')",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT `reflect`('java.lang.System', 'getenv', 'HOME')",
        "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
        "SELECT try_reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT builtin.upper('x')",
        "SELECT input_file_name() FROM messages",
        "SELECT _metadata.file_path FROM messages",
        "SELECT messages._metadata FROM messages",
        "SELECT xpath_string('<a/>', 'a')",
        "SELECT from_avro(payload, '{}') FROM messages",
        "SELECT current_user()",
        "SELECT user() FROM messages",
        "SELECT session_user()",
        "SELECT current_user",
        "SELECT session_user",
        "SELECT hub FROM messages WHERE CURRENT_USER = 'root'",
        "SELECT current_database()",
        "SELECT version()",
        "SELECT read_files('/etc')",
        "SELECT * FROM read_files('/etc/passwd')",
        "SELECT * FROM python_worker_logs()",
        "SELECT * FROM sql_keywords()",
        "SELECT made_up(1)",
        "SELECT TRANSFORM(hub) USING 'cat' FROM messages",
        "SELECT * FROM messages WHERE hub = :hub",
        "SELECT * FROM messages WHERE hub = ?",
        "SELECT (SELECT max(x) FROM nowhere)",
        "SELECT * FROM messages m JOIN other.secrets s ON true",
        "SELECT 1 FROM messages WHERE EXISTS (SELECT * FROM text.`/etc/passwd`)",
        "SELECT 'open",
        "SELECT /* open",
        "SELECT 1 \0",
        "SELECT " + "(" * 400 + "1" + ")" * 400,
        "SELECT '" + "x" * TEXT_LEN_MAX + "'",
        "SELECT 1" + "+1" * 6_000,
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ArautoError) as caught:
        check_query(text, VIEWS)
    assert caught.value.code is Code.BAD_QUERY


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("SELECT *\nFROM nowhere", "line 2, column 6: there is no view 'nowhere'"),
        ("SELECT 1,\n  reflect('a')", "line 2, column 3: the function 'reflect'"),
        ("SELECT 1 +\nFROM messages", "line 2, column"),
    ],
)
def test_the_message_says_where(text: str, where: str) -> None:
    with pytest.raises(ArautoError) as caught:
        check_query(text, VIEWS)
    assert caught.value.message.startswith(where)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELEC 1", "a query begins with SELECT or WITH; did you mean SELECT?"),
        ("wiht x as (select 1) select 2", "did you mean WITH?"),
        ("please tell 1", "a query begins with SELECT or WITH"),
    ],
)
def test_a_word_that_begins_no_query_is_answered_with_one_that_does(text: str, said: str) -> None:
    with pytest.raises(ArautoError) as caught:
        check_query(text, VIEWS)
    assert said in caught.value.message
    with pytest.raises(ArautoError) as caught:
        check_query("SELECT 1 FROM WHERE", VIEWS)
    assert "begins with" not in caught.value.message
