"""Which ports the demo was asked to use, and what its pipeline is told of the environment."""

import pytest
import typer

from arauto.cli.demo_pipeline import without_settings
from arauto.cli.demo_ports import Ports

_BOTH = {"ARAUTO_CONNECTION__PORT": "9000", "ARAUTO_ADMIN__PORT": "9001"}


def test_an_option_wins_over_a_variable() -> None:
    assert Ports.of(client=None, admin=None, environ=_BOTH) == Ports(9000, 9001)
    assert Ports.of(client=1, admin=0, environ=_BOTH) == Ports(1, 0)
    assert Ports.of(client=None, admin=None, environ={}) == Ports(None, None)


@pytest.mark.parametrize("text", ["", "x", "-1", "65536", "8_0", "1e3", "٣"])
def test_a_variable_that_is_no_port_is_named(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="ARAUTO_ADMIN__PORT: expected a whole number"):
        Ports.of(client=None, admin=None, environ={"ARAUTO_ADMIN__PORT": text})


def test_both_ports_cannot_be_the_same_unless_they_are_any() -> None:
    with pytest.raises(typer.BadParameter, match="cannot both have port 9000"):
        Ports.of(client=None, admin=9000, environ=_BOTH)
    assert Ports.of(client=0, admin=0, environ={}) == Ports(0, 0)


def test_variables_for_nodes_do_not_win_over_the_file_of_the_demos_pipeline() -> None:
    environ = {"PATH": "/bin", "ARAUTO_ADMIN__PORT": "0", "ARAUTO_CONFIG": "x.yaml"}
    assert without_settings(environ) == {"PATH": "/bin"}
