"""Whether the lake knows a hub, for whoever asks about one and gets nothing: the name may be mistyped."""

from collections.abc import Iterator

from arauto.config.problems import nearest
from arauto.pipeline.lake.manifest import select
from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.schemas import TABLES

__all__ = ["missing_hub"]

#: Small tables in which a hub is soon named, to find near names in.
_SMALL = ("rollup_5m", "counters")
_HUBS_MAX = 10_000


def missing_hub(lake: Lake, hub: str) -> str:
    """A sentence that the lake has no row of that hub, with a name that may be meant; "" if it has."""
    tables = [lake.table(name) for name in TABLES]
    if any(_has_rows(table, hub) for table in tables):
        return ""
    near = nearest(hub, sorted(set(_names(lake, tables)) - {""}))
    meant = f"; did you mean {near}?" if near else ""
    return f"the lake has no rows of a hub {hub}{meant}"


def _has_rows(table: Table, hub: str) -> bool:
    files = select(table.state().files.values(), hub=hub)
    # What begins or ends with the hub needs no look inside.
    if any(hub in (file.first_hub, file.last_hub) for file in files):
        return True
    return bool(files) and not table.read(hub=hub).isEmpty()


def _names(lake: Lake, tables: list[Table]) -> Iterator[str]:
    for table in tables:
        for file in table.state().files.values():
            yield from (file.first_hub, file.last_hub)
    for name in _SMALL:
        for row in lake.table(name).read().select("hub").distinct().limit(_HUBS_MAX).collect():
            yield row["hub"] or ""
