"""`~` at the beginning of a path, which shells write out and nobody else does."""

from pathlib import Path

__all__ = ["at_home"]


def at_home(path: str | Path) -> Path:
    """The path with `~` or `~name` written out; as it is if there is no such home directory."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
