"""Which hubs the node refuses roll-ups of, told once and not every few seconds."""

from collections.abc import Mapping

import structlog

__all__ = ["Refused"]

_log = structlog.get_logger(__name__)

_AGAIN_MS = 3_600_000


class Refused:
    """What was told of each hub."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], int] = {}
        """(hub, why) to when."""

    def tell(self, refused: Mapping[str, str], now_ms: int) -> None:
        """Log why hubs were refused, each reason once an hour."""
        self._told = {key: at for key, at in self._told.items() if at > now_ms - _AGAIN_MS}
        for hub, why in refused.items():
            if (hub, why) not in self._told:
                self._told[hub, why] = now_ms
                _log.warning(
                    "the node refused roll-ups of a hub; not told again for an hour",
                    hub=hub,
                    error=why,
                )
