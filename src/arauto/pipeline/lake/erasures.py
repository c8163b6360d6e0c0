"""Which users were erased when: a small list in the lake, for those who keep what they read elsewhere."""

import os
from pathlib import Path

import msgspec

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.log import sync

__all__ = ["Erasures", "begin_anew", "note_erasure", "read_erasures"]

_NAME = "_erasures.json"
#: Rules that were behind by more than this when a user was erased do not pass over the user's rows.
_KEPT_MS = 7 * 86_400_000


class Erasures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The list. As long as there are hubs, and users of the last seven days."""

    hubs: dict[str, int] = {}
    """When somebody of a hub was erased last, in ms since 1970."""
    users: tuple[tuple[str, str, int], ...] = ()
    """(hub, user, when)."""


def read_erasures(root: Path) -> Erasures:
    """The list of a lake.

    Raises:
        ArautoError: LAKE_CORRUPT.
    """
    try:
        return msgspec.json.decode((root / _NAME).read_bytes(), type=Erasures)
    except FileNotFoundError:
        return Erasures()
    except (OSError, msgspec.DecodeError) as error:
        raise ArautoError(Code.LAKE_CORRUPT, f"{root / _NAME}: {error}") from error


def begin_anew(root: Path, hub: str, now_ms: int) -> None:
    """Let the rules of a hub begin anew. Only for whoever is the only one to replace files of this lake."""
    known = read_erasures(root)
    _write(root, Erasures(hubs=known.hubs | {hub: _later(known, hub, now_ms)}, users=known.users))


def note_erasure(root: Path, hub: str, user: str, now_ms: int) -> None:
    """Add to the list. Only for whoever is the only one to replace files of this lake."""
    known = read_erasures(root)
    kept = [
        each
        for each in known.users
        if each[2] > now_ms - _KEPT_MS and (each[0], each[1]) != (hub, user)
    ]
    following = Erasures(
        hubs=known.hubs | {hub: _later(known, hub, now_ms)}, users=(*kept, (hub, user, now_ms))
    )
    _write(root, following)


def _later(known: Erasures, hub: str, now_ms: int) -> int:
    return max(now_ms, known.hubs.get(hub, 0) + 1)


def _write(root: Path, following: Erasures) -> None:
    root.mkdir(parents=True, exist_ok=True)
    written = root / f".{_NAME}"
    with written.open("wb") as file:
        file.write(msgspec.json.encode(following))
        file.flush()
        os.fsync(file.fileno())
    written.rename(root / _NAME)
    sync(root)
