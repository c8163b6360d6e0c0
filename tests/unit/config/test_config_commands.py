"""`arauto check-config` and `arauto default-config`."""

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from arauto.cli.check_config import check_config
from arauto.cli.default_config import default_config
from arauto.config.document import default_yaml

SECRET = "qX7vR2mK9pL4wT8zB3nH6jF1sD5gC0yA"

app = typer.Typer()
app.command("check-config")(check_config)
app.command("default-config")(default_config)


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, args, env=env or {})
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def write(text: str) -> str:
    Path("config.yaml").write_text(text, encoding="utf-8")
    return "config.yaml"


def test_a_good_file_exits_0() -> None:
    assert run("check-config", write("connection:\n  port: 9000\n")) == (0, "config.yaml: ok\n")


def test_a_bad_file_exits_2_and_points_at_the_line() -> None:
    code, output = run("check-config", write("connection:\n  prot: 9000\n"))
    assert code == 2
    assert output == (
        "config.yaml:2:3: connection.prot: unknown field; did you mean port?\n"
        "    2 |   prot: 9000\n"
        "          ^\n"
        "config.yaml: 1 problem\n"
    )


def test_the_caret_stands_under_the_value() -> None:
    _, output = run("check-config", write("connection:\n  port: many\n"))
    lines = output.splitlines()
    assert lines[2].index("^") == lines[1].index("many")


def test_a_missing_field_shows_no_line_that_has_nothing_to_do_with_it() -> None:
    code, output = run(
        "check-config", write("connection:\n  port: 9000\nnode: {mode: production}\n")
    )
    assert code == 2
    assert output.splitlines() == [
        "config.yaml: admin.token: must be set in production (the file does not have it)",
        "config.yaml: auth.session.secret: must be set in production (the file does not have it)",
        "config.yaml: 2 problems",
    ]
    [first, _] = json.loads(run("check-config", "--json", "config.yaml")[1])["problems"]
    assert (first["file"], first["line"], first["column"]) == ("config.yaml", None, None)


def test_names_in_brackets_and_between_colons_are_shown_as_they_are() -> None:
    Path("[red]:tea:.yaml").write_text("")
    assert run("check-config", "[red]:tea:.yaml") == (0, "[red]:tea:.yaml: ok\n")


def test_warnings_are_shown_and_exit_0() -> None:
    code, output = run("check-config", write("discovery:\n  type: udp\n"))
    assert code == 0
    assert "reserved for later; ignored today" in output
    assert output.endswith("config.yaml: ok, 1 warning\n")


def test_without_a_file_the_environment_is_checked() -> None:
    assert run("check-config") == (0, "defaults and environment: ok\n")
    code, output = run("check-config", env={"ARAUTO_CONNECTION__PROT": "1"})
    assert code == 2
    assert "ARAUTO_CONNECTION__PROT: no such setting; did you mean" in output


def test_json_is_one_object_for_machines() -> None:
    code, output = run("check-config", "--json", write("admin:\n  port: x\nbroker: {host: a}\n"))
    assert code == 2
    answer = json.loads(output)
    assert answer["valid"] is False
    assert answer["problems"] == [
        {
            "file": "config.yaml",
            "line": 2,
            "column": 9,
            "variable": None,
            "path": "admin.port",
            "message": 'expected a whole number from 0 to 65535, found text "x"',
        }
    ]
    assert [warning["path"] for warning in answer["warnings"]] == ["broker.host"]
    assert json.loads(run("check-config", "--json", write(""))[1])["valid"] is True


@pytest.mark.parametrize(
    "text",
    [
        f"admin:\n  token: [{SECRET}]\n",
        f"admin:\n  tokn: {SECRET}\n",
        f"admin:\n  'passwort': {SECRET}\n",
        f"auth:\n  session:\n    secret: x\n    secrets: {SECRET}\n",
        f"auth:\n  session: {{secret: [{SECRET}]}}\n",
        f"auth: {{session: {{secret: {SECRET[:20]}}}}}\n",
        f"redis:\n  password: {SECRET}\n  password: {SECRET}\n",
        f'redis:\n  password: "{SECRET}\n',
        f"redis:\n  password:\n    {SECRET}: [\n",
        f"redis: {{password: {SECRET}, prot: 1}}\n",
        f"redis: {{prot: 1, 'password': \"a, {SECRET}\"}}\n",
        f"telemetry:\n  otlpHeaders: {SECRET}\n",
        f"telemetry:\n  otlpHeaders:\n    x: [{SECRET}]\n",
        f"node: {{mode: production}}\nadmin: {{token: {SECRET[:10]}}}\n",
    ],
)
@pytest.mark.parametrize("option", ["--json", "--no-json"])
def test_a_secret_in_the_file_is_never_shown(text: str, option: str) -> None:
    """Threat T24: the output of a check ends up in build logs and bug reports."""
    args = [option] if option == "--json" else []
    code, output = run("check-config", *args, write(text))
    assert code == 2
    assert SECRET[:10] not in output


def test_a_file_name_is_not_markup() -> None:
    Path("[red]x.yaml").write_text("a: 1\n")
    assert "[red]x.yaml:1:1" in run("check-config", "[red]x.yaml")[1]


def test_the_default_file_is_printed_as_it_is() -> None:
    assert run("default-config") == (0, default_yaml())


def test_colours_are_only_for_terminals() -> None:
    assert not re.search(r"\x1b\[", run("check-config", write("a: 1\n"))[1])
