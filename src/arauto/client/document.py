"""A live document: a local copy that follows the node's, operation by operation.

The copy starts from a snapshot and applies what the node broadcasts, version by version. Whenever a version
is missing (a reconnect, a full queue at the node) it takes a new snapshot; it never shows a value the
document did not have.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from arauto.client import patch
from arauto.client.inbox import Inbox
from arauto.client.session import Session
from arauto.client.subscription import Subscription
from arauto.codec.checks import (
    OPERATIONS_WITH_SOURCE,
    OPERATIONS_WITH_VALUE,
    check_operation_parts,
)
from arauto.codec.events import (
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    DocumentInfo,
    DocumentUpdated,
    Operation,
)
from arauto.codec.json_values import value_to_json
from arauto.errors import ArautoError, Code

__all__ = ["Document", "Update"]

_log = logging.getLogger("arauto.client")

#: Updates kept for a consumer, and versions kept while a snapshot is on its way.
_UPDATES_LEN_MAX = 1_000
_UNKNOWN = -1

#: Snapshots taken in a row; if versions are still missing, the next update tries again.
_FETCHES_MAX = 3
#: How long the broadcast of an acknowledged change may take before the document is fetched instead.
_PATIENCE_S = 1.0


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """A new version of the document. `operations` is empty if it came as a snapshot: then versions in
    between may have been skipped."""

    version: int
    value: Any
    operations: tuple[Operation, ...] = ()
    user: str = ""
    ts_ms: int = 0


class Document:
    """The live copy of one document. Made by `Client.document`; use it as a context manager, or wait
    until it is `ready`."""

    __slots__ = (
        "_ahead",
        "_fetching",
        "_is_open",
        "_session",
        "_updates",
        "_value",
        "_version",
        "_waiters",
        "subscription",
    )

    def __init__(self, session: Session, subscription: Subscription) -> None:
        self._session = session
        self.subscription = subscription
        """The subscription underneath; iterate over it for plain messages on the same channel."""
        self._value: Any = None
        self._version = _UNKNOWN
        self._ahead: dict[int, DocumentUpdated] = {}
        """Updates that cannot be applied before those between have come."""
        self._fetching = False
        self._updates: Inbox[Update] = Inbox(_UPDATES_LEN_MAX, _UPDATES_LEN_MAX)
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_open = False
        subscription.hook_document(self._on_event, self._on_end)

    # --- for its user ------------------------------------------------------------------------------

    @property
    def channel(self) -> str:
        return self.subscription.channel

    @property
    def value(self) -> Any:
        """The document now. Do not change it: use `change`. Values seen earlier stay as they were."""
        return self._value

    @property
    def version(self) -> int:
        """Grows by one with every change; 0 = never changed."""
        return max(self._version, 0)

    def get(self, pointer: str) -> Any:
        """The part of the document a JSON Pointer names.

        Raises:
            ArautoError: NOT_FOUND.
        """
        return patch.resolve(self._value, pointer)

    async def change(
        self,
        operations: Sequence[Operation | Mapping[str, Any]],
        *,
        if_version: int | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Apply all operations or none; return the new version, which the local copy then has if the
        document is open.

        Args:
            operations: `{"op": "add", "path": "/cards/-", "value": …}` and the like; `from` (or `source`)
                for move and copy.
            if_version: refuse with VERSION_MISMATCH unless the document is at exactly this version.
            timeout_s: how long to wait for the answer.

        Raises:
            ArautoError: BAD_OPERATION, TEST_FAILED, VERSION_MISMATCH …; ConnectionLostError if the
                connection broke before the answer: the change may or may not have been made.
        """
        self._session.check_usable()
        request = DocumentChangeRequest(
            channel=self.channel,
            operations=tuple(_operation(given, at) for at, given in enumerate(operations)),
            if_version=_UNKNOWN if if_version is None else if_version,
        )
        reply = await self._session.requests.call(request, resend=False, timeout_s=timeout_s)
        assert isinstance(reply, DocumentChangeReply)
        await self._reach(reply.version)
        return reply.version

    async def updates(self) -> AsyncIterator[Update]:
        """Yield every new version of the document as the local copy reaches it."""
        while await self._updates.wait():
            update = self._updates.pop()
            assert update is not None
            yield update

    async def ready(self) -> Self:
        """Wait until the local copy is there; from then on it follows the node's.

        Raises:
            ArautoError: the node's refusal; the document is given up then.
        """
        if self._is_open and not self.subscription.is_ended:
            return self
        try:
            await self.subscription.ready()
            await self._fetch()
        except BaseException:
            self._session.drop(self.subscription)
            raise
        self._is_open = True
        return self

    async def __aenter__(self) -> Self:
        return await self.ready()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.subscription.unsubscribe()

    def __repr__(self) -> str:
        return f"<Document {self.channel} version {self.version}>"

    # --- following the node ------------------------------------------------------------------------

    def _on_event(self, event: DocumentInfo | DocumentUpdated) -> None:
        if isinstance(event, DocumentUpdated):
            if event.version > self._version and len(self._ahead) < _UPDATES_LEN_MAX:
                self._ahead[event.version] = event
            if self._is_open and not self._catch_up():
                self._refetch()
        elif self._is_open and event.version != self._version:
            if event.version < self._version:
                self._version = _UNKNOWN  # what the node has is the truth, also if it is older
            self._refetch()

    def _catch_up(self) -> bool:
        """Apply the updates that follow the current version; False if one is missing."""
        while (update := self._ahead.pop(self._version + 1, None)) is not None:
            try:
                value = patch.apply(self._value, update.operations)
            except ArautoError as error:
                _log.warning(
                    "the copy of %s went astray, fetching it anew: %s", self.channel, error
                )
                self._version = _UNKNOWN
                return False
            self._become(
                Update(
                    version=update.version,
                    value=value,
                    operations=update.operations,
                    user=update.user,
                    ts_ms=update.ts_ms,
                )
            )
        return not self._ahead

    def _become(self, update: Update) -> None:
        self._value = update.value
        self._version = update.version
        self._ahead = {at: later for at, later in self._ahead.items() if at > update.version}
        if self._is_open:
            self._announce(update)
        waiters, self._waiters = self._waiters, []
        for version, future in waiters:
            if version > self._version:
                self._waiters.append((version, future))
            elif not future.done():
                future.set_result(None)

    def _announce(self, update: Update) -> None:
        if not self._updates.fits(1):
            # Too slow for every version: skip to the latest, as a snapshot does.
            while self._updates.pop() is not None:
                pass
            update = msgspec.structs.replace(update, operations=())
        self._updates.put(update, 1)

    def _refetch(self) -> None:
        if not self._fetching and not self.subscription.is_ended:
            self._fetching = True
            self._session.tasks.spawn(self._fetch_again())

    async def _fetch_again(self) -> None:
        try:
            for _ in range(_FETCHES_MAX):
                if await self._fetch():
                    break
        except ArautoError as error:
            if not self.subscription.is_ended:
                _log.warning("cannot fetch %s: %s", self.channel, error)
        finally:
            self._fetching = False

    async def _fetch(self) -> bool:
        """Take a snapshot, unless the copy is newer by now; False if updates after it are missing."""
        request = DocumentGetRequest(channel=self.channel)
        reply = await self._session.requests.call(request, resend=True)
        assert isinstance(reply, DocumentGetReply)
        if reply.version > self._version:
            self._become(Update(version=reply.version, value=reply.value))
        return self._catch_up()

    async def _reach(self, version: int) -> None:
        """Wait until the local copy, if there is one, has that version; fetch it if it does not come by
        itself."""
        if not self._is_open or self._version >= version or self.subscription.is_ended:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((version, future))
        timer = self._session.clock.call_later(_PATIENCE_S, self._refetch)
        try:
            await future
        finally:
            timer.cancel()

    def _on_end(self, error: ArautoError | None) -> None:
        self._updates.end(error)
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            if not future.done():
                future.set_result(None)


def _operation(given: Operation | Mapping[str, Any], at: int) -> Operation:
    """The protocol's record of an operation, refused here if a node would refuse its form.

    Raises:
        ArautoError: BAD_OPERATION.
    """
    field = f"operations[{at}]"
    if not isinstance(given, Operation):
        members = dict(given)
        if "from" in members:
            members["source"] = members.pop("from")
        try:
            operation = msgspec.convert(members, Operation)
            check_operation_parts(
                operation.op,
                has_value="value" in members and operation.op in OPERATIONS_WITH_VALUE,
                has_source="source" in members and operation.op in OPERATIONS_WITH_SOURCE,
                field=field,
                source="from",
            )
        except msgspec.ValidationError as error:
            raise ArautoError(Code.BAD_OPERATION, str(error), field=field) from error
        except ArautoError as error:
            raise ArautoError(Code.BAD_OPERATION, error.message, field=error.field) from None
        given = operation
    try:
        value_to_json(given.value)
    except (TypeError, RecursionError) as error:
        raise ArautoError(Code.BAD_OPERATION, str(error), field=f"{field}.value") from error
    return given
