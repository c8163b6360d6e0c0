"""Lets a checkpoint be moved to another directory.

Spark writes down with its full path where the schema of a stateful operator lies, and fails after a lake was
moved, or mounted elsewhere. Only that path is put right, and only if it leads nowhere any more.
"""

import re
from pathlib import Path

__all__ = ["settle"]

_SCHEMA = re.compile(r'"file:(?://)?(?P<old>/[^"]*)/state/(?P<rest>[0-9]+/_stateSchema/[^"]+)"')


def settle(checkpoint: Path) -> int:
    """Put paths right in a checkpoint; in how many files."""
    checkpoint = checkpoint.resolve()
    changed = 0
    for file in sorted(checkpoint.glob("state/*/_metadata/v2/[0-9]*")):
        text = file.read_text(encoding="utf-8")
        right = _SCHEMA.sub(lambda found: _path(checkpoint, found), text)
        if right != text:
            written = file.with_name(f".{file.name}.moved")
            written.write_text(right, encoding="utf-8")
            # The sum of the old text first: a file without one is not checked.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            written.rename(file)
            changed += 1
    return changed


def _path(checkpoint: Path, found: "re.Match[str]") -> str:
    rest = f"state/{found['rest']}"
    here = checkpoint / rest
    if Path(found["old"], rest).exists() or not here.exists():
        return found[0]
    return f'"file:{here}"'
