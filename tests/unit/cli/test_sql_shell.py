"""The SQL shell: where questions end, what it answers to, what Ctrl-C ends, and how rows are shown."""

import io
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from arauto.cli.console import Output
from arauto.cli.pipeline import sql_show
from arauto.cli.pipeline.sql_shell import Shell, editing, history_path
from arauto.cli.pipeline.sql_show import Form, show
from arauto.cli.pipeline.sql_words import completions, question
from arauto.errors import ArautoError, Code
from arauto.pipeline.sql.catalog import about_views
from arauto.pipeline.sql.run import Answer
from arauto.pipeline.sql.views import VIEWS

_ONE = Answer(("n",), [(1,)], is_cut=False)
_VIEWS = {"messages": ["channel", "text"], "sessions": ["session", "code"]}


class Typed:
    """What somebody types; an exception is what a key raises."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self._lines:
            raise EOFError
        line = self._lines.pop(0)
        if isinstance(line, str):
            return line
        raise line


def asked(
    typed: Typed,
    answer: Callable[[str], Answer] = lambda _: _ONE,
    *,
    form: Form = "csv",
    is_over: bool = False,
) -> list[str]:
    """What a shell asks while this is typed."""
    questions: list[str] = []

    def ask(text: str) -> Answer:
        questions.append(text)
        return answer(text)

    Shell(ask, typed, form=form, name="shop", is_over=lambda: is_over).run()
    return questions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1;", "SELECT 1"),
        ("SELECT 1", None),
        ("SELECT ';'", None),
        ("SELECT ';';", "SELECT ';'"),
        ("SELECT 'it\\'s;'", None),
        ('SELECT "a;" ; ', 'SELECT "a;"'),
        ("SELECT `a\\`;", "SELECT `a\\`"),
        ("SELECT 1 -- not yet;", None),
        ("SELECT 1; -- thanks", "SELECT 1"),
        ("SELECT 1 -- one\n;", "SELECT 1 -- one"),
        ("SELECT /* ; */ 1", None),
        ("SELECT /* ; ", None),
        ("SELECT 1; /* done */\n", "SELECT 1"),
        ("SELECT 1; SELECT 2", None),
        ("SELECT 1; SELECT 2;", "SELECT 1; SELECT 2"),
        ("SELECT 'open", None),
        (";", ""),
    ],
)
def test_a_question_ends_with_a_semicolon_outside_of_quotes_and_comments(
    text: str, found: str | None
) -> None:
    assert question(text) == found


def test_a_question_may_have_several_lines_and_the_prompt_tells() -> None:
    typed = Typed("SELECT 1", "  AS n;", "", "SELECT 2;")
    assert asked(typed) == ["SELECT 1\n  AS n", "SELECT 2"]
    assert typed.prompts == ["shop> ", "----> ", "shop> ", "shop> ", "shop> "]


def test_several_questions_on_a_line_are_asked_one_after_the_other() -> None:
    typed = Typed("SELECT 1; SELECT ';' ; ; SELECT 3;", "SELECT 4; SELECT", "5;")
    assert asked(typed) == ["SELECT 1", "SELECT ';'", "SELECT 3", "SELECT 4", "SELECT\n5"]


@pytest.mark.parametrize("end", ["\\q", "exit", "QUIT;", " exit ; "])
def test_it_ends_when_it_is_told_to(end: str) -> None:
    assert asked(Typed("SELECT 1;", end, "SELECT 2;")) == ["SELECT 1"]


def test_commands_work_within_a_question_too_and_the_question_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = Typed("SELECT 1", "\\d messages", "  \\?", ", 2;", "SELECT", "  \\q", "SELECT 3;")
    assert asked(typed) == ["DESCRIBE messages", "SELECT 1\n, 2"]
    assert typed.prompts == ["shop> ", *["----> "] * 3, "shop> ", "----> "]
    assert "A question ends with a semicolon" in capsys.readouterr().err


def test_a_command_may_stand_behind_a_question_or_a_part_of_one() -> None:
    assert asked(Typed("SELECT 1; \\d messages", "SELECT 2;")) == [
        "SELECT 1",
        "DESCRIBE messages",
        "SELECT 2",
    ]
    assert asked(Typed("SELECT 1 \\d", ", 2;")) == ["SHOW TABLES", "SELECT 1 \n, 2"]


def test_a_backslash_within_quotes_or_a_comment_is_no_command() -> None:
    lines = ("SELECT 'a", "", "\\q', `", "\\d`, /* ", "\\q */ 1 -- \\q", ";")
    assert asked(Typed(*lines)) == ["\n".join(lines[:-1])]


def test_words_that_end_it_are_words_of_the_question_within_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert asked(Typed("SELECT 1 AS", "exit", ";")) == ["SELECT 1 AS\nexit"]
    assert "\\q ends it, also within a question" in capsys.readouterr().err


def test_it_ends_at_the_end_of_its_input_also_within_a_question() -> None:
    assert asked(Typed("SELECT 1;", "SELECT")) == ["SELECT 1"]


def test_ctrl_c_drops_what_is_typed_and_not_the_shell() -> None:
    assert asked(Typed("SELECT 1", KeyboardInterrupt, "SELECT 2;")) == ["SELECT 2"]


def test_ctrl_c_cancels_a_question_and_not_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(text: str) -> Answer:
        if "endless" in text:
            raise KeyboardInterrupt
        return _ONE

    assert asked(Typed("SELECT endless;", "SELECT 2;"), answer) == ["SELECT endless", "SELECT 2"]
    out, err = capsys.readouterr()
    assert out == "n\r\n1\r\n", "only rows go to standard output"
    assert "cancelled" in err


def test_a_refusal_is_told_and_the_next_question_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(text: str) -> Answer:
        if "bad" in text:
            raise ArautoError(Code.BAD_QUERY, "there is no [view] \x1b[2J")
        return _ONE

    assert len(asked(Typed("SELECT bad;", "SELECT 2;"), answer)) == 2
    out, err = capsys.readouterr()
    assert out == "n\r\n1\r\n"
    assert "there is no [view] \\x1b[2J" in err


def test_it_ends_with_the_reason_when_spark_has_ended() -> None:
    def answer(_: str) -> Answer:
        raise ArautoError(Code.QUERY_LIMIT, "more memory than there is")

    with pytest.raises(ArautoError) as caught:
        asked(Typed("SELECT 1;"), answer, is_over=True)
    assert caught.value.code is Code.SPARK_ENDED


def test_backslash_d_asks_about_views_and_others_are_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = Typed("\\d", "\\d messages;", "\\?", "help", "\\nonsense")
    assert asked(typed) == ["SHOW TABLES", "DESCRIBE messages"]
    err = capsys.readouterr().err
    assert err.count("A question ends with a semicolon") == 2
    assert "there is no \\nonsense" in err


def test_backslash_x_turns_rows_on_their_side_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    asked(Typed("\\x", "SELECT 1;", "\\x", "SELECT 1;"), form="table")
    out = capsys.readouterr().out
    assert out.index("─ row 1 ─") < out.index("┃ n ┃")


@pytest.mark.parametrize("text", ["SHOW TABLES", " show  views ; "])
def test_views_can_be_listed(text: str) -> None:
    answer = about_views(text)
    assert answer is not None
    assert tuple(row[0] for row in answer.rows) == VIEWS
    assert "journal" not in VIEWS


def test_a_view_can_be_described_and_an_unknown_one_is_named() -> None:
    for text in ("DESCRIBE messages", "desc `Messages`;", "DESCRIBE TABLE messages"):
        answer = about_views(text)
        assert answer is not None
        assert ("channel", "string") in answer.rows
    with pytest.raises(ArautoError, match=r"there is no view 'journal'; there are changes, ") as no:
        about_views("DESCRIBE journal")
    assert no.value.code is Code.BAD_QUERY


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SHOW TABLES IN x",
        "DESCRIBE EXTENDED messages x",
        "DESCRIBE a.b",
        "SHOW FUNCTIONS",
    ],
)
def test_nothing_else_is_taken_for_a_question_about_views(text: str) -> None:
    assert about_views(text) is None


def test_words_are_completed_by_where_they_stand() -> None:
    assert completions("", "SELECT * FROM ", _VIEWS) == ["messages", "sessions"]
    assert completions("SEL", "", _VIEWS) == ["SELECT"]
    assert completions("sel", "", _VIEWS) == ["select"]
    assert "channel" in completions("c", "SELECT ", _VIEWS)
    assert completions("co", "SELECT * FROM messages WHERE ", _VIEWS) == ["coalesce(", "count("]
    assert "code" in completions("co", "SELECT * FROM sessions WHERE ", _VIEWS)


def test_the_history_is_kept_where_states_of_programs_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".local" / "state" / "arauto" / "sql_history"
    assert history_path({}) == history_path({"XDG_STATE_HOME": "relative"}) == home
    assert history_path({"XDG_STATE_HOME": "/s"}) == Path("/s/arauto/sql_history")


def test_only_its_owner_can_read_the_history(tmp_path: Path) -> None:
    pytest.importorskip("readline")
    path = tmp_path / "state" / "arauto" / "sql_history"
    for _ in range(2):
        with editing(path, _VIEWS, lambda: ""):
            pass
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_kept_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with editing(tmp_path / "file" / "sql_history", _VIEWS, lambda: ""):
        pass


_WIDE = Answer(("channel", "text"), [("c", "w" * 200 + "\n2"), ("d", None)], is_cut=False)


class _Terminal(Output):
    """A terminal of 60 columns, without colours."""

    shown = io.StringIO()

    def __init__(self) -> None:
        super().__init__()
        self.file, self._force_terminal, self._color_system = self.shown, True, None
        self.width = 60


def test_rows_that_do_not_fit_the_terminal_are_shown_a_field_per_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _Terminal.shown = io.StringIO()
    monkeypatch.setattr(sql_show, "Output", _Terminal)
    show(_WIDE, "table")
    show(_ONE, "table")
    lines = _plain(_Terminal.shown.getvalue()).splitlines()
    assert lines[:3] == ["─ row 1 ─", "channel  c", "text     " + "w" * 200]
    assert lines[3:7] == ["         2", "─ row 2 ─", "channel  d", "text     –"]
    assert "┃ n ┃" in lines


def test_a_table_for_a_file_is_as_wide_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show(_WIDE, "table")
    out = capsys.readouterr().out
    assert "w" * 119 + "…" in out, "what is cut says so"
    assert "│ d       │ –" in out


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
