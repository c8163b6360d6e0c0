"""Which characters a name may hold. Pure, and without tables of its own: `unicodedata` has them.

A name is compared letter by letter, so whatever does not show could make two names that look the same. What
is allowed is what RFC 8264 (PRECIS) allows in its FreeformClass, without its spaces:

- visible characters that this version of Unicode assigns: letters, marks, digits, punctuation, symbols;
- never white space, controls, format characters (directions, zero widths, soft hyphens, tags), surrogates,
  private use, and what is not assigned;
- nor what is assigned and yet not drawn: fillers, joiners of old scripts, variation selectors, blanks;
  nor old Hangul jamo;
- a joiner (ZWJ, ZWNJ) only between letters where it changes what is drawn: behind a virama, and ZWNJ between
  letters of the Arabic script that would join. This is RFC 5892, appendix A, for that script.

Stricter than PRECIS: a joiner never ends a name, and blank symbols are refused, as are marks of old scripts
that have no shape. Characters that look like others (Cyrillic and Latin a) and upper and lower case are
different, here as there.

An older Python knows fewer characters and refuses the newer ones. It never reads a name otherwise than a
newer one does, since the normal form of what is assigned never changes.
"""

import re
import unicodedata

__all__ = ["hidden_in"]

#: Printable to Python, and yet nothing shows: what Unicode calls default-ignorable; blank symbols; and of
#: old scripts the filler (Khitan) and the joiners (Tifinagh, Brahmi) that are no part of a letter;
#: then the jamo that normal form C left over, as in RFC 8264.
_NOT_DRAWN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u2d7f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffc"
    "\U0001107f\U00013441\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff"
    "\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]"
)
_JOINERS = re.compile("[\u200c\u200d]")

_JOINS_BOTH = (
    "\u0620\u0626\u0628\u062a-\u062e\u0633-\u063f\u0641-\u0647\u0649\u064a\u066e\u066f\u0678-\u0687"
    "\u069a-\u06bf\u06c1\u06c2\u06cc\u06ce\u06d0\u06d1\u06fa-\u06fc\u06ff"
)
_JOINS_BEFORE = (
    "\u0622-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0673\u0675-\u0677\u0688-\u0699\u06c0"
    "\u06c3-\u06cb\u06cd\u06cf\u06d2\u06d3\u06d5\u06ee\u06ef"
)
_MARKS = "[\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]*"
#: What stands before a ZWNJ that may stand there, and the ZWNJ.
_JOINED = re.compile(f"([{_JOINS_BOTH}]{_MARKS}+)\u200c(?={_MARKS}+[{_JOINS_BOTH}{_JOINS_BEFORE}])")
_VIRAMA = 9


def hidden_in(name: str) -> str:
    """Return the first character that a name may not hold; "" if there is none."""
    if name.isprintable() and " " not in name:
        found = None if name.isascii() else _NOT_DRAWN.search(name)
        return found[0] if found else ""
    rest = _JOINED.sub(r"\1", name)
    joined = {at.start() for at in _JOINERS.finditer(rest) if _is_joiner(rest, at.start())}
    rest = "".join(char for at, char in enumerate(rest) if at not in joined) if joined else rest
    if rest.isprintable() and " " not in rest:
        found = _NOT_DRAWN.search(rest)
        return found[0] if found else ""
    return next(
        char for char in rest if char == " " or not char.isprintable() or _NOT_DRAWN.match(char)
    )


def _is_joiner(name: str, at: int) -> bool:
    """Whether one that is left changes what is drawn: behind a virama, and before a letter."""
    return (
        0 < at < len(name) - 1
        and unicodedata.combining(name[at - 1]) == _VIRAMA
        and unicodedata.category(name[at + 1]) == "Lo"
    )
