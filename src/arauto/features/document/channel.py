"""The document channel: plain publish/subscribe, and a shared JSON-like document beside it.

Requests are worked off one after another. A change is applied in memory, appended to the operation log in the
key-value store, and only then acknowledged and broadcast. Nobody is shown a version that is not durable.

A snapshot to the document store lets the log be cut: an interval after a change, when the log has grown long,
and at close. Its picture is taken between two changes and written beside the next ones, so that a document
that never rests has its snapshots too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from arauto.clock import Timer
from arauto.codec.base import Codec
from arauto.codec.events import DocumentInfo, DocumentUpdated, Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document.encode import seal
from arauto.features.document.readers import Readers, ReadReply
from arauto.features.document.state import DocumentState
from arauto.features.document.value import Limits, Value
from arauto.hub.channel import Channel
from arauto.hub.sender import Sender
from arauto.hub.subscriber import Subscriber
from arauto.storage.base import JournalEntry, Kind, Snapshot

if TYPE_CHECKING:
    from arauto.hub.hub import Hub

__all__ = ["CHANGE_TYPE", "ChangeReply", "DocumentChannel"]

#: Content type of DOCUMENT rows in the journal: the change as the operation log holds it.
CHANGE_TYPE = "application/vnd.arauto.document-change"

#: A log is cut before its time once so many changes, or so many bytes of them, came since the last attempt:
#: whoever opens the document after a crash applies them all. Larger documents wait for as many bytes of
#: changes as they have themselves, so that writing them whole never outweighs the changes.
_LOG_LEN_MAX = 1_000
_LOG_BYTES_MAX = 1_048_576

#: Above this many stored bytes a document is rebuilt in a thread.
_OPEN_BYTES_MAX = 4_096

#: How much the worker does before it lets others go on: values visited, of which each change that fails
#: counts for so many at least. One that succeeds waits for the store.
_TURN_NODES = 10_000
_CHANGE_NODES = 100

ChangeReply = Callable[[int, ArautoError | None, int], None]
"""(version, error, how many values were visited)."""
GetReply = Callable[[int, Value], None]


class _ChangeRequest:
    __slots__ = ("if_version", "operations", "reply", "sender", "started_ns")

    def __init__(
        self,
        operations: Sequence[Operation],
        if_version: int,
        sender: Sender,
        reply: ChangeReply,
        started_ns: int,
    ) -> None:
        self.operations = operations
        self.if_version = if_version
        self.sender = sender
        self.reply = reply
        self.started_ns = started_ns


class _Picture(msgspec.Struct, frozen=True, gc=False):
    """A document at a version, and how many entries of its log led there."""

    version: int
    log_len: int
    packed: bytes


class DocumentChannel(Channel):
    """A channel whose name starts with `doc:`."""

    __slots__ = (
        "_document",
        "_held_bytes",
        "_idle",
        "_log_len",
        "_memory",
        "_queue",
        "_readers",
        "_saving",
        "_snapshot_due",
        "_snapshot_timer",
        "_snapshot_version",
        "_unsaved_bytes",
        "_unsaved_len",
    )

    def __init__(self, hub: "Hub", name: str) -> None:
        super().__init__(hub, name)
        self._document = DocumentState()
        self._memory = hub.holdings.documents
        self._held_bytes = 0
        """What the document takes of it."""
        self._queue: deque[_ChangeRequest | GetReply] = deque()
        self._idle: asyncio.Event | None = None
        """Set while no request is being worked on; made with the first request."""
        self._readers = Readers()
        self._log_len = 0
        """Entries in the log that may be cut, or fewer: a push that failed may have reached the log, a cut
        that failed may not. Never more, for then a cut would take changes that no snapshot has. What stays
        is skipped, and counted when the document opens again."""
        self._unsaved_len = 0
        """Changes logged since a snapshot was last attempted."""
        self._unsaved_bytes = 0
        self._snapshot_due = False
        """Whether the worker takes a picture before its next request."""
        self._saving: asyncio.Lock | None = None
        self._snapshot_version = 0
        self._snapshot_timer: Timer | None = None

    @property
    def version(self) -> int:
        """The newest durable version."""
        return self._document.confirmed_version

    @property
    def size_bytes(self) -> int:
        """An estimate of the document's size, from above."""
        return self._document.size_bytes

    @property
    def opens_at_once(self) -> bool:
        return False

    @property
    def is_idle(self) -> bool:
        is_read = bool(self._readers.waiting_len)
        return super().is_idle and not self._queue and not self._working and not is_read

    @property
    def _working(self) -> bool:
        return self._idle is not None and not self._idle.is_set()

    @property
    def _log_key(self) -> str:
        return "document:" + self.name

    async def open(self) -> None:
        """As any channel.

        Raises:
            ArautoError: DOCUMENTS_FULL.
        """
        storage = self.env.storage
        snapshot = await storage.documents.load(self.hub.name, self.name)
        changes = await storage.kv.items(self.hub.name, self._log_key)
        logged_bytes = sum(map(len, changes))
        if logged_bytes + (len(snapshot.data) if snapshot is not None else 0) > _OPEN_BYTES_MAX:
            self._document = await asyncio.to_thread(DocumentState.restore, snapshot, changes)
        else:
            self._document = DocumentState.restore(snapshot, changes)
        self._log_len = self._unsaved_len = len(changes)
        self._unsaved_bytes = logged_bytes
        self._snapshot_version = snapshot.version if snapshot is not None else 0
        if not self._hold(self._document.held_bytes):
            raise _no_room()
        await super().open()

    async def close(self) -> None:
        """Finish what is queued, keep a snapshot, release everything."""
        if self._idle is not None:
            await self._idle.wait()
        if self._snapshot_timer is not None:
            self._snapshot_timer.cancel()
            self._snapshot_timer = None
        async with self._saves():
            if self._idle is not None:
                await self._idle.wait()
            await self._keep(self._picture())
        self.env.encodings.drop(self)
        await super().close()

    def let_go(self) -> None:
        self._memory.give(self._held_bytes)
        self._held_bytes = 0
        super().let_go()

    def introduce(self, subscriber: Subscriber) -> None:
        subscriber.outbox.send(DocumentInfo(channel=self.name, version=self.version))

    # --- requests ----------------------------------------------------------------------------------

    def change(
        self, operations: Sequence[Operation], if_version: int, sender: Sender, reply: ChangeReply
    ) -> None:
        """Apply operations, all or none; `reply` is called once they are durable or refused."""
        if len(self._queue) >= self.env.limits.pending_per_channel_max:
            reply(self.version, _too_many_waiting(), 0)
            return
        started_ns = self.env.clock.fine_ns()
        self._enqueue(_ChangeRequest(operations, if_version, sender, reply, started_ns))

    def get(self, codec: Codec, reply: ReadReply) -> None:
        """Hand out the document, encoded, behind the changes asked for before.

        Raises:
            ArautoError: TOO_MANY_PENDING.
        """
        waiting_len = len(self._queue) + self._readers.waiting_len
        if waiting_len >= self.env.limits.pending_per_channel_max:
            raise _too_many_waiting()
        self.look(partial(self._readers.serve, self, codec, reply))

    def look(self, reply: GetReply) -> None:
        """Show the document as it is between two changes, behind those asked for before. The value is the
        caller's only until `reply` returns. Bounds nothing: `get` does."""
        if not self._queue and not self._working:
            reply(self._document.version, self._document.value)
        else:
            self._enqueue(reply)

    def is_at(self, version: int) -> bool:
        """Whether the document has not changed since that version, nor is about to."""
        return self._document.version == version

    def _enqueue(self, request: _ChangeRequest | GetReply) -> None:
        self._queue.append(request)
        if not self._working:
            if self._idle is None:
                self._idle = asyncio.Event()
            self._idle.clear()
            self.env.tasks.spawn(self._work())

    async def _work(self) -> None:
        assert self._idle is not None
        worked_nodes = 0
        try:
            while self._queue:
                if worked_nodes >= _TURN_NODES:
                    worked_nodes = 0
                    await asyncio.sleep(0)
                if self._snapshot_due and not self._saves().locked():
                    self.env.tasks.spawn(self._save(self._picture()))
                request = self._queue.popleft()
                if isinstance(request, _ChangeRequest):
                    worked_nodes += _CHANGE_NODES + await self._apply(request)
                else:
                    request(self._document.version, self._document.value)
        finally:
            self._idle.set()
            if self._snapshot_due:
                self.env.tasks.spawn(self._save_when_quiet())
            if not self.subscribers:
                self.hub.touch(self)

    async def _apply(self, request: _ChangeRequest) -> int:
        """How many values were visited."""
        document = self._document
        before_nodes = document.visited_nodes
        try:
            change = document.change(
                request.operations,
                if_version=request.if_version,
                strict=self.rules.document_strict,
                limits=Limits(size_bytes_max=self.env.limits.document_bytes_max),
            )
        except ArautoError as error:
            visited_nodes = document.visited_nodes - before_nodes
            request.reply(document.version, error, visited_nodes)
            return visited_nodes
        visited_nodes = document.visited_nodes - before_nodes
        before_bytes, size_bytes = self._held_bytes, document.held_bytes
        # What shrinks gives its bytes back only once that is sure: they might not be there again.
        if size_bytes > before_bytes and not self._hold(size_bytes):
            document.revert(change.version)
            request.reply(document.version, _no_room(), visited_nodes)
            return visited_nodes
        try:
            await self.env.storage.kv.push(self.hub.name, self._log_key, change.data)
        except StorageError as error:
            document.revert(change.version)
            self._hold(before_bytes)
            request.reply(document.version, error, visited_nodes)
            return visited_nodes
        document.confirm(change.version)
        self._hold(size_bytes)
        self.env.encodings.drop(self)
        now_ms = self.env.clock.wall_ms()
        update = DocumentUpdated(
            channel=self.name,
            version=change.version,
            operations=change.operations,
            user=request.sender.user,
            ts_ms=now_ms,
        )
        self.broadcast(update)
        self._readers.changed(update)
        request.reply(change.version, None, visited_nodes)
        self._journal(change.version, change.data, request.sender, now_ms)
        self._logged(len(change.data))
        elapsed_ns = self.env.clock.fine_ns() - request.started_ns
        self.hub.counters.document_time.observe(elapsed_ns)
        return visited_nodes

    def _hold(self, size_bytes: int) -> bool:
        """Take so much of the hub's memory for documents instead of what is held; whether it is there."""
        grown_bytes = size_bytes - self._held_bytes
        if grown_bytes > 0:
            if not self._memory.take(grown_bytes):
                return False
        elif grown_bytes:
            self._memory.give(-grown_bytes)
        self._held_bytes = size_bytes
        return True

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

    def _logged(self, size_bytes: int) -> None:
        self._log_len += 1
        self._unsaved_len += 1
        self._unsaved_bytes += size_bytes
        bytes_max = max(_LOG_BYTES_MAX, self._document.size_bytes)
        if self._unsaved_len >= _LOG_LEN_MAX or self._unsaved_bytes >= bytes_max:
            self._snapshot_due = True
        self._snapshot_later()

    def _snapshot_later(self) -> None:
        if self._snapshot_timer is None:
            delay_s = self.env.limits.snapshot_interval_s
            self._snapshot_timer = self.env.clock.call_later(delay_s, self._snapshot_now)

    def _snapshot_now(self) -> None:
        self._snapshot_timer = None
        self._snapshot_due = True
        if not self._working:
            self.env.tasks.spawn(self._save_when_quiet())

    def _saves(self) -> asyncio.Lock:
        """Held while a snapshot is written: an older one must not overwrite a newer one whose log is already
        cut."""
        if self._saving is None:
            self._saving = asyncio.Lock()
        return self._saving

    def _picture(self) -> _Picture:
        """The document as it is, while no change is under way."""
        self._snapshot_due = False
        self._unsaved_len = self._unsaved_bytes = 0
        return _Picture(self._document.version, self._log_len, self._document.pack())

    async def _save(self, picture: _Picture) -> None:
        async with self._saves():
            await self._keep(picture)

    async def _save_when_quiet(self) -> None:
        async with self._saves():
            # Else it is done, or the worker is back and takes the picture itself.
            if self._snapshot_due and self.is_open and not self._working:
                await self._keep(self._picture())

    async def _keep(self, picture: _Picture) -> None:
        """Write a snapshot and cut the log. If the store refuses, the log stays and the next one tries."""
        if picture.version <= self._snapshot_version:
            return
        hub = self.hub.name
        try:
            # Compressing a large document takes a while; the loop goes on.
            data = await asyncio.to_thread(seal, picture.packed)
            await self.env.storage.documents.save(hub, self.name, Snapshot(picture.version, data))
            self._snapshot_version = picture.version
            self._log_len -= picture.log_len
            await self.env.storage.kv.drop_first(hub, self._log_key, picture.log_len)
        except StorageError:
            self.hub.counters.snapshot_failures += 1
            if self.is_open:
                self._snapshot_later()

    # --- handover ----------------------------------------------------------------------------------

    def export_own_state(self) -> bytes:
        return self._document.export_state()

    def import_own_state(self, data: bytes) -> None:
        self._document = DocumentState()
        self._document.import_state(data)
        self.env.encodings.drop(self)
        if not self._hold(self._document.held_bytes):
            raise _no_room()


def _no_room() -> ArautoError:
    return ArautoError(
        Code.DOCUMENTS_FULL, "the open documents of this hub, or of the node, take too much memory"
    )


def _too_many_waiting() -> ArautoError:
    return ArautoError(
        Code.TOO_MANY_PENDING, "too many requests for this document are waiting; retry later"
    )


def _ignore(error: object) -> None:
    """The journal's copy is for the pipeline; the operation log is what counts, and it has the change."""
