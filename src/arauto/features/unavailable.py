"""A channel type whose name is taken but which this node does not offer."""

from typing import TYPE_CHECKING

from arauto.errors import ArautoError, Code
from arauto.hub.channel import Channel

if TYPE_CHECKING:
    from arauto.hub.hub import Hub

__all__ = ["UnavailableChannel"]


class UnavailableChannel(Channel):
    """Refuses to be made, so that nobody builds on a name that will mean something else."""

    __slots__ = ()

    def __init__(self, hub: "Hub", name: str) -> None:
        raise ArautoError(
            Code.NOT_AVAILABLE, "this node does not offer that type of channel yet", field="channel"
        )
