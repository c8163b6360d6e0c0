"""What a session tells its client about itself: the first event, and the answer to authenticating."""

from typing import TYPE_CHECKING

from arauto.codec.events import AuthReply, SessionInfo

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["auth_reply", "expires_in_ms", "session_info"]


def session_info(session: "Session", deadline_s: float) -> SessionInfo:
    """Always the first event of a connection. `deadline_s` is the time left to authenticate, 0 = none."""
    limits = session.env.limits
    settings = session.hub.state.settings
    return SessionInfo(
        hub=session.hub.name,
        session=session.id,
        node=session.env.hub.node,
        authenticated=session.identity is not None,
        user=session.user,
        allow_anonymous=settings.allow_anonymous,
        user_channel=settings.user_channel,
        default_public=settings.default_public,
        auth_deadline_ms=int(deadline_s * 1000),
        ping_interval_ms=int(limits.ping_interval_s * 1000),
        message_bytes_max=min(
            settings.quotas.message_bytes_max or limits.message_bytes_max,
            limits.message_bytes_max,
        ),
    )


def auth_reply(session: "Session", id: int) -> AuthReply:
    """Who the session is now, with a token for other connections and the HTTP API."""
    identity = session.identity
    assert identity is not None
    token, expires_ms = session.env.authenticator.issue_token(
        session.hub.name, session.id, identity
    )
    return AuthReply(
        id=id,
        success=True,
        user=identity.user,
        token=token,
        token_expires_ms=expires_ms,
        grants=identity.grants,
        extra=identity.extra,
        expires_in_ms=expires_in_ms(session),
    )


def expires_in_ms(session: "Session") -> int:
    """How long the session's authentication still holds; 0 = without end."""
    identity = session.identity
    if identity is None or not identity.expires_ms:
        return 0
    return max(1, identity.expires_ms - session.env.hub.clock.wall_ms())
