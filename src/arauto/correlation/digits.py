"""How a number of a payload looks as text."""

import math
from decimal import Decimal

__all__ = ["digits_of"]

#: Elsewhere there is an exponent, since a few characters of JSON could stand for hundreds of zeros.
_PLAIN = range(-6, 21)


def digits_of(value: float) -> str | None:
    """The shortest digits that read back as the same number, as JavaScript shows it; None if not finite."""
    if not math.isfinite(value):
        return None
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if exponent and int(exponent) not in _PLAIN:
        return f"{mantissa}e{int(exponent):+d}"
    text = (format(Decimal(text), "f") if exponent else text).removesuffix(".0")
    return "0" if text == "-0" else text
