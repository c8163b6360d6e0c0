"""From rows of the journal to events of rules, in SQL: which rules a row concerns, and what they see of it.

One expression serves all rules: each row becomes an array with one element for every rule it concerns,
and the array becomes rows. Rules of a hub are only ever tried on rows of that hub. All expressions come from
`arauto.correlation.sql`, which answers malformed data with NULL, so nothing that a client sends can stop
the query.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyspark.sql.functions as F
from pyspark.sql import Column, DataFrame

from arauto.correlation.expression import walk
from arauto.correlation.program import Program
from arauto.errors import ArautoError, Code
from arauto.pipeline.payload import is_json, text_of
from arauto.pipeline.rules.packing import SEPARATOR
from arauto.pipeline.source.datasource import SETTLED

__all__ = [
    "RULES_MAX",
    "SECOND_HAND_HOPS",
    "by_ref",
    "decode",
    "events",
    "packed",
    "state_ref",
    "takes_window",
]

#: Rules in all. Every row is tried on the rules of its hub, and the plan grows with their number.
RULES_MAX = 500

#: Messages that came through the pipeline so often concern no rule.
SECOND_HAND_HOPS = 2

_REMEMBERED = frozenset({"distinct_count", "members", "up", "down", "same_sign_share"})
_ELEMENT = (
    "struct<rule_ref:string,key:string,bits:bigint,nums:array<double>,texts:array<string>,"
    "length_ms:bigint,every_ms:bigint>"
)


def takes_window(program: Program) -> bool:
    """Whether plain sums per key and window are enough, so that Spark needs no Python for the rule.

    Distinct values and members have to be remembered one by one; the matcher bounds how many, SQL would not.
    """
    return (
        program.path == "window"
        and program.kind == "count"
        and program.window is not None
        and not any(
            node.op == "total" and node.value in _REMEMBERED
            for expr in (program.when, *program.payload.values())
            if expr is not None
            for node in walk(expr)
        )
    )


def state_ref(program: Program) -> str:
    """The name under which the rule's state is kept: its reference, and a digest of what it does.

    A rule that was deleted may come back with the same version and other contents. The SQL is left out, so
    that a better translation of the same rule takes up the old state; so are fields that did not exist when
    the first states were kept, if the rule does not use them.
    """
    plain = msgspec.to_builtins(
        msgspec.structs.replace(
            program, filter_sql="", key_sql="", bits_sql="", nums_sql="", texts_sql="", when_sql=""
        )
    )
    if program.prefer == "first_done":
        del plain["prefer"]
    return f"{program.ref}#{hashlib.sha256(msgspec.json.encode(plain)).hexdigest()[:12]}"


def by_ref(programs: Iterable[Program]) -> Mapping[str, Program]:
    """Programs by the name of their state.

    Raises:
        ArautoError: BAD_RULE if there are too many.
    """
    found = {state_ref(program): program for program in programs}
    if len(found) > RULES_MAX:
        raise ArautoError(
            Code.BAD_RULE,
            f"{len(found)} correlation rules are enabled, and at most {RULES_MAX} can run; disable some",
        )
    return found


def decode(rows: DataFrame, hubs: Sequence[str]) -> DataFrame:
    """Add the payload as `text`, if it is text, and as `json`, if it is valid JSON. Both are null otherwise.

    Only for rows of these hubs: no rule looks at others.
    """
    mine = F.col("hub").isin(*hubs) if hubs else F.lit(False)
    return rows.withColumn("text", F.when(mine, text_of(F.col("payload")))).withColumn(
        "json", F.when(is_json(F.col("text")), F.col("text"))
    )


def events(rows: DataFrame, programs: Mapping[str, Program]) -> DataFrame:
    """The events of these rules in these rows, one row each, with the rule's window.

    `ts` keeps its watermark. Rows that concern no rule still pass the watermark: heartbeats have no other
    purpose.
    """
    hubs = sorted({program.hub for program in programs.values()})
    settled = F.col(SETTLED) if SETTLED in rows.columns else F.lit(0).cast("bigint")
    found = decode(rows, hubs).select(
        # Outer: an inner explode lets Spark skip rows without events before it looks at their time.
        "ts",
        "node",
        "seq",
        settled.alias(SETTLED),
        F.explode_outer(_elements(programs, hubs)).alias("event"),
    )
    return found.where("event IS NOT NULL").select(
        "event.rule_ref",
        "event.key",
        "ts",
        F.unix_millis("ts").alias("ms"),
        "node",
        "seq",
        SETTLED,
        "event.bits",
        "event.nums",
        "event.texts",
        "event.length_ms",
        "event.every_ms",
    )


def packed(found: DataFrame) -> DataFrame:
    """Events as the matcher's side reads them: `subject` (rule and key), and all the rest as one text.

    Spark hands rows over to Python value by value, so fewer columns make for far less work. Numbers go as
    text, because JSON has no infinity. `packing.py` reads this.
    """
    nums = F.transform("nums", lambda number: number.cast("string"))
    body = F.struct("ms", "node", "seq", "bits", nums.alias("nums"), "texts", SETTLED)
    subject = F.concat(F.col("rule_ref"), F.lit(SEPARATOR), F.col("key"))
    return found.select(
        subject.alias("subject"), F.to_json(body).alias("packed"), "ms", "node", "seq"
    )


def _elements(programs: Mapping[str, Program], hubs: Sequence[str]) -> Column:
    """The array of events of a row, null for rows of other hubs."""
    chosen = F.when(F.lit(False), F.lit(None).cast(f"array<{_ELEMENT}>"))
    for hub in hubs:
        mine = [_element(ref, p) for ref, p in programs.items() if p.hub == hub]
        chosen = chosen.when(F.col("hub") == hub, F.array_compact(F.array(*mine)))
    return chosen


def _element(ref: str, program: Program) -> Column:
    window = program.window
    element = F.struct(
        F.lit(ref).alias("rule_ref"),
        F.expr(program.key_sql).alias("key"),
        F.expr(program.bits_sql).cast("bigint").alias("bits"),
        F.expr(program.nums_sql).cast("array<double>").alias("nums"),
        F.expr(program.texts_sql).cast("array<string>").alias("texts"),
        F.lit(window.length_ms if window else 0).cast("bigint").alias("length_ms"),
        F.lit(window.every_ms if window else 0).cast("bigint").alias("every_ms"),
    )
    concerned = F.expr(program.filter_sql)
    if program.include_pipeline:
        # What a rule made of the pipeline's own messages is not looked at again: see `deliver.messages`.
        hops = F.expr("coalesce(try_cast(try_element_at(headers, 'x-hops') AS int), 0)")
        concerned = concerned & (hops < SECOND_HAND_HOPS)
    return F.when(concerned, element)
