"""Rules, namespaces and channel settings: get, set, list and delete, written once for all three."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from arauto.admin.operations.changes import Changes
from arauto.admin.operations.secrets import version_of
from arauto.admin.operations.states import ANY_VERSION, States, decode
from arauto.errors import ArautoError, Code
from arauto.hub.rules import HubState
from arauto.names import check_hub
from arauto.storage.base import SettingsStore

__all__ = ["Part", "Parts"]

S = TypeVar("S", bound=msgspec.Struct)


class Part(msgspec.Struct, Generic[S], frozen=True):
    """A setting, its id and its version."""

    id: str
    settings: S
    version: str


class Parts(Generic[S]):
    """The verbs on one kind of settings."""

    def __init__(
        self,
        store: SettingsStore,
        states: States,
        changes: Changes,
        *,
        kind: str,
        settings_type: type[S],
        check_id: Callable[[str], object],
        check: Callable[[HubState, str, S], None],
        check_kept: Callable[[str], object] | None = None,
        users: Callable[[HubState, str], str] = lambda state, id: "",
    ) -> None:
        """Prepare the verbs.

        Args:
            store: where they are kept.
            states: reads the hub's other settings.
            changes: makes changes.
            kind: the store's name for this kind.
            settings_type: what one is.
            check_id: refuses malformed ids.
            check: refuses settings that do not fit the hub's others.
            check_kept: refuses ids that nothing can have been set under; None = `check_id`.
            users: says what would be left without one if it were deleted.
        """
        self._store = store
        self._states = states
        self._changes = changes
        self._kind = kind
        self._type = settings_type
        self._check_id = check_id
        self._check_kept = check_kept or check_id
        self._check = check
        self._users = users

    async def get(self, hub: str, id: str) -> Part[S]:
        """One of them.

        Raises:
            ArautoError: BAD_HUB_NAME, BAD_FIELD or BAD_CHANNEL_NAME (the id), UNKNOWN_HUB, NOT_FOUND.
        """
        self._check_names(hub, id)
        await self._states.of(hub)
        settings = await self._read(hub, id)
        if settings is None:
            raise self._missing()
        return Part(id, settings, version_of(settings))

    async def list(self, hub: str, *, after: str = "", limit: int) -> tuple[list[Part[S]], str]:
        """(a page in order of id, the cursor of the next page or "").

        Raises:
            ArautoError: BAD_HUB_NAME, BAD_FIELD or BAD_CHANNEL_NAME (the cursor), UNKNOWN_HUB.
        """
        self._check_names(hub, after or None)
        await self._states.of(hub)
        rows = await self._store.list(self._kind, hub, after=(hub, after), limit=limit + 1)
        page = []
        for _, id, data in rows[:limit]:
            settings = decode(data, self._type, hub)
            if settings is not None:
                page.append(Part(id, settings, version_of(settings)))
        return page, rows[limit - 1][1] if len(rows) > limit else ""

    async def set(
        self, hub: str, id: str, settings: S, *, by: str, if_version: str = ANY_VERSION
    ) -> Part[S]:
        """Set or replace one; it applies to running channels when this returns.

        Raises:
            ArautoError: as `get`, UNKNOWN_RULES, CONFLICT (too many, or not at `if_version`).
        """
        check_hub(hub)
        self._check_id(id)
        async with self._changes.to(hub, f"{self._kind}.set", id, by=by):
            state = await self._states.of(hub)
            self._states.check_version(await self._read(hub, id), if_version)
            self._check(state, id, settings)
            data = msgspec.json.encode(settings)
            await self._store.put(self._kind, hub, id, data)
        # As whoever reads it will see it: a whole number may have become a fraction.
        settings = msgspec.json.decode(data, type=self._type)
        return Part(id, settings, version_of(settings))

    async def delete(
        self, hub: str, id: str, *, by: str, force: bool = False, if_version: str = ANY_VERSION
    ) -> None:
        """Delete one. What it applied to falls back to the next level.

        Raises:
            ArautoError: as `get`, CONFLICT (in use and not `force`, or not at `if_version`).
        """
        self._check_names(hub, id)
        async with self._changes.to(hub, f"{self._kind}.delete", id, by=by):
            state = await self._states.of(hub)
            data = await self._store.get(self._kind, hub, id)
            if data is None:
                raise self._missing()
            self._states.check_version(decode(data, self._type, hub), if_version)
            users = self._users(state, id)
            if users and not force:
                raise ArautoError(
                    Code.CONFLICT,
                    f"in use by {users}; change these first, or delete with force=true and they fall "
                    "back to the next level's rules",
                    field="force",
                )
            await self._store.delete(self._kind, hub, id)

    async def _read(self, hub: str, id: str) -> S | None:
        data = await self._store.get(self._kind, hub, id)
        return decode(data, self._type, hub) if data is not None else None

    def _check_names(self, hub: str, id: str | None) -> None:
        check_hub(hub)
        if id is not None:
            self._check_kept(id)

    def _missing(self) -> ArautoError:
        return ArautoError(Code.NOT_FOUND, "there is nothing set under that id", field="id")
