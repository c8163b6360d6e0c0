"""Exporting the journal on demand."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arauto.errors import Code
from arauto.pipeline.node_api import NodeApi
from arauto.storage.base import Kind
from arauto.storage.segments import segments
from tests.integration.admin.conftest import TOKEN, Admin
from tests.integration.conftest import RunningNode, StartNode

EXPORT = "/v1/journal/export"


@pytest.fixture
async def node(start_node: StartNode, tmp_path: Path) -> RunningNode:
    return await start_node(
        storage={"kind": "sqlite", "dataDir": str(tmp_path)},
        journal={"export": {"enabled": True, "intervalS": 3600}},
    )


async def test_what_was_written_before_lies_in_segments_afterwards(
    node: RunningNode, admin: Admin, tmp_path: Path
) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {})
    await node.node.storage.journal.flush()
    wanted = node.node.storage.journal.last_seq
    answer = await admin.ok("POST", EXPORT)
    assert answer["sealedSeq"] >= wanted > 0
    found = segments(tmp_path / "segments", node.node.config.node.name)
    assert found[-1].last == answer["sealedSeq"]
    await node.node.storage.journal.flush()
    rows = [entry for _, entry in await node.node.storage.journal.read(0, 1_000)]
    [done] = [
        row.payload for row in rows if row.kind is Kind.AUDIT and b"journal.exp" in row.payload
    ]
    assert b'"outcome":"ok"' in done


async def test_the_pipeline_asks_in_the_same_way(node: RunningNode) -> None:
    def ask() -> int:
        with NodeApi(f"http://127.0.0.1:{node.node.admin_port.port}", TOKEN) as api:
            return api.export_journal()

    sealed_seq = await asyncio.to_thread(ask)
    assert node.node.exporter is not None
    assert sealed_seq == node.node.exporter.sealed_seq


@pytest.mark.parametrize(
    "options",
    [{"storage": {"kind": "memory"}}, {"journal": {"export": {"enabled": False}}}],
)
async def test_a_node_that_exports_nothing_says_so(
    start_node: StartNode, tmp_path: Path, options: dict[str, Any]
) -> None:
    silent = await start_node(**{"storage": {"dataDir": str(tmp_path)}, **options})
    async with Admin(silent.node) as admin:
        status, problem = await admin.refused("POST", EXPORT)
    assert (status, problem["code"]) == (409, Code.FEATURE_OFF)
