"""PostgreSQL's and the driver's errors as ours. The one place where they are translated."""

import logging

import asyncpg  # type: ignore[import-untyped]

from arauto.errors import Code, StorageError

__all__ = ["UNSTORABLE", "is_conflict", "is_lost", "quiet_driver", "translate"]

#: What the driver or the server raises for a value that can never be stored.
UNSTORABLE = (ValueError, OverflowError, TypeError, asyncpg.DataError)

_LOST_STATES = ("08", "57P")  # connection trouble; the server shuts down, crashed or starts up
_CONFLICT_STATES = ("40001", "40P01")  # the transaction was undone in favour of another
_BY_STATE = {
    "53100": (Code.STORAGE_FULL, "the database server's disk is full"),
    "25006": (Code.STORAGE_READ_ONLY, "the database server accepts no writes"),
    "42501": (Code.STORAGE_READ_ONLY, "the database role may not write"),
    "XX001": (Code.STORAGE_CORRUPT, "the database server found damaged data"),
    "XX002": (Code.STORAGE_CORRUPT, "the database server found a damaged index"),
}
_UNAVAILABLE_STATES = ("08", "57P", "53300", "28", "3D")


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, so that what was under way may or may not have happened."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate or "").startswith(_LOST_STATES)
    # The driver's own complaints about a connection that broke in mid-operation.
    broken = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, broken) and not isinstance(error, UNSTORABLE)


def is_conflict(error: BaseException) -> bool:
    """Whether the server undid the transaction for another's sake: the same again may succeed."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in _CONFLICT_STATES


def translate(error: BaseException) -> StorageError:
    """Return the storage error that says what went wrong, without the URL: it may hold a password."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, asyncpg.PostgresError):
        state = str(error.sqlstate or "")
        if state in _BY_STATE:
            code, message = _BY_STATE[state]
            return StorageError(code, f"{message} ({state})")
        if state.startswith(_UNAVAILABLE_STATES):
            return StorageError(
                Code.STORAGE_UNAVAILABLE, f"the database server refuses: {error} ({state})"
            )
        return StorageError(Code.STORAGE_FAILED, f"the database failed: {error} ({state})")
    if is_lost(error):
        return StorageError(
            Code.STORAGE_UNAVAILABLE,
            f"the database server cannot be reached ({type(error).__name__})",
        )
    return StorageError(Code.STORAGE_FAILED, f"the operation failed ({type(error).__name__})")


def quiet_driver() -> None:
    """Keep the driver's second report of a lost connection out of the log.

    When the connection breaks while rows are being copied, the call raises, and a future of the driver's
    own, which nobody can reach, gets the same error and is never looked at.
    """
    logging.getLogger("asyncio").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not (
        isinstance(error, asyncpg.ConnectionDoesNotExistError)
        and record.getMessage().startswith("Future exception was never retrieved")
    )
