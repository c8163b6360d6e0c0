"""`arauto serve`: what it says, how it fails to start, and how it stops."""

import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.cli.conftest import Run

#: Lets anyone publish, asks for no fixed port and writes to a directory of its own.
_OPEN = """
connection: {port: 0}
admin: {port: 0}
hub: {defaults: {defaultPublic: true}, defaultRules: {clientPublish: true}}
journal: {export: {enabled: false}}
debug: {level: warning}
"""
_ADMIN_ANYWHERE = {"ARAUTO_ADMIN__PORT": "0", "ARAUTO_JOURNAL__EXPORT__ENABLED": "false"}


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


async def test_a_node_says_what_is_open_serves_and_stops(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(_OPEN)
    serve = await run("serve")
    await serve.line("Arauto node node-1 is up, in development mode")
    clients = (await serve.line("  clients ")).split()[1]
    admin = (await serve.line("  admin ")).split()[1]
    token = re.search(r"bearer token (\S+), for this run", await serve.line("bearer token"))
    await serve.line("SQLite in ./arauto-data")
    await serve.line("anyone may subscribe and publish")
    pub = await run("pub", "a", "x", "--url", clients)
    assert await pub.ended() == 0, pub
    assert token is not None
    async with httpx.AsyncClient() as http:
        headers = {"Authorization": f"Bearer {token[1]}"}
        assert (await http.get(f"{admin}/v1/hubs", headers=headers)).status_code == 200
        assert (await http.get(f"{admin}/v1/hubs")).status_code == 401
    serve.interrupt()
    assert await serve.ended() == 0, serve
    assert serve.err[-1] == "stopped"
    assert (tmp_path / "arauto-data" / "arauto.db").exists()


async def test_options_win_over_variables_and_variables_over_the_file(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text("connection: {host: 192.0.2.1, port: 1}\nnode: {name: ours}")
    environ = {**_ADMIN_ANYWHERE, "ARAUTO_CONNECTION__HOST": "192.0.2.2", "ARAUTO_CONFIG": "c.yaml"}
    options = ("--host", "127.0.0.1", "--port", "0", "--data-dir", "elsewhere")
    serve = await run("serve", *options, "--log-level", "error", environ=environ)
    await serve.line("Arauto node ours is up")
    assert " ws://127.0.0.1:" in await serve.line("  clients ")
    await serve.line("SQLite in elsewhere")
    serve.interrupt(signal.SIGTERM)
    assert await serve.ended() == 0, serve
    assert (tmp_path / "elsewhere").is_dir()


async def test_a_taken_port_is_named(run: Run, taken: int) -> None:
    serve = await run("serve", "--port", str(taken), environ=_ADMIN_ANYWHERE)
    assert await serve.ended() == 1
    assert serve.err[-1] == (
        f"could not start: port {taken} on 127.0.0.1 is used by another program; "
        "choose another with --port"
    )


async def test_a_taken_admin_port_is_told_from_a_taken_client_port(run: Run, taken: int) -> None:
    environ = {**_ADMIN_ANYWHERE, "ARAUTO_ADMIN__PORT": str(taken)}
    serve = await run("serve", "--port", "0", environ=environ)
    assert await serve.ended() == 1
    assert f"the admin port {taken} on 127.0.0.1 is used by another program" in serve.err[-1]


async def test_an_address_of_another_machine_is_told(run: Run) -> None:
    serve = await run("serve", "--host", "192.0.2.1", "--port", "0", environ=_ADMIN_ANYWHERE)
    assert await serve.ended() == 1
    assert "192.0.2.1 is no address of this machine" in serve.err[-1]
    assert serve.err[0].startswith("warning: --host: connection.host: open to the network")


async def test_a_data_directory_that_another_node_uses_is_told(run: Run) -> None:
    options = ("--port", "0", "--data-dir", "shared", "--log-level", "error")
    first = await run("serve", *options, environ=_ADMIN_ANYWHERE)
    await first.line("is up")
    second = await run("serve", *options, environ=_ADMIN_ANYWHERE)
    assert await second.ended() == 1
    assert re.fullmatch(
        r"could not start: the data directory shared is in use by another node \(process \d+\)",
        second.err[-1],
    )


async def test_a_second_signal_does_not_wait(run: Run, paste: Run, tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(
        "import asyncio\n"
        "from arauto.cli.signals import stop_signals\n"
        "async def main():\n"
        "    with stop_signals() as asked:\n"
        "        print('running', flush=True)\n"
        "        await asked.wait()\n"
        "        print('asked', flush=True)\n"
        "        await asyncio.get_running_loop().create_future()\n"
        "asyncio.run(main())\n"
    )
    stubborn = await paste(f"{sys.executable} stubborn.py")
    await stubborn.line("running")
    stubborn.interrupt(signal.SIGTERM)
    await stubborn.line("asked")
    stubborn.interrupt()
    assert await stubborn.ended() == 130
    assert stubborn.err == ["stopping at once"]


async def test_a_data_directory_is_made_with_its_parents_or_named(run: Run, tmp_path: Path) -> None:
    made = await run("serve", "--port", "0", "--data-dir", "a/b/c", environ=_ADMIN_ANYWHERE)
    await made.line("SQLite in a/b/c")
    made.interrupt()
    assert await made.ended() == 0, made
    assert (tmp_path / "a" / "b" / "c" / "arauto.db").exists()
    (tmp_path / "file").write_text("")
    refused = await run("serve", "--port", "0", "--data-dir", "file/below", environ=_ADMIN_ANYWHERE)
    assert await refused.ended() == 1, refused
    assert refused.err == ["could not start: not a directory: file/below"]


async def test_a_host_that_does_not_exist_is_told(run: Run) -> None:
    lost = await run("pub", "a", "x", "--url", "ws://no.such.host.invalid:80", "--timeout", "0.1")
    assert await lost.ended() == 3, lost
    assert (
        "could not connect to ws://no.such.host.invalid:80: there is no host of that name"
        in lost.err
    )
