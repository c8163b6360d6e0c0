"""What is typed into the SQL shell: where a question ends, and what a word may become. Pure."""

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["completions", "question"]

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
    at, end = 0, -1
    while at < len(text):
        letter, two = text[at], text[at : at + 2]
        if letter in "'\"`":
            at = _quote_end(text, at)
        elif two == "--":
            at = _after(text, "\n", at)
        elif two == "/*":
            at = _after(text, "*/", at)
        else:
            if letter == ";":
                end = at
            elif not letter.isspace():
                end = -1
            at += 1
            continue
        if at < 0:
            return None
        if letter in "'\"`":
            end = -1
    return text[:end].strip() if end >= 0 else None


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
