"""`arauto demo`: what it prints is true, and the lines it tells people to paste work."""

import asyncio
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Run
from tests.integration.cli.processes import Command

_ANYWHERE = ("demo", "--no-pipeline", "--port", "0", "--seed", "1")


@pytest.fixture
def no_8080() -> Iterator[None]:
    """Somebody listens on the usual port: we do, unless somebody else does already."""
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            sock.bind(("127.0.0.1", 8080))
            sock.listen()
        yield


def contents(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def pasteable(demo: Command, name: str) -> str:
    """One of the lines that the demo tells people to try."""
    line = await demo.line(f"  {name:<9}")
    return line[11:]


async def test_every_line_it_shows_works_when_pasted(run: Run, paste: Run) -> None:
    demo = await run(*_ANYWHERE)
    watch = await paste(await pasteable(demo, "watch"))
    board = await paste(f"{await pasteable(demo, 'document')} --json -n 2")
    await watch.line("subscribed to stock:*, /orders on hub shop")
    await watch.line(" stock:")
    await watch.line(" /orders/pt/")
    assert await board.ended() == 0, board
    whole, changed = (json.loads(line)["event"] for line in board.out)
    assert (whole, changed) == ("document_get", "document_updated")
    presence = await paste(await pasteable(demo, "presence"))
    await presence.line("porto")
    hello = (await pasteable(demo, "publish")).replace(" pub hello ", " pub stock:hello ")
    published = await paste(hello)
    assert await published.ended() == 0, published
    assert (await watch.line(" stock:hello ")).endswith("#1 Bom dia")
    history = await paste(f"{await pasteable(demo, 'history')} -n 1")
    assert await history.ended() == 0, history
    assert '"order": "PO-' in history.out[0]
    demo.interrupt()
    assert await demo.ended() == 0, demo


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_line_for_curl_works_when_pasted(run: Run, paste: Run) -> None:
    demo = await run(*_ANYWHERE)
    stream = await paste(f"{await pasteable(demo, 'SSE')} -sS")
    # A browser can come back to it before the first message.
    assert "*@" in await stream.line("id: 1;")
    assert json.loads((await stream.line('data: {"event":"publish"'))[6:])["channel"]


async def test_it_ends_after_its_seconds_and_leaves_nothing_behind(
    run: Run, tmp_path: Path
) -> None:
    demo = await run(*_ANYWHERE, "--seconds", "3", environ={"TMPDIR": str(tmp_path)})
    await demo.line("Ctrl-C stops it")
    [made] = contents(tmp_path)
    assert made.startswith("arauto-demo-")
    assert await demo.ended() == 0, demo
    figures = re.search(r"5 sessions, \d+ channels, \d+ published", "\n".join(demo.out))
    assert figures, demo
    assert re.fullmatch(r"stopped; \d+ messages were published, data removed", demo.out[-1])
    assert contents(tmp_path) == []
    assert demo.err == []


async def test_a_taken_port_is_replaced_aloud(run: Run, paste: Run, no_8080: None) -> None:
    demo = await run("demo", "--no-pipeline", "--no-traffic")
    await demo.line("port 8080 is taken, so the demo uses another one")
    await demo.line("a node, and no shops")
    line = await pasteable(demo, "publish")
    assert " --url ws://127.0.0.1:" in line
    published = await paste(line)
    assert await published.ended() == 0, published


async def test_a_port_that_was_asked_for_is_not_replaced(run: Run) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        demo = await run("demo", "--no-pipeline", "--port", str(port))
        assert await demo.ended() == 1
    assert demo.err == [
        f"could not start: port {port} on 127.0.0.1 is used by another program; "
        "choose another with --port"
    ]


async def test_the_environment_says_which_ports_as_it_does_for_a_node(run: Run) -> None:
    with socket.socket() as one, socket.socket() as other:
        for sock in (one, other):
            sock.bind(("127.0.0.1", 0))
        client, admin = (sock.getsockname()[1] for sock in (one, other))
    environ = {"ARAUTO_CONNECTION__PORT": str(client), "ARAUTO_ADMIN__PORT": str(admin)}
    demo = await run("demo", "--no-pipeline", "--no-traffic", environ=environ)
    await demo.line(f"  address  ws://127.0.0.1:{client},")
    await demo.line(f"  admin    http://127.0.0.1:{admin}")
    demo.interrupt()
    assert await demo.ended() == 0, demo


async def test_an_admin_port_that_was_asked_for_is_not_replaced(run: Run) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        options = (
            "demo",
            "--no-pipeline",
            "--no-traffic",
            "--port",
            "0",
            "--admin-port",
            str(port),
        )
        demo = await run(*options)
        assert await demo.ended() == 1
    assert demo.err == [
        f"could not start: the admin port {port} on 127.0.0.1 is used by another program; "
        "set admin.port, or ARAUTO_ADMIN__PORT"
    ]


async def test_kept_data_is_there_the_next_time(run: Run, paste: Run, tmp_path: Path) -> None:
    first = await run("demo", "--no-pipeline", "--port", "0", "--no-traffic", "--keep")
    published = await paste(await pasteable(first, "publish"))
    assert await published.ended() == 0, published
    first.interrupt(signal.SIGTERM)
    assert await first.ended() == 0, first
    assert first.out[-1] == "stopped; 1 message was published, data kept in .arauto-demo"
    assert (tmp_path / ".arauto-demo" / "arauto.db").exists()
    second = await run("demo", "--no-pipeline", "--port", "0", "--no-traffic", "--keep")
    history = (await pasteable(second, "history")).replace("/orders/pt/porto", "hello")
    read = await paste(f"{history} -n 1")
    assert await read.ended() == 0, read
    assert read.out[0].endswith("#1 Bom dia")


async def test_on_a_terminal_it_shows_a_picture_that_fits(tmp_path: Path) -> None:
    width = 80
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "arauto", *_ANYWHERE, "--seconds", "4"),
        cwd=tmp_path,
        env={**environ, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = await asyncio.to_thread(_read_all, ours)
    assert await process.wait() == 0, shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    # Lines to paste may be longer than the terminal; the picture may not.
    picture = plain[plain.index("SSE") :].splitlines()[1:]
    assert max(map(len, picture)) <= width
    assert re.search(r"5 sessions   \d+ channels   \d+\.\d/s published", plain)
    assert re.search(r"\d\d:\d\d:\d\d stock:\w+:\w+ +#\d+ \{\"level\"", plain)


def _read_all(fd: int) -> str:
    """Everything a terminal shows, until nobody writes to it any more."""
    parts = []
    with suppress(OSError):  # Linux says so when the last writer has left
        while part := os.read(fd, 65_536):
            parts.append(part)
    os.close(fd)
    return b"".join(parts).decode()


def patched(tmp_path: Path, patch: str) -> str:
    """A line that runs the demo with something changed inside it."""
    (tmp_path / "patched.py").write_text(
        "import sys\nimport msgspec\nimport arauto.cli.demo_show as show\n"
        f"{patch}\n"
        "from arauto.cli.main import main\n"
        "sys.argv[0] = 'arauto'\nmain()\n"
    )
    return f"{sys.executable} patched.py"


async def test_a_port_taken_between_looking_and_using_it_is_replaced_too(
    paste: Run, tmp_path: Path, no_8080: None
) -> None:
    line = patched(tmp_path, "show.is_taken = lambda host, port: False")
    demo = await paste(f"{line} demo --no-traffic --seconds 0.1")
    assert await demo.ended() == 0, demo
    assert "ws://127.0.0.1:8080," not in str(demo)


async def test_shops_that_are_refused_end_the_demo_with_the_reason(
    paste: Run, tmp_path: Path
) -> None:
    line = patched(
        tmp_path,
        "made, replace = show.demo_config, msgspec.structs.replace\n"
        "def closed(**options):\n"
        "    config = made(**options)\n"
        "    hub = replace(config.hub, defaults=replace(config.hub.defaults, default_public=False))\n"
        "    return replace(config, hub=hub)\n"
        "show.demo_config = closed",
    )
    demo = await paste(f"{line} demo --port 0")
    assert await demo.ended() == 1, demo
    assert demo.err == [
        "could not go on: no grant or rule lets this session subscribe to it",
    ]


async def test_a_directory_that_another_demo_uses_is_told(run: Run) -> None:
    options = ("demo", "--no-pipeline", "--port", "0", "--no-traffic", "--keep")
    first = await run(*options)
    await first.line("SSE")
    second = await run(*options)
    assert await second.ended() == 1, second
    assert "could not start: the data directory .arauto-demo is in use" in str(second)


#: A pipeline of two processes that finish their batches for ever; they hold a pipe open while they live.
_STUBBORN = """#!{python}
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.alarm(60)
alive = os.open({pipe!r}, os.O_WRONLY)
os.fork()
os.write(alive, b"x")
while True:
    signal.pause()
"""


async def test_ctrl_c_is_answered_at_once_and_a_second_one_ends_the_pipeline_too(
    paste: Run, tmp_path: Path
) -> None:
    pipe, program = tmp_path / "alive", tmp_path / "stubborn"
    os.mkfifo(pipe)
    program.write_text(_STUBBORN.format(python=sys.executable, pipe=str(pipe)))
    program.chmod(0o700)
    line = patched(
        tmp_path,
        "import types\nimport arauto.cli.demo_pipeline as pipeline\n"
        "async def set_no_rules(node): pass\n"
        "pipeline._set_rules = set_no_rules\n"
        "pipeline._is_installed = lambda: True\n"
        f"pipeline.sys = types.SimpleNamespace(executable={str(program)!r})",
    )
    demo = await paste(f"{line} demo --port 0 --no-traffic")
    with await asyncio.to_thread(pipe.open, "rb", buffering=0) as alive:
        assert await asyncio.to_thread(alive.read, 1) == b"x"
        assert await asyncio.to_thread(alive.read, 1) == b"x"
        demo.interrupt()
        await demo.line(
            "stopping … the pipeline finishes its batches, for up to 20 s; Ctrl-C again stops at once"
        )
        demo.interrupt()
        assert await demo.ended() == 130, demo
        async with asyncio.timeout(20):  # else somebody of the pipeline lives
            assert await asyncio.to_thread(alive.read, 1) == b""
