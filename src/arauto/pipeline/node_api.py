"""The node's admin API, as the driver and the executors use it: publish, rules, roll-ups. Blocking.

Everything sent here may be sent again: messages carry idempotency ids, the rest replaces what is there. So
whatever may succeed later is retried, a bounded number of times and for a bounded time. The token
appears in the request's header and nowhere else: not in errors, not in `repr`, not in a log.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from arauto.errors import ArautoError, Code
from arauto.model import When
from arauto.pipeline.node_wire import (
    CorrelationRecord,
    Correlations,
    Exported,
    History,
    Hubs,
    Outcome,
    Outgoing,
    Problem,
    Published,
    Retry,
    Stored,
    batches,
    error_of,
    of_one_hub,
)

__all__ = ["CorrelationRecord", "NodeApi", "Outcome", "Outgoing", "Retry", "World", "batches"]

_PAGE_LEN = 1_000
_PAGES_MAX = 1_000
_ROLLUPS_MAX = 1_000
#: Twice what one run of the exporter may take: one may be at work.
_EXPORT_TIMEOUT_S = 660.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """Time and chance, for tests to own."""

    sleep: Callable[[float], None] = time.sleep
    now_s: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = field(default=random.random)


class NodeApi:
    """One node's admin API. Not for several threads at once.

    Args:
        url: where the API is, such as http://127.0.0.1:4040.
        token: the admin token.
        retry: how long to keep trying.
        timeout_s: how long one request may take.
        world: time and chance.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        retry: Retry | None = None,
        timeout_s: float = 15.0,
        world: World | None = None,
    ) -> None:
        parsed = _checked_url(url)
        self.address = f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"
        self._retry = retry or Retry()
        self._world = world or World()
        self._timeout_s = timeout_s
        self._client = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_s,
            # The token goes to the address that was given: no proxy from the environment, no redirects.
            trust_env=False,
        )

    def __repr__(self) -> str:
        return f"NodeApi({self.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    # --- messages ----------------------------------------------------------------------------------

    def publish(
        self, hub: str, messages: Iterable[Outgoing], *, wait_for_hub: bool = True
    ) -> list[Outcome]:
        """Publish in order, in as many requests as it takes; each message has its own outcome.

        A message whose refusal may pass is sent again; it may then come after later ones. What is still
        refused in the end has its error in its outcome. Without `wait_for_hub` what only this hub suffers
        (`of_one_hub`) is told at once: for callers that have other hubs to serve.

        Raises:
            ArautoError: NODE_UNREACHABLE, ADMIN_DENIED, UNKNOWN_HUB, BAD_HUB_NAME.
        """
        outcomes: list[Outcome] = []
        for batch in batches(messages):
            outcomes += self._publish_patiently(hub, batch, wait_for_hub)
        return outcomes

    def publish_once(self, hub: str, messages: Sequence[Outgoing]) -> list[Outcome]:
        """Publish one batch (of `batches`) with one try. The caller looks after retries.

        Raises:
            ArautoError: as `publish`, and whatever the node refuses the whole request with for now.
        """
        path = f"/v1/hubs/{quote(hub, safe='')}/publish"
        body = {"messages": [message.wire() for message in messages]}
        try:
            answer = self._once("POST", path, body)
        except ArautoError as error:
            return self._narrow_down(hub, messages, error)
        results = self._read(answer, Published).results
        if len(results) != len(messages):
            raise self._odd("gave another number of outcomes than there were messages")
        return [Outcome(error_of(item.error), item.duplicate) for item in results]

    def _narrow_down(
        self, hub: str, messages: Sequence[Outgoing], error: ArautoError
    ) -> list[Outcome]:
        """One ill-formed message makes the node refuse the whole request: find it, publish the others."""
        about_messages = error.code in (
            Code.BAD_FIELD,
            Code.BATCH_TOO_LARGE,
            Code.MESSAGE_TOO_LARGE,
        )
        if not about_messages:
            raise error
        if len(messages) == 1:
            return [Outcome(error)]
        middle = len(messages) // 2
        return self.publish_once(hub, messages[:middle]) + self.publish_once(hub, messages[middle:])

    def _publish_patiently(
        self, hub: str, messages: Sequence[Outgoing], wait_for_hub: bool
    ) -> list[Outcome]:
        outcomes: list[Outcome] = [Outcome()] * len(messages)
        left = list(range(len(messages)))
        for last in self._attempts():
            try:
                tried = self.publish_once(hub, [messages[index] for index in left])
            except ArautoError as error:
                if not wait_for_hub and of_one_hub(error):
                    tried = [Outcome(error)] * len(left)
                elif last or not error.retryable:
                    raise
                else:
                    continue
            for index, outcome in zip(left, tried, strict=True):
                outcomes[index] = outcome
            left = [index for index in left if _passes(outcomes[index], wait_for_hub)]
            if not left:
                break
        return outcomes

    def ids_since(self, hub: str, channel: str, from_ms: int, count_max: int = 1_000) -> set[str]:
        """Idempotency ids of what a channel still has from then on, of the last messages at most."""
        path = f"/v1/hubs/{quote(hub, safe='')}/history"
        found: set[str] = set()
        seen, until = 0, ""
        while seen < count_max:
            params = {"channel": channel, "fromMs": str(from_ms), "direction": "backward"}
            answer = self._request("GET", path, params=params | ({"until": until} if until else {}))
            page = self._read(answer, History)
            found.update(message.idempotency_key for message in page.messages)
            seen += len(page.messages)
            if not page.messages or not page.more or page.next is None:
                break
            until = f"{page.next.epoch}-{page.next.offset}"
        return found - {""}

    # --- settings and roll-ups ---------------------------------------------------------------------

    def messages_per_s(self, hub: str) -> int:
        """The hub's quota of publications per second; 0 = none."""
        answer = self._request("GET", f"/v1/hubs/{quote(hub, safe='')}")
        try:
            return int(msgspec.json.decode(answer)["settings"]["quotas"]["messagesPerS"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            raise self._odd("described a hub without its quotas") from None

    def hubs(self) -> list[str]:
        """The first hubs that have settings or are open, by name. Tried once."""
        answer = self._once("GET", "/v1/hubs", params={"limit": str(_PAGE_LEN)})
        return [item.name for item in self._read(answer, Hubs).items]

    def correlations(self) -> list[CorrelationRecord]:
        """All rules of all hubs, in the node's order."""
        found: list[CorrelationRecord] = []
        after = ""
        for _ in range(_PAGES_MAX):
            params = {"limit": str(_PAGE_LEN)} | ({"after": after} if after else {})
            page = self._read(self._request("GET", "/v1/correlations", params=params), Correlations)
            found += page.items
            after = page.next
            if not after:
                return found
        raise self._odd(f"lists rules on more than {_PAGES_MAX} pages")

    def put_correlation(
        self, hub: str, rule_id: str, text: str, *, enabled: bool = True
    ) -> CorrelationRecord:
        """Set a rule.

        Raises:
            ArautoError: BAD_RULE, CONFLICT (other text, same version), and as `publish`.
        """
        path = f"/v1/hubs/{quote(hub, safe='')}/correlations/{quote(rule_id, safe='')}"
        answer = self._request("PUT", path, {"text": text, "enabled": enabled})
        return self._read(answer, CorrelationRecord)

    def delete_correlation(self, hub: str, rule_id: str) -> None:
        """Delete a rule. Tried once: an answer that was lost would make the next try find nothing.

        Raises:
            ArautoError: NOT_FOUND, and as `publish`.
        """
        path = f"/v1/hubs/{quote(hub, safe='')}/correlations/{quote(rule_id, safe='')}"
        self._once("DELETE", path)

    def stored(self, hub: str, match: str) -> list[When]:
        """What a hub's rules store of the channels that a name, pattern or topic can cover. Tried once.

        Raises:
            ArautoError: UNKNOWN_HUB, NOT_FOUND (an older node), and as `publish`.
        """
        path = f"/v1/hubs/{quote(hub, safe='')}/stored"
        return self._read(self._once("GET", path, params={"match": match}), Stored).store

    def upsert_rollups(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Put roll-up rows (`period`, `hub`, `startMs`, `values`) in the place of the same; how many."""
        stored = 0
        for start in range(0, len(rows), _ROLLUPS_MAX):
            part = [dict(row) for row in rows[start : start + _ROLLUPS_MAX]]
            self._request("POST", "/v1/analytics/rollups", {"rows": part})
            stored += len(part)
        return stored

    # --- the journal ------------------------------------------------------------------------------

    def export_journal(self) -> int:
        """Have the node export its journal now; return up to which row it is exported then.

        Waits for as long as the node may take to write segments. Tried once: somebody is waiting.

        Raises:
            ArautoError: NODE_UNREACHABLE, ADMIN_DENIED, FEATURE_OFF, STORAGE_FAILED …
        """
        answer = self._once("POST", "/v1/journal/export", timeout_s=_EXPORT_TIMEOUT_S)
        return self._read(answer, Exported).sealed_seq

    # --- one request -------------------------------------------------------------------------------

    def _request(
        self, method: str, path: str, body: Any = None, params: Mapping[str, str] | None = None
    ) -> bytes:
        for last in self._attempts():
            try:
                return self._once(method, path, body, params)
            except ArautoError as error:
                if last or not error.retryable:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _attempts(self) -> Iterator[bool]:
        """Once per attempt, with a wait between them; True on the last."""
        retry, world = self._retry, self._world
        end_s = world.now_s() + retry.total_s
        for attempt in range(1, retry.attempts_max + 1):
            delay_s = retry.delay_s(attempt, world.chance())
            last = attempt == retry.attempts_max or world.now_s() + delay_s > end_s
            yield last
            if last:
                return
            world.sleep(delay_s)

    def _once(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> bytes:
        content = msgspec.json.encode(body) if body is not None else None
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            answer = self._client.request(
                method,
                path,
                content=content,
                params=params,
                headers=headers,
                timeout=self._timeout_s if timeout_s is None else timeout_s,
            )
        except httpx.TransportError as error:
            raise self._unreachable(type(error).__name__) from None
        if answer.is_success:
            return answer.content
        raise self._refusal(answer)

    def _refusal(self, answer: httpx.Response) -> ArautoError:
        try:
            problem = msgspec.json.decode(answer.content, type=Problem)
        except msgspec.DecodeError:
            problem = None
        if answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            # Said before the request was read; it may carry no number.
            return ArautoError(Code.MESSAGE_TOO_LARGE, "the request's body is too large")
        known = error_of(problem)
        if known is None:
            if answer.status_code >= 500:
                return self._unreachable(f"HTTP {answer.status_code}")
            return self._odd(f"answered HTTP {answer.status_code}")
        if known.code is Code.ADMIN_DENIED:
            return ArautoError(
                Code.ADMIN_DENIED,
                f"{self.address} refused the admin token; give the pipeline the node's admin.token",
            )
        return known

    def _read(self, answer: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.DecodeError:
            raise self._odd("gave an answer of another shape") from None

    def _unreachable(self, why: str) -> ArautoError:
        return ArautoError(
            Code.NODE_UNREACHABLE,
            f"the admin API at {self.address} did not answer ({why}); "
            "is the node running, and does pipeline.apiUrl lead to its admin port?",
        )

    def _odd(self, what: str) -> ArautoError:
        return ArautoError(
            Code.BAD_CONFIG,
            f"{self.address} {what}; is this the admin port of a node of this version?",
        )


def _passes(outcome: Outcome, wait_for_hub: bool) -> bool:
    """Whether it is worth to try again soon."""
    error = outcome.error
    return error is not None and error.retryable and (wait_for_hub or not of_one_hub(error))


def _checked_url(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = None
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host:
        raise ArautoError(
            Code.BAD_CONFIG,
            "the admin API's address must look like http://127.0.0.1:4040",
            field="url",
        )
    return parsed
