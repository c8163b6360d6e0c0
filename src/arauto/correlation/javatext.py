"""How Java writes a double, which is how Spark shows a JSON number with a fraction as text."""

import math

__all__ = ["java_double"]


def java_double(value: float) -> str:
    """The shortest digits that read back as the same number: `1.5`, `1.0E7`, `1.0E-4`."""
    if not math.isfinite(value):
        # Jackson puts quotes around what JSON has no numbers for.
        return '"NaN"' if math.isnan(value) else ('"Infinity"' if value > 0 else '"-Infinity"')
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    mantissa, _, exponent_text = f"{abs(value):.16e}".partition("e")
    for digits in range(17):
        shorter = f"{abs(value):.{digits}e}"
        if float(shorter) == abs(value):
            mantissa, _, exponent_text = shorter.partition("e")
            break
    exponent, figures = int(exponent_text), mantissa.replace(".", "")
    if not -3 <= exponent < 7:
        return f"{sign}{figures[0]}.{figures[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{figures}"
    whole, rest = figures[: exponent + 1].ljust(exponent + 1, "0"), figures[exponent + 1 :]
    return f"{sign}{whole}.{rest or '0'}"
