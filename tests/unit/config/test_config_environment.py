"""Environment variables win over the file, typed by the schema; mistakes are named."""

from pathlib import Path

import pytest

from arauto.config.environment import variables
from arauto.config.load import examine, load
from arauto.config.schema import Config


def problems(environ: dict[str, str], path: Path | None = None) -> list[str]:
    return [str(problem) for problem in examine(path, environ).problems]


def test_a_variable_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("connection:\n  port: 1\n  host: 127.0.0.2\n")
    config = load(file, {"ARAUTO_CONNECTION__PORT": "9000"})
    assert config.connection.port == 9000
    assert config.connection.host == "127.0.0.2"


@pytest.mark.parametrize(
    ("name", "raw", "path", "value"),
    [
        ("ARAUTO_CONNECTION__PORT", " 9000 ", "connection.port", 9000),
        (
            "ARAUTO_CONNECTION__WS__SEND_BUFFER_BYTES",
            "70000",
            "connection.ws.send_buffer_bytes",
            70000,
        ),
        ("ARAUTO_HUB__CLOSE_TIMEOUT_S", "0.5", "hub.close_timeout_s", 0.5),
        ("ARAUTO_ENGINE__ALLOW_DYNAMIC_HUBS", "false", "engine.allow_dynamic_hubs", False),
        ("ARAUTO_ENGINE__ALLOW_DYNAMIC_HUBS", "0", "engine.allow_dynamic_hubs", False),
        ("ARAUTO_KEY_VALUE__KIND", "redis", "key_value.kind", "redis"),
        ("ARAUTO_STORAGE__POSTGRES__USER", "12345", "storage.postgres.user", "12345"),
        ("ARAUTO_NODE__NAME", "true", "node.name", "true"),
        (
            "ARAUTO_CONNECTION__ALLOWED_ORIGINS",
            "https://a.example, https://b.example",
            "connection.allowed_origins",
            ("https://a.example", "https://b.example"),
        ),
        ("ARAUTO_CONNECTION__ALLOWED_ORIGINS", "", "connection.allowed_origins", ()),
        ("ARAUTO_TELEMETRY__OTLP_HEADERS", '{"k": "v"}', "telemetry.otlp_headers", {"k": "v"}),
        ("ARAUTO_HUB__DEFAULT_RULES__RETAIN", "all", "hub.default_rules.retain", "all"),
        (
            "ARAUTO_HUB__DEFAULTS__AUTH_PROVIDER__URL",
            "https://a.example",
            "hub.defaults.auth_provider.url",
            "https://a.example",
        ),
        (
            "ARAUTO_HUB__DEFAULTS__QUOTAS__MESSAGES_PER_S",
            "5",
            "hub.defaults.quotas.messages_per_s",
            5,
        ),
    ],
)
def test_a_variable_is_read_as_its_field_is_typed(
    name: str, raw: str, path: str, value: object
) -> None:
    at: object = load(None, {name: raw})
    for part in path.split("."):
        at = getattr(at, part)
    assert at == value
    assert type(at) is type(value) or isinstance(at, str)


def test_a_variable_reaches_into_a_group_that_the_file_leaves_empty(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("connection:\nhub:\n  defaults:\n    authProvider: null\n")
    environ = {
        "ARAUTO_CONNECTION__PORT": "1",
        "ARAUTO_HUB__DEFAULTS__AUTH_PROVIDER__URL": "https://a.example",
    }
    config = load(file, environ)
    assert config.connection.port == 1
    assert config.hub.defaults.auth_provider is not None


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        (
            "ARAUTO_CONNECTION__PORT",
            "http",
            'connection.port: expected a whole number from 0 to 65535, found text "http"',
        ),
        (
            "ARAUTO_CONNECTION__PORT",
            "70000",
            "connection.port: expected a whole number from 0 to 65535, found 70000",
        ),
        (
            "ARAUTO_ENGINE__ALLOW_DYNAMIC_HUBS",
            "maybe",
            'engine.allowDynamicHubs: expected true or false, found text "maybe"',
        ),
        (
            "ARAUTO_HUB__CLOSE_TIMEOUT_S",
            "inf",
            'hub.closeTimeoutS: expected a number from 0 to 3162240000, found text "inf"',
        ),
        (
            "ARAUTO_HUB__CLOSE_TIMEOUT_S",
            "nan",
            'hub.closeTimeoutS: expected a number from 0 to 3162240000, found text "nan"',
        ),
        (
            "ARAUTO_STORAGE__KIND",
            "mysql",
            'storage.kind: expected one of sqlite, postgres, memory, found text "mysql"',
        ),
        (
            "ARAUTO_TELEMETRY__OTLP_HEADERS",
            "k=v",
            "telemetry.otlpHeaders: expected names and values; each value text, found text",
        ),
        ("ARAUTO_CONNECTION__PROT", "1", "no such setting; did you mean ARAUTO_CONNECTION__PORT?"),
        ("ARAUTO_CONNECTION_PORT", "1", "no such setting; did you mean ARAUTO_CONNECTION__PORT?"),
        ("ARAUTO_QQQQQQQ", "1", "no such setting"),
        (
            "ARAUTO_CONNECTION__PORT_FILE",
            "/etc/port",
            "no such setting; did you mean ARAUTO_CONNECTION__PORT?",
        ),
        (
            "ARAUTO_SESSION__PONG_TIMEOUT_S",
            "99",
            "session.pongTimeoutS: must be below session.pingIntervalS (25)",
        ),
    ],
)
def test_a_bad_variable_is_named(name: str, raw: str, expected: str) -> None:
    assert problems({name: raw}) == [f"{name}: {expected}"]


def test_problems_of_file_and_environment_are_reported_together(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("admin:\n  prot: 1\n")
    assert problems({"ARAUTO_NODE__MODE": "prod", "ARAUTO_X": "1"}, file) == [
        f"{file}:2:3: admin.prot: unknown field; did you mean port?",
        'ARAUTO_NODE__MODE: node.mode: expected one of development, production, found text "prod"',
        "ARAUTO_X: no such setting",
    ]


def test_a_group_that_is_wrong_in_the_file_is_still_reported_under_a_variable(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("connection: 5\n")
    assert problems({"ARAUTO_CONNECTION__PORT": "1"}, file) == [
        f"{file}:1:13: connection: expected a group of fields, found 5"
    ]


def test_other_variables_are_left_alone() -> None:
    environ = {"PATH": "/bin", "ARAUTO_CONFIG": "x", "ARAUTO_TEST_SEED": "1", "arauto_x": "1"}
    assert load(None, environ) == Config()


@pytest.mark.parametrize("name", ["ARAUTO_URL", "ARAUTO_HUB", "ARAUTO_TOKEN"])
def test_variables_of_the_commands_are_no_settings(name: str) -> None:
    assert load(None, {name: "x"}) == Config()


def test_every_field_has_a_variable_and_none_clashes() -> None:
    names = [variable.name for variable in variables(Config)]
    assert len(names) == len(set(names)) > 100
    secrets = {variable.name for variable in variables(Config) if variable.secret}
    assert not {f"{name}_FILE" for name in secrets} & set(names)
    assert {"ARAUTO_AUTH__SESSION__SECRET", "ARAUTO_ADMIN__TOKEN"} <= secrets


# Secrets in files.


def test_a_secret_is_read_from_a_file_without_its_last_line_break(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b" 0123456789abcdef0123456789abcdef \r\n")
    config = load(None, {"ARAUTO_AUTH__SESSION__SECRET_FILE": str(file)})
    assert config.auth.session.secret == " 0123456789abcdef0123456789abcdef "


def test_a_secret_from_both_sides_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x")
    environ = {"ARAUTO_ADMIN__TOKEN_FILE": str(file), "ARAUTO_ADMIN__TOKEN": "y"}
    assert problems(environ) == ["ARAUTO_ADMIN__TOKEN_FILE: set either this or ARAUTO_ADMIN__TOKEN"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "No such file or directory"),
        (b"x" * 65_537, "larger than 65536 bytes"),
        (b"\xff\xfe", "not valid UTF-8"),
    ],
)
def test_an_unreadable_secret_file_is_named(data: bytes | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    if data is not None:
        file.write_bytes(data)
    assert problems({"ARAUTO_ADMIN__TOKEN_FILE": str(file)}) == [
        f"ARAUTO_ADMIN__TOKEN_FILE: admin.token: cannot be read: {why}"
    ]
