"""Where a subscription stands in each of its channels. Pure.

This is the client's half of "never a silent hole, never a duplicate": it decides which deliveries are
new, what to ask for when the subscription is made again, and which gaps an answer leaves.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from arauto.codec.events import Gap, SubscribeItem, SubscribeResult
from arauto.errors import ArautoError, Code
from arauto.limits import POSITIONS_LEN_MAX
from arauto.model import Message, Serial
from arauto.names import ALL_CHANNELS, is_wide

__all__ = ["Positions", "check_place", "check_places", "item_bytes", "merge_gaps"]

#: What one place costs on the wire beside the channel's name, generously.
_PLACE_BYTES = 48

#: Epochs and offsets travel as 64 bits.
_NUMBER_MAX = 2**64 - 1

#: Before every message there is.
_NOTHING = Serial(0, 0)


class Positions:
    """The places of one subscription: one for a channel, one per covered channel for a pattern or topic.

    A pattern remembers `places_max` channels. Beyond that the longest unheard of is forgotten: what it had
    may be delivered a second time after a reconnect, but is not lost. Where it began is kept under
    `ALL_CHANNELS`, which the node gives with each answer and wants back.
    """

    __slots__ = (
        "_asked",
        "_began",
        "_channel",
        "_covers_many",
        "_fresh",
        "_is_new",
        "_places",
        "_places_max",
    )

    def __init__(
        self,
        channel: str,
        since: dict[str, Serial] | None = None,
        places_max: int = POSITIONS_LEN_MAX,
    ) -> None:
        self._channel = channel
        self._covers_many = is_wide(channel)
        self._places = OrderedDict(since or {})
        self._began = self._places.pop(ALL_CHANNELS, None)
        self._places_max = places_max
        self._asked = since is not None
        self._is_new = True
        """Whether the node never agreed to it."""
        self._fresh: dict[str, tuple[Serial, Serial]] = {}
        """Channels that the node may still greet with their retained message, and where that may lie: after
        what was seen of them, and up to the place the node gave. What is newer comes live."""

    def item(self, bytes_max: int, lowest: Callable[[str, Serial], Serial]) -> SubscribeItem:
        """What to ask the node for. Recovery is asked for once there is a place to recover from.

        Args:
            bytes_max: places that do not fit in here are left out, the longest unheard of first.
            lowest: where recovery of a channel must start for the sake of others that cover it too; a
                node sends what was missed once per session.
        """
        if not self._asked:
            return SubscribeItem(channel=self._channel)
        if self._covers_many:
            latest = self.latest(bytes_max)
            positions = {channel: lowest(channel, serial) for channel, serial in latest.items()}
            if self._began is not None:
                positions[ALL_CHANNELS] = self._began
            return SubscribeItem(channel=self._channel, positions=positions)
        place = self._places.get(self._channel)
        since = lowest(self._channel, place) if place is not None else None
        return SubscribeItem(channel=self._channel, since=since)

    def attached(self, result: SubscribeResult) -> list[Gap]:
        """Take the node's answer to `item`; return the gaps it leaves.

        The places of the channels in those gaps stay where they were until `skip` moves them, so that
        the gaps can be filled first.
        """
        now = result.positions or {}
        if result.serial is not None and not self._covers_many:
            now = {self._channel: result.serial}
        asked, self._asked = self._asked, True
        if self._covers_many:
            self._began = now.get(ALL_CHANNELS)
            now = {channel: at for channel, at in now.items() if channel != ALL_CHANNELS}
        if not asked:
            for channel, serial in now.items():
                self._set(channel, serial)
                self._fresh[channel] = _NOTHING, serial
            self._is_new = False
            return []
        is_new, self._is_new = self._is_new, False
        if result.recovered:
            return []
        # A pattern that covers too much to be listed names no channels: then the gap has its name.
        lost = result.unrecovered or (self._channel,)
        for channel in lost:
            self._greet_again(channel, now.get(channel), is_new)
        return [self._gap(channel, now.get(channel)) for channel in lost]

    def admit(self, message: Message) -> bool:
        """Whether a delivery is new to this subscription; if so, move its channel's place to it."""
        channel = message.channel
        here = message.serial
        place = self._places.get(channel)
        fresh = self._fresh.get(channel) if self._fresh else None
        if place is not None and here <= place:
            if not message.retain or fresh is None or not fresh[0] < here <= fresh[1]:
                return False
            del self._fresh[channel]
            return True
        if fresh is not None and here <= fresh[1]:
            self._fresh[channel] = here, fresh[1]
        self._set(channel, here)
        return True

    def skip(self, gap: Gap) -> None:
        """Give a gap up, or call it filled: the channel continues after it, even if that is further back
        (a node that lost its state counts from there again). If it is closed, it starts afresh."""
        if gap.upto > Serial(0, 0) and gap.upto != gap.after:
            self._set(gap.channel, gap.upto)
        elif self._covers_many:
            self._places.pop(gap.channel, None)
            self._fresh.pop(gap.channel, None)

    @property
    def count(self) -> int:
        """How many places there are."""
        return len(self._places)

    @property
    def is_continued(self) -> bool:
        """Whether there is something to recover from: given by the caller, or by an answer."""
        return self._asked

    def place(self, channel: str) -> Serial | None:
        return self._places.get(channel)

    def latest(self, bytes_max: int) -> dict[str, Serial]:
        """The places that fit in `bytes_max`, the latest heard of first."""
        latest: dict[str, Serial] = {}
        for channel, serial in reversed(self._places.items()):
            bytes_max -= len(channel.encode()) + _PLACE_BYTES
            if bytes_max < 0:
                break
            latest[channel] = serial
        return latest

    def _greet_again(self, channel: str, now: Serial | None, is_new: bool) -> None:
        """Let the retained message come of a channel that was not recovered. Where the caller's place is from
        an earlier run it comes whatever its age: this subscription has not shown it to anybody."""
        place = self._places.get(channel)
        if now is None or place is None:
            return
        seen, upto = (_NOTHING, place) if is_new else self._fresh.get(channel, (place, place))
        # Who was shown what came after it needs the older one no more.
        self._fresh[channel] = place if place > upto else seen, max(now, place)

    def _gap(self, channel: str, now: Serial | None) -> Gap:
        place = self._places.get(channel)
        after = place or (Serial(now.epoch, 0) if now is not None else Serial(0, 0))
        # A channel that is closed by now has no place there: the hole has no known end.
        return Gap(channel=channel, after=after, upto=now or after, reason="not_recovered")

    def _set(self, channel: str, serial: Serial) -> None:
        places = self._places
        if self._covers_many:
            # Keeps the dict in order of use, the longest unheard of first.
            places.pop(channel, None)
            if len(places) >= self._places_max:
                forgotten, _ = places.popitem(last=False)
                self._fresh.pop(forgotten, None)
        places[channel] = serial


def check_place(place: object, field: str) -> Serial | None:
    """The place a caller gave, if it is one.

    Raises:
        ArautoError: BAD_FIELD.
    """
    if place is None:
        return None
    if not isinstance(place, Serial):
        rule = f"must be a Serial(epoch, offset), not {type(place).__name__}"
        raise ArautoError(Code.BAD_FIELD, rule, field=field)
    for number in (place.epoch, place.offset):
        if not isinstance(number, int) or not 0 <= number <= _NUMBER_MAX:
            rule = "must be a Serial of two integers from 0 to 2**64 - 1"
            raise ArautoError(Code.BAD_FIELD, rule, field=field)
    return place


def check_places(
    channel: str, since: Serial | Mapping[str, Serial] | None
) -> dict[str, Serial] | None:
    """The places by channel where a subscription to `channel` continues.

    Raises:
        ArautoError: BAD_FIELD.
    """
    if since is None:
        return None
    if is_wide(channel):
        if not isinstance(since, Mapping):
            rule = "patterns and topics continue from a dict of places, {channel: Serial}"
            raise ArautoError(Code.BAD_FIELD, rule, field="since")
    elif not isinstance(since, Mapping):
        since = {channel: since}
    places: dict[str, Serial] = {}
    for name, given in since.items():
        place = check_place(given, "since")
        if place is None or not isinstance(name, str):
            rule = "must name channels and give each a Serial(epoch, offset)"
            raise ArautoError(Code.BAD_FIELD, rule, field="since")
        places[name] = place
    return places


def item_bytes(item: SubscribeItem) -> int:
    """What an item weighs in a request, generously."""
    channels = (item.channel, *(item.positions or ()))
    return sum(len(channel.encode()) + _PLACE_BYTES for channel in channels)


def merge_gaps(earlier: Gap | None, later: Gap) -> Gap:
    """One gap that spans two of the same channel."""
    if earlier is None:
        return later
    return Gap(
        channel=later.channel,
        after=min(earlier.after, later.after),
        upto=max(earlier.upto, later.upto),
        reason=later.reason,
    )
