"""How far a replay has come, in a file of the lake that is always whole: `_replays/<id>.json`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from arauto.errors import ArautoError, Code
from arauto.names import check_id
from arauto.pipeline.lake.alone import only_one_in
from arauto.pipeline.lake.log import sync
from arauto.pipeline.replay.spec import Past, ReplaySpec, check_spec

__all__ = ["Progress", "ProgressFile", "open_progress"]


class Progress(msgspec.Struct, kw_only=True, rename="camel"):
    """A replay and its place."""

    spec: ReplaySpec
    place: tuple[int, str, int] | None = None
    """(ts_ms, node, seq) of the last message that is done; None = none yet."""
    published: int = 0
    repeated: int = 0
    """Had been published before a crash already."""
    refused: int = 0
    saved_ms: int = 0
    """No message after `place` was published before this time, by any run; 0 = there was no run yet."""
    done: bool = False

    def move_to(self, past: Past) -> None:
        self.place = past.place

    @property
    def handled(self) -> int:
        """Messages that need no more work."""
        return self.published + self.repeated + self.refused


class ProgressFile:
    """One replay's file.

    Args:
        lake_dir: the lake's directory.
        replay_id: the replay.
    """

    def __init__(self, lake_dir: Path, replay_id: str) -> None:
        check_id(replay_id, "id")
        self._id = replay_id
        self._directory = lake_dir / "_replays"
        self.path = self._directory / f"{replay_id}.json"

    def exists(self) -> bool:
        return self.path.exists()

    def load(self) -> Progress:
        """What was saved last.

        Raises:
            ArautoError: NOT_FOUND, LAKE_CORRUPT.
        """
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Progress)
        except FileNotFoundError:
            raise ArautoError(
                Code.NOT_FOUND, f"there is no replay {self._id} in this lake", field="resume"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise ArautoError(Code.LAKE_CORRUPT, f"{self.path}: {error}") from error

    def save(self, progress: Progress) -> None:
        """Replace what was saved, whole or not at all."""
        self._directory.mkdir(parents=True, exist_ok=True)
        written = self._directory / f".{self._id}-{os.getpid()}"
        written.write_bytes(msgspec.json.encode(progress))
        sync(written)
        written.rename(self.path)
        sync(self._directory)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While open, nobody else runs this replay.

        Raises:
            ArautoError: LAKE_BUSY; BAD_CONFIG, the directory cannot be written to.
        """
        busy = ArautoError(Code.LAKE_BUSY, f"replay {self._id} is running already")
        with only_one_in(self._directory, f".{self._id}.lock", busy):
            yield


@contextmanager
def open_progress(
    lake_dir: Path, spec: ReplaySpec | None, resume: str = ""
) -> Iterator[tuple[ProgressFile, Progress]]:
    """The progress of a new replay, or of one to take up; nobody else runs it meanwhile.

    Raises:
        ArautoError: NOT_FOUND, CONFLICT (an id that is taken, or a replay that is done), LAKE_BUSY, or
            what is wrong with the spec.
    """
    file = ProgressFile(lake_dir, check_spec(spec).id if spec is not None else resume)
    if spec is None:
        # Says so if there is none, and leaves no lock of it behind.
        file.load()
    with file.held():
        if spec is None:
            progress = file.load()
            if progress.done:
                raise ArautoError(Code.CONFLICT, f"replay {resume} is done", field="resume")
        elif file.exists():
            raise ArautoError(
                Code.CONFLICT,
                f"there is a replay {spec.id} already; resume it, or take another id",
                field="id",
            )
        else:
            progress = Progress(spec=spec)
        yield file, progress
