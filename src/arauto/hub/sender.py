"""Who publishes, who shares its idempotency keys, and from whom a message is kept back on its wish."""

import msgspec

from arauto.codec.events import Echo

__all__ = ["ADMINISTRATORS", "Sender", "scope_of"]

#: The transport of what administrators publish, with which its origin begins.
ADMINISTRATORS = "admin"
#: Stands for them where users do. No user has such a name.
_ADMINISTRATORS_SCOPE = " admin"


def scope_of(user: str, origin: str) -> str:
    """Who shares idempotency keys with a publisher: whoever is the same user; all administrators, and with
    them the pipeline; or all who have not shown who they are."""
    if user or not origin.startswith(ADMINISTRATORS):
        return user
    return _ADMINISTRATORS_SCOPE


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
