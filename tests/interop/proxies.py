"""nginx and HAProxy in front of a node, configured as docs/operations/README.md says.

The configurations are read from that page, so that what a reader copies is what was tested. Only addresses,
file names and, where a test asks for it, times are put in place of the page's own.
"""

import asyncio
import datetime
import ipaddress
import re
import shutil
import signal
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.services.programs import (
    ServerProcess,
    find_program,
    service_directory,
    unprivileged_user,
)

__all__ = ["PROXIES", "Proxy"]

_PAGE = Path(__file__).parents[2] / "docs" / "operations" / "README.md"
_NAME = "live.example.com"
_STARTED_S = 10.0

_NGINX = """
daemon off;
pid {directory}/pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
{page}
}}
"""


class Proxy:
    """A running proxy; `port` speaks TLS with a certificate for live.example.com and 127.0.0.1."""

    def __init__(self, kind: str, node_port: int, timeout: str = "75s") -> None:
        program = find_program(kind, kind, f"/usr/sbin/{kind}")
        user = unprivileged_user("www-data", "nobody")
        self._directory = service_directory(kind, user)
        self.port = _free_port()
        certificate, key = _certificate()
        files = {
            f"/etc/ssl/{_NAME}.pem": certificate,
            f"/etc/ssl/{_NAME}.key": key,
            f"/etc/ssl/{_NAME}.both.pem": certificate + key,
        }
        text = page_example(kind).replace("127.0.0.1:8080", f"127.0.0.1:{node_port}")
        text = text.replace("listen 443", f"listen 127.0.0.1:{self.port}")
        text = text.replace("bind :443", f"bind 127.0.0.1:{self.port}").replace("75s", timeout)
        for name, content in files.items():
            path = self._directory / Path(name).name
            path.write_bytes(content)
            text = text.replace(f"{name};", f"{path};").replace(f"{name}\n", f"{path}\n")
        config = self._directory / "config"
        config.write_text(_COMPLETED[kind](text, self._directory))
        if user is not None:
            for path in self._directory.iterdir():
                shutil.chown(path, user)
        command = [str(program), *_ARGUMENTS[kind](config, self._directory)]
        self._process = ServerProcess(command, self._directory / "log", user)
        self.tls = ssl.create_default_context(cadata=certificate.decode())

    @property
    def url(self) -> str:
        return f"wss://127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def started(self) -> None:
        """Wait until it takes connections."""
        async with asyncio.timeout(_STARTED_S):
            while True:
                self._process.check()
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    await writer.wait_closed()
                    return

    def remove(self) -> None:
        self._process.stop(signal.SIGTERM)
        shutil.rmtree(self._directory)


def page_example(kind: str) -> str:
    """The example configuration of the page."""
    [found] = re.findall(rf"^```{kind}\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


_COMPLETED: dict[str, Callable[[str, Path], str]] = {
    "nginx": lambda page, directory: _NGINX.format(directory=directory, page=page),
    "haproxy": lambda page, _: page,
}
_ARGUMENTS: dict[str, Callable[[Path, Path], list[str]]] = {
    "nginx": lambda config, directory: ["-p", str(directory), "-c", str(config), "-e", "stderr"],
    "haproxy": lambda config, _: ["-f", str(config)],
}
PROXIES = tuple(_COMPLETED)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(_NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
