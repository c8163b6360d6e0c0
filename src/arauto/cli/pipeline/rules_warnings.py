"""Which messages rules wait for in vain, since their channels do not store them. The node knows."""

from collections.abc import Callable, Collection, Iterable, Mapping

from rich.console import Console
from rich.text import Text

from arauto.correlation.document import load_rule
from arauto.correlation.rule import Rule
from arauto.correlation.unseen import unseen
from arauto.errors import ArautoError
from arauto.model import When
from arauto.pipeline.node_api import CorrelationRecord, NodeApi
from arauto.printable import printable

__all__ = ["UNSTORED", "listed", "tell", "warnings_of"]

UNSTORED = "rules see messages that are stored, and no others"

Warnings = Mapping[tuple[str, str], Collection[str]]
"""By hub and name of a rule."""


def warnings_of(api: NodeApi, hub: str, rules: Iterable[Rule]) -> Warnings:
    """What the node's present rules of channels keep from correlation rules of a hub.

    Raises:
        ArautoError: as `NodeApi.stored`.
    """
    stored = _asking(api, hub)
    return {(hub, rule.name): list(unseen(rule, stored)) for rule in rules}


def listed(api: NodeApi, records: Iterable[CorrelationRecord]) -> Warnings:
    """The same for rules that the node has; nothing of what it cannot say."""
    found: dict[tuple[str, str], Collection[str]] = {}
    asking: dict[str, Callable[[str], Collection[When]]] = {}
    for record in records:
        stored = asking.setdefault(record.hub, _asking(api, record.hub))
        try:
            found[record.hub, record.id] = list(unseen(load_rule(record.text), stored))
        except ArautoError:
            continue  # a list is not worth less for that
    return found


def tell(console: Console, warnings: Warnings) -> None:
    """Say them, and once what they all come from."""
    lines = [f"{hub}/{rule} {said}" for (hub, rule), found in warnings.items() for said in found]
    for line in lines:
        console.print(Text(printable(line)), style="yellow")
    if lines:
        console.print(UNSTORED, style="dim")


def _asking(api: NodeApi, hub: str) -> Callable[[str], Collection[When]]:
    """What channels of a hub store; many rules listen to the same ones."""
    known: dict[str, Collection[When]] = {}

    def stored(match: str) -> Collection[When]:
        if match not in known:
            known[match] = api.stored(hub, match)
        return known[match]

    return stored
