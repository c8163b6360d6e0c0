"""What the demo shows of the data pipeline: its state, the last roll-up, the last alerts."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from arauto.cli.messages import clock_time
from arauto.client import Received
from arauto.demo.rules import ALERTS

__all__ = ["Results"]

_ROLLUP = "analytics:rollup"
_ALERTS_LEN = 4


class Results:
    """Collects the pipeline's messages out of all others."""

    def __init__(self) -> None:
        self._alerts: deque[Received] = deque(maxlen=_ALERTS_LEN)
        self._alert_count = 0
        self._told = ("", 0, "")
        self._rollup: dict[str, Any] = {}

    def take(self, message: Received) -> bool:
        """Whether the message is one of the pipeline's."""
        if message.channel.startswith(ALERTS):
            self._alerts.append(message)
            self._alert_count += 1
            return True
        if message.channel != _ROLLUP:
            return False
        row = msgspec.json.decode(message.payload)
        if row.get("period") == "5m" and row.get("startMs", 0) >= self._rollup.get("startMs", 0):
            self._rollup = row
        return True

    def picture(self, state: str, console: Console) -> RenderableType:
        """The state and what came, below the node's picture."""
        if not state:
            return Text()
        shown = Table.grid(padding=(0, 1), expand=True)
        shown.add_column(style="dim", no_wrap=True)
        shown.add_column(style="yellow", no_wrap=True, max_width=max(16, console.width // 3))
        shown.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for alert in self._alerts:
            shown.add_row(
                clock_time(alert.ts_ms), alert.channel, alert.payload.decode(errors="replace")
            )
        parts: list[RenderableType] = [
            Text(),
            Rule(
                Text(f"data pipeline {self._state(state)}", style="dim"), style="dim", align="left"
            ),
        ]
        if self._rollup:
            parts.append(Text(self._rollup_line()))
        return Group(*parts, shown)

    def news(self, state: str) -> Iterator[str]:
        """Lines about what is new since the last call, for a file or a pipe."""
        now = (self._state(state), self._alert_count, self._rollup_line())
        before, self._told = self._told, now
        if state and now[0] != before[0]:
            yield f"pipeline {now[0]}"
        if now[2] != before[2]:
            yield f"pipeline {now[2]}"
        new = min(now[1] - before[1], len(self._alerts))
        for alert in list(self._alerts)[len(self._alerts) - new :]:
            yield f"pipeline alert {alert.channel} {alert.payload.decode(errors='replace')}"

    def _state(self, state: str) -> str:
        return "runs" if state and (self._rollup or self._alert_count) else state

    def _rollup_line(self) -> str:
        if not self._rollup:
            return ""
        values = self._rollup["values"]
        start = clock_time(self._rollup["startMs"])[:5]
        return (
            f"roll-up since {start}: {values.get('published', 0):,} messages, "
            f"{values.get('publishedBytes', 0) / 1024:,.0f} KiB, "
            f"{values.get('distinctChannels', 0):,} channels, {values.get('sessionsStarted', 0):,} sessions"
        )
