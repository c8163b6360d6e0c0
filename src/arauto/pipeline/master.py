"""Checks a Spark master before Spark is started, which itself answers with pages, or not for minutes."""

import re
import socket

from arauto.errors import ArautoError, Code

__all__ = ["check_master"]

_LOCAL = re.compile(
    r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\]|-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\])?\Z"
)
_STANDALONE = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})\Z")
_OTHERS = ("yarn", "k8s://")
_ANSWER_S = 5.0


def check_master(master: str) -> None:
    """Return if Spark can be started there, as far as can be told in seconds.

    Raises:
        ArautoError: BAD_CONFIG, it is no master's name, or nothing answers at its address.
    """
    if _LOCAL.match(master) or master.startswith(_OTHERS):
        return
    if not master.startswith("spark://"):
        raise ArautoError(
            Code.BAD_CONFIG,
            f"{master!r} names no Spark master: local[*], spark://host:7077, yarn or k8s://…",
            field="pipeline.master",
        )
    # Several, with commas, are one that runs and those that wait to take its place.
    problems = [_problem(each) for each in master.removeprefix("spark://").split(",")]
    if all(problems):
        raise ArautoError(
            Code.BAD_CONFIG, "; ".join(filter(None, problems)), field="pipeline.master"
        )


def _problem(address: str) -> str:
    found = _STANDALONE.match(address)
    if found is None or int(found["port"]) > 65_535:
        return f"{address!r} is no address such as host:7077"
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), _ANSWER_S).close()
    except OSError as error:
        return f"no Spark master answers at {address}: {error.strerror or error}"
    return ""
