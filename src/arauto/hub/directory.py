"""The hubs of a node: made on first use, refreshed when settings change, closed when idle.

Settings live in the store as JSON, one record per hub, rules, namespace and channel. They are cached here,
re-read when a change is announced and, in case an announcement was lost, on a timer.
"""

import asyncio
from typing import TypeVar

import msgspec
import structlog

from arauto.errors import ArautoError, Code
from arauto.hub.environment import Environment
from arauto.hub.hub import Hub
from arauto.hub.made_on_use import MadeOnUse, StrangerLimits
from arauto.hub.name_index import SLICE_LEN
from arauto.hub.rules import HubState
from arauto.names import check_hub
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules

__all__ = ["Directory"]

_SWEEP_S = 1.0
_log = structlog.get_logger("arauto.hub")
T = TypeVar("T")

#: What stands in for a setting that cannot be read. No administrator can give this id to rules.
_UNREADABLE = "!"
_CLOSED = Rules(public=False, allow_anonymous=False)
_CLOSED_HUB = HubSettings(default_public=False, allow_anonymous=False)


class Directory:
    """Finds, makes and closes hubs."""

    def __init__(
        self,
        env: Environment,
        *,
        defaults: HubSettings,
        builtin_rules: Rules,
        allow_dynamic: bool,
        own_hub: str = "",
        hubs_max: int = 10_000,
        strangers: StrangerLimits | None = None,
    ) -> None:
        """Build it.

        Args:
            env: what all hubs share.
            defaults: the settings of a hub that has none of its own.
            builtin_rules: the rules where no setting names any.
            allow_dynamic: whether hubs are made on use.
            own_hub: a hub of the node's own, which is there though nobody set it up; "" = none.
            hubs_max: how many hubs that nobody set up may be open; 0 = no limit.
            strangers: what those may take that nobody known has asked for.
        """
        self._env = env
        self._own_hub = own_hub
        self._defaults = defaults
        self._builtin_rules = builtin_rules
        self._allow_dynamic = allow_dynamic
        self.made_on_use = MadeOnUse(hubs_max, strangers or StrangerLimits())
        self.hubs: dict[str, Hub] = {}
        self._opening: dict[str, asyncio.Future[Hub]] = {}
        self._closing: dict[str, asyncio.Future[None]] = {}
        self._closed = False

    def start(self) -> None:
        """Begin the periodic work: closing what is idle, re-reading settings."""
        self._env.clock.call_later(_SWEEP_S, self._sweep_soon)
        self._env.clock.call_later(self._env.limits.settings_refresh_s, self._refresh_soon)

    async def get(self, name: str, *, stranger: str | None = None) -> Hub:
        """The hub of that name, made if hubs may be made on use. Only for who is about to use it: whoever
        has a question about it, or is not let in, takes `look`.

        `stranger` is the address of somebody who has not shown who they are, else None.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, OVERLOADED, TOO_MANY_HUBS, GOING_AWAY, and StorageError.
        """
        while True:
            hub = self.hubs.get(name)
            if hub is not None:
                if stranger is None and self.made_on_use.adopt(name):
                    # First it grows: strangers may have filled it.
                    await self.refresh(name)
                    continue
                return hub
            check_hub(name)
            if self._closed:
                raise _shutting_down()
            opening = self._opening.get(name)
            if opening is None:
                opening = asyncio.ensure_future(self._open(name, stranger))
                self._opening[name] = opening
                opening.add_done_callback(lambda _: self._opening.pop(name, None))
            try:
                # Looked up again afterwards: it may have closed before this goes on.
                await asyncio.shield(opening)
            except ArautoError as error:
                if stranger is not None or error.code is not Code.TOO_MANY_HUBS:
                    raise
                # It was opened for a stranger; somebody known tries for themselves.

    async def look(self, name: str) -> HubState:
        """The settings that the hub of that name has, or would have; opens none.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, and StorageError.
        """
        hub = self.hubs.get(name)
        if hub is not None:
            return hub.state
        check_hub(name)
        return await self.read_state(name) or self._state_on_use(name)

    def adopt(self, name: str) -> None:
        """Somebody in an open hub has shown who they are: if a stranger made it, it grows to the size of
        others."""
        if self.made_on_use.adopt(name):
            self._env.tasks.spawn(self.refresh(name))

    async def _open(self, name: str, stranger: str | None) -> Hub:
        if name in self._closing:
            await self._closing[name]
        state = await self.read_state(name)
        if state is None and self._allow_dynamic:
            self.made_on_use.enter(name, stranger)
        hub: Hub | None = None
        try:
            hub = Hub(name, state or self._state_on_use(name), self._env)
            await hub.retained.load()
            await hub.continuity.load()
            await hub.stored_keys.load(hub.state.idempotency_s_max)
            await hub.continuity.note_settings(hub.state, hub.ts_ms - 1)
            if self._closed:
                raise _shutting_down()
        except BaseException:
            if hub is not None:
                hub.holdings.close()
            self.made_on_use.leave(name)
            self._env.metrics.close_hub(name)
            raise
        self.hubs[name] = hub
        return hub

    def unset_state(self, name: str) -> HubState | None:
        """What holds in a hub that has no settings of its own; None if there is no such hub then."""
        if self._allow_dynamic:
            settings = self.made_on_use.settings(name, self._defaults)
            return HubState(settings, {}, {}, {}, self._builtin_rules, is_set_up=False)
        if name == self._own_hub:
            settings, rules = _closed(self._defaults, self._builtin_rules)
            return HubState(settings, {}, {}, {}, rules)
        return None

    def _state_on_use(self, name: str) -> HubState:
        state = self.unset_state(name)
        if state is None:
            raise ArautoError(
                Code.UNKNOWN_HUB,
                "there is no such hub, and hubs are not made on use here",
                field="hub",
            )
        return state

    async def read_state(self, name: str) -> HubState | None:
        """A hub's settings as stored; None if it was never set up explicitly."""
        rows = await self._env.storage.settings.load(name)
        settings: HubSettings | None = None
        rules: dict[str, Rules] = {}
        namespaces: dict[str, NamespaceSettings] = {}
        channels: dict[str, ChannelSettings] = {}
        for kind, id, value in rows:
            if kind == "hub":
                settings = _decode(value, _CLOSED_HUB, name, kind)
            elif kind == "rules":
                rules[id] = _decode(value, _CLOSED, name, kind)
            elif kind == "namespace":
                namespaces[id] = _decode(value, NamespaceSettings(rules=_UNREADABLE), name, kind)
            elif kind == "channel":
                channels[id] = _decode(value, ChannelSettings(rules=_UNREADABLE), name, kind)
        used = {bound.rules for bound in namespaces.values()}
        if _UNREADABLE in used.union(own.rules for own in channels.values()):
            rules[_UNREADABLE] = _CLOSED
        builtin = self._builtin_rules
        if settings is None:
            unset = self.unset_state(name) if rows else None
            if unset is None:
                return None
            # What was set inside a hub sets it up.
            settings = self._defaults if self._allow_dynamic else unset.settings
            builtin = unset.builtin
        return HubState(settings, rules, namespaces, channels, builtin)

    async def refresh(self, name: str) -> None:
        """Settings of a hub changed: re-read and apply them, if the hub is open here.

        A hub that is just opening may have read before the change, so it is waited for; and readings are
        applied in the order they were made, so that an older one never undoes a newer.
        """
        opening = self._opening.get(name)
        if opening is not None:
            await asyncio.wait([opening])
        hub = self.hubs.get(name)
        if hub is None:
            return
        async with hub.refreshing:
            await self._refresh(name, hub)

    async def _refresh(self, name: str, hub: Hub) -> None:
        state = await self.read_state(name)
        if state is None:
            if self._allow_dynamic:
                self.made_on_use.keep(name)
            state = self.unset_state(name)
            if state is None:
                await self.close_hub(name)
                return
        else:
            self.made_on_use.leave(name)
        if self.hubs.get(name) is hub and not state.same_as(hub.state):
            await hub.apply(state)

    async def close_hub(self, name: str) -> None:
        """Close a hub now, disconnecting its sessions. Who asks for it meanwhile gets a fresh one."""
        hub = self.hubs.pop(name, None)
        if hub is None:
            return
        closing = self._closing[name] = asyncio.get_running_loop().create_future()
        try:
            await hub.close()
        finally:
            del self._closing[name]
            self.made_on_use.leave(name)
            closing.set_result(None)
            self._env.metrics.close_hub(name)

    async def close(self) -> None:
        self._closed = True
        for name in list(self.hubs):
            await self.close_hub(name)

    # --- periodic work -----------------------------------------------------------------------------

    def _sweep_soon(self) -> None:
        if not self._closed:
            self._env.tasks.spawn(self._sweep())

    async def _sweep(self) -> None:
        try:
            for index, (name, hub) in enumerate(list(self.hubs.items())):
                if index % SLICE_LEN == SLICE_LEN - 1:
                    await asyncio.sleep(0)
                await hub.close_idle_channels()
                close_s = self.made_on_use.close_s(name, self._env.limits.hub_close_s)
                deadline_s = self._env.clock.monotonic_s() - close_s
                if hub.is_idle and hub.idle_since_s <= deadline_s and self.hubs.get(name) is hub:
                    await self.close_hub(name)
        finally:
            self._env.clock.call_later(_SWEEP_S, self._sweep_soon)

    def _refresh_soon(self) -> None:
        if not self._closed:
            self._env.tasks.spawn(self._refresh_all())

    async def _refresh_all(self) -> None:
        try:
            for name in list(self.hubs):
                try:
                    await self.refresh(name)
                except ArautoError as error:
                    _log.warning("settings not refreshed", hub=name, code=int(error.code))
        finally:
            self._env.clock.call_later(self._env.limits.settings_refresh_s, self._refresh_soon)


def _shutting_down() -> ArautoError:
    return ArautoError(Code.GOING_AWAY, "the node is shutting down")


def _closed(settings: HubSettings, rules: Rules) -> tuple[HubSettings, Rules]:
    """The same for a hub in which nobody may do anything without a grant."""
    replace = msgspec.structs.replace
    return (
        replace(settings, default_public=False, allow_anonymous=False),
        replace(rules, public=False, allow_anonymous=False, client_publish=False),
    )


def _decode(value: bytes, instead: T, hub: str, kind: str) -> T:
    try:
        return msgspec.json.decode(value, type=type(instead))
    except msgspec.MsgspecError:
        # Damaged, or of a version that knows more: what it may have closed stays closed, loudly.
        _log.error("stored setting cannot be read", hub=hub, kind=kind)
        return instead
