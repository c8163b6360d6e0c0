"""Paths into a message: `payload.items[*].sku`, `channel`, `headers.region`.

Whatever does not have the path (another shape, no JSON at all) simply gives no values.
"""

import re
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code

__all__ = ["COLUMNS", "ItemPath", "parse_path", "value_of", "values_of"]

#: Columns of `messages` that are labels by themselves.
COLUMNS = ("channel", "user", "session", "key", "content_type")
_STEPS_MAX = 16
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\*|[0-9]{1,6})\]|\['([^'\\\]]{1,100})'\]")


@dataclass(frozen=True, slots=True)
class ItemPath:
    """A path, taken apart."""

    text: str
    column: str
    """One of `COLUMNS`, `headers`, or `payload`."""
    steps: tuple[str, ...]
    """Steps below the column, as Spark's variant paths write them; `[*]` for each item of an array."""

    @property
    def is_many(self) -> bool:
        """Whether one message can give several values."""
        return "[*]" in self.steps


def parse_path(text: str) -> ItemPath:
    """Take a path apart.

    Raises:
        ArautoError: BAD_FIELD.
    """
    found = re.match(r"[a-z_]+", text)
    column = found[0] if found else ""
    steps: list[str] = []
    at = len(column)
    while at < len(text):
        step = _STEP.match(text, at)
        if not step or len(steps) == _STEPS_MAX:
            raise _bad(text, f"cannot be read from character {at + 1} on")
        name, index, quoted = step.groups()
        steps.append(f"[{index}]" if index else f"['{name or quoted}']")
        at = step.end()
    if column in COLUMNS and not steps:
        return ItemPath(text, column, ())
    if column == "headers" and len(steps) == 1 and steps[0].startswith("['"):
        return ItemPath(text, column, tuple(steps))
    if column == "payload" and steps:
        return ItemPath(text, column, tuple(steps))
    raise _bad(text, "names nothing of a message")


def values_of(path: ItemPath) -> Column:
    """All values at the path, as an array of strings; null where there are none."""
    if path.column != "payload":
        return F.array(value_of(path))
    node = F.try_parse_json("text")
    # Each part between two `[*]` leads from a value to an array of values, so arrays nest: flatten each.
    parts = "".join(path.steps).split("[*]")
    if len(parts) == 1:
        return F.array(F.try_variant_get(node, "$" + parts[0], "string"))
    found = F.try_variant_get(node, "$" + parts[0], "array<variant>")
    for part in parts[1:-1]:
        found = F.flatten(F.filter(_each(found, part, "array<variant>"), _is_there))
    return _each(found, parts[-1], "string")


def value_of(path: ItemPath) -> Column:
    """The one value at the path, as a string; null where there is none.

    Raises:
        ArautoError: BAD_FIELD if there may be several.
    """
    if path.is_many:
        raise _bad(path.text, "gives several values; here one is needed")
    if path.column == "payload":
        return F.try_variant_get(F.try_parse_json("text"), "$" + "".join(path.steps), "string")
    if path.column == "headers":
        return F.try_element_at("headers", F.lit(path.steps[0][2:-2]))
    return F.nullif(F.col(path.column), F.lit(""))


def _each(array: Column, below: str, kind: str) -> Column:
    def read(item: Column) -> Column:
        return F.try_variant_get(item, "$" + below, kind)

    return F.transform(array, read)


def _is_there(value: Column) -> Column:
    return value.isNotNull()


def _bad(text: str, why: str) -> ArautoError:
    return ArautoError(
        Code.BAD_FIELD,
        f"{text!r} {why}; write payload.items[*].sku, payload.kind, headers.region or one of "
        + ", ".join(COLUMNS),
        field="items",
    )
