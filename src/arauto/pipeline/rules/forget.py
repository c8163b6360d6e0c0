"""What rules hold of a user goes when the user is erased.

Events in the rules' state do not say whose they are. So all rules of the user's hub begin anew: under another
name of their state, so that nothing of the old one is matched or published any more; it goes at its own
deadlines, within a day, as that of rules that are gone. Rows of the user that were written before and not
read yet are passed over where rows become events (`Carried.erased`).
"""

from dataclasses import replace

import msgspec

from arauto.pipeline.lake.erasures import Erasures
from arauto.pipeline.rules.registry import RuleSet

__all__ = ["forgetting"]


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
