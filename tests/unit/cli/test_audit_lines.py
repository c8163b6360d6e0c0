"""A line of the audit is one event: nothing in an event can look like another one."""

from arauto.cli.pipeline.audit import _line


def test_line_breaks_in_an_event_cannot_forge_another_line() -> None:
    forged = "x\n2026-11-16T13:11:29.073Z  message        shop stock:1 · root\u202e\x1b[2K"
    event = dict.fromkeys(("session", "channel", "user", "transport", "address", "detail"), forged)
    event |= {"node": "n1", "hub": "shop", "ts": "2026-11-16", "what": "refused"}
    line = _line({**event, "seq": 5}, str).plain
    assert len(line.splitlines()) == 1
    assert "\u202e" not in line
    assert "\x1b" not in line
    assert "\\n2026-11-16T13:11:29.073Z" in line
