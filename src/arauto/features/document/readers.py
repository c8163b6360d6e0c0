"""Handing a document out: encoded once for its version and wire format, a large one without holding the loop.

Readers of a large document wait together. When its turn has come, a picture is taken between two changes and
encoded step by step, and all who had asked by then are given it. Changes go on meanwhile; those that
subscribers saw before the older document came are told again behind it, so that no copy lacks them.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from arauto.codec.base import Codec
from arauto.codec.events import DocumentUpdated, EncodedValue
from arauto.codec.value_steps import all_at_once
from arauto.features.document.encode import pack_value
from arauto.features.document.value import Value

if TYPE_CHECKING:
    from arauto.features.document.channel import DocumentChannel

__all__ = ["ReadReply", "Readers"]

#: Up to this estimate a document is encoded at once.
_AT_ONCE_BYTES = 8_192

ReadReply = Callable[[int, EncodedValue, Sequence[DocumentUpdated]], None]
"""(version, value, what has changed since)."""


class Readers:
    """One per document, which it does not keep: a closed one goes without the garbage collector."""

    __slots__ = ("_changes", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, list[ReadReply]] = {}
        """By wire format; there is a task for each."""
        self._changes: list[list[DocumentUpdated]] = []
        """For each picture that is being encoded, what has changed since."""

    @property
    def waiting_len(self) -> int:
        return sum(map(len, self._waiting.values()))

    def changed(self, update: DocumentUpdated) -> None:
        """There is a new version."""
        for changes in self._changes:
            changes.append(update)

    def serve(
        self,
        channel: "DocumentChannel",
        codec: Codec,
        reply: ReadReply,
        version: int,
        value: Value,
    ) -> None:
        """Give the document, as it is between two changes, to somebody who asked."""
        encodings = channel.env.encodings
        data = encodings.find(channel, codec.name)
        if data is None and channel.size_bytes <= _AT_ONCE_BYTES:
            data = all_at_once(codec.encode_value(pack_value(value)))
            encodings.keep(channel, codec.name, data)
        if data is not None:
            reply(version, EncodedValue(data), ())
        elif codec.name in self._waiting:
            self._waiting[codec.name].append(reply)
        else:
            self._waiting[codec.name] = [reply]
            channel.env.tasks.spawn(self._make(channel, codec))

    async def _make(self, channel: "DocumentChannel", codec: Codec) -> None:
        changes: list[DocumentUpdated] = []
        try:
            await self._give(channel, codec, changes)
        finally:
            self._changes = [each for each in self._changes if each is not changes]

    async def _give(
        self, channel: "DocumentChannel", codec: Codec, changes: list[DocumentUpdated]
    ) -> None:
        encodings = channel.env.encodings
        async with encodings.making:
            taken: asyncio.Future[tuple[int, bytes, list[ReadReply]]]
            taken = asyncio.get_running_loop().create_future()
            channel.look(partial(self._take, codec.name, taken, changes))
            version, packed, replies = await taken
            steps = codec.encode_value(packed)
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    data: bytes = end.value
                    break
                await asyncio.sleep(0)
        encodings.made += 1
        if channel.is_open and channel.is_at(version):
            encodings.keep(channel, codec.name, data)
        for reply in replies:
            reply(version, EncodedValue(data), changes)
            await asyncio.sleep(0)  # each copies it into a frame of its own

    def _take(
        self,
        format: str,
        taken: "asyncio.Future[tuple[int, bytes, list[ReadReply]]]",
        changes: list[DocumentUpdated],
        version: int,
        value: Value,
    ) -> None:
        # Nobody waits for it any more if the node stops meanwhile.
        if not taken.done():
            self._changes.append(changes)
            taken.set_result((version, pack_value(value), self._waiting.pop(format)))
