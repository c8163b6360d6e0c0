"""The load generator for machines without a C compiler: `python -m arauto.bench.fallback`.

Takes the options of loadgen.c and prints the same JSON. It needs several times the processor time per
delivery, so with it the figures are those of the generator as much as of the server; whoever prints them
says so. What the rules of a run are is explained in loadgen.c.
"""

import argparse
import os
import resource
import selectors
import socket
import sys
import time
from collections.abc import Sequence

import msgspec

from arauto.bench import wire
from arauto.bench.failure import BenchError
from arauto.bench.generator import Latency, Sample
from arauto.errors import ArautoError

__all__ = ["main", "percentile"]

_READ_BYTES = 256 << 10
_CONNECTING_MAX = 128
_SOCKETS_PER_ADDRESS = 20_000
_STAMP = b"@ts:"
_STAMP_LEN = 20


class _Connection:
    """One socket and what came in on it."""

    __slots__ = ("channel", "counter", "is_publisher", "is_stalled", "out", "sock", "steps_done")

    def __init__(self, sock: socket.socket, proto: str, channel: str) -> None:
        self.sock = sock
        self.channel = channel
        self.counter = wire.counter(proto)
        self.out = bytearray()
        self.is_publisher = False
        self.is_stalled = False
        self.steps_done = 0

    @property
    def is_ready(self) -> bool:
        return self.steps_done >= (1 if self.is_publisher else 2)


class _Run:
    """One run of one mode."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.selector = selectors.DefaultSelector()
        self.connections: list[_Connection] = []
        self.published = 0
        self.window_ns = (0, 0)
        self.latencies_ns: list[int] = []
        self.payload = _STAMP + b"x" * (options.payload_bytes - len(_STAMP))

    # --- connecting ---

    def open_all(self) -> None:
        """Connect everyone, publishers first, and wait until the server has answered them all."""
        o = self.options
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        wanted = o.publishers + o.subscribers + o.stalled
        moved_s, ready = time.monotonic(), 0
        while ready < wanted:
            while len(self.connections) < min(wanted, ready + _CONNECTING_MAX):
                self._open(len(self.connections))
            self.poll(0.1)
            now_ready = sum(connection.is_ready for connection in self.connections)
            if now_ready > ready:
                ready, moved_s = now_ready, time.monotonic()
            elif time.monotonic() - moved_s > o.stall:
                raise BenchError(f"{ready} of {wanted} connections are ready, and no more come")

    def _open(self, index: int) -> None:
        o = self.options
        place = index - o.publishers
        sock = socket.socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_stalled = place >= o.subscribers
        if is_stalled:
            # Fills soon: loopback's large segments would let megabytes wait in the kernel.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1460)
        sock.bind((f"127.0.0.{1 + index // _SOCKETS_PER_ADDRESS}", 0))
        sock.connect(("127.0.0.1", o.port))
        sock.setblocking(False)
        own = max(place, 0) if o.mode in ("spread", "idle") else index if place < 0 else 0
        connection = _Connection(sock, o.proto, self._channel(own))
        connection.is_publisher = place < 0
        connection.is_stalled = is_stalled
        if o.mode == "latency" and not is_stalled and place >= 0 and place % o.sample_every == 0:
            connection.counter.on_publication = self._record
        connection.out += wire.hello(o.proto, o.port, f"{'p' if place < 0 else 's'}{index}")
        self.selector.register(sock, selectors.EVENT_READ, connection)
        self.connections.append(connection)
        self._flush(connection)

    def _channel(self, index: int) -> str:
        shared = self.options.mode in ("fanout", "latency")
        return f"b:{0 if shared else index:06d}"

    # --- moving bytes ---

    def _flush(self, connection: _Connection) -> None:
        if connection.out:
            try:
                sent = connection.sock.send(connection.out)
            except BlockingIOError:
                sent = 0
            del connection.out[:sent]
        if not (connection.is_stalled and connection.is_ready):
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0)
            if self.selector.get_key(connection.sock).events != mask:
                self.selector.modify(connection.sock, mask, connection)

    def poll(self, timeout_s: float) -> None:
        """Handle what came in."""
        for key, mask in self.selector.select(timeout_s):
            connection: _Connection = key.data
            if mask & selectors.EVENT_WRITE:
                self._flush(connection)
            if mask & selectors.EVENT_READ:
                self._receive(connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise BenchError("the server closed a connection")
        connection.counter.feed(data)
        if connection.counter.answers:
            connection.out += connection.counter.answers
            connection.counter.answers.clear()
            self._flush(connection)
        if connection.counter.steps > connection.steps_done and not connection.is_ready:
            self._step(connection)

    def _step(self, connection: _Connection) -> None:
        connection.steps_done += 1
        if not connection.is_ready:
            connection.out += wire.subscribe(self.options.proto, connection.channel)
            self._flush(connection)
        elif connection.is_stalled:
            self.selector.unregister(connection.sock)  # from now on nobody reads this one

    def _record(self, frame: bytes) -> None:
        at = frame.index(_STAMP)
        sent_ns = int(frame[at + len(_STAMP) : at + _STAMP_LEN], 16)
        if self.window_ns[0] <= sent_ns < self.window_ns[1]:
            self.latencies_ns.append(max(0, time.monotonic_ns() - sent_ns))

    # --- the run ---

    @property
    def deliveries(self) -> int:
        readers = (c for c in self.connections if not c.is_publisher and not c.is_stalled)
        return sum(connection.counter.publications for connection in readers)

    @property
    def acked(self) -> int:
        return sum(c.counter.acked for c in self.connections[: self.options.publishers])

    @property
    def refused(self) -> int:
        return sum(c.counter.refused for c in self.connections[: self.options.publishers])

    def outstanding(self) -> int:
        """Messages, or deliveries of them, that the server still owes."""
        o = self.options
        if o.mode == "stored":
            return self.published - self.acked - self.refused
        return self.published * (1 if o.mode == "spread" else o.subscribers) - self.deliveries

    def _publish(self, stamp: int) -> None:
        o = self.options
        frames = self.published // o.batch
        publisher = self.connections[frames % o.publishers]
        payload = _STAMP + b"%016x" % stamp + self.payload[_STAMP_LEN:]
        channel = (
            self._channel(self.published % o.subscribers)
            if o.mode == "spread"
            else publisher.channel
        )
        number = frames + 1 if o.mode == "stored" else 0
        publisher.out += wire.publish(o.proto, channel, payload, number=number, batch=o.batch)
        self.published += o.batch

    def _publish_what_may_go(self, begin_ns: int, sequence: int) -> int:
        o = self.options
        if o.mode == "latency":
            now_ns = time.monotonic_ns()
            while (due_ns := begin_ns + int(sequence / o.rate * 1e9)) <= now_ns:
                if due_ns >= self.window_ns[1]:
                    break
                self._publish(due_ns)
                sequence += 1
        else:
            fan = o.subscribers if o.mode == "fanout" else 1
            owed = self.outstanding()
            while owed < o.in_flight * fan:
                self._publish(self.published)
                owed += fan * o.batch
        for publisher in self.connections[: o.publishers]:
            self._flush(publisher)
        return sequence

    def run(self) -> Sample:
        """Warm up, measure, wait for what is owed."""
        o = self.options
        begin_ns = moved_ns = time.monotonic_ns()
        start_ns = begin_ns + int(o.warmup * 1e9)
        self.window_ns = (start_ns, start_ns + int(o.seconds * 1e9))
        marks: list[tuple[int, ...]] = []
        sequence = progress = 0
        while True:
            now_ns = time.monotonic_ns()
            if len(marks) < 2 and now_ns >= self.window_ns[len(marks)]:
                marks.append(self._mark(now_ns))
            if len(marks) < 2 or o.mode == "latency":  # what is due before the end still goes
                sequence = self._publish_what_may_go(begin_ns, sequence)
            if len(marks) == 2 and self.outstanding() <= 0:
                break
            self.poll(0.001 if o.mode == "latency" else 0.02)
            done = self.deliveries + self.acked + self.refused
            if done != progress:
                progress, moved_ns = done, time.monotonic_ns()
            elif self.outstanding() > 0 and time.monotonic_ns() - moved_ns > o.stall * 1e9:
                if len(marks) == 2:
                    break
                raise BenchError(f"no delivery for {o.stall:.0f} s with {self.outstanding()} owed")
        return self._report(marks[0], marks[1])

    def _mark(self, now_ns: int) -> tuple[int, ...]:
        ticks = sum(_cpu_ticks(pid) for pid in self.options.server_pid or ())
        return (now_ns, self.deliveries, self.published, self.acked, ticks, time.process_time_ns())

    def _report(self, start: tuple[int, ...], end: tuple[int, ...]) -> Sample:
        o = self.options
        ns, deliveries, publishes, acks, ticks, own_ns = (
            b - a for a, b in zip(start, end, strict=True)
        )
        return Sample(
            generator="python",
            seconds=ns / 1e9,
            deliveries=deliveries,
            publishes=publishes,
            acks=acks,
            server_cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
            generator_cpu_s=own_ns / 1e9,
            published_total=self.published,
            delivered_total=self.deliveries,
            acked_total=self.acked,
            refused_total=self.refused,
            lost=self.outstanding(),
            uneven_subscribers=self._uneven(),
            gaps=sum(connection.counter.gaps for connection in self.connections),
            latency=_summary(self.latencies_ns) if o.mode == "latency" else None,
        )

    def _uneven(self) -> int:
        o = self.options
        readers = self.connections[o.publishers : o.publishers + o.subscribers]
        whole, extra = divmod(self.published, o.subscribers if o.mode == "spread" else 1)
        return sum(
            reader.counter.publications != whole + (place < extra)
            for place, reader in enumerate(readers)
        )

    def hold(self) -> None:
        """Keep idle sessions alive until stdin ends."""
        ready = {
            "generator": "python",
            "proto": self.options.proto,
            "mode": "idle",
            "ready": len(self.connections),
        }
        _print(msgspec.json.encode(ready))
        os.set_blocking(0, False)
        while _stdin_is_open():
            self.poll(0.1)


def _stdin_is_open() -> bool:
    try:
        return os.read(0, 64) != b""
    except BlockingIOError:
        return True


def _cpu_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def percentile(ordered: Sequence[int], share: float) -> int:
    """Return the value below or at which the given share of the ordered samples lies."""
    if not ordered:
        return 0
    return ordered[min(len(ordered), max(1, round(share * len(ordered)))) - 1]


def _summary(samples_ns: list[int]) -> Latency:
    ordered = sorted(samples_ns)
    mean_ns = sum(ordered) / len(ordered) if ordered else 0.0
    p50, p90, p99, p999, top = (
        percentile(ordered, share) / 1e6 for share in (0.5, 0.9, 0.99, 0.999, 1)
    )
    return Latency(
        samples=len(ordered),
        mean_ms=mean_ns / 1e6,
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        p999_ms=p999,
        max_ms=top,
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="loadgen", description=__doc__)
    modes = ("fanout", "spread", "latency", "idle", "stored")
    parser.add_argument("--proto", choices=wire.PROTOCOLS, required=True)
    parser.add_argument("--mode", choices=modes, default="fanout")
    parser.add_argument("--port", type=int, required=True)
    for name, default in (
        ("subscribers", 1),
        ("publishers", 1),
        ("stalled", 0),
        ("in-flight", 1),
        ("batch", 1),
        ("payload-bytes", 100),
        ("sample-every", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, seconds in (("seconds", 3.0), ("warmup", 1.0), ("rate", 1000.0), ("stall", 10.0)):
        parser.add_argument(f"--{name}", type=float, default=seconds)
    parser.add_argument("--server-pid", type=int, action="append")
    options = parser.parse_args(arguments)
    if options.mode == "idle":
        options.publishers = 0
    if options.mode == "stored":
        options.subscribers = 0
    return options


def _print(text: bytes) -> None:
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run once; returns the exit code."""
    run = _Run(_options(arguments))
    try:
        run.open_all()
        if run.options.mode == "idle":
            run.hold()
        else:
            _print(msgspec.json.encode(run.run()))
    except (ArautoError, BenchError, OSError) as error:
        sys.stderr.write(f"loadgen: {error}\n")
        return 1
    finally:
        for connection in run.connections:
            connection.sock.close()
        run.selector.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
