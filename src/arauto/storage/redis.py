"""The key-value port on Redis or Valkey.

Commands wait in one queue and travel in pipelines, everything that queued up while the last one was under
way in the next. So they take effect in the order they were made, and many share one `fsync` of the server.

A lost connection leaves open whether a command took effect. It is answered with STORAGE_UNAVAILABLE and
never sent again by itself, because taking or pushing twice would be worse.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

import redis.asyncio
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from arauto.errors import Code, StorageError
from arauto.storage.base import KeyValueStore, Pairs, StorageCounters, WriteLimits
from arauto.storage.checks import check_text
from arauto.storage.waiting import Waiting

__all__ = ["open_redis"]

_log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 5.0
_TIMEOUT_S = 30.0
_CLOSE_GRACE_S = 10.0
_PIPELINE_MAX = 1_000
_SCAN_COUNT = 1_000
#: Values read at a time while scanning.
_PAGE_LEN = 250
_COMMAND_BYTES = 200
_GLOB = re.compile(r"([\\*?\[\]^-])")

_Command = tuple[str | bytes | int, ...]
#: With who waits for the answer, the hub in whose share it waits, and how many bytes it counts there.
_Pending = tuple[_Command, asyncio.Future[Any], str, int]


async def open_redis(
    url: str, limits: WriteLimits | None = None, counters: StorageCounters | None = None
) -> KeyValueStore:
    """Connect to redis://…, rediss://… or unix://… and warn if the server may forget what it confirmed.

    Args:
        counters: where refusals are counted.

    Raises:
        StorageError: STORAGE_UNAVAILABLE, no connection; STORAGE_FAILED, the server is too old.
    """
    client = redis.asyncio.Redis.from_url(
        url,
        socket_connect_timeout=_CONNECT_TIMEOUT_S,
        socket_timeout=_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        decode_responses=False,
        protocol=2,
    )
    waiting = Waiting(limits or WriteLimits(), counters or StorageCounters())
    store = _RedisKeyValueStore(client, waiting)
    try:
        await _check_server(store)
    except BaseException:
        await store.close()
        raise
    return store


async def _check_server(store: "_RedisKeyValueStore") -> None:
    info = await store.run(("INFO", "server"))
    major, minor = str(info.get("redis_version", "0.0")).split(".")[:2]
    if (int(major), int(minor)) < (6, 2):
        raise StorageError(Code.STORAGE_FAILED, "Redis 6.2 or later is needed (GETDEL)")
    try:
        rows = await store.run(("CONFIG", "GET", "append*"))
    except StorageError:
        _log.warning("Redis does not show its configuration: whether writes are durable is unknown")
        return
    config = dict(zip(rows[::2], rows[1::2], strict=True))
    if config.get(b"appendonly") != b"yes" or config.get(b"appendfsync") != b"always":
        _log.warning(
            "Redis may forget confirmed writes: set appendonly yes and appendfsync always "
            "(now %s and %s)",
            config.get(b"appendonly", b"?").decode(),
            config.get(b"appendfsync", b"?").decode(),
        )


class _RedisKeyValueStore:
    """See `KeyValueStore`. Values and lists have names of their own, so they do not see each other."""

    def __init__(self, client: redis.asyncio.Redis, waiting: Waiting) -> None:
        self._client = client
        self._waiting = waiting
        self._pending: deque[_Pending] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._task = asyncio.create_task(self._work(), name="arauto-redis")

    async def get(self, hub: str, key: str) -> bytes | None:
        value: bytes | None = await self.run(("GET", _name("v", hub, key)), hub)
        return value

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        expiry = ("PX", max(1, int(ttl_s * 1000))) if ttl_s else ()
        await self.run(("SET", _name("v", hub, key), value, *expiry), hub)

    async def take(self, hub: str, key: str) -> bytes | None:
        value: bytes | None = await self.run(("GETDEL", _name("v", hub, key)), hub)
        return value

    async def delete(self, hub: str, key: str) -> bool:
        return bool(await self.run(("DEL", _name("v", hub, key), _name("l", hub, key)), hub))

    async def scan(self, hub: str, prefix: str, limit: int) -> AsyncIterator[Pairs]:
        start = _name("v", hub, "")
        pattern = _GLOB.sub(r"\\\1", _name("v", hub, prefix)) + "*"
        names: set[bytes] = set()
        cursor: bytes | int = 0
        while True:
            cursor, page = await self.run(
                ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT), hub
            )
            names.update(page)
            if int(cursor) == 0:
                break
        ordered = sorted(names)
        for at in range(0, len(ordered), _PAGE_LEN):
            page = ordered[at : at + _PAGE_LEN]
            values = await self.run(("MGET", *page), hub)
            found: list[tuple[str, bytes | None]] = [
                (name.decode().removeprefix(start), value)
                for name, value in zip(page, values, strict=True)
                if value is not None  # else it expired in between
            ]
            yield found[:limit]
            limit -= len(found)
            if limit <= 0:
                return

    async def push(self, hub: str, key: str, value: bytes) -> int:
        return int(await self.run(("RPUSH", _name("l", hub, key), value), hub))

    async def items(self, hub: str, key: str) -> Sequence[bytes]:
        items: list[bytes] = await self.run(("LRANGE", _name("l", hub, key), 0, -1), hub)
        return items

    async def drop_first(self, hub: str, key: str, count: int) -> None:
        if count > 0:
            await self.run(("LTRIM", _name("l", hub, key), count, -1), hub)

    async def close(self) -> None:
        self._closed = True
        self._wake.set()
        await asyncio.wait({self._task}, timeout=_CLOSE_GRACE_S)
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._client.aclose()

    async def run(self, command: _Command, hub: str = "") -> Any:
        """Send a command in its turn and return the answer.

        Args:
            hub: in whose share it waits; "" is the node's own.

        Raises:
            StorageError: too much is waiting, the server refused or cannot be reached.
        """
        size_bytes = _COMMAND_BYTES + sum(len(a) for a in command if isinstance(a, str | bytes))
        if self._closed:
            raise StorageError(Code.STORAGE_UNAVAILABLE, "the storage is closed")
        refusal = self._waiting.enter(hub, size_bytes)
        if refusal is not None:
            raise refusal
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append((command, future, hub, size_bytes))
        self._wake.set()
        return await future

    async def _work(self) -> None:
        while True:
            if not self._pending:
                if self._closed:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            count = min(len(self._pending), _PIPELINE_MAX)
            batch = [self._pending.popleft() for _ in range(count)]
            try:
                answers = await self._send([command for command, _, _, _ in batch])
            except asyncio.CancelledError:
                closing = StorageError(Code.STORAGE_UNAVAILABLE, "the storage was closed meanwhile")
                self._answer(batch + list(self._pending), closing)
                self._pending.clear()
                raise
            self._answer(batch, answers)

    async def _send(self, commands: list[_Command]) -> list[Any] | StorageError:
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = await pipeline.execute(raise_on_error=False)
                return answers
        except Exception as exc:
            return _translate(exc)

    def _answer(
        self,
        batch: list[_Pending],
        answers: list[Any] | StorageError,
    ) -> None:
        for at, (_, future, hub, size_bytes) in enumerate(batch):
            self._waiting.leave(hub, 1, size_bytes)
            if future.done():
                continue  # its caller was cancelled and waits no more
            answer = answers if isinstance(answers, StorageError) else answers[at]
            if isinstance(answer, StorageError):
                future.set_exception(StorageError(answer.code, answer.message))
            elif isinstance(answer, Exception):
                future.set_exception(_translate(answer))
            else:
                future.set_result(answer)


def _name(kind: str, hub: str, key: str) -> str:
    # The hub's length goes first, so that no choice of names makes two (hub, key) pairs meet.
    check_text(hub=hub, key=key)
    return f"arauto:{kind}:{len(hub)}:{hub}:{key}"


def _translate(error: Exception) -> StorageError:
    if isinstance(error, redis_errors.ReadOnlyError):
        return StorageError(Code.STORAGE_READ_ONLY, "the Redis server is a read-only replica")
    if isinstance(error, redis_errors.OutOfMemoryError):
        return StorageError(Code.STORAGE_FULL, "the Redis server is out of memory")
    away = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError, TimeoutError)
    if isinstance(error, away):
        return StorageError(
            Code.STORAGE_UNAVAILABLE, f"Redis cannot be reached ({type(error).__name__})"
        )
    if str(error).startswith("MISCONF"):
        return StorageError(Code.STORAGE_FAILED, "the Redis server cannot write to its disk")
    return StorageError(Code.STORAGE_FAILED, f"Redis refused the command ({type(error).__name__})")
