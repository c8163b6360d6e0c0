"""How the client proves who it is: a token, credentials, or functions that make fresh ones.

A function is asked once at a time and within a time limit: a reconnect and a renewal that need a fresh value
at the same moment share one call. When to ask is decided by `supervisor.py` (each connection) and
`renewal.py` (before the authentication expires).
"""

import asyncio
import inspect
import re
from functools import partial
from typing import Any

from arauto.client import payload
from arauto.client.failures import RefusedError, RequestTimeoutError, from_event
from arauto.client.options import CredentialsSource, TokenSource
from arauto.clock import Clock
from arauto.codec.events import AuthReply
from arauto.errors import ArautoError, Code

__all__ = ["Proof", "Source", "check_success", "check_token", "read_credentials"]

#: With a function that makes fresh ones, these refusals may be cured by the next token or credentials.
_CURED_BY_FRESH = frozenset(
    {Code.TOKEN_EXPIRED, Code.TOKEN_INVALID, Code.AUTH_FAILED, Code.AUTH_DEADLINE}
)

#: What may stand in a header: nothing that ends it.
_TOKEN = re.compile(r"[\x21-\x7e]+")


class Source:
    """A value, or a function, async or not, that makes fresh ones."""

    __slots__ = ("_asked", "_clock", "_task", "_timeout_s", "_value")

    def __init__(self, value: Any, clock: Clock, timeout_s: float) -> None:
        self._value = value
        self._clock = clock
        self._timeout_s = timeout_s
        self._asked: asyncio.Future[Any] | None = None
        """The answer of the function, while it is awaited."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_function(self) -> bool:
        return callable(self._value)

    async def read(self) -> Any:
        """The value, or a fresh one; whoever asks while the function is at work gets the same one.

        Raises:
            ArautoError: AUTH_UNAVAILABLE if the function failed or took too long; what it raised, if that is
                an ArautoError.
        """
        if not self.is_function:
            return self._value
        if self._asked is None:
            loop = asyncio.get_running_loop()
            asked = self._asked = loop.create_future()
            self._task = loop.create_task(self._call(asked), name="arauto-credentials")
        return await asyncio.shield(self._asked)

    def stop(self) -> None:
        """Nobody wants the answer any more."""
        if self._task is not None:
            self._task.cancel()

    async def _call(self, asked: "asyncio.Future[Any]") -> None:
        timer = self._clock.call_later(self._timeout_s, partial(self._give_up, asked))
        try:
            answer = self._value()
            _settle(asked, await answer if inspect.isawaitable(answer) else answer)
        except ArautoError as error:
            _settle(asked, error)
        except Exception as error:
            text = f"the function for tokens or credentials failed: {error!r}"
            failure = ArautoError(Code.AUTH_UNAVAILABLE, text)
            failure.__cause__ = error
            _settle(asked, failure)
        finally:
            timer.cancel()
            asked.cancel()  # without an answer by now there will be none
            if self._asked is asked:
                self._asked = self._task = None

    def _give_up(self, asked: "asyncio.Future[Any]") -> None:
        """Too late: whoever asks next has the function called anew, even if this call never ends."""
        rule = f"gave no answer within {self._timeout_s:g} s"
        text = f"the function for tokens or credentials {rule}"
        _settle(asked, ArautoError(Code.AUTH_UNAVAILABLE, text))
        self.stop()
        self._asked = self._task = None


class Proof:
    """The token and the credentials of one client."""

    __slots__ = ("_clock", "_credentials", "_timeout_s", "_token")

    def __init__(
        self,
        token: TokenSource | None,
        credentials: CredentialsSource,
        clock: Clock,
        timeout_s: float,
    ) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._token = None if token is None else self.source(token)
        self._credentials = None if credentials is None else self.source(credentials)

    def source(self, value: Any) -> Source:
        return Source(value, self._clock, self._timeout_s)

    def use(self, credentials: Source) -> None:
        """These from now on, and nothing of before."""
        self.stop()
        self._token = None
        self._credentials = credentials

    def stop(self) -> None:
        for source in (self._token, self._credentials):
            if source is not None:
                source.stop()

    # --- what is sent ------------------------------------------------------------------------------

    async def headers(self) -> dict[str, str]:
        """What to connect with.

        Raises:
            ArautoError: AUTH_UNAVAILABLE, BAD_FIELD.
        """
        if self._token is None:
            return {}
        return {"Authorization": f"Bearer {check_token(await self._token.read())}"}

    @property
    def has_credentials(self) -> bool:
        return self._credentials is not None

    async def credentials(self) -> bytes:
        """What to authenticate with, once connected.

        Raises:
            ArautoError: AUTH_UNAVAILABLE, BAD_FIELD.
        """
        assert self._credentials is not None
        return await read_credentials(self._credentials)

    async def renewed(self) -> bytes:
        """What to authenticate with again: a fresh token, else the credentials.

        Raises:
            ArautoError: AUTH_UNAVAILABLE, BAD_FIELD.
        """
        if self._token is not None and self._token.is_function:
            return check_token(await self._token.read()).encode()
        return await self.credentials()

    # --- what can be hoped for ---------------------------------------------------------------------

    @property
    def makes_fresh(self) -> bool:
        """Whether a function makes fresh ones."""
        sources = (self._token, self._credentials)
        return any(source is not None and source.is_function for source in sources)

    @property
    def is_renewable(self) -> bool:
        """Whether there is anything to authenticate again with; a token that is a string ends for good."""
        return self.makes_fresh or self.has_credentials

    def expired(self) -> None:
        """The authentication is over: a token that is a string is worth nothing any more, and where there
        are credentials they go on without it."""
        if self._token is not None and not self._token.is_function and self.has_credentials:
            self._token = None

    def cures(self, error: ArautoError) -> bool:
        """Whether trying again may succeed."""
        if error.retryable or isinstance(error, RequestTimeoutError):
            return True
        return self.makes_fresh and error.code in _CURED_BY_FRESH


def check_token(token: object) -> str:
    """The token, if it can travel in a header.

    Raises:
        ArautoError: BAD_FIELD.
    """
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise ArautoError(
            Code.BAD_FIELD, "must be text without spaces or line breaks", field="token"
        )
    return token


async def read_credentials(source: Source) -> bytes:
    """The bytes to send for credentials.

    Raises:
        ArautoError: AUTH_UNAVAILABLE if the function that makes them failed; BAD_FIELD.
    """
    data, _ = payload.encode(await source.read())
    return data


def check_success(reply: AuthReply) -> None:
    """Raise the refusal, if it is one."""
    if not reply.success:
        if reply.error is not None:
            raise from_event(reply.error)
        raise RefusedError(Code.AUTH_FAILED, "the credentials were refused")


def _settle(asked: "asyncio.Future[Any]", outcome: Any) -> None:
    if asked.done():
        return
    if isinstance(outcome, ArautoError):
        asked.set_exception(outcome)
        asked.exception()  # whoever waits still gets it; nobody has to
    else:
        asked.set_result(outcome)
