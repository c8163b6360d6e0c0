"""How many patterns a hub takes that have to be gone through, one by one, for each channel that opens."""

from typing import Any

from arauto.errors import ArautoError, Code
from arauto.hub.matcher import Matcher, is_loose
from arauto.limits import (
    LOOSE_PATTERNS_LEN_MAX,
    PATTERN_FORMS_LEN_MAX,
    TRIED_PATTERNS_LEN_MAX,
)

__all__ = ["check_room"]


def check_room(patterns: Matcher[Any], pattern: str) -> None:
    """Whether there is room for one that is not among them.

    Raises:
        ArautoError: TOO_MANY_SUBSCRIPTIONS.
    """
    if is_loose(pattern) and patterns.loose_len >= LOOSE_PATTERNS_LEN_MAX:
        raise _full(
            f"a hub has at most {LOOSE_PATTERNS_LEN_MAX} patterns that begin with a wildcard"
        )
    if patterns.tried_len_with(pattern) > TRIED_PATTERNS_LEN_MAX:
        raise _full(
            f"a hub has at most {TRIED_PATTERNS_LEN_MAX} patterns that begin alike and have a * before "
            "their end; # for one segment and a * at the end have no such limit"
        )
    if patterns.forms_len_with(pattern) > PATTERN_FORMS_LEN_MAX:
        raise _full(
            f"patterns of a hub have # in at most {PATTERN_FORMS_LEN_MAX} combinations of places"
        )


def _full(rule: str) -> ArautoError:
    return ArautoError(Code.TOO_MANY_SUBSCRIPTIONS, rule, field="channel")
