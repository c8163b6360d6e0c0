"""Is a port taken, and what does the system mean when it will not open one?"""

import errno
import socket

from arauto.config.schema import Config

__all__ = ["explain", "is_taken"]


def is_taken(host: str, port: int) -> bool:
    """Whether another program listens there. Only a look: by the time it is used, that may be different."""
    if port == 0:
        return False
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(address)
            except OSError as error:
                return error.errno == errno.EADDRINUSE
    return False


def explain(error: OSError, config: Config) -> str:
    """Why the node could not open its ports, and what helps, in one line."""
    client, admin = config.connection, config.admin
    if error.errno == errno.EADDRINUSE:
        if is_taken(client.host, client.port):
            where = f"port {client.port} on {client.host}"
            return f"{where} is used by another program; choose another with --port"
        where = f"the admin port {admin.port} on {admin.host}"
        return f"{where} is used by another program; set admin.port, or ARAUTO_ADMIN__PORT"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not open port {client.port}; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{client.host} is no address of this machine; choose another with --host"
    return str(error)
