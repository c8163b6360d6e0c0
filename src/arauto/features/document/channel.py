"""The document channel: plain publish/subscribe, and a shared JSON-like document beside it.

Requests are worked off one after another. A change is applied in memory, appended to the operation log in the
key-value store, and only then acknowledged and broadcast; a snapshot to the document store, now and then and
at close, lets the log be cut. Nobody is shown a version that is not durable.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from arauto.clock import Timer
from arauto.codec.events import DocumentInfo, DocumentUpdated, Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document.encode import seal
from arauto.features.document.state import DocumentState
from arauto.features.document.value import Limits, Value
from arauto.hub.channel import Channel, Sender
from arauto.hub.subscriber import Subscriber
from arauto.model import Message
from arauto.storage.base import JournalEntry, Kind, Snapshot

if TYPE_CHECKING:
    from arauto.hub.hub import Hub

__all__ = ["CHANGE_TYPE", "ChangeReply", "DocumentChannel"]

#: Content type of DOCUMENT rows in the journal: the change as the operation log holds it.
CHANGE_TYPE = "application/vnd.arauto.document-change"

ChangeReply = Callable[[int, ArautoError | None], None]
"""(version, error)."""
GetReply = Callable[[int, Value], None]


class _ChangeRequest:
    __slots__ = ("if_version", "operations", "reply", "sender", "started_s")

    def __init__(
        self,
        operations: Sequence[Operation],
        if_version: int,
        sender: Sender,
        reply: ChangeReply,
        started_s: float,
    ) -> None:
        self.operations = operations
        self.if_version = if_version
        self.sender = sender
        self.reply = reply
        self.started_s = started_s


class DocumentChannel(Channel):
    """A channel whose name starts with `doc:`."""

    __slots__ = (
        "_document",
        "_idle",
        "_log_len",
        "_queue",
        "_saving",
        "_snapshot_timer",
        "_snapshot_version",
    )

    def __init__(self, hub: "Hub", name: str) -> None:
        super().__init__(hub, name)
        self._document = DocumentState()
        self._queue: deque[_ChangeRequest | GetReply] = deque()
        self._idle: asyncio.Event | None = None
        """Set while no request is being worked on; made with the first request."""
        self._log_len = 0
        self._saving: asyncio.Lock | None = None
        self._snapshot_version = 0
        self._snapshot_timer: Timer | None = None

    @property
    def version(self) -> int:
        """The newest durable version."""
        return self._document.confirmed_version

    @property
    def opens_at_once(self) -> bool:
        return False

    @property
    def is_idle(self) -> bool:
        return super().is_idle and not self._queue and not self._working

    @property
    def _working(self) -> bool:
        return self._idle is not None and not self._idle.is_set()

    @property
    def _log_key(self) -> str:
        return "document:" + self.name

    async def open(self) -> None:
        storage = self.env.storage
        snapshot = await storage.documents.load(self.hub.name, self.name)
        changes = await storage.kv.items(self.hub.name, self._log_key)
        self._document = DocumentState.restore(snapshot, changes)
        self._log_len = len(changes)
        self._snapshot_version = snapshot.version if snapshot is not None else 0
        await super().open()

    async def close(self) -> None:
        """Finish what is queued, keep a snapshot, release everything."""
        if self._idle is not None:
            await self._idle.wait()
        if self._snapshot_timer is not None:
            self._snapshot_timer.cancel()
            self._snapshot_timer = None
        await self._save_snapshot()
        await super().close()

    def welcome(
        self, subscriber: Subscriber, replay: Sequence[Message], *, recovered: bool
    ) -> None:
        subscriber.outbox.send(DocumentInfo(channel=self.name, version=self.version))
        super().welcome(subscriber, replay, recovered=recovered)

    # --- requests ----------------------------------------------------------------------------------

    def change(
        self, operations: Sequence[Operation], if_version: int, sender: Sender, reply: ChangeReply
    ) -> None:
        """Apply operations, all or none; `reply` is called once they are durable or refused."""
        if len(self._queue) >= self.env.limits.pending_per_channel_max:
            reply(self.version, _too_many_waiting())
            return
        started_s = self.env.clock.monotonic_s()
        self._enqueue(_ChangeRequest(operations, if_version, sender, reply, started_s))

    def get(self, reply: GetReply) -> None:
        """Hand out the document, behind the changes asked for before. The value is the caller's only
        until `reply` returns: encode it there and then.

        Raises:
            ArautoError: TOO_MANY_PENDING.
        """
        if not self._queue and not self._working:
            reply(self._document.version, self._document.value)
        elif len(self._queue) >= self.env.limits.pending_per_channel_max:
            raise _too_many_waiting()
        else:
            self._enqueue(reply)

    def _enqueue(self, request: _ChangeRequest | GetReply) -> None:
        self._queue.append(request)
        if not self._working:
            if self._idle is None:
                self._idle = asyncio.Event()
            self._idle.clear()
            self.env.tasks.spawn(self._work())

    async def _work(self) -> None:
        assert self._idle is not None
        try:
            while self._queue:
                request = self._queue.popleft()
                if isinstance(request, _ChangeRequest):
                    await self._apply(request)
                else:
                    request(self._document.version, self._document.value)
        finally:
            self._idle.set()
            if not self.subscribers:
                self.hub.touch(self)

    async def _apply(self, request: _ChangeRequest) -> None:
        document = self._document
        try:
            change = document.change(
                request.operations,
                if_version=request.if_version,
                strict=self.rules.document_strict,
                limits=Limits(size_bytes_max=self.env.limits.document_bytes_max),
            )
        except ArautoError as error:
            request.reply(document.version, error)
            return
        try:
            length = await self.env.storage.kv.push(self.hub.name, self._log_key, change.data)
        except StorageError as error:
            document.revert(change.version)
            request.reply(document.version, error)
            return
        document.confirm(change.version)
        self._log_len = length
        now_ms = self.env.clock.wall_ms()
        self.broadcast(
            DocumentUpdated(
                channel=self.name,
                version=change.version,
                operations=change.operations,
                user=request.sender.user,
                ts_ms=now_ms,
            )
        )
        request.reply(change.version, None)
        self._journal(change.version, change.data, request.sender, now_ms)
        self._snapshot_later()
        elapsed_s = self.env.clock.monotonic_s() - request.started_s
        self.hub.counters.document_time.observe(int(elapsed_s * 1e9))

    def _journal(self, version: int, data: bytes, sender: Sender, now_ms: int) -> None:
        entry = JournalEntry(
            kind=Kind.DOCUMENT,
            ts_ms=now_ms,
            hub=self.hub.name,
            channel=self.name,
            offset=version,
            session=sender.session,
            user=sender.user,
            content_type=CHANGE_TYPE,
            payload=data,
        )
        self.env.storage.journal.append(entry, _ignore)

    # --- snapshots ---------------------------------------------------------------------------------

    def _snapshot_later(self) -> None:
        if self._snapshot_timer is None:
            delay_s = self.env.limits.snapshot_interval_s
            self._snapshot_timer = self.env.clock.call_later(delay_s, self._snapshot_soon)

    def _snapshot_soon(self) -> None:
        self._snapshot_timer = None
        self.env.tasks.spawn(self._snapshot_if_open())

    async def _snapshot_if_open(self) -> None:
        if self.is_open:
            await self._save_snapshot()

    async def _save_snapshot(self) -> None:
        """Keep a snapshot and cut the log. If the store refuses, the log stays and the next one tries."""
        # One at a time: an older snapshot must not overwrite a newer one whose log is already cut.
        if self._saving is None:
            self._saving = asyncio.Lock()
        async with self._saving:
            if self._idle is not None:
                await self._idle.wait()
            await self._save_snapshot_alone()

    async def _save_snapshot_alone(self) -> None:
        version, count = self._document.version, self._log_len
        if version == self._snapshot_version:
            return
        packed = self._document.pack()
        hub = self.hub.name
        try:
            # Compressing a large document takes a while; the loop goes on.
            data = await asyncio.to_thread(seal, packed)
            await self.env.storage.documents.save(hub, self.name, Snapshot(version, data))
            self._snapshot_version = version
            await self.env.storage.kv.drop_first(hub, self._log_key, count)
            self._log_len -= count
        except StorageError:
            self._snapshot_later()

    # --- handover ----------------------------------------------------------------------------------

    def export_own_state(self) -> bytes:
        return self._document.export_state()

    def import_own_state(self, data: bytes) -> None:
        self._document = DocumentState()
        self._document.import_state(data)


def _too_many_waiting() -> ArautoError:
    return ArautoError(
        Code.TOO_MANY_PENDING, "too many requests for this document are waiting; retry later"
    )


def _ignore(error: object) -> None:
    """The journal's copy is for the pipeline; the operation log is what counts, and it has the change."""
