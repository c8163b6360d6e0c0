"""Text from elsewhere made safe to show: what a stranger published drives no terminal and no page. Pure."""

import re

__all__ = ["one_line", "printable"]

#: Controls (an escape sequence starts with one), and what turns text around or hides it.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return the text with every character that acts instead of showing written as an escape.

    Line breaks and tabs stay; a carriage return does not, since it overwrites what stands before it.
    """
    return _CONTROLS.sub(_escaped, text)


def one_line(text: str) -> str:
    """The same for text that shares a line with ours: line breaks and tabs are written as escapes, too.

    Else whoever chooses the text could add a line that looks like one of ours.
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
