"""Disks of a test's own: small ones that fill up, and ones that stop taking writes."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["Disk", "ext4_disk", "small_disk"]


class Disk:
    """A mounted file system."""

    def __init__(self, path: Path, options: list[str]) -> None:
        self.path = path
        self._options = options
        self.data_dir = path / "data"
        self._ballast = path / "ballast"

    def load_ballast(self, size_bytes: int) -> None:
        """Take space away that `drop_ballast` gives back."""
        self._ballast.write_bytes(bytes(size_bytes))

    def drop_ballast(self) -> None:
        self._ballast.unlink()

    def forbid_writing(self) -> None:
        """Refuse every change of the database and of the directory's entries, as a read-only disk does.

        The flag also stops files that are open already. The shared-memory index is left alone: on a
        disk that goes read-only its pages stay in memory, while the flag would forbid even that.
        """
        # The directory is what tells why a write failed, so it is closed first and opened last.
        _run("chattr", "+i", str(self.data_dir))
        _run("chattr", "+i", *self._files())

    def allow_writing(self) -> None:
        _run("chattr", "-i", *self._files())
        _run("chattr", "-i", str(self.data_dir))

    def _files(self) -> list[str]:
        names = [self.data_dir / name for name in ("arauto.db", "arauto.db-wal", "arauto.mark")]
        return [str(path) for path in names if path.exists()]

    def break_down(self) -> None:
        """Let the file system find itself damaged: it gives up and takes no more writes."""
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        device = next(mount[0] for mount in mounts if mount[1] == str(self.path))
        (Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error").write_text("test")

    def repair(self) -> None:
        """Check and mount it again, as an operator would; nobody may be using it."""
        _run("umount", str(self.path))
        _succeeds("e2fsck", "-f", "-y", self._options[-1])  # 1 means "mended"
        _run("mount", *self._options, str(self.path))

    def freeze(self) -> None:
        """Let every write hang until `thaw`."""
        _run("fsfreeze", "--freeze", str(self.path))

    def thaw(self) -> None:
        _run("fsfreeze", "--unfreeze", str(self.path))


@contextmanager
def small_disk(place: Path, size_bytes: int) -> Iterator[Disk]:
    """A disk in memory, of exactly this size."""
    options = ["-t", "tmpfs", "-o", f"size={size_bytes}", "arauto-test"]
    with _mounted(place, options, "a full disk; mounting a small tmpfs") as disk:
        yield disk


@contextmanager
def ext4_disk(place: Path, size_bytes: int) -> Iterator[Disk]:
    """A real file system in a file."""
    image = place / "image"
    image.write_bytes(bytes(size_bytes))
    if not _succeeds("mkfs.ext4", "-q", str(image)):
        pytest.skip("NOT CHECKED: a disk that stops taking writes; it needs mkfs.ext4")
    options = ["-o", "loop,errors=remount-ro", str(image)]
    with _mounted(place, options, "a disk that stops taking writes; a loop device") as disk:
        yield disk


@contextmanager
def _mounted(place: Path, options: list[str], what: str) -> Iterator[Disk]:
    path = place / "disk"
    path.mkdir()
    if os.geteuid() != 0 or not _succeeds("mount", *options, str(path)):
        pytest.skip(f"NOT CHECKED: {what} needs root")
    try:
        yield Disk(path, options)
    finally:
        _run("umount", "-l", str(path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
