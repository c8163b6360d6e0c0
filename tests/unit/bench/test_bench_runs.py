"""The generators against real servers: every message is counted once, and lost ones would show."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arauto.bench.build import Generator, find_generator
from arauto.bench.failure import BenchError
from arauto.bench.generator import Load, idle_sessions, run_load
from arauto.bench.peers import FLAVOURS, PEERS, MissingPeer, Server, Target, installed, start
from arauto.bench.procfs import memory, process_tree
from arauto.bench.runs import compare, measure_idle, running_targets

_PYTHON = Generator(argv=(sys.executable, "-m", "arauto.bench.fallback"), kind="python")


@pytest.fixture(params=["c", "python"])
def generator(request: pytest.FixtureRequest) -> Generator:
    if request.param == "python":
        return _PYTHON
    found: Generator = request.getfixturevalue("c_generator")
    return found


@contextmanager
def _peer(name: str) -> Iterator[Target]:
    try:
        installed(name)
    except MissingPeer as error:
        pytest.skip(str(error))
    with start(name) as server:
        yield Target(label=name, proto=PEERS[name].proto, server=server)


@pytest.mark.parametrize("name", PEERS)
def test_fanout_reaches_every_subscriber_once(name: str, generator: Generator) -> None:
    load = Load(mode="fanout", subscribers=3, in_flight=4, warmup_s=0.05, seconds=0.3)
    with _peer(name) as target:
        sample = run_load(generator, target, load)
    assert sample.generator == generator.kind
    assert sample.is_exact
    assert sample.delivered_total == 3 * sample.published_total > 0
    assert 0 < sample.deliveries <= sample.delivered_total
    assert sample.deliveries <= 3 * (sample.publishes + load.in_flight + 1)


@pytest.mark.parametrize("name", PEERS)
def test_spread_reaches_each_channels_subscriber_once(name: str, generator: Generator) -> None:
    load = Load(mode="spread", subscribers=7, in_flight=5, warmup_s=0.0, seconds=0.3)
    with _peer(name) as target:
        sample = run_load(generator, target, load)
    assert sample.is_exact
    assert sample.delivered_total == sample.published_total > 0


def test_latency_samples_every_message_of_the_window(generator: Generator) -> None:
    load = Load(
        mode="latency",
        subscribers=4,
        sample_every=2,
        rate=200,
        stalled=1,
        warmup_s=0.1,
        seconds=0.5,
    )
    with _peer("redis") as target:
        sample = run_load(generator, target, load)
    assert sample.is_exact
    assert sample.published_total == 120
    latency = sample.latency
    assert latency is not None
    assert latency.samples == 2 * 100
    ordered = (latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.p999_ms, latency.max_ms)
    assert list(ordered) == sorted(ordered)
    assert latency.p50_ms > 0


@pytest.fixture(scope="module")
def node() -> Iterator[Server]:
    with start("arauto") as server:
        yield server


@pytest.fixture(scope="module")
def storing_node() -> Iterator[Server]:
    with start("arauto", stored=True) as server:
        yield server


flavours = pytest.mark.parametrize("flavour", FLAVOURS)


@flavours
@pytest.mark.parametrize("mode", ["fanout", "spread"])
def test_arauto_delivers_everything_once(
    mode: str, flavour: str, node: Server, generator: Generator
) -> None:
    load = Load(mode=mode, subscribers=5, in_flight=8, warmup_s=0.05, seconds=0.3)
    target = Target(f"arauto {flavour}", f"arauto-{flavour}", node)
    sample = run_load(generator, target, load)
    assert sample.is_exact
    assert sample.delivered_total == sample.published_total * (5 if mode == "fanout" else 1) > 0


@flavours
def test_arauto_latency_is_measured_beside_a_stalled_reader(
    flavour: str, node: Server, generator: Generator
) -> None:
    load = Load(mode="latency", subscribers=2, stalled=1, rate=100, warmup_s=0.1, seconds=0.3)
    sample = run_load(generator, Target("arauto", f"arauto-{flavour}", node), load)
    assert sample.is_exact
    assert sample.latency is not None
    assert sample.latency.samples == 2 * 30


@flavours
@pytest.mark.parametrize("batch", [1, 10])
def test_every_stored_message_is_acknowledged(
    batch: int, flavour: str, storing_node: Server, generator: Generator
) -> None:
    load = Load(mode="stored", in_flight=40, batch=batch, publishers=2, warmup_s=0.0, seconds=0.3)
    target = Target(f"arauto {flavour}", f"arauto-{flavour}", storing_node)
    sample = run_load(generator, target, load)
    assert sample.is_exact
    assert sample.acked_total == sample.published_total > 0
    assert sample.published_total % batch == 0


def test_idle_sessions_are_held_while_memory_is_read(generator: Generator) -> None:
    with _peer("redis") as target:
        before = memory(target.server.pids).rss_bytes
        with idle_sessions(generator, target, Load(mode="idle", subscribers=300)):
            assert _clients_of_redis(target.server.port) == 300
            assert memory(target.server.pids).rss_bytes > before


def _clients_of_redis(port: int) -> int:
    """Asked of the server: the system's list of connections shows some twice while others come and go."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as asking:
        asking.sendall(b"INFO clients\r\nQUIT\r\n")
        with asking.makefile() as answer:
            counts = [line for line in answer if line.startswith("connected_clients:")]
    return int(counts[0].partition(":")[2]) - 1  # this one


def _silent_server(ready: threading.Event, ports: list[int], stop: threading.Event) -> None:
    """Accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports.append(listener.getsockname()[1])
        ready.set()
        connection, _ = listener.accept()
        with connection:
            stop.wait(20)


def test_a_server_that_never_answers_ends_the_run_with_a_reason(generator: Generator) -> None:
    ready, stop, ports = threading.Event(), threading.Event(), list[int]()
    thread = threading.Thread(target=_silent_server, args=(ready, ports, stop))
    thread.start()
    try:
        assert ready.wait(5)
        options = [
            "--proto",
            "redis",
            "--mode",
            "fanout",
            "--port",
            str(ports[0]),
            "--stall",
            "0.2",
        ]
        done = subprocess.run(
            [*generator.argv, *options], capture_output=True, text=True, timeout=30, check=False
        )
    finally:
        stop.set()
        thread.join()
    assert done.returncode == 1
    assert "0 of 2 connections are ready" in done.stderr


def test_a_closed_port_is_a_failure_and_not_a_figure(generator: Generator) -> None:
    server = Server(name="redis", version="", port=1, pid=os.getpid())
    with pytest.raises(BenchError, match="redis"):
        run_load(generator, Target("redis", "redis", server), Load(mode="fanout"))


def test_targets_are_measured_in_turns(c_generator: Generator) -> None:
    steps: list[str] = []
    load = Load(mode="fanout", subscribers=2, in_flight=2, warmup_s=0.0, seconds=0.1)
    with running_targets(["redis", "nats"], []) as targets:
        if targets.left_out:
            pytest.skip(str(targets.left_out))
        result = compare(c_generator, targets, load, name="x", rounds=2, on_step=steps.append)
    assert [step.split(" · ")[1] for step in steps] == ["redis", "nats", "redis", "nats"]
    assert [row.label for row in result.rows] == ["redis", "nats"]
    assert all(row.is_exact and len(row.rounds) == 2 for row in result.rows)


def test_a_target_that_fails_is_left_out_with_the_reason(c_generator: Generator) -> None:
    load = Load(mode="stored", in_flight=2, warmup_s=0.0, seconds=0.1)
    with running_targets(["redis"], []) as targets:
        if targets.left_out:
            pytest.skip(str(targets.left_out))
        result = compare(c_generator, targets, load, name="x", rounds=3, on_step=lambda text: None)
    assert result.rows == ()
    assert "for Arauto" in result.left_out["redis"]


def test_a_missing_peer_is_reported_and_not_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with running_targets(["mosquitto"], []) as targets:
        assert targets.ready == ()
        assert targets.left_out == {"mosquitto": "mosquitto: not installed (apt install mosquitto)"}


def test_idle_memory_is_measured_in_a_fresh_process(c_generator: Generator) -> None:
    result = measure_idle(c_generator, ["redis"], [], 200, name="idle", on_step=lambda text: None)
    if result.left_out:
        pytest.skip(str(result.left_out))
    assert result.rows[0].sessions == 200
    assert result.rows[0].bytes_per_session > 0


def test_servers_are_gone_when_the_block_ends() -> None:
    with _peer("redis") as target:
        pid = target.server.pid
        assert process_tree(pid)[0] == pid
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


def test_without_a_compiler_the_python_generator_is_used_and_says_so(tmp_path: Path) -> None:
    generator = find_generator(cache_dir=tmp_path, compilers=("no-such-compiler",))
    assert generator.kind == "python"
    assert "no C compiler" in generator.note


def test_the_generator_is_compiled_once_per_source(tmp_path: Path, binary: Path) -> None:
    first = find_generator(cache_dir=tmp_path)
    assert first.kind == "c"
    # Found again without any compiler: it was kept.
    assert find_generator(cache_dir=tmp_path, compilers=()) == first
    assert [path.name for path in tmp_path.iterdir()] == [binary.name]
