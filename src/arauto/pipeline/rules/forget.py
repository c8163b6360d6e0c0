"""What rules hold of a user goes when the user is erased.

Events in the rules' state do not say whose they are. So all rules of the user's hub begin anew: under another
name of their state, so that nothing of the old one is matched or published any more; it goes at its own
deadlines, within a day, as that of rules that are gone. Rows of the user that were written before and not
read yet are passed over.
"""

from dataclasses import replace

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.lake.erasures import Erasures
from arauto.pipeline.rules.registry import RuleSet

__all__ = ["forgetting", "without_erased"]


def forgetting(rules: RuleSet, erasures: Erasures) -> RuleSet:
    """The rules, with those of hubs in which somebody was erased begun anew since."""
    if not erasures.hubs:
        return rules
    programs = tuple(
        msgspec.structs.replace(program, erased_ms=erasures.hubs.get(program.hub, 0))
        for program in rules.programs
    )
    marks = {(hub, "", f"erased {at_ms}") for hub, at_ms in erasures.hubs.items()}
    return replace(rules, programs=programs, fingerprint=rules.fingerprint | marks)


def without_erased(rows: DataFrame, erasures: Erasures) -> DataFrame:
    """Journal rows without those that erased users wrote before they were."""
    for hub, user, at_ms in erasures.users:
        mine = F.col("hub").eqNullSafe(hub) & F.col("user").eqNullSafe(user)
        rows = rows.where(~(mine & (F.col("ts") <= F.timestamp_millis(F.lit(at_ms)))))
    return rows
