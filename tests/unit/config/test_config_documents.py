"""The reference page and the default file say what the schema says."""

import re
from pathlib import Path

import pytest
import yaml

from arauto.config.document import default_yaml, reference_page
from arauto.config.load import examine
from arauto.config.reference import GroupDoc, describe_schema
from arauto.config.schema import Config

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "configuration.md"

#: The categories of the first anchor's configuration, all of which have a place here.
CATEGORIES = (
    *("broker", "admin", "cluster", "engine", "hub", "session", "channel", "connection"),
    *("redis", "sql", "auth", "storage", "debug", "discovery"),
)


def test_the_committed_reference_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(), (
        "stale: run python scripts/gen_config_docs.py"
    )


def test_every_field_is_documented() -> None:
    assert [field.path for field in describe_schema().walk() if not field.text] == []


def test_every_group_is_documented() -> None:
    def groups(group: GroupDoc) -> list[GroupDoc]:
        below = [item for item in group.fields if isinstance(item, GroupDoc)]
        return below + [deeper for item in below for deeper in groups(item)]

    assert [group.path for group in groups(describe_schema()) if not group.text] == []


def test_a_field_is_marked_reserved_exactly_if_its_documentation_says_so() -> None:
    for field in describe_schema().walk():
        assert field.reserved == field.text.startswith("Reserved"), field.path
        assert field.reserved == ("ignored today" in field.text), field.path


def test_every_category_has_a_section_and_every_field_a_row() -> None:
    page = reference_page()
    for category in CATEGORIES:
        assert f"## `{category}`\n" in page
    for field in describe_schema().walk():
        assert f"\n| `{field.name}` | " in page, field.path


def test_rows_of_the_page_have_four_cells() -> None:
    rows = [
        line
        for line in reference_page().splitlines()
        if line.startswith("| `") and "ARAUTO_" not in line
    ]
    assert len(rows) > 100
    for row in rows:
        assert row.replace("\\|", "").count("|") == 5, row


def test_the_default_file_loads_to_the_defaults_without_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(default_yaml(), encoding="utf-8")
    report = examine(file, {})
    assert report.problems == ()
    assert report.warnings == ()
    assert report.config == Config()


def test_the_default_file_names_every_field_that_does_something() -> None:
    written = yaml.safe_load(default_yaml())
    for field in describe_schema().walk():
        at = written
        for part in field.path.split("."):
            at = at.get(part) if isinstance(at, dict) else None
        optional = field.path.startswith(("hub.defaults.authProvider", "hub.defaults.jwt"))
        assert (at is None) == (field.reserved or optional), field.path


def test_what_is_commented_out_in_the_default_file_can_be_switched_on(tmp_path: Path) -> None:
    commented = re.compile(r"^( *)# ([a-z]\w*:( \S+)?)$")
    text = "\n".join(commented.sub(r"\1\2", line) for line in default_yaml().splitlines())
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    report = examine(file, {})
    # Only the two optional groups need more than their defaults.
    assert {problem.path for problem in report.problems} == {
        "hub.defaults.authProvider.url",
        "hub.defaults.jwt",
    }
    assert "broker.subject" in {warning.path for warning in report.warnings}


@pytest.mark.parametrize("text", [default_yaml(), reference_page()], ids=["yaml", "page"])
def test_generated_text_has_no_trailing_space_and_ends_with_one_line_break(text: str) -> None:
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
