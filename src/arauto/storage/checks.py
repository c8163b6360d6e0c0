"""What can be stored at all, the same for every backend, so that none accepts what another refuses.

Keys are checked before a write is queued. Journal entries are on the hot path and are only looked at
after a database refused a batch, to find which of them was to blame.
"""

from collections.abc import Sequence

from arauto.errors import Code, StorageError
from arauto.storage.base import JournalEntry

__all__ = ["INT_MAX", "check_text", "entry_problem", "problems_of"]

INT_MAX = 2**63 - 1

_INTS = ("ts_ms", "epoch", "offset", "expires_ms")
_TEXTS = ("hub", "channel", "session", "user", "content_type", "id", "key", "exclude", "origin")


def check_text(**fields: str) -> None:
    """Refuse text that some database cannot hold: not UTF-8, or with a NUL character.

    Raises:
        StorageError: STORAGE_FAILED, naming the field.
    """
    for name, text in fields.items():
        if not _is_storable(text):
            raise StorageError(
                Code.STORAGE_FAILED, "text is valid UTF-8 without NUL characters", field=name
            )


def entry_problem(entry: JournalEntry) -> StorageError | None:
    """Return why this entry can never be stored, or None if it can."""
    for name in _INTS:
        if not 0 <= getattr(entry, name) <= INT_MAX:
            return StorageError(Code.STORAGE_FAILED, "a number is from 0 to 2^63-1", field=name)
    for name in _TEXTS:
        if not _is_storable(getattr(entry, name)):
            return StorageError(
                Code.STORAGE_FAILED, "text is valid UTF-8 without NUL characters", field=name
            )
    for key, value in (entry.headers or {}).items():
        if not (_is_storable(key) and _is_storable(value)):
            return StorageError(
                Code.STORAGE_FAILED,
                "headers are valid UTF-8 without NUL characters",
                field="headers",
            )
    return None


def problems_of(entries: Sequence[JournalEntry]) -> dict[int, StorageError]:
    """Return the problems among these entries, by position."""
    found = ((at, entry_problem(entry)) for at, entry in enumerate(entries))
    return {at: problem for at, problem in found if problem is not None}


def _is_storable(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
