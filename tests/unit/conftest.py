"""What all tests without sockets or processes share: they leave nothing behind for the next."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def the_log_is_left_as_it_was() -> Iterator[None]:
    """Loggers keep what they are first set up with: later tests could not look at what is logged."""
    yield
    caches = structlog.get_config()["cache_logger_on_first_use"]
    assert not caches, "reset structlog, or keep from configuring it"
