"""JSON Pointers (RFC 6901): text to segments and back. Pure.

Friendly pointers may leave out the leading slash: `a/b/0` is `/a/b/0`. The empty pointer is the whole
document in both modes.
"""

import re
from collections.abc import Sequence

from arauto.errors import ArautoError, Code

__all__ = ["END", "array_index", "format_pointer", "is_index", "parse_pointer"]

END = "-"
"""The segment that names the place after an array's last element."""

_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"(?:0|[1-9][0-9]*)\Z")
#: More digits than any array has elements; keeps int() away from digit bombs.
_INDEX_DIGITS_MAX = 9


def parse_pointer(text: str, *, strict: bool, segments_max: int, field: str) -> list[str]:
    """Split a pointer into its segments, unescaped.

    Raises:
        ArautoError: BAD_OPERATION if it is malformed, DOCUMENT_TOO_LARGE if it leads too deep.
    """
    if not text:
        return []
    if text[0] != "/":
        if strict:
            raise ArautoError(
                Code.BAD_OPERATION, "a JSON Pointer is empty or starts with /", field=field
            )
        text = "/" + text
    if text.count("/") > segments_max:
        raise ArautoError(
            Code.DOCUMENT_TOO_LARGE,
            f"a document is at most {segments_max} levels deep",
            field=field,
        )
    segments = text[1:].split("/")
    if "~" in text:
        if _BAD_ESCAPE.search(text):
            raise ArautoError(
                Code.BAD_OPERATION, "in a JSON Pointer ~ is followed by 0 or 1", field=field
            )
        # RFC 6901 §4: ~1 first, so that ~01 becomes ~1 and not /.
        segments = [segment.replace("~1", "/").replace("~0", "~") for segment in segments]
    return segments


def format_pointer(segments: Sequence[str]) -> str:
    """Join segments to a pointer, with escapes and the leading slash."""
    text = "/".join(segments)
    if "~" in text or text.count("/") >= len(segments) > 0:
        text = "/".join(segment.replace("~", "~0").replace("/", "~1") for segment in segments)
    return "/" + text if segments else ""


def is_index(segment: str) -> bool:
    """Whether a segment can only mean an array's element, or the place after the last."""
    return segment == END or _INDEX.match(segment) is not None


def array_index(segment: str, array_len: int) -> int | None:
    """Return the index a segment names in an array of this length; `-` names the length.

    None if it is not an index at all. The result may lie far past the end, never before the start.
    """
    if segment == END:
        return array_len
    if _INDEX.match(segment) is None:
        return None
    return int(segment) if len(segment) <= _INDEX_DIGITS_MAX else 10**_INDEX_DIGITS_MAX
