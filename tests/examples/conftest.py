"""A real node, set up with the configuration the examples tell their reader to use."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arauto.config.load import examine
from arauto.node import Node
from tests.integration.conftest import RunningNode

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
async def node() -> AsyncIterator[RunningNode]:
    changes = {
        "ARAUTO_CONNECTION__PORT": "0",
        "ARAUTO_ADMIN__PORT": "0",
        "ARAUTO_STORAGE__KIND": "memory",
        "ARAUTO_DEBUG__LEVEL": "error",
    }
    report = examine(EXAMPLES / "config.yaml", changes)
    assert not report.problems, report.problems
    assert report.config is not None
    node = Node(report.config)
    await node.start()
    yield RunningNode(node)
    await node.stop()
