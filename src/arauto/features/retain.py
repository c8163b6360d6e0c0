"""Retain: the last (marked) message of a channel is kept for each new subscriber.

Who subscribes is greeted by the session layer, which knows how fast it reads.
"""

import msgspec

from arauto.hub.hooks import Feature, FeatureSpec
from arauto.model import Message, When

__all__ = ["SPEC", "Retain"]


class Retain(Feature):
    """Keeps the message in the hub's `Retained`, which outlives the channel and the process."""

    __slots__ = ()

    name = "retain"

    def wants_every_message(self) -> bool:
        return self.channel.rules.retain is When.ALL

    def on_message(self, message: Message) -> None:
        rules = self.channel.rules
        retain_s = rules.retain_s
        ceiling_s = self.channel.env.limits.retain_s_max
        if ceiling_s:
            retain_s = min(retain_s or ceiling_s, ceiling_s)
        expires_ms = message.expires_ms
        if retain_s:
            until_ms = message.ts_ms + int(retain_s * 1000)
            expires_ms = min(expires_ms, until_ms) if expires_ms else until_ms
        # Marked in any case, so that a client can tell a greeting from an old message come again.
        kept = msgspec.structs.replace(message, expires_ms=expires_ms, retain=True)
        self.channel.hub.retained.set(kept)

    def export_state(self) -> bytes:
        message = self.channel.hub.retained.get(self.channel.name)
        return msgspec.msgpack.encode(message) if message is not None else b""

    def import_state(self, state: bytes) -> None:
        if state:
            self.channel.hub.retained.set(msgspec.msgpack.decode(state, type=Message))


SPEC = FeatureSpec(Retain.name, lambda rules: rules.retain is not When.NEVER, Retain)
