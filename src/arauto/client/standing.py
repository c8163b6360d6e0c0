"""Who the client is on the node. Pure."""

from typing import Self

import msgspec

from arauto.codec.events import ErrorEvent
from arauto.errors import ArautoError
from arauto.model import Grants

__all__ = ["Standing"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """All the node said about this session. Its `repr` leaves the token out."""

    session: str = ""
    node: str = ""
    user: str = ""
    authenticated: bool = False
    grants: Grants = Grants()
    extra: dict[str, str] = {}
    token: str = ""
    token_expires_ms: int = 0
    message_bytes_max: int = 0
    error: ArautoError | None = None
    """Why the client is nobody though it was somebody: its authentication expired (TOKEN_EXPIRED), or the
    latest attempt to renew it failed like this."""

    def nobody(self, error: ArautoError) -> Self:
        """The same session, without the identity it had."""
        return type(self)(
            session=self.session,
            node=self.node,
            message_bytes_max=self.message_bytes_max,
            error=error,
        )

    def explained(self, refusal: ErrorEvent) -> ErrorEvent:
        """A refusal as it is told: that the session is nobody by now is why it may not do what it could."""
        if self.error is None or not 2000 <= refusal.code < 3000:
            return refusal
        return msgspec.structs.replace(
            refusal,
            code=int(self.error.code),
            message=f"{self.error.message}; {refusal.message}",
        )

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name != "token")
        return f"Standing({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
