"""Is this one read-only query over known views? Said before Spark sees it, with line and column. Pure.

This is the first of three checks, and the one with the good messages. `plan.py` asks Spark's own parser, and
the session that runs the query (`views.py`) has nothing else to reach.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from arauto.config.problems import nearest
from arauto.errors import ArautoError, Code
from arauto.pipeline.sql.functions import ALLOWED

__all__ = ["TEXT_LEN_MAX", "check_query"]

TEXT_LEN_MAX = 20_000
_NODES_MAX = 5_000
_BEGINNINGS = ("select", "with", "values", "from", "table")


def check_query(text: str, views: Collection[str]) -> None:
    """Refuse what is not exactly one query (SELECT, WITH, UNION …) over these views.

    Args:
        text: the SQL.
        views: names that may be read, in small letters.

    Raises:
        ArautoError: BAD_QUERY, with line and column.
    """
    if len(text) > TEXT_LEN_MAX:
        raise _bad(f"a query has at most {TEXT_LEN_MAX} characters")
    if "\0" in text:
        raise _bad("a query has no zero characters")
    tree = _parse(text)
    known = set(views) | set(_names_made(tree))
    for count, node in enumerate(tree.walk()):
        if count > _NODES_MAX:
            raise _bad("the query has too many parts")
        _check_node(text, node, known, views)


def _parse(text: str) -> Any:
    import sqlglot
    from sqlglot.dialects.spark import Spark
    from sqlglot.tokenizer_core import TokenType

    dialect = Spark()
    try:
        tokens = dialect.tokenize(text)
        for token, after in pairwise(tokens):
            # `window(ts, '5 minutes')` is a function; the parser takes the word for the clause.
            if token.token_type == TokenType.WINDOW and after.token_type == TokenType.L_PAREN:
                token.token_type = TokenType.VAR
        trees = [tree for tree in dialect.parser().parse(tokens, text) if tree is not None]
    except sqlglot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        said = str(first.get("description") or error)
        raise _bad(said + _meant(text), first.get("line"), first.get("col")) from error
    except sqlglot.errors.SqlglotError as error:
        raise _bad(f"the query cannot be read: {str(error)[:200]}") from error
    except RecursionError as error:
        raise _bad("the query is nested too deeply") from error
    if len(trees) != 1:
        raise _bad(f"one query is needed, not {len(trees)} statements")
    tree = trees[0]
    if not isinstance(tree, sqlglot.exp.Query) or isinstance(tree, sqlglot.exp.Table):
        raise _bad("only queries are allowed: SELECT, WITH, UNION, INTERSECT or EXCEPT")
    return tree


def _meant(text: str) -> str:
    """What may help where the first word begins no query."""
    word = text.split(maxsplit=1)[0].lower() if text.strip() else ""
    if not word.isalpha() or word in _BEGINNINGS:
        return ""
    near = nearest(word, _BEGINNINGS)
    meant = f"; did you mean {near.upper()}?" if near else ""
    return f"; a query begins with SELECT or WITH{meant}"


def _names_made(tree: Any) -> Iterator[str]:
    from sqlglot import exp

    for made in tree.find_all(exp.CTE):
        yield made.alias.lower()


def _check_node(text: str, node: Any, known: Collection[str], views: Collection[str]) -> None:
    from sqlglot import exp

    if isinstance(node, exp.Table):
        _check_table(node, known, views)
    elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        raise _bad(
            "a function is called by its own name, without a place before it", *_at(node.expression)
        )
    elif isinstance(node, exp.CurrentUser | exp.SessionUser):
        # Without parentheses too; what else looks like a column and is none is found in Spark's plan.
        raise _bad("who runs the pipeline is not yours to see", *_at(node))
    elif isinstance(node, exp.Func):
        _check_function(text, node)
    elif isinstance(node, exp.QueryTransform):
        raise _bad("TRANSFORM would run a program", *_at(node))
    elif isinstance(node, exp.Identifier) and node.name.lower() == "_metadata":
        raise _bad("_metadata tells about files, which are not yours to see", *_at(node))
    elif isinstance(node, exp.Parameter | exp.Placeholder | exp.SessionParameter):
        raise _bad("a query has no parameters", *_at(node))
    elif isinstance(node, exp.Command | exp.DDL | exp.DML | exp.Into):
        raise _bad("a query only reads", *_at(node))


def _check_table(table: Any, known: Collection[str], views: Collection[str]) -> None:
    from sqlglot import exp

    if table.args.get("db") or table.args.get("catalog"):
        raise _bad("a view is named by itself, without a database before it", *_at(table))
    if isinstance(table.this, exp.Func):
        return  # checked as a function
    if table.name.lower() not in known:
        raise _bad(
            f"there is no view {table.name!r}; there are " + ", ".join(sorted(views)), *_at(table)
        )


def _check_function(text: str, call: Any) -> None:
    place = call.meta
    # The name as it was written; casts and operators were not written as calls and have no place.
    name = text[place["start"] : place["end"] + 1] if "start" in place else ""
    name = (name or (call.name if type(call).__name__ == "Anonymous" else "")).strip("`").lower()
    if name == "user" and not text[place["end"] + 1 :].lstrip().startswith("("):
        return  # the column
    if name.isidentifier() and name not in ALLOWED:
        raise _bad(f"the function {name!r} is not there or not allowed", *_at(call))


def _at(node: Any) -> tuple[int | None, int | None]:
    """Line and column where a node begins, as far as known."""
    for part in node.walk():
        place = part.meta
        if "line" in place:
            # The tokenizer's column is that of the last character.
            return place["line"], place["col"] - (place["end"] - place["start"])
    return None, None


def _bad(message: str, line: int | None = None, column: int | None = None) -> ArautoError:
    where = f"line {line}, column {column}: " if line is not None else ""
    return ArautoError(Code.BAD_QUERY, where + message, field="query")
