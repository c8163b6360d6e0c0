"""A hub that takes no roll-ups is told of, and does not fill the log."""

import structlog

from arauto.pipeline.rollup.refused import Refused

HOUR_MS = 3_600_000


def test_a_refusal_is_told_once_an_hour_and_when_its_reason_changes() -> None:
    refused = Refused()
    with structlog.testing.capture_logs() as logs:
        for now_ms in range(0, HOUR_MS, 10_000):
            refused.tell({"shop": "full", "mall": "full"}, now_ms)
        refused.tell({"shop": "closed"}, HOUR_MS - 1)
        assert [(line["hub"], line["error"]) for line in logs] == [
            ("shop", "full"),
            ("mall", "full"),
            ("shop", "closed"),
        ]
        refused.tell({"shop": "full"}, HOUR_MS)
    assert len(logs) == 4
