"""One node for the tests of a module; each test uses a hub or channels of its own."""

from collections.abc import Iterator

import pytest

from tests.pipeline.sink.nodes import KeepingNode, running_node


@pytest.fixture(scope="module")
def node() -> Iterator[KeepingNode]:
    with running_node() as started:
        yield started
