"""Publishing without a session: one request over HTTP, with a token."""

import asyncio

from arauto.codec.events import AckItem, PublishItem
from arauto.errors import ArautoError
from arauto.flow.authorise import Granted, publish_refusal
from arauto.hub.channel import Sender
from arauto.hub.hub import Hub
from arauto.hub.inflight import PublishReply
from arauto.model import Identity, Serial
from arauto.names import check_channel
from arauto.session.auth.grants import GrantSet
from arauto.session.subscribe import as_event

__all__ = ["Caller", "publish_all"]


class Caller:
    """Who publishes: an identity, or nobody in particular. Implements `authorise.Who`."""

    __slots__ = ("granted", "identity")

    def __init__(self, identity: Identity | None) -> None:
        self.identity = identity
        self.granted: Granted | None = GrantSet(identity.grants) if identity is not None else None

    @property
    def user(self) -> str:
        return self.identity.user if self.identity is not None else ""


async def publish_all(
    hub: Hub, items: tuple[PublishItem, ...], sender: Sender, caller: Caller | None
) -> list[AckItem]:
    """Publish in order; each outcome stands for itself. A caller of None may publish anywhere."""
    waiting = [await _publish(hub, item, sender, caller) for item in items]
    return [await outcome for outcome in waiting]


async def _publish(
    hub: Hub, item: PublishItem, sender: Sender, caller: Caller | None
) -> asyncio.Future[AckItem]:
    outcome: asyncio.Future[AckItem] = asyncio.get_running_loop().create_future()
    try:
        check_channel(item.channel)
        if caller is not None:
            state = hub.state
            rules = state.resolve_rules(item.channel)
            refusal = publish_refusal(caller, item.channel, rules, state.settings)
            if refusal is not None:
                raise refusal
        channel = hub.channel(item.channel) or await hub.open_channel(item.channel)
        hub.admit_publish(len(item.payload))
        channel.publish(item, sender, _reply(outcome))
    except ArautoError as error:
        hub.counters.refuse(int(error.code))
        outcome.set_result(AckItem(error=as_event(error)))
    return outcome


def _reply(outcome: asyncio.Future[AckItem]) -> PublishReply:
    def reply(serial: Serial | None, duplicate: bool, error: ArautoError | None) -> None:
        if not outcome.done():
            failed = as_event(error) if error is not None else None
            outcome.set_result(AckItem(serial=serial, duplicate=duplicate, error=failed))

    return reply
