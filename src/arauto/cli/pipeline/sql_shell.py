"""The SQL shell: question after question, to one Spark."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from arauto.cli.console import errors
from arauto.cli.pipeline.sql_show import Form, show
from arauto.cli.pipeline.sql_words import command_at, completions, question, split
from arauto.errors import ArautoError, Code
from arauto.printable import printable

if TYPE_CHECKING:
    from arauto.pipeline.sql.run import Answer

__all__ = ["Shell", "editing", "history_path", "read_line"]

_HISTORY_LEN = 1_000
_ENDS = ("\\q", "exit", "quit")
_HELPS = ("help", "?")
#: Commands without a backslash; within a question they are words of it.
_WORDS = ("exit", "quit", *_HELPS)
_HELP = """\
A question ends with a semicolon, and may have several lines.
  \\d         the views        (also SHOW TABLES)
  \\d VIEW    its columns      (also DESCRIBE VIEW)
  \\x         one field per line, or not; without it, where rows are too wide for a table
  \\?         this
  \\q         end it           (also exit, Ctrl-D)
Commands with a backslash work within a question too, which then goes on.
Ctrl-C cancels a question. Tab completes keywords, views and columns."""


class Shell:
    """Reads, asks and shows, until there is no more.

    Args:
        ask: answers a question.
        read: reads a line after a prompt; EOFError at the end.
        form: how rows are shown.
        name: what the prompt says.
        is_over: asked after a failure, whether no question can be answered any more.
    """

    def __init__(
        self,
        ask: "Callable[[str], Answer]",
        read: Callable[[str], str],
        *,
        form: Form,
        name: str,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ask = ask
        self._read = read
        self._form = form
        self._name = name
        self._is_over = is_over
        self._console = errors()
        self.text = ""
        """The lines of a question that goes on."""

    def run(self) -> None:
        """Go on until the end.

        Raises:
            ArautoError: SPARK_ENDED.
        """
        self._console.print(
            "Questions end with a semicolon. \\d shows the views, \\? helps, \\q ends.", style="dim"
        )
        while True:
            try:
                if not self._turn():
                    return
            except EOFError:
                self._console.print()
                return
            except KeyboardInterrupt:
                self.text = ""
                self._console.print()

    def _turn(self) -> bool:
        """Take one line; False if it ends the shell."""
        prompt = f"{self._name}> " if not self.text else f"{'-' * (len(self._name))}> "
        line = self._read(prompt)
        word = line.strip().rstrip(";").strip().lower()
        if word in _WORDS:
            if not self.text:
                return self._command(word)
            if word not in _HELPS:
                self._console.print("\\q ends it, also within a question", style="dim")
        whole = self.text + line
        at = command_at(whole)
        typed = line if at is None else whole[len(self.text) : at]
        # An empty line may be part of a quoted text.
        if typed.strip() or (self.text and at is None):
            self._add(f"{typed}\n")
        return at is None or self._command(whole[at:])

    def _add(self, typed: str) -> None:
        """Go on with the question, which may be whole now."""
        self.text += typed
        asked = question(self.text)
        if asked is None:
            return
        self.text = ""
        for each in split(asked):
            self._answer(each)

    def _command(self, typed: str) -> bool:
        """Do what a command says, whether or not a question goes on; False if it ends the shell."""
        word, _, rest = typed.strip().rstrip(";").strip().partition(" ")
        word, rest = word.lower(), rest.strip()
        if word in _ENDS:
            return False
        if word in ("\\d", "\\dt"):
            self._answer(f"DESCRIBE {rest}" if rest else "SHOW TABLES")
        elif word == "\\x":
            self._form = "table" if self._form == "expanded" else "expanded"
            said = (
                "each field on a line of its own"
                if self._form == "expanded"
                else "tables, where they fit"
            )
            self._console.print(said, style="dim")
        elif word in ("\\?", "\\h", *_HELPS):
            self._console.print(_HELP, style="dim")
        else:
            self._console.print(
                Text(f"there is no {printable(word)}; \\? shows what there is", style="yellow")
            )
        return True

    def _answer(self, text: str) -> None:
        try:
            with self._console.status("asking … Ctrl-C cancels"):
                answer = self._ask(text)
            show(answer, self._form)
            if answer.is_cut:
                self._console.print(
                    f"there are more than these {len(answer.rows)} rows", style="yellow"
                )
        except ArautoError as error:
            if self._is_over():
                raise ArautoError(Code.SPARK_ENDED, "Spark has ended; start again") from error
            self._console.print(Text(printable(error.message), style="red"))
        except KeyboardInterrupt:
            self._console.print("cancelled", style="yellow")


def history_path(environ: Mapping[str, str]) -> Path:
    """Where earlier lines are kept."""
    state = environ.get("XDG_STATE_HOME", "")
    # A relative one is to be ignored, says its specification.
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "arauto" / "sql_history"


@contextmanager
def editing(
    path: Path, views: Mapping[str, Sequence[str]], above: Callable[[], str]
) -> Iterator[None]:
    """Lines with keys, completion and a history, where Python has readline.

    Args:
        path: the file of the history, which only the user may read.
        views: columns by view.
        above: says which lines of the question there are above this one.
    """
    try:
        import readline
    except ImportError:
        yield
        return
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            before = above() + readline.get_line_buffer()[: readline.get_begidx()]
            found[:] = completions(word, before, views)
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=<>+*;")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_history_length(_HISTORY_LEN)
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        # A history that cannot be kept is no reason to fail.
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            readline.write_history_file(path)
        readline.set_completer(None)


def read_line(prompt: str) -> str:
    """A line from the terminal."""
    sys.stdout.flush()
    return input(prompt)
