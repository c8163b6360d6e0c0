"""`arauto demo`: one node and a few simulated shops, to look at and to play with."""

import asyncio
import shlex
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.live import Live
from rich.text import Text

from arauto.cli.console import Output, errors, forget_output
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

__all__ = ["demo"]

EXIT_FAILED = 1

DEFAULT_PORT = 8080
_HOST = "127.0.0.1"
_KEPT_DIR = ".arauto-demo"
_PICTURES_PER_S = 2
_LINE_EVERY_S = 2.0
_LAST_LEN = 8

_Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65_535, metavar="N", help="Client port. [default: 8080, or any if it is taken]"
    ),
]
_Seconds = Annotated[
    float, typer.Option(min=0, metavar="N", help="Stop after N seconds; 0 = on Ctrl-C.")
]
_NoTraffic = Annotated[bool, typer.Option("--no-traffic", help="Only the node, without shops.")]
_Keep = Annotated[
    bool,
    typer.Option("--keep", help=f"Keep the data in ./{_KEPT_DIR}, and go on with what is there."),
]
_Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Let the same things happen each time.")
]


def demo(
    port: _Port = None,
    seconds: _Seconds = 0.0,
    no_traffic: _NoTraffic = False,
    keep: _Keep = False,
    seed: _Seed = None,
) -> None:
    """Start a node with a few simulated shops that publish stock levels and orders.

    Example: arauto demo, then in another terminal: arauto sub 'stock:*' --hub shop

    Exit code 0: stopped. 1: could not start.
    """
    console = Output()
    with _directory(keep) as directory:
        secret = SystemEntropy().token(48)
        config = demo_config(
            data_dir=str(directory),
            port=_choose_port(DEFAULT_PORT if port is None else port, port is not None, console),
            admin_port=0 if is_taken(_HOST, 4040) else 4040,
            jwt_secret=secret,
        )
        show = _Demo(config, secret, console, shops=not no_traffic, seed=seed)
        try:
            uvloop.run(show.run(seconds))
        except ArautoError as error:
            _fail(error.message)
        except BrokenPipeError:
            forget_output()
        except OSError as error:
            _fail(explain(error, config))
        kept = f"data kept in {directory}" if keep else "data removed"
        console.print(Text(f"stopped; {show.summary}, {kept}", style="dim"))


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    if keep:
        yield Path(_KEPT_DIR)
        return
    with tempfile.TemporaryDirectory(prefix="arauto-demo-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def _choose_port(port: int, is_wish: bool, console: Console) -> int:
    if is_wish or not is_taken(_HOST, port):
        return port
    console.print(Text(f"port {port} is taken, so the demo uses another one", style="yellow"))
    return 0


def _fail(why: str) -> None:
    errors().print(Text.assemble(("could not start: ", "red"), why))
    raise typer.Exit(EXIT_FAILED)


class _Demo:
    """The node, its shops, and the picture of them."""

    def __init__(
        self, config: Config, secret: str, console: Console, *, shops: bool, seed: int | None
    ) -> None:
        self._config = config
        self._secret = secret
        self._console = console
        self._cities = CITIES if shops else ()
        self._seed = SystemEntropy().bits(32) if seed is None else seed
        self._last: deque[Received] = deque(maxlen=_LAST_LEN)
        self.summary = ""

    async def run(self, seconds: float) -> None:
        """Run until a signal comes or the time is over.

        Raises:
            ArautoError, OSError: the node could not start, or refused a shop.
        """
        with stop_signals() as asked:
            node = Node(self._config)
            debug = self._config.debug
            configure_logging(level=debug.level, format=debug.format, secrets=[self._secret])
            await node.start()
            try:
                for line in _instructions(node, shops=bool(self._cities)):
                    self._console.print(line)
                if seconds:
                    asyncio.get_running_loop().call_later(seconds, asked.set)
                await run_until_asked(self._play(node), asked)
            finally:
                count = node.metrics.total().publishes
                self.summary = f"{count} message{' was' if count == 1 else 's were'} published"
                await node.stop()

    async def _play(self, node: Node) -> None:
        url = f"ws://{_HOST}:{node.port.port}"
        clock = node.clock

        def make_client(name: str) -> Client:
            return Client(url, hub=HUB, token=shop_token(name, self._secret, clock.wall_ms()))

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch(make_client("office")))
                tasks.create_task(self._show(node))
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
                self._last.append(message)

    async def _show(self, node: Node) -> None:
        clock = node.clock
        meter = Meter(node.metrics, clock.monotonic_s())
        meter.read(clock.monotonic_s())
        if not self._console.is_terminal:
            while True:
                await asyncio.sleep(_LINE_EVERY_S)
                self._console.print(plain_line(meter.read(clock.monotonic_s())))
        with Live(console=self._console, auto_refresh=False) as live:
            while True:
                status = meter.read(clock.monotonic_s())
                live.update(picture(status, tuple(self._last), self._console), refresh=True)
                await asyncio.sleep(1 / _PICTURES_PER_S)


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
    at = "" if port == DEFAULT_PORT else f" --url ws://{_HOST}:{port}"
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
