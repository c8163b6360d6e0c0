"""A Redis (or Valkey) server of our own, durable as the documentation asks for."""

import shutil
import signal
import socket
import time

from tests.services.programs import ServerProcess, find_program, service_directory

__all__ = ["RedisServer"]

_START_S = 20


class RedisServer:
    """One server on a Unix socket."""

    def __init__(self, *, durable: bool = True) -> None:
        self._program = find_program("redis-server", "redis-server", "valkey-server")
        self.directory = service_directory("redis", None)
        self._durable = durable
        self.socket_path = self.directory / "redis.sock"
        self.url = f"unix://{self.socket_path}"
        self._process: ServerProcess | None = None
        self.start()

    def start(self) -> None:
        """Start and wait until it answers."""
        config = self.directory / "redis.conf"
        config.write_text(
            f'port 0\nunixsocket {self.socket_path}\ndir {self.directory}\nsave ""\n'
            f"appendonly {'yes' if self._durable else 'no'}\nappendfsync always\n"
        )
        self._process = ServerProcess(
            [str(self._program), str(config)],
            self.directory / "log",
        )
        deadline = time.monotonic() + _START_S
        while not self._answers():
            self._process.check()
            if time.monotonic() > deadline:
                raise TimeoutError("Redis did not start")
            time.sleep(0.02)

    def flush(self) -> None:
        """Forget everything."""
        self.ask(b"FLUSHALL\r\n")

    def kill(self) -> None:
        assert self._process is not None
        self._process.stop(signal.SIGKILL)

    def remove(self) -> None:
        assert self._process is not None
        self._process.stop(signal.SIGTERM)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            return self.ask(b"PING\r\n").startswith(b"+PONG")
        except OSError:
            return False

    def ask(self, command: bytes) -> bytes:
        """Send one inline command and return the answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket_path))
            client.sendall(command)
            return client.recv(64)
