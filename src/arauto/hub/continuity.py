"""Which channels may go on with the epoch that their stored messages end in.

An epoch whose every message is stored can be continued when its channel opens again: the store knows all that
anybody saw. That holds only if no other epoch lay in between, one whose messages were not stored and of
which the store knows nothing. So the epoch of each fully stored channel is noted here, and the note is taken
back when the channel is used any other way. A note that is lost costs a new epoch, never a message.
"""

from typing import TYPE_CHECKING

from arauto.errors import StorageError

if TYPE_CHECKING:
    from arauto.hub.environment import Environment

__all__ = ["Continuity"]

_PREFIX = "epoch:"
_NOTES_MAX = 100_000


class Continuity:
    """The notes of one hub, in memory and in the key-value store."""

    __slots__ = ("_env", "_epochs", "_hub")

    def __init__(self, hub: str, env: "Environment") -> None:
        self._hub = hub
        self._env = env
        self._epochs: dict[str, int] = {}

    async def load(self) -> None:
        """Read the notes of earlier runs."""
        for key, value in await self._env.storage.kv.scan(self._hub, _PREFIX, _NOTES_MAX):
            if value.isdigit():
                self._epochs[key[len(_PREFIX) :]] = int(value)

    def may_continue(self, channel: str, epoch: int) -> bool:
        """Whether the channel was used in no other epoch since this one, in which everything was stored."""
        return self._epochs.get(channel) == epoch

    def note(self, channel: str, epoch: int, *, fully_stored: bool) -> None:
        """A channel is in this epoch now."""
        known = self._epochs.get(channel)
        if known == (epoch if fully_stored else None):
            return
        if not fully_stored:
            del self._epochs[channel]
        elif known is None and len(self._epochs) >= _NOTES_MAX:
            return
        else:
            self._epochs[channel] = epoch
        self._env.tasks.spawn(self._write(channel))

    async def _write(self, channel: str) -> None:
        epoch = self._epochs.get(channel)
        kv = self._env.storage.kv
        try:
            if epoch is None:
                await kv.delete(self._hub, _PREFIX + channel)
            else:
                await kv.put(self._hub, _PREFIX + channel, b"%d" % epoch)
        except StorageError:
            # What the store holds is unknown now; in this run the channel starts over.
            self._epochs.pop(channel, None)
