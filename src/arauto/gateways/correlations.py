"""Clients register correlation rules: `/v1/correlations/{id}?hub=NAME` of the client HTTP API.

Who may is decided here; the registry itself, which administrators use too, is behind a port.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from arauto.codec.json_body import decode_body
from arauto.errors import ArautoError, Code
from arauto.flow.correlate import correlation_refusal, use_refusal
from arauto.hub.rules import HubState
from arauto.session.callers import Callers
from arauto.session.cost import bytes_cost
from arauto.session.environment import SessionEnvironment
from arauto.session.identify import admit_caller
from arauto.session.oneshot import Caller
from arauto.settings import Quotas
from arauto.storage.base import Kind

if TYPE_CHECKING:
    from arauto.correlation.rule import Rule

__all__ = ["PATH", "CorrelationDesk", "RuleRegistry"]

PATH = "/v1/correlations/"

#: Requests per second and hub: reading a rule is work, and every change is on record.
_QUOTAS = Quotas(session_messages_per_s=10)
_HUBS_MAX = 1_000


class RuleRegistry(Protocol):
    """Where rules are kept. `owner` is the user that asks; it gets at its own rules only."""

    async def get(self, hub: str, id: str, *, owner: str) -> msgspec.Struct: ...

    async def set(
        self,
        hub: str,
        id: str,
        text: str,
        *,
        enabled: bool,
        by: str,
        owner: str,
        check: "Callable[[Rule], None]",
    ) -> msgspec.Struct: ...

    async def delete(self, hub: str, id: str, *, by: str, owner: str) -> None: ...


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    enabled: bool = True


class _Asked:
    """A rule, as far as it decides who may have it. Implements `correlate.Asked`."""

    __slots__ = ("_rule",)

    def __init__(self, rule: "Rule") -> None:
        self._rule = rule

    @property
    def reads(self) -> Iterable[str]:
        return self._rule.source.channels

    @property
    def reads_messages_only(self) -> bool:
        return set(self._rule.source.kinds) == {int(Kind.MESSAGE)}

    @property
    def emits(self) -> str:
        return self._rule.emit.channel


class CorrelationDesk:
    """Answers requests of clients about their rules."""

    def __init__(self, env: SessionEnvironment, registry: RuleRegistry) -> None:
        self._env = env
        self._registry = registry
        self._hubs = Callers(_HUBS_MAX)

    async def answer(
        self, method: str, hub: str, id: str, token: str, body: bytes, address: str
    ) -> tuple[int, bytes]:
        """(status, body) of a request.

        Raises:
            ArautoError: UNAUTHENTICATED, TOKEN_INVALID and the like, CALL_DENIED, SUBSCRIBE_DENIED,
                PUBLISH_DENIED, RATE_LIMITED, and what the registry raises.
        """
        if method not in ("GET", "PUT", "DELETE"):
            raise ArautoError(Code.BAD_FIELD, "use GET, PUT or DELETE here", field="method")
        if not token:
            raise ArautoError(Code.UNAUTHENTICATED, "give a bearer token")
        # Who may not, or comes too often, is told so before the body is read.
        caller, bucket = await admit_caller(self._env, hub, token, address)
        refusal = use_refusal(caller)
        if refusal is not None:
            raise refusal
        self._hubs.admit((hub, "", ""), _QUOTAS, self._env.hub.clock.monotonic_s())
        bucket.owe(bytes_cost(len(body)))
        given = decode_body(body, _Body) if method == "PUT" else None
        by = f"http {address} as {caller.user}"
        if method == "GET":
            shown = await self._registry.get(hub, id, owner=caller.user)
            return 200, msgspec.json.encode(shown)
        if given is None:
            await self._registry.delete(hub, id, by=by, owner=caller.user)
            return 204, b""
        state = await self._env.directory.look(hub)
        shown = await self._registry.set(
            hub,
            id,
            given.text,
            enabled=given.enabled,
            by=by,
            owner=caller.user,
            check=lambda rule: _check(state, caller, rule),
        )
        return 200, msgspec.json.encode(shown)


def _check(state: HubState, caller: Caller, rule: "Rule") -> None:
    caller.check_standing()
    refusal = correlation_refusal(caller, _Asked(rule), state.resolve_rules, state.settings)
    if refusal is not None:
        raise refusal
