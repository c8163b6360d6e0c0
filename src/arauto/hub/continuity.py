"""What the store must know for a sequence to go on after a restart, and only where it really does.

Two kinds of notes, in the key-value store. *Which channels may go on with their last epoch*: one whose
every message is stored can be continued when its channel opens again, since the store knows all that anybody
saw, be it nothing yet. That holds only if no other epoch lay in between whose
messages were not stored. So the epoch of each fully stored channel is noted, and the note is withdrawn
before the channel is used any other way. The note says too how long its messages are kept: what is kept
for a time only leaves no trace when it is gone, so one epoch has one such time. A note that is lost costs
a new epoch, never a message. *Since when the hub keeps what it keeps*: whether channels that are closed
by now were stored is known only if nobody could have set it otherwise meanwhile.
"""

from functools import partial
from typing import TYPE_CHECKING

from arauto.errors import Code, StorageError
from arauto.hub.epoch import NOT_KEPT
from arauto.hub.inflight import Waiting
from arauto.hub.keeping import Keeping
from arauto.model import When

if TYPE_CHECKING:
    from arauto.hub.channel import Channel
    from arauto.hub.environment import Environment
    from arauto.hub.rules import HubState

__all__ = ["Continuity"]

_PREFIX = "epoch:"
_SETTINGS = "settings:since"
_NOTES_MAX = 100_000
#: How long to wait before the store is asked again to forget what no longer holds.
_AGAIN_S = 1.0


class Continuity:
    """The notes of one hub. Those of channels are held in memory, so that a channel that needs no
    storage can open without asking for it."""

    __slots__ = ("_env", "_epochs", "_hub", "_is_whole", "_unsure", "keeping")

    def __init__(self, hub: str, env: "Environment") -> None:
        self._hub = hub
        self._env = env
        self._epochs: dict[str, bytes] = {}
        """The notes: the epoch, and for how long its messages are kept if not for good."""
        self._unsure: dict[str, None] = {}
        """Channels whose note could not be written: the store may hold it, or an older one."""
        self._is_whole = True
        """Whether `_epochs` has all there are in the store."""
        self.keeping = Keeping({"": (When.NEVER, 0)}, 0)
        """Since when the hub keeps what it keeps; `note_settings` finds out."""

    async def load(self) -> None:
        """Read the notes of earlier runs."""
        async for page in self._env.storage.kv.scan(self._hub, _PREFIX, _NOTES_MAX):
            for key, value in page:
                channel = key[len(_PREFIX) :]
                if value is not None and value.replace(b" ", b"").isdigit():
                    self._epochs[channel] = value
                else:
                    self._unsure[channel] = None
        self._is_whole = len(self._epochs) + len(self._unsure) < _NOTES_MAX

    def may_know(self, channel: str) -> bool:
        """Whether there may be a note about the channel."""
        return channel in self._epochs or channel in self._unsure or not self._is_whole

    async def noted(self, channel: str, kept_ms: int) -> int:
        """The epoch after which the channel was used in no other, in which everything was stored and kept for
        as long as now; 0 if none is known."""
        if channel in self._unsure:
            return 0
        note = self._epochs.get(channel, b"")
        if not note and not self._is_whole:
            note = await self._env.storage.kv.get(self._hub, _PREFIX + channel) or b""
        epoch, _, _ = note.partition(b" ")
        return int(epoch) if epoch.isdigit() and note == _note(int(epoch), kept_ms) else 0

    async def note(self, channel: str, epoch: int, kept_ms: int) -> None:
        """A channel is in this epoch now, and all of it is stored. Nothing depends on the note being
        written."""
        note = _note(epoch, kept_ms)
        if self._epochs.get(channel) == note or len(self._epochs) >= _NOTES_MAX:
            return
        self._epochs[channel] = note
        try:
            await self._env.storage.kv.put(self._hub, _PREFIX + channel, note)
        except StorageError:
            # What the store holds is unknown now; in this run the channel starts over.
            self._epochs.pop(channel, None)
            self._unsure[channel] = None
            self._is_whole = self._is_whole and len(self._unsure) < _NOTES_MAX

    async def withdraw(self, channel: str) -> None:
        """The channel is about to be used in an epoch that is not fully stored. Durable when this returns.

        Raises:
            StorageError: it is not; nothing of that epoch may be shown to anybody.
        """
        if self.may_know(channel):
            await self._env.storage.kv.delete(self._hub, _PREFIX + channel)
            self._epochs.pop(channel, None)
            self._unsure.pop(channel, None)

    def changed(self, channel: "Channel", *, kept_ms: int) -> None:
        """How long an open channel keeps every message has changed, and a new epoch has begun.

        Until a note is withdrawn nothing of an epoch that is not stored may be seen: a crash before
        that goes on with the stored one, and rightly.
        """
        if kept_ms != NOT_KEPT:
            self._env.tasks.spawn(self.note(channel.name, channel.epoch, kept_ms))
        elif self.may_know(channel.name):
            self._withdraw_soon(channel, channel.hold_back())

    def _withdraw_soon(self, channel: "Channel", barrier: Waiting) -> None:
        if channel.is_open:
            self._env.tasks.spawn(self._withdraw_for(channel, barrier))

    async def _withdraw_for(self, channel: "Channel", barrier: Waiting) -> None:
        try:
            await self.withdraw(channel.name)
        except StorageError as error:
            channel.refuse_behind(barrier, error)
            again = partial(self._withdraw_soon, channel, barrier)
            self._env.clock.call_later(_AGAIN_S, again)
        else:
            channel.lift(barrier)

    def stored_since(self, ms: int, pattern: str, state: "HubState") -> bool:
        """Whether all channels that a pattern can cover were stored ever since then, as they are now."""
        return state.stores_all(pattern) and self.keeping.since_ms(state.kinds_of(pattern)) < ms

    async def note_settings(self, state: "HubState", now_ms: int) -> None:
        """These settings are about to be in force. Sets `keeping`.

        Where no channel stores everything there is nothing to know later and nothing is written, so that
        a hub which somebody made up leaves no trace.

        Raises:
            StorageError: nothing was noted; the settings must not be used yet.
        """
        kv = self._env.storage.kv
        note = await self._settings_note()
        known, kept = Keeping.decode(note), state.keeping()
        keeping = known.after(kept, now_ms) if known is not None else Keeping(kept, now_ms)
        new_note = keeping.encode() if state.may_store_all else b""
        if new_note == note:
            pass
        elif new_note:
            await kv.put(self._hub, _SETTINGS, new_note)
        else:
            await kv.delete(self._hub, _SETTINGS)
        self.keeping = keeping

    async def _settings_note(self) -> bytes:
        try:
            return await self._env.storage.kv.get(self._hub, _SETTINGS) or b""
        except StorageError as error:
            if error.code is not Code.STORAGE_CORRUPT:
                raise
            return b"?"  # whatever it was, it is not believed


def _note(epoch: int, kept_ms: int) -> bytes:
    return b"%d %d" % (epoch, kept_ms) if kept_ms else b"%d" % epoch
