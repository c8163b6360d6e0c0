"""A terminal that gets another width has wrapped the demo's picture anew: it is drawn from the top again."""

import asyncio
import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from arauto.cli import demo_show
from arauto.cli.demo_ports import Ports
from arauto.cli.demo_show import Show
from arauto.cli.demo_view import Status

_STATUS = Status(
    elapsed_s=1,
    sessions=1,
    channels=1,
    published=1,
    delivered=1,
    stored=1,
    published_per_s=1,
    delivered_per_s=1,
)


async def test_the_demo_begins_its_picture_anew_when_the_terminal_is_resized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=30, force_terminal=True, color_system=None)
    widths = iter((80, 80, 60, 60))

    class Resizing:
        def __init__(self, *_: Any) -> None: ...

        def read(self, now_s: float) -> Status:
            width = next(widths, None)
            if width is None:
                raise asyncio.CancelledError
            console.width = width
            return _STATUS

    monkeypatch.setattr(demo_show, "Meter", Resizing)
    monkeypatch.setattr(demo_show, "_PICTURES_PER_S", 1e9)
    monkeypatch.setattr(demo_show, "_instructions", lambda node, shops: iter(["what to try"]))
    show = Show(
        console, "data", ports=Ports(None, None), shops=True, seed=1, pipeline=False, setup=""
    )
    node: Any = SimpleNamespace(metrics=None, clock=SimpleNamespace(monotonic_s=lambda: 0.0))
    with pytest.raises(asyncio.CancelledError):
        await show._show_on(node)
    before, _, after = out.getvalue().partition("\x1b[2J")
    assert "what to try" not in before
    assert after.index("what to try") < after.index("1 sessions")
    assert "\x1b[2J" not in after
