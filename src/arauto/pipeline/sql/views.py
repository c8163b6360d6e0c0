"""A session in which nothing can be reached but the views of one hub: the third check of a query."""

from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession

from arauto.names import check_hub
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.schemas import TABLES
from arauto.pipeline.sql.functions import ALLOWED

__all__ = ["VIEWS", "open_views"]

#: Tables that queries can read. The journal as it was received is not among them: what it holds is in
#: `messages` and the others, with types.
VIEWS = tuple(sorted(name for name, table in TABLES.items() if table.layer in ("silver", "gold")))

_SETTINGS = {
    # `${env:HOME}` in a query would be replaced by what the environment holds, before anything is parsed.
    "spark.sql.variable.substitute": "false",
    # SELECT … FROM parquet.`/path`
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.scripting.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


def open_views(
    lake: Lake,
    hub: str | None,
    *,
    names: Collection[str] = VIEWS,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> SparkSession:
    """Make a session with a view for each table.

    Args:
        lake: where the tables are.
        hub: whose rows the views show; None = all, for operators.
        names: the views that are needed.
        from_ms: rows of this time on.
        to_ms: rows before this time.

    Raises:
        ArautoError: BAD_HUB_NAME, LAKE_CORRUPT.
    """
    if hub is not None:
        check_hub(hub)
    session = lake.spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    _forget_functions(session)
    own = Lake(session, lake.root)
    for name in names:
        frame = own.table(name).read(from_ms=from_ms, to_ms=to_ms, hub=hub)
        frame.createOrReplaceTempView(name)
    return session


def _forget_functions(session: SparkSession) -> None:
    """Take every function that is not allowed out of the session, so that no way leads to it."""
    state: Any = session._jsparkSession.sessionState()
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        listed = registry.listFunction()
        # One call for all names, such as system.builtin.abs: to ask one by one takes as long as a query.
        names = listed.mkString("\n").split("\n")
        for index, name in enumerate(names):
            if name.rpartition(".")[2] not in ALLOWED:
                registry.dropFunction(listed.apply(index))
