"""Charts as inline SVG, without scripts. Pure.

The drawing stretches to the width there is; labels are HTML beside it, so that they stay readable on a
phone. Each step carries its numbers as a title, which browsers show under the pointer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from arauto.pipeline.report.markup import Markup, el, joined
from arauto.pipeline.report.words import Kind, amount

__all__ = ["Series", "heat_map", "line_chart", "spark_line", "ticks"]

_WIDTH, _HEIGHT = 1000.0, 240.0
_LEVELS = 6
_TICKS_MAX = 4
_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_CLOCK_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_SECOND * part for part in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * part for part in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * part for part in (1, 2, 3, 6, 12, 24)),
)


@dataclass(frozen=True, slots=True)
class Series:
    """A line: one value for each step, None where there is none."""

    name: str
    values: Sequence[float | None]
    colour: int
    """1 to 4, see the style."""
    filled: bool = False


def ticks(highest: float, kind: Kind) -> list[float]:
    """A few round numbers from 0 to at least `highest`; round for a clock if they are times."""
    if highest <= 0:
        return [0.0, 1.0]
    least = highest / _TICKS_MAX
    if kind == "ms" and least <= _CLOCK_MS[-1]:
        step = next(float(step) for step in _CLOCK_MS if step >= least)
    else:
        unit = 10.0 ** floor(log10(least))
        step = next(part * unit for part in (1.0, 2.0, 5.0, 10.0) if part * unit >= least)
    # Nobody sees half a message.
    step = max(1.0, step)
    return [step * i for i in range(ceil(highest / step) + 1)]


def line_chart(
    series: Sequence[Series],
    labels: Sequence[str],
    marks: Sequence[tuple[int, str]],
    kind: Kind,
    name: str,
) -> Markup:
    """Lines over time.

    Args:
        series: the lines.
        labels: what each step is called, in full.
        marks: (step, short text) under the axis.
        kind: what values are.
        name: what the chart is, for those who do not see it.
    """
    known = [value for one in series for value in one.values if value is not None]
    scale = ticks(max(known, default=0.0), kind)
    top, count = scale[-1], max(1, len(labels))

    def x(step: int) -> float:
        return _WIDTH * (step + 0.5) / count

    def y(value: float) -> float:
        return _HEIGHT * (1 - value / top)

    grid = [el("line", x1=0, x2=_WIDTH, y1=_r(y(t)), y2=_r(y(t)), class_="grid") for t in scale]
    # Filled ones first: they must not hide lines.
    ordered = sorted(series, key=lambda one: not one.filled)
    shapes = [shape for one in ordered for shape in _shapes(one, x, y)]
    width = _r(_WIDTH / count)
    hovers = [
        el(
            "rect",
            el("title", _told(label, series, step, kind)),
            x=_r(x(step) - _WIDTH / count / 2),
            y=0,
            width=width,
            height=_HEIGHT,
            class_="hover",
        )
        for step, label in enumerate(labels)
    ]
    drawing = el(
        "svg",
        *grid,
        *shapes,
        *hovers,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=name,
    )
    left = [
        el("span", amount(t, kind), class_="y", style=f"bottom:{_r(100 * t / top)}%") for t in scale
    ]
    below = [
        el("span", text, class_="x", style=f"left:{_r(100 * (step + 0.5) / count)}%")
        for step, text in marks
    ]
    plot = el("div", drawing, *left, class_="plot")
    return joined(legend(series), el("div", plot, el("div", *below, class_="axis"), class_="chart"))


def legend(series: Sequence[Series]) -> Markup:
    """The names of the lines; for one line its title says it."""
    if len(series) < 2:
        return Markup("")
    return el(
        "ul", *(el("li", one.name, class_=f"c{one.colour}") for one in series), class_="legend"
    )


def spark_line(values: Sequence[float | None]) -> Markup:
    """A small picture of how a number went; says nothing to those who do not see it."""
    known = [value or 0.0 for value in values]
    if len(known) < 2 or max(known) <= 0:
        return Markup("")
    top = max(known)
    points = [
        f"{_r(100 * i / (len(known) - 1))} {_r(28 - 26 * value / top)}"
        for i, value in enumerate(known)
    ]
    line = "M" + "L".join(points)
    return el(
        "svg",
        el("path", d=f"{line}L100 30L0 30Z", class_="area c1"),
        el("path", d=line, class_="line c1"),
        viewBox="0 0 100 30",
        preserveAspectRatio="none",
        class_="spark",
        aria_hidden="true",
    )


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[int]], caption: str
) -> Markup:
    """A table whose cells are the darker the more they say."""
    top = max((value for row in values for value in row), default=0)

    def cell(value: int) -> Markup:
        level = 0 if top == 0 or value == 0 else 1 + min(_LEVELS - 1, value * _LEVELS // (top + 1))
        return el("td", el("span", f"{value:,}"), class_=f"h{level}", title=f"{value:,}")

    head = el("tr", el("td"), *(el("th", name, scope="col") for name in columns))
    body = [
        el("tr", el("th", name, scope="row"), *(cell(value) for value in row))
        for name, row in zip(rows, values, strict=True)
    ]
    return el(
        "div",
        el("table", el("caption", caption), el("thead", head), el("tbody", *body), class_="heat"),
        class_="wide",
        tabindex="0",
    )


def _shapes(one: Series, x: Callable[[int], float], y: Callable[[float], float]) -> list[Markup]:
    """A line's pieces; it is broken where values are missing."""
    shapes = []
    for run in _runs(one.values):
        if len(run) == 1:
            # A lone value has no line: it becomes a dash as wide as its step.
            step, value = run[0]
            half = (x(1) - x(0)) * 0.35
            dash = f"M{_r(x(step) - half)} {_r(y(value))}L{_r(x(step) + half)} {_r(y(value))}"
            shapes.append(el("path", d=dash, class_=f"line c{one.colour}"))
            continue
        line = "M" + "L".join(f"{_r(x(step))} {_r(y(value))}" for step, value in run)
        if one.filled:
            first, last = _r(x(run[0][0])), _r(x(run[-1][0]))
            area = f"{line}L{last} {_HEIGHT:g}L{first} {_HEIGHT:g}Z"
            shapes.append(el("path", d=area, class_=f"area c{one.colour}"))
        shapes.append(el("path", d=line, class_=f"line c{one.colour}"))
    return shapes


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = []
    before = -2
    for step, value in enumerate(values):
        if value is None:
            continue
        if step != before + 1:
            runs.append([])
        runs[-1].append((step, value))
        before = step
    return runs


def _told(label: str, series: Sequence[Series], step: int, kind: Kind) -> str:
    return label + "".join(f"\n{one.name}: {amount(one.values[step], kind)}" for one in series)


def _r(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
