"""A wrong master is told at once, in a sentence."""

import socket

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.master import check_master


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[4, 2]", "local-cluster[2,1,1024]", "yarn"]
)
def test_masters_that_need_no_answer_are_let_pass(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["nonsense", "spark:/host", "spark://host", "spark://h:99999", "local[x]", ""]
)
def test_what_names_no_master_is_refused(master: str) -> None:
    with pytest.raises(ArautoError) as refused:
        check_master(master)
    assert refused.value.code is Code.BAD_CONFIG


def test_a_master_that_does_not_answer_is_told_and_one_that_does_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        up, down = (f"127.0.0.1:{each.getsockname()[1]}" for each in (there, bound))
        check_master(f"spark://{down},{up}")
        with pytest.raises(ArautoError, match="no Spark master answers"):
            check_master(f"spark://{down}")
