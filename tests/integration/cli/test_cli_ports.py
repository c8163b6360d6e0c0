"""Whether a port is taken, and what the system's refusals mean."""

import errno
import socket

import msgspec
import pytest

from arauto.cli.ports import explain, is_taken
from arauto.config.schema import Config


def test_a_port_somebody_listens_on_is_taken_and_a_free_one_is_not() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        assert is_taken("127.0.0.1", port)
    assert not is_taken("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 0), ("192.0.2.1", 80), ("no.such", 80)])
def test_what_cannot_be_taken_is_not_taken(host: str, port: int) -> None:
    assert not is_taken(host, port)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EACCES, "denied"), "this user may not open port 80; choose one above 1023"),
        (OSError(errno.EADDRNOTAVAIL, "x"), "192.0.2.1 is no address of this machine"),
        (socket.gaierror(-2, "x"), "192.0.2.1 is no address of this machine"),
        (OSError(errno.EADDRINUSE, "x"), "the admin port 4040 on 127.0.0.1 is used"),
        (OSError(errno.EMFILE, "too many files"), "too many files"),
    ],
)
def test_a_refusal_of_the_system_is_explained(error: OSError, said: str) -> None:
    config = msgspec.convert({"connection": {"host": "192.0.2.1", "port": 80}}, Config)
    assert said in explain(error, config)
