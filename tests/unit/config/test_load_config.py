"""Good configurations, warnings, and what never leaves a configuration."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.bounds import hub_limits
from arauto.config.base import Section, public_view, secret_values
from arauto.config.load import examine, find_file, load
from arauto.config.problems import nearest
from arauto.config.realtime import LimitsConfig
from arauto.config.schema import Config
from arauto.config.source import parse_yaml
from arauto.hub.environment import HubLimits
from arauto.model import SlowPolicy

SECRET = "qX7vR2mK9pL4wT8zB3nH6jF1sD5gC0yA"


def write(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_no_file_and_an_empty_file_mean_the_defaults(tmp_path: Path) -> None:
    for text in ("", "# nothing\n", "---\n", "{}\n", "connection:\nadmin: {}\n"):
        assert load(write(tmp_path, text), {}) == Config() == load(None, {})


def test_the_defaults_have_no_problem_and_no_warning() -> None:
    report = examine(None, {})
    assert report.problems == ()
    assert report.warnings == ()


def test_everything_binds_to_loopback_unless_configured() -> None:
    assert Config().connection.host == Config().admin.host == "127.0.0.1"
    assert (Config().connection.port, Config().admin.port) == (8080, 4040)


def test_values_arrive_typed(tmp_path: Path) -> None:
    config = load(
        write(
            tmp_path,
            """
            connection:
              port: 1_234
              allowedOrigins: ["https://a.example:8443"]
            hub:
              closeTimeoutS: 1.5
              defaults:
                authProvider: {url: "https://auth.example/check", headers: {x-key: "5"}}
                quotas: {messagesPerS: 7}
              defaultRules: {slowPolicy: drop_oldest, presence: on}
            """,
        ),
        {},
    )
    assert config.connection.port == 1234
    assert config.connection.allowed_origins == ("https://a.example:8443",)
    assert config.hub.close_timeout_s == 1.5
    assert config.hub.defaults.auth_provider is not None
    assert config.hub.defaults.auth_provider.headers == {"x-key": "5"}
    assert config.hub.defaults.quotas.messages_per_s == 7
    assert config.hub.default_rules.slow_policy is SlowPolicy.DROP_OLDEST
    assert config.hub.default_rules.presence is True


def test_a_byte_order_mark_is_no_trouble(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xef\xbb\xbfnode:\n  name: a\n")
    assert load(file, {}).node.name == "a"


def test_production_starts_with_real_secrets(tmp_path: Path) -> None:
    text = f"node: {{mode: production}}\nadmin: {{token: '{SECRET[::-1]}'}}\n"
    text += f"auth: {{session: {{secret: '{SECRET}'}}}}\n"
    assert load(write(tmp_path, text), {}).node.mode == "production"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("broker: {host: 'nats://127.0.0.1:4222'}", "broker.host"),
        ("cluster: {rpc: {secretKey: abcdefgh}}", "cluster.rpc.secretKey"),
        ("discovery: {type: udp}", "discovery.type"),
        ("engine: {workers: 4}", "engine.workers"),
        ("admin: {host: 0.0.0.0}", "admin.host"),
        ("connection: {host: '::'}", "connection.host"),
        ("connection: {allowedOrigins: ['*']}", "connection.allowedOrigins[0]"),
        ("keyValue: {kind: memory}", "keyValue.kind"),
        ("telemetry: {traceSampleRatio: 0.1}", "telemetry.traceSampleRatio"),
    ],
)
def test_what_is_questionable_is_a_warning_and_loads(text: str, path: str, tmp_path: Path) -> None:
    report = examine(write(tmp_path, text), {})
    assert report.problems == ()
    assert [warning.path for warning in report.warnings] == [path]
    assert report.warnings[0].place.line == 1


def test_the_file_is_found_by_variable_then_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_file({}) is None
    write(tmp_path, "")
    assert find_file({}) == Path("config.yaml")
    assert find_file({"ARAUTO_CONFIG": "/etc/arauto.yaml"}) == Path("/etc/arauto.yaml")


# Secrets (threat T24).


def test_no_secret_appears_in_the_text_form_of_a_configuration(tmp_path: Path) -> None:
    text = f"""
        admin: {{token: {SECRET}1}}
        auth: {{session: {{secret: {SECRET}2}}}}
        redis: {{password: {SECRET}3}}
        storage: {{postgres: {{password: {SECRET}4}}}}
        cluster: {{membership: {{secretKey: {SECRET}5}}}}
        telemetry: {{otlpHeaders: {{x-key: {SECRET}6}}}}
        hub: {{defaults: {{jwt: {{algorithm: HS256, secret: {SECRET}7}},
                          authProvider: {{url: "https://a.example", headers: {{a: {SECRET}8}}}}}}}}
        """
    config = load(write(tmp_path, text), {})
    assert config.admin.token == f"{SECRET}1"
    for shown in (
        repr(config),
        str(config),
        repr(config.admin),
        f"{config.hub}",
        str(list(config.__rich_repr__())),
        msgspec.json.encode(public_view(config)).decode(),
    ):
        assert SECRET not in shown
    assert public_view(config)["admin"]["token"] == "***"
    assert sorted(secret_values(config)) == [f"{SECRET}{i}" for i in range(1, 9)]
    assert public_view(config)["redis"]["username"] == ""


def test_no_problem_shows_a_secret(tmp_path: Path) -> None:
    text = f"""
admin: {{token: [{SECRET}]}}
auth: {{session: {{secret: {{a: {SECRET}}}}}}}
redis: {{password: 271828182}}
telemetry: {{otlpHeaders: {SECRET}}}
hub: {{defaults: {{authProvider: {{headers: {{x: [{SECRET}]}}}}}}}}
"""
    report = examine(write(tmp_path, text), {})
    assert len(report.problems) >= 5
    shown = "\n".join(str(problem) for problem in report.problems)
    assert SECRET not in shown
    assert "271828182" not in shown


# Laws.


@given(st.text(max_size=200))
def test_any_text_gives_a_report_and_never_another_exception(text: str) -> None:
    _, problems = parse_yaml(text.encode("utf-8", "surrogatepass"), "f")
    assert all(problem.place.file == "f" for problem in problems)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_report_and_never_another_exception(data: bytes) -> None:
    _, problems = parse_yaml(data, "f")
    assert all(problem.message for problem in problems)


@given(st.text(alphabet="abc:-[]{}&*!|>'\"#\n ,?%@`01.", max_size=80))
def test_text_made_of_yaml_syntax_gives_a_report(text: str) -> None:
    parse_yaml(text.encode(), "f")


@given(st.sampled_from(["port", "host", "maxConnections", "allowedOrigins"]), st.data())
def test_one_wrong_letter_is_recognised(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    wrong = name[:at] + "z" + name[at + 1 :]
    assert nearest(wrong, ["port", "host", "maxConnections", "allowedOrigins"]) == name


def test_every_part_of_the_schema_refuses_unknown_fields_and_changes() -> None:
    def check(cls: type[msgspec.Struct]) -> None:
        assert cls.__struct_config__.forbid_unknown_fields, cls
        assert cls.__struct_config__.frozen, cls
        for field in msgspec.structs.fields(cls):
            if isinstance(field.type, type) and issubclass(field.type, Section):
                check(field.type)

    check(Config)


_PATHS = (
    "storage: {dataDir: ~/data}\npipeline: {lakeDir: ~/lake, segmentsDir: ~/segments}\n"
    "connection: {tls: {certFile: ~/cert.pem, keyFile: ~/key.pem}}\n"
)


def test_a_tilde_is_the_home_directory_in_every_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("cert.pem", "key.pem"):
        write(tmp_path, "").rename(tmp_path / name)
    config = load(write(tmp_path, _PATHS), {})
    found = (
        config.storage.data_dir,
        config.pipeline.lake_dir,
        config.pipeline.segments_dir,
        config.connection.tls.cert_file,
        config.connection.tls.key_file,
    )
    names = ("data", "lake", "segments", "cert.pem", "key.pem")
    assert found == tuple(f"{tmp_path}/{name}" for name in names)


def test_a_tilde_is_the_home_directory_in_variables_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text(SECRET)
    write(tmp_path, "connection: {port: 9000}\n")
    environ = {
        "ARAUTO_CONFIG": "~/config.yaml",
        "ARAUTO_STORAGE__DATA_DIR": "~",
        "ARAUTO_ADMIN__TOKEN_FILE": "~/token",
    }
    config = load(find_file(environ), environ)
    assert config.connection.port == 9000
    assert config.storage.data_dir == str(tmp_path)
    assert config.admin.token == SECRET
    assert load(Path("~/config.yaml"), {}).connection.port == 9000


def test_a_tilde_in_the_middle_of_a_path_is_nothing_special() -> None:
    environ = {"ARAUTO_STORAGE__DATA_DIR": "./a/~/b"}
    assert load(None, environ).storage.data_dir == "./a/~/b"


def test_a_home_directory_that_nobody_has_is_refused() -> None:
    report = examine(None, {"ARAUTO_STORAGE__DATA_DIR": "~no.such.user/data"})
    assert [str(problem) for problem in report.problems] == [
        "ARAUTO_STORAGE__DATA_DIR: storage.dataDir: ~no.such.user is nobody's home directory here"
    ]


def test_what_may_be_replayed_is_set_for_every_channel_of_the_node() -> None:
    config = Config(limits=LimitsConfig(replay_bytes_max=1_000))
    assert hub_limits(config).replay_bytes_max == 1_000
    assert hub_limits(Config()).replay_bytes_max == HubLimits().replay_bytes_max
