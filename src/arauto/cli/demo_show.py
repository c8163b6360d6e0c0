"""What `arauto demo` does: a node, its shops, lines to paste, and a picture of what goes on."""

import asyncio
import errno
import shlex
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from arauto.cli.console import leave_ctrl_c
from arauto.cli.demo_pipeline import STOP_WAIT_S, Companion, can_start
from arauto.cli.demo_ports import Ports
from arauto.cli.demo_results import Results
from arauto.cli.demo_view import Meter, picture, plain_line
from arauto.cli.ports import explain, is_taken
from arauto.cli.signals import run_until_asked, stop_signals
from arauto.client import Client, Overflow, Received
from arauto.config.schema import Config
from arauto.demo.hub import HUB, demo_config, shop_token
from arauto.demo.shops import BOARD, SHOPS, run_shop
from arauto.demo.world import CITIES, Shop
from arauto.entropy import SeededEntropy, SystemEntropy
from arauto.errors import ArautoError
from arauto.node import Node
from arauto.telemetry.log import configure_logging

__all__ = ["DemoFailedError", "Show"]

_HOST = "127.0.0.1"
_PORT, _ADMIN_PORT = 8080, 4040
_PICTURES_PER_S = 2
_LINE_EVERY_S = 2.0
_LAST_LEN = 8
_BATCHES = f" the pipeline finishes its batches, for up to {STOP_WAIT_S:g} s"
_WITHOUT_PIPELINE = "The data pipeline is not installed: pip install 'arauto[pipeline]' adds it."


class DemoFailedError(Exception):
    """Why the demo could not start or could not go on, in one line."""


class Show:
    """One demo.

    Args:
        console: where everything is shown.
        data_dir: where the node keeps its data.
        ports: those that were asked for; the others are the usual ones, or any if those are taken.
        shops: whether there is traffic.
        seed: lets the same things happen again; None = something else each time.
        pipeline: whether the data pipeline runs beside the node, if it can.
        setup: the command that installs it, if it is not.
    """

    def __init__(
        self,
        console: Console,
        data_dir: str,
        *,
        ports: Ports,
        shops: bool,
        seed: int | None,
        pipeline: bool,
        setup: str,
    ) -> None:
        self._console = console
        self._secret = SystemEntropy().token(48)
        self._ports = ports
        starts = pipeline and can_start(setup)
        self._companion = Companion(Path(data_dir), setup) if starts else None
        self._wants_pipeline = pipeline
        self._config = demo_config(
            data_dir=data_dir,
            port=_PORT if ports.client is None else ports.client,
            admin_port=_admin_port(ports),
            jwt_secret=self._secret,
            pipeline=self._companion is not None,
        )
        self._cities = CITIES if shops else ()
        self._seed = SystemEntropy().bits(32) if seed is None else seed
        self._last: deque[Received] = deque(maxlen=_LAST_LEN)
        self._results = Results()
        self.summary = ""
        """What there was, once it is over."""

    def run(self, seconds: float) -> None:
        """Run until a signal comes or the time is over; 0 = no time.

        Raises:
            DemoFailedError: it could not start, or not go on.
        """
        if self._ports.client is None and is_taken(_HOST, _PORT):
            said = f"port {_PORT} is taken, so the demo uses another one"
            self._console.print(Text(said, style="yellow"))
            self._config = _anywhere(self._config, self._ports)
        configure_logging(
            level=self._config.debug.level,
            format=self._config.debug.format,
            secrets=[self._secret],
        )
        uvloop.run(self._run(seconds))

    async def _run(self, seconds: float) -> None:
        with stop_signals(self._companion.kill if self._companion else None) as asked:
            node = await self._start()
            try:
                for line in _instructions(node, shops=bool(self._cities)):
                    self._console.print(line)
                if self._wants_pipeline and self._companion is None:
                    self._console.print(Text(_WITHOUT_PIPELINE, style="dim"))
                if seconds:
                    asyncio.get_running_loop().call_later(seconds, asked.set)
                await run_until_asked(self._play(node, asked), asked)
            except ArautoError as error:
                raise DemoFailedError(f"could not go on: {error.message}") from error
            finally:
                count = node.metrics.total().publishes
                self.summary = f"{count} message{' was' if count == 1 else 's were'} published"
                await node.stop()

    async def _start(self) -> Node:
        try:
            return await _started(self._config)
        except ArautoError as error:
            raise DemoFailedError(f"could not start: {error.message}") from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise DemoFailedError(f"could not start: {explain(error, self._config)}") from error
        # Somebody took a port after we looked. Those that nobody asked for can be any others.
        self._config = _anywhere(self._config, self._ports)
        try:
            return await _started(self._config)
        except OSError as error:
            raise DemoFailedError(f"could not start: {explain(error, self._config)}") from error

    async def _play(self, node: Node, asked: asyncio.Event) -> None:
        url = f"ws://{_HOST}:{node.port.port}"
        clock = node.clock

        def make_client(name: str) -> Client:
            return Client(url, hub=HUB, token=shop_token(name, self._secret, clock.wall_ms()))

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch(make_client("office")))
                tasks.create_task(self._show(node, asked))
                if self._companion is not None:
                    tasks.create_task(self._companion.run(node, self._config))
                for number, city in enumerate(self._cities):
                    entropy = SeededEntropy(self._seed + number)
                    shop = Shop(city, entropy)
                    tasks.create_task(run_shop(shop, make_client, clock, entropy))
        except BaseExceptionGroup as group:
            raise _first(group) from None

    async def _watch(self, office: Client) -> None:
        """Remember the last messages of all channels."""
        async with office as client:
            everything = client.subscribe("*", overflow=Overflow.DROP_OLDEST)
            async for message in everything:
                if not self._results.take(message):
                    self._last.append(message)

    async def _show(self, node: Node, asked: asyncio.Event) -> None:
        """Show what goes on; once somebody asked to stop, that it stops, below the last picture."""
        try:
            await self._show_on(node)
        finally:
            if asked.is_set():
                leave_ctrl_c()
                waits = self._companion is not None and self._companion.is_running
                said = f"stopping …{_BATCHES if waits else ''}; Ctrl-C again stops at once"
                self._console.print(Text(said, style="dim"))

    async def _show_on(self, node: Node) -> None:
        clock = node.clock
        meter = Meter(node.metrics, clock.monotonic_s())
        meter.read(clock.monotonic_s())
        if not self._console.is_terminal:
            while True:
                await asyncio.sleep(_LINE_EVERY_S)
                self._console.print(plain_line(meter.read(clock.monotonic_s())))
                for line in self._results.news(self._pipeline_state()):
                    self._console.print(line)
        while True:
            await self._draw(node, meter)
            # The terminal has wrapped what stands there anew, so nobody knows where it begins: begin again.
            self._console.clear()
            for told in _instructions(node, shops=bool(self._cities)):
                self._console.print(told)

    async def _draw(self, node: Node, meter: Meter) -> None:
        """Draw the picture in its place, until the terminal has another width."""
        clock, width = node.clock, self._console.width
        with Live(console=self._console, auto_refresh=False) as live:
            while self._console.width == width:
                status = meter.read(clock.monotonic_s())
                shown = picture(status, tuple(self._last), self._console)
                results = self._results.picture(self._pipeline_state(), self._console)
                live.update(Group(shown, results), refresh=True)
                await asyncio.sleep(1 / _PICTURES_PER_S)

    def _pipeline_state(self) -> str:
        return self._companion.state if self._companion is not None else ""


async def _started(config: Config) -> Node:
    node = Node(config)
    await node.start()
    return node


def _admin_port(ports: Ports) -> int:
    if ports.admin is not None:
        return ports.admin
    return 0 if is_taken(_HOST, _ADMIN_PORT) else _ADMIN_PORT


def _anywhere(config: Config, ports: Ports) -> Config:
    """The same with any free ports in place of those that nobody asked for."""
    replace = msgspec.structs.replace
    client = replace(config.connection, port=0) if ports.client is None else config.connection
    admin = replace(config.admin, port=0) if ports.admin is None else config.admin
    return replace(config, connection=client, admin=admin)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first, out of its wrappings: the rest is what followed from it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _instructions(node: Node, *, shops: bool) -> Iterator[Text]:
    """What to try, ready to be pasted."""
    port = node.port.port
    arauto = _command()
    at = "" if port == _PORT else f" --url ws://{_HOST}:{port}"
    title = f": a node with {len(CITIES)} simulated shops." if shops else ": a node, and no shops."
    yield Text.assemble(("Arauto demo", "bold green"), title, (" Ctrl-C stops it.", "bold"))
    yield Text()
    yield Text.assemble(("  address  ", "bold"), f"ws://{_HOST}:{port}, hub {HUB}")
    yield Text.assemble(("  admin    ", "bold"), f"http://{_HOST}:{node.admin_port.port}")
    yield Text(f"           bearer token {node.admin_token}", style="dim")
    yield Text()
    yield Text("In another terminal, from this directory:", style="dim")
    tries = (
        ("watch", f"{arauto} sub 'stock:*' /orders --hub {HUB}{at}"),
        ("publish", f"{arauto} pub hello 'Bom dia' --hub {HUB}{at}"),
        ("history", f"{arauto} sub /orders/pt/porto --history 5 --hub {HUB}{at}"),
        ("document", f"{arauto} sub {BOARD} --hub {HUB}{at}"),
        ("presence", f"{arauto} sub {SHOPS} --presence --hub {HUB}{at}"),
        ("alerts", f"{arauto} sub 'alerts:*' --hub {HUB}{at}"),
        ("SSE", f"curl -N 'http://{_HOST}:{port}/v1/sse?hub={HUB}&channel=/orders'"),
    )
    for name, line in tries:
        yield Text.assemble((f"  {name:<9}", "bold"), line)
    yield Text()


def _command() -> str:
    """How to call this program from the shell that called it."""
    script = Path(sys.argv[0])
    if script.name == "__main__.py":
        return f"{shlex.quote(_shortest(Path(sys.executable), 'python'))} -m arauto"
    return shlex.quote(_shortest(script, "arauto"))


def _shortest(program: Path, name: str) -> str:
    found = shutil.which(name)
    return name if found and Path(found).absolute() == program.absolute() else str(program)
