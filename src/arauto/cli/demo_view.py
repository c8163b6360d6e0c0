"""What `arauto demo` shows while it runs: a calm picture on a terminal, a line now and then elsewhere."""

from collections import deque
from collections.abc import Iterable

import msgspec
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from arauto.cli.messages import clock_time, describe_payload
from arauto.client import Received
from arauto.telemetry.metrics import Metrics

__all__ = ["Meter", "Status", "picture", "plain_line"]

_WINDOW_S = 5.0


class Status(msgspec.Struct, frozen=True):
    """How the node is doing."""

    elapsed_s: float
    sessions: int
    channels: int
    published: int
    delivered: int
    stored: int
    published_per_s: float
    delivered_per_s: float


class Meter:
    """Reads a node's counters and makes rates of them."""

    def __init__(self, metrics: Metrics, now_s: float) -> None:
        self._metrics = metrics
        self._started_s = now_s
        self._samples: deque[tuple[float, int, int]] = deque()

    def read(self, now_s: float) -> Status:
        """The counters now, and the rates over the last seconds."""
        total, gauges = self._metrics.total(), self._metrics.gauges()
        samples = self._samples
        samples.append((now_s, total.publishes, total.deliveries))
        while samples[0][0] < now_s - _WINDOW_S:
            samples.popleft()
        then_s, published, delivered = samples[0]
        span_s = max(now_s - then_s, 0.001)
        return Status(
            elapsed_s=now_s - self._started_s,
            sessions=gauges.sessions,
            channels=gauges.channels,
            published=total.publishes,
            delivered=total.deliveries,
            stored=total.stored,
            published_per_s=(total.publishes - published) / span_s,
            delivered_per_s=(total.deliveries - delivered) / span_s,
        )


def plain_line(status: Status) -> str:
    """One line for a file or a pipe."""
    return (
        f"{_duration(status.elapsed_s)}  {status.sessions} sessions, {status.channels} channels, "
        f"{status.published} published ({status.published_per_s:.1f}/s), "
        f"{status.delivered} delivered ({status.delivered_per_s:.1f}/s), {status.stored} stored"
    )


def picture(status: Status, messages: Iterable[Received], console: Console) -> RenderableType:
    """The figures, and the last messages below them; no wider than the terminal."""
    figures = Table.grid(padding=(0, 3))
    cells = [
        _figure("sessions", f"{status.sessions}"),
        _figure("channels", f"{status.channels}"),
        _figure("published", f"{status.published_per_s:.1f}/s"),
        _figure("delivered", f"{status.delivered_per_s:.1f}/s"),
        _figure("stored", f"{status.stored}"),
    ]
    figures.add_row(*cells)
    last = Table.grid(padding=(0, 1), expand=True)
    last.add_column(style="dim", no_wrap=True)
    last.add_column(style="cyan", no_wrap=True, max_width=max(16, console.width // 3))
    last.add_column(style="dim", no_wrap=True, justify="right")
    last.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for message in messages:
        offset = f"#{message.serial.offset}"
        payload = describe_payload(message)
        if "\n" in payload.plain:
            payload = Text(payload.plain.replace("\n", "⏎"))
        last.add_row(clock_time(message.ts_ms), message.channel, offset, payload)
    rule = Rule(Text(_duration(status.elapsed_s), style="dim"), style="dim", align="right")
    return Group(rule, figures, Text(), last)


def _figure(name: str, value: str) -> Text:
    return Text.assemble((value, "bold"), f" {name}")


def _duration(elapsed_s: float) -> str:
    minutes, seconds = divmod(int(elapsed_s), 60)
    return f"{minutes:02}:{seconds:02}"
