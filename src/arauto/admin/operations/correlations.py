"""Correlation rules: the registry that the data pipeline reads. Administrators write to it and, within their
rights, clients.

A rule is stored as the text it was given as. Its own version must grow with every change of the text, so that
the pipeline never mixes what two versions of a rule have seen.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from arauto.admin.operations.changes import Changes
from arauto.admin.operations.parts import Part, Parts
from arauto.admin.operations.secrets import version_of
from arauto.admin.operations.states import ANY_VERSION, States, decode
from arauto.admin.records import CorrelationDetail, CorrelationInfo, CorrelationPage
from arauto.codec.checks import bad_field
from arauto.errors import ArautoError, Code
from arauto.hub.rules import HubState
from arauto.names import check_hub, check_id
from arauto.storage.base import SettingsStore

if TYPE_CHECKING:
    from arauto.correlation.rule import Rule

__all__ = ["RULES_LEN_MAX", "Correlations"]

_KIND = "correlation"
RULES_LEN_MAX = 200
#: Rules one client may have in a hub, so that none takes the room of all others.
_OWNED_LEN_MAX = 20
#: All rules of a hub are read together with its other settings, so a rule is not a book.
_TEXT_BYTES_MAX = 16_384
#: Texts read at a time. Reading one takes milliseconds, in a thread beside the loop.
_READERS = 2


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule in the store."""

    text: str
    enabled: bool
    rule_version: int
    owner: str = ""
    """The user who registered it; "" for administrators."""


class Correlations:
    """The verbs on correlation rules. An `owner` of "" stands for an administrator, who may do everything; a
    client sees and changes its own rules only.
    """

    def __init__(self, store: SettingsStore, states: States, changes: Changes) -> None:
        self._store = store
        self._states = states
        self._changes = changes
        self._parts: Parts[_Stored] = Parts(
            store,
            states,
            changes,
            kind=_KIND,
            settings_type=_Stored,
            check_id=_check_id,
            check=lambda state, id, settings: None,
        )
        self._readers = asyncio.Semaphore(_READERS)

    async def get(self, hub: str, id: str, *, owner: str = "") -> CorrelationDetail:
        """One rule.

        Raises:
            ArautoError: BAD_HUB_NAME, BAD_FIELD (the id), UNKNOWN_HUB, NOT_FOUND.
        """
        part = await self._part(hub, id, owner)
        try:
            async with self._readers:
                rule = await asyncio.to_thread(_load, part.settings.text)
        except ArautoError:  # An earlier version took it.
            return _detail(hub, part, [])
        return _detail(hub, part, _warnings(rule, await self._states.of(hub)))

    async def _part(self, hub: str, id: str, owner: str) -> Part[_Stored]:
        part = await self._parts.get(hub, id)
        if owner and part.settings.owner != owner:
            raise ArautoError(Code.NOT_FOUND, "you have no rule with that id", field="id")
        return part

    async def list(self, hub: str, *, after: str = "", limit: int) -> CorrelationPage:
        """A hub's rules in order of id.

        Raises:
            ArautoError: BAD_HUB_NAME, BAD_FIELD (the cursor), UNKNOWN_HUB.
        """
        page, cursor = await self._parts.list(hub, after=after, limit=limit)
        return CorrelationPage(items=[_info(hub, part) for part in page], next=cursor)

    async def list_all(self, *, after: str = "", limit: int) -> CorrelationPage:
        """The rules of all hubs in order of hub and id; the cursor is `hub/id`.

        Raises:
            ArautoError: BAD_FIELD (the cursor).
        """
        place = ("", "")
        if after:
            hub, _, id = after.partition("/")
            try:
                place = (check_hub(hub), _check_id(id))
            except ArautoError:
                raise bad_field("after", "must be the `next` of a page") from None
        rows = await self._store.list(_KIND, None, after=place, limit=limit + 1)
        page = [
            _info(hub, Part(id, settings, version_of(settings)))
            for hub, id, data in rows[:limit]
            if (settings := decode(data, _Stored, hub)) is not None
        ]
        cursor = "/".join(rows[limit - 1][:2]) if len(rows) > limit else ""
        return CorrelationPage(items=page, next=cursor)

    async def set(
        self,
        hub: str,
        id: str,
        text: str,
        *,
        enabled: bool,
        by: str,
        owner: str = "",
        if_version: str = ANY_VERSION,
        check: "Callable[[Rule], None]" = lambda rule: None,
    ) -> CorrelationDetail:
        """Register or replace a rule; whoever does so is its owner from now on.

        Args:
            check: refuses a rule that the owner may not have. Asked first, and again before it is written.

        Raises:
            ArautoError: as `get`, BAD_RULE, CONFLICT (too many, another's, an old rule version, or not at
                `if_version`), and what `check` raises.
        """
        check_hub(hub)
        _check_id(id)
        rule = await self._read_rule(text, id)
        check(rule)
        wanted = _Stored(text=text, enabled=enabled, rule_version=rule.version, owner=owner)
        async with self._changes.to(hub, f"{_KIND}.set", id, by=by):
            state = await self._states.of(hub)
            data = await self._store.get(_KIND, hub, id)
            current = decode(data, _Stored, hub) if data is not None else None
            self._states.check_version(current, if_version)
            if current is not None:
                _check_change(current, wanted)
            else:
                await self._check_room(hub, owner)
            check(rule)
            await self._store.put(_KIND, hub, id, msgspec.json.encode(wanted))
        return _detail(hub, Part(id, wanted, version_of(wanted)), _warnings(rule, state))

    async def delete(
        self, hub: str, id: str, *, by: str, owner: str = "", if_version: str = ANY_VERSION
    ) -> None:
        """Delete a rule. What it was waiting for is forgotten.

        Raises:
            ArautoError: as `get`, CONFLICT (not at `if_version`).
        """
        if owner:
            # Bound to what was seen, so that nobody's rule goes who has taken the id since.
            if_version = (await self._part(hub, id, owner)).version
        await self._parts.delete(hub, id, by=by, if_version=if_version)

    async def _read_rule(self, text: str, id: str) -> "Rule":
        if len(text.encode(errors="replace")) > _TEXT_BYTES_MAX:
            raise bad_field("text", f"must have at most {_TEXT_BYTES_MAX} bytes")
        async with self._readers:
            rule = await asyncio.to_thread(_load, text)
        if rule.name != id:
            raise bad_field("text", "must be of a rule whose name is the id")
        return rule

    async def _check_room(self, hub: str, owner: str) -> None:
        rows = await self._store.list(_KIND, hub, limit=RULES_LEN_MAX)
        if len(rows) >= RULES_LEN_MAX:
            raise ArautoError(Code.CONFLICT, f"a hub has at most {RULES_LEN_MAX} correlation rules")
        if not owner:
            return
        rules = [decode(data, _Stored, hub) for _, _, data in rows]
        if sum(rule is not None and rule.owner == owner for rule in rules) >= _OWNED_LEN_MAX:
            raise ArautoError(
                Code.CONFLICT, f"a client has at most {_OWNED_LEN_MAX} correlation rules in a hub"
            )


def _load(text: str) -> "Rule":
    # Here and not above: most nodes never see a rule.
    from arauto.correlation.document import load_rule

    return load_rule(text)


def _warnings(rule: "Rule", state: HubState) -> list[str]:
    from arauto.correlation.unseen import unseen

    return list(unseen(rule, state.stored))


def _check_change(current: _Stored, wanted: _Stored) -> None:
    if wanted.owner and current.owner != wanted.owner:
        raise ArautoError(Code.CONFLICT, "a rule of somebody else has that id", field="id")
    if current.text != wanted.text and wanted.rule_version <= current.rule_version:
        raise ArautoError(
            Code.CONFLICT,
            f"a changed rule needs a version above {current.rule_version}",
            field="text",
        )


def _check_id(id: str) -> str:
    return check_id(id, "id")


def _info(hub: str, part: Part[_Stored]) -> CorrelationInfo:
    stored = part.settings
    return CorrelationInfo(
        hub=hub,
        id=part.id,
        text=stored.text,
        enabled=stored.enabled,
        owner=stored.owner,
        rule_version=stored.rule_version,
        version=part.version,
    )


def _detail(hub: str, part: Part[_Stored], warnings: list[str]) -> CorrelationDetail:
    return CorrelationDetail(**msgspec.structs.asdict(_info(hub, part)), warnings=warnings)
