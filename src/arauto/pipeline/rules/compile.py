"""How queries know rules: which one runs a rule, and under what name the rule's state is kept. Pure."""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from arauto.correlation.expression import walk
from arauto.correlation.program import Program
from arauto.errors import ArautoError, Code

__all__ = ["RULES_MAX", "by_ref", "state_ref", "takes_window"]

#: Rules in all, of all hubs.
RULES_MAX = 500

_REMEMBERED = frozenset({"distinct_count", "members", "up", "down", "same_sign_share"})
#: Fields that programs had when the first states were kept, in front of `filter_expr` and at the end.
_ONCE_FIRST = ("filter_sql", "key_sql", "bits_sql", "nums_sql", "texts_sql")
_ONCE_LAST = "when_sql"


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

    A rule that was deleted may come back with the same version and other contents. What is digested is what
    was digested when the first states were kept: fields that have gone since are there as empty texts, and
    fields that have come are left out unless the rule uses them.
    """
    plain: dict[str, object] = {}
    for name, value in msgspec.to_builtins(program).items():
        if name == "filter_expr":
            plain |= dict.fromkeys(_ONCE_FIRST, "")
        plain[name] = value
    plain[_ONCE_LAST] = ""
    if program.prefer == "first_done":
        del plain["prefer"]
    if not program.erased_ms:
        del plain["erased_ms"]
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
