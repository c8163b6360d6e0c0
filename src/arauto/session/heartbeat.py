"""Whether a client that says nothing is still there: it is asked, and has a while to answer.

While a request of its own is held nothing is read, its answer neither, so the silence proves nothing and is
not counted. The client is asked all the same now and then: others on the way see that the connection is in
use, and TCP notices when nobody takes what is sent. What a connection is worth is found out when it is read
again.
"""

from typing import TYPE_CHECKING

from arauto.codec.events import Ping

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["listen_again", "look"]


def look(session: "Session", now_s: float) -> float:
    """Ask a silent client; return the seconds until the next look, or 0 if it was asked in vain."""
    limits = session.env.limits
    wait_s = limits.ping_interval_s - (now_s - session.seen_s)
    if wait_s > 0:
        return wait_s
    if session.pinged_s > session.seen_s:
        asked_s = now_s - session.pinged_s
        # A client that does not take what it asked for holds its request itself.
        is_unheard = session.held_back() is not None and session.showing is None
        wait_s = (limits.ping_interval_s if is_unheard else limits.pong_timeout_s) - asked_s
        if wait_s > 0 or not is_unheard:
            return max(wait_s, 0)
    session.pinged_s = now_s
    session.send(Ping())
    return limits.pong_timeout_s


def listen_again(session: "Session") -> None:
    """It is read again: from here on an answer that was asked for meanwhile has its time."""
    if session.pinged_s > session.seen_s:
        session.pinged_s = session.env.hub.clock.monotonic_s()
        session.look_within(session.env.limits.pong_timeout_s)
