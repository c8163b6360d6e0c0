"""The demo's figures are true, and its picture fits the terminal."""

import io

import pytest
from rich.console import Console

from arauto.cli.demo_view import Meter, Status, picture, plain_line
from arauto.client import Received
from arauto.model import JSON, TEXT, Message
from arauto.telemetry.metrics import HubGauges, Metrics

_STATUS = Status(
    elapsed_s=83.4,
    sessions=6,
    channels=30,
    published=612,
    delivered=1290,
    stored=600,
    published_per_s=7.5,
    delivered_per_s=10.83,
)


def message(payload: bytes, content_type: str = JSON) -> Received:
    return Received(
        Message(
            hub="shop",
            channel="stock:a-very-long-city-name:espresso",
            payload=payload,
            epoch=1,
            offset=1234,
            ts_ms=1_700_000_000_000,
            content_type=content_type,
        )
    )


def test_rates_are_those_of_the_last_seconds() -> None:
    metrics = Metrics()
    metrics.set_gauges(lambda: [HubGauges("shop", 30, 6, 9)])
    counters = metrics.hub("shop")
    meter = Meter(metrics, 100.0)
    meter.read(100.0)
    counters.publishes += 10
    counters.deliveries += 20
    counters.stored += 5
    status = meter.read(102.0)
    assert (status.sessions, status.channels) == (6, 30)
    assert (status.published, status.delivered, status.stored) == (10, 20, 5)
    assert (status.published_per_s, status.delivered_per_s) == (5.0, 10.0)
    assert status.elapsed_s == 2.0
    for second in range(103, 110):
        status = meter.read(float(second))
    assert status.published_per_s == 0.0
    assert status.published == 10


def test_a_pipe_gets_one_plain_line() -> None:
    assert plain_line(_STATUS) == (
        "01:23  6 sessions, 30 channels, 612 published (7.5/s), 1290 delivered (10.8/s), 600 stored"
    )


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_picture_is_never_wider_than_the_terminal(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    last = [
        message(b'{"level": 7, "name": "' + b"x" * 300 + b'"}'),
        message(b"two\nlines \x1b[2J", TEXT),
    ]
    console.print(picture(_STATUS, last, console))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b" not in out.getvalue()
    if width >= 80:
        assert len(lines) == 5, "one line per message, below the figures"
