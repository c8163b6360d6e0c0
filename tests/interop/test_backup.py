"""A backup made as the operations page says, of a node that runs, brings everything back that it held."""

import re
import sqlite3
from pathlib import Path

import pytest

from arauto.client import Client
from arauto.errors import StorageError
from tests.integration.conftest import StartNode, start_node

__all__ = ["start_node"]

_PAGE = Path(__file__).parents[2] / "docs" / "operations" / "README.md"
_STORED = {
    "defaultRules": {"clientPublish": True, "store": "all"},
    "defaults": {"defaultPublic": True},
}


def back_up(database: Path, copy: Path) -> None:
    """Do what the page's command does."""
    [statement] = re.findall(r'"(VACUUM INTO \'.*?\')"', _PAGE.read_text())
    connection = sqlite3.connect(database)
    connection.execute(re.sub(r"'.*'", f"'{copy}'", statement))
    connection.close()


async def test_a_backup_of_a_running_node_restores_messages_documents_and_retained(
    start_node: StartNode, tmp_path: Path
) -> None:
    old, new, copy = tmp_path / "old", tmp_path / "new", tmp_path / "copy.db"
    node = await start_node(storage={"kind": "sqlite", "dataDir": str(old)}, hub=_STORED)
    async with Client(node.url, hub="shop") as client:
        for number in range(3):
            await client.publish("orders:1", number, retain=True)
        async with client.document("doc:board") as board:
            await board.change([{"op": "add", "path": "/open", "value": True}])
        await node.node.directory.hubs["shop"].retained.flush()
        back_up(old / "arauto.db", copy)
        await client.publish("orders:1", "after the backup")
    await node.node.stop()

    new.mkdir(mode=0o700)
    copy.rename(new / "arauto.db")
    node = await start_node(storage={"kind": "sqlite", "dataDir": str(new)}, hub=_STORED)
    async with Client(node.url, hub="shop") as client:
        assert [message.data async for message in client.history("orders:1")] == [0, 1, 2]
        retained = await anext(aiter(client.subscribe("orders:1")))
        async with client.document("doc:board") as board:
            assert board.value == {"open": True}
    assert retained.data == 2


async def test_an_older_database_under_a_newer_mark_is_refused(
    start_node: StartNode, tmp_path: Path
) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    node = await start_node(storage={"kind": "sqlite", "dataDir": str(data)}, hub=_STORED)
    async with Client(node.url, hub="shop") as client:
        await client.publish("orders:1", "before")
        back_up(data / "arauto.db", copy)
        await client.publish("orders:1", "after")
    await node.node.stop()

    copy.replace(data / "arauto.db")
    with pytest.raises(StorageError, match="acknowledged writes are missing"):
        await start_node(storage={"kind": "sqlite", "dataDir": str(data)}, hub=_STORED)
