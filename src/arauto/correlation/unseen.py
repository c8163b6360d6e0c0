"""What a rule will not see, because the journal holds only messages that are stored. Pure."""

from collections.abc import Callable, Collection, Iterator

from arauto.correlation.rule import Rule
from arauto.model import When

__all__ = ["MESSAGE", "unseen"]

#: The journal's number of messages.
MESSAGE = 1


def unseen(rule: Rule, stored: Callable[[str], Collection[When]]) -> Iterator[str]:
    """Say which messages a rule waits for in vain.

    Args:
        rule: what listens.
        stored: which messages are stored by the channels that a name, pattern or topic can cover.
    """
    if MESSAGE not in rule.source.kinds:
        return
    for name in rule.source.channels:
        found = set(stored(name))
        if found == {When.NEVER}:
            yield f"sees no message of {name}: no channel it covers stores any (store: never)"
        elif When.NEVER in found:
            yield f"may not see all messages of {name}: some channels it covers store none (store: never)"
        elif When.MARKED in found:
            yield (
                f"may not see all messages of {name}: channels it covers store only those published "
                "with store (store: marked)"
            )
