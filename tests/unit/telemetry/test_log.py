"""Log lines: their form, and what must never be in them (threat T24)."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from arauto.telemetry.log import configure_logging
from arauto.telemetry.redaction import MASK, Redactor

PLANTED = "planted-5eCr3t/with+odd=chars"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZQ"

Setup = Callable[..., io.StringIO]


@pytest.fixture
def logs() -> Iterator[Setup]:
    """Configure logging to a buffer, and leave the process as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {
        name: logger.level
        for name, logger in logging.Logger.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }

    def configure(**options: Any) -> io.StringIO:
        stream = io.StringIO()
        configure_logging(stream=stream, **options)
        return stream

    yield configure
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_time_level_logger_and_event(logs: Setup) -> None:
    stream = logs()
    structlog.get_logger("arauto.hub").info("hub opened", hub="shop", channels=3)
    [line] = lines(stream)
    assert list(line)[:3] == ["ts", "level", "logger"]
    assert line["ts"].endswith("Z")
    assert len(line["ts"]) == len("2023-11-14T22:13:20.000Z")
    del line["ts"]
    assert line == {
        "level": "info",
        "logger": "arauto.hub",
        "event": "hub opened",
        "hub": "shop",
        "channels": 3,
    }


def test_lines_below_the_level_are_not_written(logs: Setup) -> None:
    stream = logs(level="warning")
    log = structlog.get_logger("arauto.x")
    log.info("quiet")
    log.warning("loud")
    logging.getLogger("arauto.storage").info("quiet too")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_the_level_can_be_changed_after_a_logger_was_used(logs: Setup) -> None:
    log = structlog.get_logger("arauto.y")
    first = logs(level="error")
    log.info("one")
    second = logs(level="debug")
    log.debug("two")
    assert lines(first) == []
    assert [line["event"] for line in lines(second)] == ["two"]


@pytest.mark.parametrize("name", ["uvicorn.error", "picows.server", "asyncio", "some.library"])
def test_lines_of_libraries_take_the_same_way(logs: Setup, name: str) -> None:
    library = logging.getLogger(name)
    library.addHandler(logging.StreamHandler(io.StringIO()))
    stream = logs()
    library.warning("trouble on %s with token=%s", "port", PLANTED)
    [line] = lines(stream)
    assert line["logger"] == name
    assert line["level"] == "warning"
    assert line["event"] == f"trouble on port with token={MASK}"
    library.handlers.clear()


@pytest.mark.parametrize("name", ["alembic", "sqlalchemy.engine", "httpx", "picows.server"])
def test_libraries_that_log_contents_are_kept_quiet_even_in_debug(logs: Setup, name: str) -> None:
    stream = logs(level="debug")
    logging.getLogger(name).info("INSERT INTO journal VALUES (?) %r", ("the payload",))
    assert stream.getvalue() == ""


def test_console_lines_are_text_without_colours_when_not_on_a_terminal(logs: Setup) -> None:
    stream = logs(format="console")
    structlog.get_logger("arauto.x").warning("careful", hub="shop")
    assert "careful" in stream.getvalue()
    assert "hub=shop" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("format", ["json", "console"])
def test_an_exception_is_shown_with_its_trace_and_without_its_secrets(
    logs: Setup, format: str
) -> None:
    stream = logs(format=format, secrets=[PLANTED])
    try:
        password = PLANTED  # a local variable, which a rich traceback would print
        raise ValueError(f"refused: {password}")
    except ValueError:
        structlog.get_logger("arauto.x").exception("it broke")
        logging.getLogger("library").exception("so did I")
    text = stream.getvalue()
    assert text.count("Traceback (most recent call last)") == 2
    assert text.count(f"ValueError: refused: {MASK}") == 2
    assert PLANTED not in text


def test_a_secret_made_later_can_be_added(logs: Setup) -> None:
    stream = io.StringIO()
    logs()
    configure_logging(stream=stream).add(PLANTED)
    structlog.get_logger("arauto.x").info("admin token is " + PLANTED)
    assert PLANTED not in stream.getvalue()


def test_context_is_added_to_each_line(logs: Setup) -> None:
    stream = logs()
    with structlog.contextvars.bound_contextvars(session="s1"):
        structlog.get_logger("arauto.x").info("hello")
    assert lines(stream)[0]["session"] == "s1"


# Redaction.


def clean(**fields: Any) -> dict[str, Any]:
    return dict(Redactor([PLANTED])(None, "info", fields))


@pytest.mark.parametrize(
    "key",
    [
        *("token", "secret", "password", "authorization", "credentials", "cookie", "api_key"),
        *("accessToken", "restore_key", "SESSION_SECRET", "x-api-key", "jwt", "adminToken"),
        *("set-cookie", "client_secret", "signature", "tokens"),
    ],
)
@pytest.mark.parametrize("value", ["hunter2", b"hunter2", 12345, ["hunter2"], {"a": "hunter2"}])
def test_a_field_named_like_a_secret_is_masked_whatever_it_holds(key: str, value: object) -> None:
    assert clean(**{key: value}) == {key: MASK}
    assert clean(outer={key: value}) == {"outer": {key: MASK}}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("token_ttl_s", 300),
        ("tokens_issued", 5),
        ("key_id", "2024-01"),
        ("token_error", "expired"),
        ("auth_provider", "https://auth.example/check"),
        ("content_type", "text/plain"),
        ("data_dir", "./arauto-data"),
        ("payload_bytes", 512),
        ("channel", "stock:42"),
        ("token", None),
    ],
)
def test_what_only_sounds_like_a_secret_is_shown(key: str, value: object) -> None:
    assert clean(**{key: value}) == {key: value}


def test_payloads_and_bytes_are_shown_by_size_only() -> None:
    assert clean(payload=b"12345", data="abc", frame=bytearray(9), x=b"1", y=memoryview(b"22")) == {
        "payload": "<5 bytes>",
        "data": "<3 characters>",
        "frame": "<9 bytes>",
        "x": "<1 bytes>",
        "y": "<2 bytes>",
    }
    assert clean(body={"user": "x"}) == {"body": MASK}


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        (f"GET /v1/sse?hub=shop&token={PLANTED}x&channel=a", PLANTED, "hub=shop"),
        ("GET /v1/sse?access_token=abcdefgh&hub=a", "abcdefgh", "&hub=a"),
        (f"Authorization: Bearer {JWT}", JWT, "Authorization"),
        ("authorization: basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "authorization"),
        (f"claims of {JWT} are bad", "eyJzdWIiOiJhbGljZSJ9", "are bad"),
        ("postgres://arauto:hunter2@db:5432/x", "hunter2", "@db:5432/x"),
        ("redis://:hunter2@127.0.0.1:6379", "hunter2", "@127.0.0.1:6379"),
        ("{'password': 'hunter2', 'user': 'a'}", "hunter2", "'user': 'a'"),
        ('{"clientSecret":"hunter2"}', "hunter2", "clientSecret"),
        ("password=hunter2 host=db", "hunter2", "host=db"),
        (f"in the middle {PLANTED} of text", PLANTED, "of text"),
        ("quoted planted-5eCr3t%2Fwith%2Bodd%3Dchars", "5eCr3t", "quoted"),
        (
            "key -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY----- end",
            "MIIEvQIBADANBg",
            "end",
        ),
    ],
)
def test_secrets_inside_text_are_masked_and_the_rest_is_kept(
    text: str, gone: str, left: str
) -> None:
    for shown in (
        clean(event=text)["event"],
        clean(event="e", details={"list": [text]})["details"]["list"][0],
        clean(event="e", error=ValueError(text))["error"],
        clean(exception=text)["exception"],
    ):
        assert gone not in shown
        assert left in shown


def test_a_secret_as_a_key_of_a_mapping_is_masked() -> None:
    assert PLANTED not in str(clean(seen={PLANTED: 1}))


def test_text_is_cut_after_and_not_before_it_was_searched() -> None:
    shown = clean(event="x" * 2_040 + PLANTED + "y" * 5_000)["event"]
    assert PLANTED[:4] not in shown
    assert len(shown) <= 2_100


def test_control_characters_cannot_forge_lines_or_drive_the_terminal(logs: Setup) -> None:
    stream = logs(format="console")
    evil = 'ok\n{"event": "forged"}\r\x1b[2J\u2028\x9b31m'
    structlog.get_logger("arauto.x").warning(evil, origin=evil)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert not set("\x1b\x9b\r\u2028") & set(text)


def test_an_object_with_a_broken_text_form_does_not_cost_the_line() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert clean(thing=Broken()) == {"thing": "<Broken: RuntimeError in its text form>"}


def test_large_and_deep_values_are_bounded() -> None:
    deep: Any = "x"
    for _ in range(50):
        deep = [deep]
    shown = clean(big=list(range(1_000)), deep=deep, number=2**200)
    assert len(shown["big"]) == 50
    assert shown["number"] == str(2**200)


def test_a_very_short_secret_does_not_mask_ordinary_words() -> None:
    assert Redactor(["a", ""]).text("a cat") == "a cat"


_values: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(_values, st.text(), st.text())
def test_whatever_is_logged_a_planted_secret_never_comes_out(
    value: object, before: str, after: str
) -> None:
    stream = io.StringIO()
    handlers = logging.getLogger().handlers[:]
    level = logging.getLogger().level
    try:
        configure_logging(stream=stream, secrets=[PLANTED])
        structlog.get_logger("arauto.z").warning(
            before + PLANTED + after, value=value, nested={"list": [value, PLANTED, before]}
        )
    finally:
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
        structlog.reset_defaults()
    assert PLANTED not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1
    json.loads(stream.getvalue())
