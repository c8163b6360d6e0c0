"""Answers about the views themselves: SHOW TABLES and DESCRIBE. Said from what is known, without Spark. Pure.

They are no queries, so the checks of queries refuse them; and nothing in them is a hub's secret.
"""

import re

from arauto.errors import ArautoError, Code
from arauto.pipeline.schemas import TABLES
from arauto.pipeline.sql.run import Answer
from arauto.pipeline.sql.views import VIEWS

__all__ = ["about_views", "columns_of"]

#: As in the manual.
_ROWS = {
    "changes": "a change by an administrator",
    "counters": "what a node counted in an interval",
    "matches": "an alert of a correlation rule",
    "messages": "a stored message",
    "mined": "a pattern found by mining",
    "quarantine": "a row that could not be read",
    "refusals": "something refused",
    "rollup_5m": "a part of five minutes' sums",
    "session_starts": "a session that began",
    "sessions": "a session that ended",
    "subscriptions": "a subscription begun or ended",
}

_SHOW = re.compile(r"\s*show\s+(?:tables|views)\s*;?\s*", re.IGNORECASE)
_DESCRIBE = re.compile(r"\s*desc(?:ribe)?\s+(?:table\s+)?`?(\w+)`?\s*;?\s*", re.IGNORECASE)


def about_views(text: str) -> Answer | None:
    """The answer, if this asks about views; None if it is something else.

    Raises:
        ArautoError: BAD_QUERY, there is no such view.
    """
    if _SHOW.fullmatch(text):
        return Answer(("view", "a row is"), [(name, _ROWS[name]) for name in VIEWS], is_cut=False)
    found = _DESCRIBE.fullmatch(text)
    if found is None:
        return None
    name = found[1].lower()
    if name not in VIEWS:
        known = ", ".join(VIEWS)
        raise ArautoError(
            Code.BAD_QUERY, f"there is no view {found[1]!r}; there are {known}", field="query"
        )
    fields = TABLES[name].columns.fields
    rows = [(field.name, field.dataType.simpleString()) for field in fields]
    return Answer(("column", "type"), rows, False)


def columns_of(view: str) -> list[str]:
    """The names of a view's columns."""
    return list(TABLES[view].columns.names)
