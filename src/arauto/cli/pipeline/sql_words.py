"""What is typed into the SQL shell: where questions end and commands begin, what words may become. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["command_at", "completions", "question", "split"]

_KEYWORDS = """
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT AS AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END
JOIN LEFT RIGHT FULL OUTER INNER CROSS ON USING UNION ALL INTERSECT EXCEPT WITH DISTINCT DESC ASC OVER
PARTITION CAST DESCRIBE SHOW TABLES INTERVAL TRUE FALSE
"""
_FUNCTIONS = """
count( sum( avg( min( max( get_json_object( date_trunc( window( from_json( coalesce( round( current_timestamp(
"""
_WORDS = tuple((_KEYWORDS + _FUNCTIONS).split())


def question(text: str) -> str | None:
    """The question without its semicolon; None while it goes on.

    A semicolon within quotes or a comment ends nothing.
    """
    end = -1
    for at, is_plain in _pieces(text):
        if at < 0:
            return None
        if is_plain and text[at] == ";":
            end = at
        elif not (text[at].isspace() or _is_comment(text, at)):
            end = -1
    return text[:end].strip() if end >= 0 else None


def split(text: str) -> list[str]:
    """The questions of a line that holds several."""
    ends = [at for at, is_plain in _pieces(text) if is_plain and text[at] == ";"]
    starts = [0, *(at + 1 for at in ends)]
    pieces = (
        text[start:end].strip() for start, end in zip(starts, [*ends, len(text)], strict=True)
    )
    return [piece for piece in pieces if piece]


def command_at(text: str) -> int | None:
    """Where a command of the shell begins: at the first backslash outside of quotes and comments."""
    plain = (at for at, is_plain in _pieces(text) if is_plain)
    return next((at for at in plain if text[at] == "\\"), None)


def _pieces(text: str) -> Iterator[tuple[int, bool]]:
    """Where each letter, quoted text or comment begins, and whether it is a letter for itself.

    The last one is at -1 if a quote or a comment does not end.
    """
    at = 0
    while at < len(text):
        start = at
        if text[at] in "'\"`":
            at = _quote_end(text, at)
        elif text.startswith("--", at):
            at = _after(text, "\n", at)
        elif text.startswith("/*", at):
            at = _after(text, "*/", at)
        else:
            at += 1
            yield start, True
            continue
        yield (start if at >= 0 else -1), False
        if at < 0:
            return


def _is_comment(text: str, at: int) -> bool:
    return text.startswith(("--", "/*"), at)


def _quote_end(text: str, start: int) -> int:
    at = start + 1
    while at < len(text):
        if text[at] == "\\" and text[start] != "`":
            at += 1
        elif text[at] == text[start]:
            return at + 1
        at += 1
    return -1


def _after(text: str, mark: str, start: int) -> int:
    """Behind the mark; a line comment may also end with the text."""
    found = text.find(mark, start + 1)
    if found < 0:
        return len(text) if mark == "\n" else -1
    return found + len(mark)


def completions(word: str, before: str, views: Mapping[str, Sequence[str]]) -> list[str]:
    """What the word may become: commands, keywords, views, and columns.

    Args:
        word: its beginning.
        before: the line before it, and those above.
        views: columns by view. Those of views that are named already come alone, if there are any.
    """
    named = {part.strip("`(),;").lower() for part in before.split()}
    begun = word.lower()
    own = [column for name in views if name in named for column in views[name]]
    columns = own or [column for names in views.values() for column in names]
    last = before.split()[-1].lower() if before.split() else ""
    if last in ("from", "join", "describe", "desc", "\\d"):
        return _fitting(begun, views)
    keywords = [each if word.isupper() else each.lower() for each in _WORDS]
    return _fitting(begun, [*keywords, *views, *columns])


def _fitting(begun: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.lower().startswith(begun)})
