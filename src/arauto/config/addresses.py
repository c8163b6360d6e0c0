"""Addresses that several parts work out from the configuration. Pure."""

from pathlib import Path
from urllib.parse import quote, urlencode

from arauto.config.backends import PostgresConfig
from arauto.config.schema import Config

__all__ = ["UPKEEP", "admin_url", "lake_dir", "postgres_url", "segments_dir", "upkeep_dir"]

#: The directory of the lake that is locked by whoever replaces files of it.
UPKEEP = "_upkeep"
#: Addresses that mean "all of them", and the one under which a neighbour on this machine is reached.
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104


def postgres_url(postgres: PostgresConfig) -> str:
    """The server's URL, with the password in it."""
    login = quote(postgres.user, safe="")
    if postgres.password:
        login += ":" + quote(postgres.password, safe="")
    query: dict[str, str] = {"sslmode": postgres.ssl_mode}
    place = f"{postgres.host}:{postgres.port}"
    if postgres.host.startswith("/"):
        # The directory of a Unix socket cannot stand where a host does.
        place = ""
        query |= {"host": postgres.host, "port": str(postgres.port)}
    return f"postgresql://{login}@{place}/{quote(postgres.database, safe='')}?{urlencode(query)}"


def admin_url(config: Config) -> str:
    """Where the pipeline finds the node's admin API."""
    host = _ANYWHERE.get(config.admin.host, config.admin.host)
    return config.pipeline.api_url or f"http://{host}:{config.admin.port}"


def lake_dir(config: Config) -> Path:
    """Where the lake lies."""
    return Path(config.pipeline.lake_dir or Path(config.storage.data_dir) / "lake")


def upkeep_dir(config: Config) -> Path:
    """Whose lock says that somebody replaces files of the lake."""
    return lake_dir(config) / UPKEEP


def segments_dir(config: Config) -> Path:
    """Where segments lie."""
    return Path(config.pipeline.segments_dir or Path(config.storage.data_dir) / "segments")
