"""A started node says what is open, to whom, and how to close it."""

from typing import Any

import msgspec
import pytest

from arauto.cli.summary import Line, describe
from arauto.config.schema import Config


def summary(made_up_token: str = "", **categories: Any) -> dict[str, Line]:
    config = msgspec.convert(categories, Config)
    lines = describe(config, port=8081, admin_port=4041, made_up_token=made_up_token)
    return {line.name: line for line in lines}


def test_addresses_name_the_ports_in_use() -> None:
    lines = summary()
    assert lines["clients"].value == "ws://127.0.0.1:8081"
    assert lines["admin"].value == "http://127.0.0.1:4041"


def test_tls_and_ipv6_show_in_the_address() -> None:
    connection = {"host": "::1", "tls": {"certFile": "c.pem", "keyFile": "k.pem"}}
    assert summary(connection=connection)["clients"].value == "wss://[::1]:8081"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_is_called_closed(host: str) -> None:
    line = summary(connection={"host": host})["clients"]
    assert not line.is_open
    assert "only from this machine" in line.hints


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "127.example.org"])
def test_a_port_open_to_the_network_is_pointed_out(host: str) -> None:
    lines = summary(connection={"host": host}, admin={"host": host})
    assert lines["clients"].is_open
    assert lines["admin"].is_open
    assert "open to the network; connection.host closes that" in lines["clients"].hints
    assert "open to the network; admin.host closes that" in lines["admin"].hints


def test_only_a_token_made_up_for_the_run_is_shown() -> None:
    assert "bearer token abc, for this run" in summary(made_up_token="abc")["admin"].hints[0]
    configured = summary(admin={"token": "a-secret-of-the-configuration"})
    assert "a-secret" not in repr(configured)


@pytest.mark.parametrize(
    ("storage", "value"),
    [
        ({}, "SQLite in ./arauto-data"),
        ({"dataDir": "/srv/x"}, "SQLite in /srv/x"),
        ({"kind": "memory"}, "memory"),
        (
            {"kind": "postgres", "postgres": {"host": "db", "password": "hidden"}},
            "PostgreSQL at db:5432/arauto",
        ),
    ],
)
def test_the_storage_is_named(storage: dict[str, Any], value: str) -> None:
    line = summary(storage=storage)["storage"]
    assert line.value == value
    assert "hidden" not in repr(line)


@pytest.mark.parametrize(("allowed", "is_open"), [(True, True), (False, False)])
def test_hubs_made_by_anyone_are_pointed_out(allowed: bool, is_open: bool) -> None:
    assert summary(engine={"allowDynamicHubs": allowed})["hubs"].is_open is is_open


@pytest.mark.parametrize(
    ("hub", "value", "is_open"),
    [
        ({}, "closed: subscribing and publishing need a grant or rules", False),
        ({"defaultRules": {"clientPublish": True}}, "closed: subscribing", False),
        ({"defaults": {"defaultPublic": True}}, "anyone may subscribe; publishing", True),
        ({"defaultRules": {"public": True}}, "anyone may subscribe; publishing", True),
        (
            {"defaults": {"defaultPublic": True}, "defaultRules": {"clientPublish": True}},
            "anyone may subscribe and publish",
            True,
        ),
    ],
)
def test_who_may_use_channels_is_told(hub: dict[str, Any], value: str, is_open: bool) -> None:
    line = summary(hub=hub)["channels"]
    assert line.value.startswith(value)
    assert line.is_open is is_open
