"""What Spark itself makes of a query: the second check.

Whatever another parser may have misread, Spark runs this plan. So every node of it must be one that reads,
every table a known view, and every function an allowed one. That is asked before Spark resolves any name,
and once more after it, since some names of columns turn out to be functions.
"""

from collections.abc import Collection, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.sql.faults import FAULTS, first_line
from arauto.pipeline.sql.functions import ALLOWED

__all__ = ["check_plan", "check_resolved"]

#: Plans that read. Commands, statements, scripts and whatever comes with a later Spark are not among them.
_READS = frozenset(
    """
    Aggregate AsOfJoin Deduplicate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin
    LocalLimit LocalRelation Offset OneRowRelation Pivot Project Range Repartition RebalancePartitions
    RepartitionByExpression ResolvedInlineTable Sample Sort SubqueryAlias Union Unpivot UnresolvedHaving
    UnresolvedHint UnresolvedInlineTable UnresolvedRelation UnresolvedSubqueryColumnAliases
    UnresolvedTVFAliases UnresolvedTableValuedFunction UnresolvedWith WithWindowDefinition
    """.split()  # noqa: SIM905
)
#: What Spark takes a name for that is no column, without a call: `user` where no view has it.
_TELLS = frozenset({"CurrentUser", "CurrentDatabase", "CurrentCatalog"})
_STARS = frozenset({"UnresolvedStar", "UnresolvedStarExceptOrReplace", "UnresolvedStarWithColumns"})
_NODES_MAX = 20_000


def check_plan(session: SparkSession, text: str, views: Collection[str]) -> None:
    """Refuse a query whose plan, as Spark parses it, does anything but read these views.

    Raises:
        ArautoError: BAD_QUERY.
    """
    state = session._jsparkSession.sessionState()
    try:
        plan = state.sqlParser().parsePlan(text)
    except FAULTS as error:
        raise ArautoError(Code.BAD_QUERY, first_line(error), field="query") from error
    made: set[str] = set()
    relations: list[tuple[str, ...]] = []
    for name, node in _nodes(session, plan):
        if name == "UnresolvedWith":
            made.update(each._1().lower() for each in _items(node.cteRelations()))
        elif name == "UnresolvedRelation":
            relations.append(tuple(_items(node.multipartIdentifier())))
        elif name in ("UnresolvedFunction", "UnresolvedTableValuedFunction"):
            _check_function(
                _items(node.nameParts() if name == "UnresolvedFunction" else node.name())
            )
        elif name == "UnresolvedGenerator":
            _check_function([node.name().unquotedString()])
        elif name == "UnresolvedAttribute":
            _check_column(_items(node.nameParts()))
        elif name in _STARS and node.target().isDefined():
            _check_column(_items(node.target().get()))
    for place in relations:
        if len(place) != 1 or place[0].lower() not in made | set(views):
            raise _refused(f"there is no view {'.'.join(place)!r}")


def check_resolved(frame: DataFrame) -> None:
    """Refuse a query that tells about machine and session, now that Spark knows what each name is.

    Raises:
        ArautoError: BAD_QUERY.
    """
    plan = frame._jdf.queryExecution().analyzed()
    for name, _ in _nodes(frame.sparkSession, plan, resolved=True):
        if name in _TELLS:
            raise _refused("who runs the pipeline, and where, is not yours to see")


def _check_function(parts: list[str]) -> None:
    if len(parts) != 1 or parts[0].lower() not in ALLOWED:
        raise _refused(f"the function {'.'.join(parts)!r} is not there or not allowed")


def _check_column(parts: list[str]) -> None:
    if "_metadata" in (part.lower() for part in parts):
        raise _refused("_metadata tells about files, which are not yours to see")


def _nodes(
    session: SparkSession, plan: Any, *, resolved: bool = False
) -> Iterator[tuple[str, Any]]:
    """Every plan and expression below a plan, and in its sub-queries, with the name of its class.

    A resolved plan is other nodes, and ends at the views, which are ours.
    """
    jvm: Any = session.sparkContext._jvm
    catalyst = "org.apache.spark.sql.catalyst"
    is_plan, is_subquery = (
        jvm.java.lang.Class.forName(f"{catalyst}.{name}").isInstance
        for name in ("plans.logical.LogicalPlan", "expressions.PlanExpression")
    )
    # With each node, whether it is below a window definition.
    waiting, count = [(plan, False)], 0
    while waiting:
        node, in_window = waiting.pop()
        count += 1
        if count > _NODES_MAX:
            raise _refused("the query has too many parts")
        name = node.getClass().getSimpleName().rstrip("$")
        if resolved and name == "View":
            continue
        below = _items(node.children()) + _items(node.innerChildren())
        if is_plan(node):
            if not resolved and name not in _READS:
                raise _refused(f"a query only reads; this would be {name}")
            below += _items(node.expressions())
            in_window = False
            if name == "WithWindowDefinition":
                # Spark does not count these among its expressions, nor their sub-queries among its own.
                windows = _items(node.windowDefinitions().values().toSeq())
                waiting += [(each, True) for each in windows]
        elif in_window and is_subquery(node):
            below.append(node.plan())
        elif name in ("UnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier"):
            raise _refused("names are written as they are, not computed")
        yield name, node
        waiting += [(each, in_window) for each in below if hasattr(each, "getClass")]


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _refused(message: str) -> ArautoError:
    return ArautoError(Code.BAD_QUERY, message, field="query")
