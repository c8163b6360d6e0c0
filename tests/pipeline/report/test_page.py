"""The page: whole, safe, and readable without its pictures."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from arauto.pipeline.report.charts import Series, line_chart, ticks
from arauto.pipeline.report.markup import Markup, el
from arauto.pipeline.report.model import (
    ChannelRow,
    Gap,
    Point,
    Quality,
    Ranked,
    Report,
    Step,
    Totals,
)
from arauto.pipeline.report.page import render
from arauto.pipeline.report.words import amount, date_range, number, size, span
from tests.pipeline.report.samples import HOUR_MS, MONDAY_MS, sample_report

HOSTILE = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>&lt;"
VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Elements, texts and ids of a page; fails on what does not close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def empty_report() -> Report:
    return Report("", MONDAY_MS, MONDAY_MS + HOUR_MS, MONDAY_MS, "5m", Totals(), None)


def test_every_section_is_there_and_can_be_reached() -> None:
    page = Outline(render(sample_report()))
    ids = {value for name, value in page.attributes if name == "id"}
    links = {value for name, value in page.attributes if name == "href"}
    assert links == {f"#{key}" for key in ids if key}
    assert len(ids) == 9


def test_headlines_show_the_change_against_the_time_before() -> None:
    page = Outline(render(sample_report()))
    for said in ("Messages published", "10.1 M", "▲ 16%", "from 8.7 M", "▼ 26%", "as before"):
        assert said in page.text


def test_charts_have_names_and_their_numbers_as_tables() -> None:
    page = Outline(render(sample_report()))
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert len([label for label in labels if label and "over time" in label]) == 3
    assert page.count["details"] == 3
    # Each of 7 × 24 steps is a row behind each of the charts.
    assert page.count["tr"] > 3 * 7 * 24


def test_nothing_is_fetched_and_nothing_runs() -> None:
    text = render(sample_report())
    page = Outline(text)
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & set(page.count)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert "default-src &#x27;none&#x27;" in text
    assert not re.search(r"url\(|@import|https?:", text)


def test_hostile_names_are_text_everywhere() -> None:
    sample = sample_report(hub=HOSTILE)
    peak = dataclasses.replace(sample.hours[0], channel=HOSTILE)
    report = dataclasses.replace(
        sample,
        hours=(peak,),
        minutes=(peak,),
        channels=(ChannelRow(HOSTILE, 1, 1),),
        users=(Ranked(HOSTILE, 1),),
        errors=(Ranked(HOSTILE, 1),),
        rules=(dataclasses.replace(sample.rules[0], name=HOSTILE),),
        quality=Quality(1, 2, (Gap(HOSTILE, 1, 2),), 1, (Ranked(HOSTILE, 1),)),
    )
    page = Outline(render(report))
    assert not {"script", "img"} & set(page.count)
    assert page.text.count(HOSTILE) == 11


def test_names_cannot_turn_the_page_around_or_hide_in_it() -> None:
    text = render(
        dataclasses.replace(sample_report(), users=(Ranked("a\u202eb\u200bc\x1b[2K", 1),))
    )
    assert not set("\u202e\u200b\x1b") & set(text)
    assert "a\\u202eb\\u200bc\\x1b[2K" in text


def test_sums_of_data_quality_are_of_everything_also_where_lists_are_cut() -> None:
    cut = Quality(1_000, 500, (Gap("n1", 1, 20),), 70, (Ranked("torn", 30),))
    page = Outline(render(dataclasses.replace(sample_report(), quality=cut)))
    for said in (
        "1,000 rows of the journal are in the lake, 500 are missing.",
        "480 more are missing at other places.",
        "70 rows could not be read",
        "40 more are there for other reasons.",
    ):
        assert said in page.text
    whole = Outline(render(sample_report()))
    assert " more are " not in whole.text


def test_sessions_that_are_in_the_sums_alone_are_told() -> None:
    report = sample_report()
    listed = sum(report.starts.values())
    sums = dataclasses.replace(report.now, sessions_started=listed + 3)
    page = Outline(render(dataclasses.replace(report, now=sums)))
    assert "3 more are in the sums alone: the rows of users who were erased are gone." in page.text
    same = dataclasses.replace(report.now, sessions_started=listed)
    assert "in the sums alone" not in Outline(render(dataclasses.replace(report, now=same))).text


def test_an_empty_lake_gives_a_page_that_says_so() -> None:
    page = Outline(render(empty_report()))
    assert "Nothing happened in this time" in page.text
    assert page.text.count("Nothing is known of this time.") == 3
    assert "No rule fired." in page.text
    assert "All hubs" in page.text


def test_a_single_known_step_is_drawn() -> None:
    report = dataclasses.replace(
        empty_report(), points=(Point(MONDAY_MS, messages_in=5, mean_ms=3.0),)
    )
    assert Outline(render(report)).count["path"] > 0


@pytest.mark.parametrize(
    ("step", "step_ms", "count", "marks"),
    [
        ("5m", 300_000, 1, ["00:00"]),
        ("5m", 300_000, 12, ["00:00", "00:10", "00:20", "00:30", "00:40", "00:50"]),
        ("hour", HOUR_MS, 72, ["Mon 2 Nov", "Tue 3 Nov", "Wed 4 Nov"]),
        (
            "day",
            24 * HOUR_MS,
            16,
            ["2 Nov", "4 Nov", "6 Nov", "8 Nov", "10 Nov", "12 Nov", "14 Nov", "16 Nov"],
        ),
    ],
)
def test_the_axis_names_a_few_round_times(
    step: Step, step_ms: int, count: int, marks: list[str]
) -> None:
    points = tuple(Point(MONDAY_MS + i * step_ms, messages_in=1) for i in range(count))
    text = render(dataclasses.replace(empty_report(), step=step, points=points))
    axis = text.partition('<div class="axis">')[2].partition("</div>")[0]
    assert re.findall(r">([^<]+)</span>", axis) == marks


def test_a_line_is_broken_where_values_are_missing() -> None:
    broken = line_chart([Series("a", [1, None, 3], 1)], ["x", "y", "z"], [], "count", "name")
    whole = line_chart([Series("a", [1, 2, 3], 1)], ["x", "y", "z"], [], "count", "name")
    assert (broken.count("<path"), whole.count("<path")) == (2, 1)
    assert "<title>y\na: –</title>" in broken


def test_children_are_escaped_unless_they_are_markup() -> None:
    inner = el("b", "<i>")
    assert inner == "<b>&lt;i&gt;</b>"
    assert el("p", inner, "&", title='"') == '<p title="&quot;"><b>&lt;i&gt;</b>&amp;</p>'
    assert isinstance(inner, Markup)


@pytest.mark.parametrize(
    ("highest", "kind", "last", "count"),
    [(0, "count", 1, 2), (3, "count", 3, 4), (950, "count", 1_000, 3), (42_000, "bytes", 60_000, 4),
     (1_500_000, "ms", 1_800_000, 4), (0.4, "count", 1, 2), (10**9, "ms", 10**9, 3)],
)  # fmt: skip
def test_ticks_are_few_round_and_reach_the_top(
    highest: float, kind: str, last: float, count: int
) -> None:
    found = ticks(highest, kind)  # type: ignore[arg-type]
    assert found[0] == 0
    assert found[-1] >= highest
    assert (found[-1], len(found)) == (last, count)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (number(0), "0"),
        (number(999), "999"),
        (number(1_000), "1.0 k"),
        (number(999_960), "1.0 M"),
        (number(2_345_000_000_000), "2,345 bn"),
        (size(1_500), "1.5 kB"),
        (span(0.4), "0 ms"),
        (span(1_500), "1.5 s"),
        (span(59_960), "1 min"),
        (span(185_000), "3 min 5 s"),
        (span(3_599_800), "1 h"),
        (span(7_800_000), "2 h 10 min"),
        (span(273_600_000), "3 d 4 h"),
        (amount(None, "ms"), "–"),
        (amount(0, "ms"), "0"),
        (date_range(MONDAY_MS, MONDAY_MS + 24 * HOUR_MS), "2 November 2026"),
        (date_range(MONDAY_MS, MONDAY_MS + 48 * HOUR_MS), "2 November 2026 – 3 November 2026"),
        (
            date_range(MONDAY_MS, MONDAY_MS + HOUR_MS),
            "2 November 2026 00:00 – 2 November 2026 01:00",
        ),
    ],
)
def test_numbers_are_written_for_people(shown: str, said: str) -> None:
    assert shown == said
