"""Pure code stays pure, and time, chance and files enter only where they are meant to."""

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.arch.source import Module, assert_none, calls, imported_names, modules, parse, within

#: Bytes and values in, bytes and values out. What a function here does depends on its arguments alone.
PURE = (
    "codec/",
    "correlation/",
    "errors.py",
    "features/document/patch.py",
    "features/document/pointer.py",
    "features/document/state.py",
    "features/document/value.py",
    "hub/idempotency.py",
    "hub/keeping.py",
    "hub/matcher.py",
    "hub/recovery.py",
    "hub/rules.py",
    "limits.py",
    "model.py",
    "names.py",
    "grants.py",
    "settings.py",
)
IMPURE_IMPORTS = re.compile(
    r"(asyncio|concurrent|os|random|secrets|selectors|socket|ssl|subprocess|threading|time|uuid)(\.|$)"
)

#: Calls whose result the caller cannot foresee or whose effect leaves the process.
AMBIENT = re.compile(
    r"time\.(time|monotonic|perf_counter|process_time|sleep|localtime|gmtime|strftime)(_ns)?$"
    r"|(random|secrets|uuid)\.\w+$"
    r"|os\.urandom$"
    r"|(datetime\.)?(datetime|date)\.(now|utcnow|today)$"
    r"|((io|os)\.)?open$"
    r"|.*\.(read|write)_(text|bytes)$|(.*[._])?(path|Path\(\))\.open$"
)

#: Where the outside world is the job. The whole list: everything else gets a Clock, an Entropy or bytes.
EDGES: Mapping[str, str] = {
    "bench/": "measures real time on real machines",
    "cli/": "talks to a person at a terminal",
    "config/": "reads the configuration and the files it names, once, at start",
    "clock.py": "is where time enters",
    "entropy.py": "is where chance enters",
    "gateways/": "owns sockets",
    "pipeline/": "runs beside the node, on Spark, with files and time of its own",
    "session/auth/jwks.py": "reads the key files an operator named",
    "storage/": "owns files and servers",
    "testing/": "runs in tests and tools, never in a node",
}


def impurities(module: Module) -> Iterator[str]:
    for line, name in imported_names(module):
        if IMPURE_IMPORTS.match(name):
            yield f"{module.name}:{line} imports {name}"


def ambient_calls(module: Module) -> Iterator[str]:
    for node, name in calls(module):
        if AMBIENT.match(name):
            yield f"{module.name}:{node.lineno} calls {name}"


def test_pure_modules_import_nothing_that_waits_or_touches_the_world() -> None:
    pure = [module for module in modules() if any(within(module, zone) for zone in PURE)]
    assert_none(problem for module in pure for problem in impurities(module))


def test_time_chance_and_files_are_reached_only_at_the_edges() -> None:
    inner = [module for module in modules() if not any(within(module, edge) for edge in EDGES)]
    assert_none(problem for module in inner for problem in ambient_calls(module))


@pytest.mark.parametrize("zone", [*PURE, *EDGES])
def test_every_zone_named_here_exists(zone: str) -> None:
    assert any(within(module, zone) for module in modules())


@pytest.mark.parametrize(
    "line",
    ["import time", "from os import path", "import asyncio as a", "from concurrent import futures"],
)
def test_an_impure_import_is_found(line: str) -> None:
    assert len(list(impurities(parse(line)))) == 1


@pytest.mark.parametrize(
    "line", ["import osmosis", "from timeit import x", "from arauto.clock import Clock"]
)
def test_a_harmless_import_is_not_mistaken(line: str) -> None:
    assert list(impurities(parse(line))) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic_ns()",
        "from time import perf_counter as now\nnow()",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
        "import random\nrandom.random()",
        "from uuid import uuid4\nuuid4()",
        "from secrets import token_bytes\ntoken_bytes(3)",
        "open('x')",
        "Path(x).read_text()",
        "Path(x).open()",
        "self.key_path.open()",
    ],
)
def test_an_ambient_call_is_found(text: str) -> None:
    assert len(list(ambient_calls(parse(text)))) == 1


@pytest.mark.parametrize("text", ["clock.time()", "self.open()", "entropy.random()", "store.now()"])
def test_a_call_on_an_injected_object_is_not_mistaken(text: str) -> None:
    assert list(ambient_calls(parse(text))) == []
