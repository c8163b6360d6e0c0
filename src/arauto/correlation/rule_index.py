"""Which rules a row can touch: by its hub, then by its channel. All other rules cost nothing."""

from collections.abc import Iterable, Mapping

from arauto.correlation.program import Program
from arauto.correlation.rows import RowReader
from arauto.names import literal_prefix, matches

__all__ = ["RuleIndex"]

#: Channels whose rules are remembered; then all are forgotten and found again.
_KNOWN_MAX = 10_000


class RuleIndex:
    """The rules, found by what a row is.

    Args:
        programs: the rules, by the name of their state.
    """

    def __init__(self, programs: Mapping[str, Program]) -> None:
        self._hubs: dict[str, _OfHub] = {}
        self._known: dict[tuple[str, str], tuple[RowReader, ...]] = {}
        for ref, program in programs.items():
            self._hubs.setdefault(program.hub, _OfHub()).add(RowReader(ref, program))

    @property
    def hubs(self) -> Iterable[str]:
        """Hubs that have rules."""
        return self._hubs.keys()

    def touching(self, hub: str, channel: str) -> tuple[RowReader, ...]:
        """The rules of the hub that look at the channel, in the order they were given."""
        place = (hub, channel)
        found = self._known.get(place)
        if found is None:
            of_hub = self._hubs.get(hub)
            if of_hub is None:
                return ()
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            found = self._known[place] = of_hub.touching(channel)
        return found


class _OfHub:
    """The rules of one hub, by their patterns: whole names, first segments, and what is left."""

    def __init__(self) -> None:
        self._count = 0
        self._names: dict[str, list[tuple[int, RowReader]]] = {}
        self._heads: dict[str, list[tuple[int, str, RowReader]]] = {}
        self._others: list[tuple[int, str, RowReader]] = []

    def add(self, reader: RowReader) -> None:
        number = self._count
        self._count += 1
        for pattern in reader.program.channels:
            prefix = literal_prefix(pattern)
            if prefix == pattern and pattern[:1] != "/":
                self._names.setdefault(pattern, []).append((number, reader))
                continue
            head = _head(prefix, whole=prefix == pattern)
            item = (number, pattern, reader)
            if head:
                self._heads.setdefault(head, []).append(item)
            else:
                self._others.append(item)

    def touching(self, channel: str) -> tuple[RowReader, ...]:
        found = dict(self._names.get(channel, ()))
        candidates = self._heads.get(_head(channel, whole=True), ())
        for number, pattern, reader in (*candidates, *self._others):
            if number not in found and matches(pattern, channel):
                found[number] = reader
        return tuple(found[number] for number in sorted(found))


def _head(name: str, *, whole: bool) -> str:
    """The first segment of a name, or of what a pattern starts with; "" if that may still go on."""
    separator = "/" if name[:1] == "/" else ":"
    first, found, _ = name[1:].partition(separator)
    # All topics lie under "/", whatever their first segment is.
    return name[:1] + first if (found or whole) and name != "/" else ""
