"""Who publishes, and from whom a message is kept back on the sender's wish."""

import msgspec

from arauto.codec.events import Echo

__all__ = ["Sender"]


class Sender(msgspec.Struct, frozen=True, gc=False):
    """Who publishes. Services and administrators have no session."""

    session: str = ""
    user: str = ""
    origin: str = ""
    """Where it comes from, if there is no session to tell: "http 10.0.0.7"."""

    def excluded_by(self, echo: Echo) -> str:
        """Who is not to receive it, in the form that `Message.exclude` has."""
        if echo is Echo.NOT_USER and self.user:
            return "u:" + self.user
        return "s:" + self.session if self.session else ""
