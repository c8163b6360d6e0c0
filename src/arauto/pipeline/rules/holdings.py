"""How many bytes the rules of each hub hold, in one partition of the state. It is kept in that state itself,
so that a batch that is done again, or a restart, cannot make it wrong.
"""

from typing import Any

from arauto.pipeline.rules.packing import SEPARATOR

__all__ = ["Holdings"]


class Holdings:
    """Of one task. The figures of hubs are states of their own, whose keys no rule can have.

    Args:
        handle: Spark's.
        state: the state that rules use too.
    """

    def __init__(self, handle: Any, state: Any) -> None:
        self._handle = handle
        self._state = state
        self._bytes: dict[str, int] = {}
        self._changed: set[str] = set()

    def bytes_of(self, hub: str, key: Any) -> int:
        """What a hub holds. `key` is the one Spark is at, and stays so."""
        found = self._bytes.get(hub)
        if found is None:
            self._go_to(_subject(hub))
            kept = self._state.get()
            self._go_to(key)
            found = self._bytes[hub] = int(bytes(kept[1])) if kept is not None else 0
        return found

    def change(self, hub: str, more_bytes: int) -> None:
        """A key of a hub, of which `bytes_of` was asked, holds so much more, or less."""
        if more_bytes:
            # States of earlier versions were not counted when they came.
            self._bytes[hub] = max(0, self._bytes[hub] + more_bytes)
            self._changed.add(hub)

    def save(self) -> None:
        """At the end of the task."""
        for hub in sorted(self._changed):
            self._go_to(_subject(hub))
            if size := self._bytes[hub]:
                self._state.update((0, b"%d" % size))
            else:
                self._state.clear()
        self._changed.clear()

    def _go_to(self, subject: str) -> None:
        client = getattr(self._handle, "_statefulProcessorApiClient", None)
        if client is None:
            # Spark's own stand-in for tests.
            self._handle.setGroupingKey(subject)
        else:
            client.set_implicit_key((subject,))


def _subject(hub: str) -> str:
    # Before the separator stands the name of a rule's state, which is never empty.
    return f"{SEPARATOR}{hub}"
