"""Patterns with wildcards as regular expressions, the same ones for Java and Python. Pure.

What they look at is what clients send. `.*a.*a.*b` tries every combination of places before it gives up,
a power of the text's length, so each run between two stars is atomic here: once the first place of a
piece is found, no later one is tried. That is exact: what follows fits after the first place if it fits
after any. The costs are those of the pattern's length times the text's at most.
"""

__all__ = ["channel_regex", "like_regex"]


def like_regex(pattern: str, end: str) -> str:
    """A pattern of `like`: `%` is any run of characters, `_` one character.

    Args:
        pattern: the pattern.
        end: how the dialect writes the very end: `\\z` in Java, `\\Z` in Python.
    """
    return _regex(pattern.split("%"), {"_": "."}, end)


def channel_regex(pattern: str, end: str) -> str:
    """A pattern of channels: `*` is any run of characters, `#` one whole segment.

    `names.check_pattern` sees to it that a colon or nothing stands beside `#`, so a segment is taken
    whole, and the first place of a piece is also the one that ends first.

    Args:
        pattern: the pattern.
        end: how the dialect writes the very end: `\\z` in Java, `\\Z` in Python.
    """
    return _regex(pattern.split("*"), {"#": "[^:]++"}, end)


def _regex(pieces: list[str], wild: dict[str, str], end: str) -> str:
    head, *rest = ("".join(wild.get(char) or _escaped(char) for char in piece) for piece in pieces)
    if not rest:
        return rf"(?s)\A{head}{end}"
    *inner, tail = rest
    runs = "".join(f"(?>.*?{piece})" for piece in inner if piece)
    # The last piece stands at the end wherever else it may be; it begins after the others at the earliest.
    return rf"(?s)\A{head}{runs}.*{tail}{end}"


def _escaped(char: str) -> str:
    # No sign beyond ASCII means anything in either dialect, and `\x` has two digits in both.
    return char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}"
