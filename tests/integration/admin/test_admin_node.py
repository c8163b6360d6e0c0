"""The node through its admin port: what it is, what it counts, and where its telemetry goes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import arauto
from arauto.codec.events import (
    Ack,
    Publication,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.errors import Code
from arauto.node import Node
from arauto.storage.base import JournalEntry, Kind
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.wire import connect

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def rows_of(node: RunningNode, kind: Kind) -> list[JournalEntry]:
    journal = node.node.storage.journal
    await journal.flush()
    return [entry for _, entry in await journal.read(0, 10_000) if entry.kind is kind]


async def test_the_node_says_what_it_is_and_what_is_open(node: RunningNode, admin: Admin) -> None:
    info = await admin.ok("GET", "/v1/node")
    assert (info["name"], info["version"]) == ("node-1", arauto.__version__)
    assert (info["mode"], info["storage"], info["dynamicHubs"]) == ("development", "memory", True)
    ports = {listener["name"]: listener["port"] for listener in info["listeners"]}
    assert ports == {"client": node.port, "admin": node.node.admin_port.port}
    assert info["uptimeS"] >= 0


async def test_stats_count_for_the_node_and_for_each_hub(node: RunningNode, admin: Admin) -> None:
    await connect(node.url)
    body = {"messages": [{"channel": "a", "text": "x"}] * 3}
    await admin.ok("POST", "/v1/hubs/shop/publish", body)
    await admin.ok("POST", "/v1/hubs/other/publish", {"messages": body["messages"][:1]})
    total = await admin.ok("GET", "/v1/stats")
    assert (total["total"]["publishes"], total["gauges"]["hubs"]) == (4, 2)
    shop = await admin.ok("GET", "/v1/hubs/shop/stats")
    assert (shop["total"]["publishes"], shop["channels"]) == (3, 1)
    node.node.intervals.cut()
    node.node.intervals.cut()
    after = await admin.ok("GET", "/v1/stats", intervals=1)
    assert [each["total"].get("publishes", 0) for each in after["intervals"]] == [0]
    kept = await admin.ok("GET", "/v1/hubs/shop/stats")
    # The channel stays open for a while, so the second interval knows the hub too.
    assert [each["total"].get("publishes", 0) for each in kept["intervals"]] == [3, 0]
    assert kept["intervals"][1]["gauges"] == {"channels": 1, "sessions": 1, "subscriptions": 0}
    assert kept["intervals"][1]["sessionsPeak"] == 1
    assert (await admin.ok("GET", "/v1/stats", intervals=0))["intervals"] == []


async def test_each_interval_is_one_row_for_the_node_and_one_per_active_hub(
    node: RunningNode, admin: Admin
) -> None:
    for hub, count in (("one", 1), ("two", 2)):
        body = {"messages": [{"channel": "a", "text": "x"}] * count}
        await admin.ok("POST", f"/v1/hubs/{hub}/publish", body)
    await node.node.directory.get("idle")
    node.node.intervals.cut()
    rows = await rows_of(node, Kind.COUNTERS)
    found = {row.hub: msgspec.json.decode(row.payload) for row in rows}
    assert {hub: row["total"]["publishes"] for hub, row in found.items()} == {
        "": 3,
        "one": 1,
        "two": 2,
    }
    assert "hubs" not in found[""]
    assert found[""]["gauges"]["hubs"] == 3


async def test_metrics_are_shown_to_whoever_has_the_token(node: RunningNode, admin: Admin) -> None:
    await admin.ok("POST", "/v1/hubs/shop/publish", {"messages": [{"channel": "a", "text": "x"}]})
    response = await admin.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "arauto_publications_total 1.0" in response.text
    assert 'arauto_hub_publications_total{hub="shop"} 1.0' in response.text
    assert "process_resident_memory_bytes" in response.text


async def test_metrics_show_the_store_the_exporter_and_refused_connections(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = await start_node(
        storage={"kind": "sqlite", "dataDir": str(tmp_path)}, journal={"export": {"enabled": True}}
    )
    await node.node.storage.journal.flush()
    async with Admin(node.node) as admin:
        lines = (await admin.get("/metrics")).text.splitlines()
    values = dict(line.split() for line in lines if line.startswith("arauto_") and "{" not in line)
    assert float(values["arauto_journal_rows_total"]) >= 1
    assert float(values["arauto_journal_commits_total"]) >= 1
    assert values["arauto_export_failures_total"] == "0.0"
    assert values["arauto_refused_connections_total"] == "0.0"


async def test_metrics_can_be_turned_off(start_node: StartNode) -> None:
    node = await start_node(telemetry={"metrics": False})
    async with Admin(node.node) as admin:
        status, problem = await admin.refused("GET", "/metrics")
        assert (status, problem["code"]) == (404, Code.NOT_FOUND)


async def test_a_node_is_not_well_before_clients_can_connect(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, object]] = []
    open_port = Node._open_port

    async def asked_before(node: Node) -> None:
        async with Admin(node) as admin:
            response = await admin.get("/healthz")
        seen.append((response.status_code, response.json()))
        await open_port(node)

    monkeypatch.setattr(Node, "_open_port", asked_before)
    node = await start_node()
    assert seen == [(503, {"status": "starting"})]
    async with Admin(node.node) as admin:
        assert (await admin.get("/healthz")).json() == {"status": "ok"}


async def test_a_stopping_node_is_not_well(node: RunningNode, admin: Admin) -> None:
    node.node.status = "stopping"
    try:
        response = await admin.get("/healthz")
        assert (response.status_code, response.json()) == (503, {"status": "stopping"})
    finally:
        node.node.status = "ok"


async def test_a_stopped_node_has_let_go_of_its_admin_port(start_node: StartNode) -> None:
    node = await start_node()
    port = node.node.admin_port.port
    await node.node.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_taken_admin_port_keeps_the_node_from_starting(
    node: RunningNode, start_node: StartNode
) -> None:
    taken = node.node.admin_port.port
    with pytest.raises(OSError, match="address already in use"):
        await start_node(admin={"port": taken})


async def test_the_journal_is_rolled_into_segments(start_node: StartNode, tmp_path: Path) -> None:
    node = await start_node(
        storage={"kind": "sqlite", "dataDir": str(tmp_path)},
        journal={"export": {"enabled": True, "intervalS": 1}},
    )
    async with Admin(node.node) as admin:
        await admin.ok("PUT", "/v1/hubs/shop", {})
    exporter = node.node.exporter
    assert exporter is not None
    async with asyncio.timeout(30):
        await exporter.sealed.wait()
    assert list((tmp_path / "segments").rglob("seg-node-1-*.parquet"))


# --- traces ----------------------------------------------------------------------------------------


class Collector:
    """Takes traces as an OTLP collector does, and keeps the bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        self.headers.append(head)
        self.bodies.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    server = await asyncio.start_server(collector.serve, "127.0.0.1", 0)
    collector.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/traces"
    yield collector
    server.close()
    await server.wait_closed()


async def test_a_traced_publication_reaches_subscribers_and_collector(
    start_node: StartNode, collector: Collector
) -> None:
    node = await start_node(
        telemetry={"otlpEndpoint": collector.url, "otlpHeaders": {"X-Key": "collector-key"}}
    )
    wire = await connect(node.url)
    await wire.ask(SubscribeRequest(id=1, items=(SubscribeItem(channel="a"),)), SubscribeReply)
    item = PublishItem(channel="a", payload=b"x", headers={"traceparent": TRACEPARENT})
    await wire.ask(PublishRequest(id=2, items=(item,)), Ack)
    async with Admin(node.node) as admin:
        message = {"channel": "a", "text": "y", "headers": {"traceparent": TRACEPARENT}}
        await admin.ok("POST", "/v1/hubs/shop/publish", {"messages": [message]})
    for _ in range(2):
        headers = (await wire.next(Publication)).message.headers
        assert headers is not None
        assert headers["traceparent"].startswith(TRACEPARENT[:36])
        assert headers["traceparent"] != TRACEPARENT
    await node.node.stop()
    assert bytes.fromhex(TRACEPARENT[3:35]) in b"".join(collector.bodies)
    assert b"collector-key" in b"".join(collector.headers)
