"""What Spark itself makes of a query, before it resolves any name: the second check.

Whatever another parser may have misread, Spark runs this plan. So every node of it must be one that reads,
every table a known view, and every function an allowed one.
"""

from collections.abc import Collection, Iterator
from typing import Any

from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.sql.faults import FAULTS, first_line
from arauto.pipeline.sql.functions import ALLOWED

__all__ = ["check_plan"]

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
            parts = _items(node.nameParts() if name == "UnresolvedFunction" else node.name())
            if len(parts) != 1 or parts[0].lower() not in ALLOWED:
                raise _refused(f"the function {'.'.join(parts)!r} is not there or not allowed")
    for place in relations:
        if len(place) != 1 or place[0].lower() not in made | set(views):
            raise _refused(f"there is no view {'.'.join(place)!r}")


def _nodes(session: SparkSession, plan: Any) -> Iterator[tuple[str, Any]]:
    """Every plan and expression below a plan, and in its sub-queries, with the name of its class."""
    jvm: Any = session.sparkContext._jvm
    is_plan = jvm.java.lang.Class.forName(
        "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
    ).isInstance
    waiting, count = [plan], 0
    while waiting:
        node = waiting.pop()
        count += 1
        if count > _NODES_MAX:
            raise _refused("the query has too many parts")
        name = node.getClass().getSimpleName().rstrip("$")
        below = _items(node.children()) + _items(node.innerChildren())
        if is_plan(node):
            if name not in _READS:
                raise _refused(f"a query only reads; this would be {name}")
            below += _items(node.expressions())
        elif name in ("UnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier"):
            raise _refused("names are written as they are, not computed")
        yield name, node
        waiting += [each for each in below if hasattr(each, "getClass")]


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _refused(message: str) -> ArautoError:
    return ArautoError(Code.BAD_QUERY, message, field="query")
