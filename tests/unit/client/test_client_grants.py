"""The client and the node decide by one rule what a grant covers, held to one file of vectors."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from arauto.client import Client
from arauto.codec.events import AuthReply, AuthRequest
from arauto.errors import ArautoError, Code
from arauto.grants import GrantSet
from arauto.model import Grant, Grants
from arauto.names import is_pattern
from tests.unit.client.fake_node import FakeNode, Peer

Make = Callable[..., Client]


class Vector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    grant: str
    name: str
    covered: bool


_FILE = Path(__file__).parents[2] / "vectors" / "grants.json"
VECTORS = msgspec.json.decode(_FILE.read_bytes(), type=list[Vector])


def _grants(pattern: str) -> Grants:
    return Grants(channels=(Grant(channel=pattern, publish=True, subscribe=True),))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v.grant} {v.name}")
def test_the_nodes_rule_keeps_to_the_vectors(vector: Vector) -> None:
    granted = GrantSet(_grants(vector.grant))
    assert granted.may_subscribe(vector.name) is vector.covered
    if not is_pattern(vector.name) and vector.name[0] != "/":
        assert granted.may_publish(vector.name) is vector.covered


async def test_a_strict_client_refuses_exactly_what_the_vectors_refuse(
    make: Make, node: FakeNode
) -> None:
    def accept(peer: Peer, request: AuthRequest) -> None:
        grants = _grants(request.credentials.decode())
        peer.send(AuthReply(id=request.id, success=True, user="ana", grants=grants))

    node.handlers[AuthRequest] = accept
    async with make(strict_grants=True) as client:
        for vector in VECTORS:
            await client.authenticate(vector.grant)
            if vector.covered:
                await client.subscribe(vector.name).unsubscribe()
            else:
                with pytest.raises(ArautoError) as caught:
                    client.subscribe(vector.name)
                assert caught.value.code is Code.SUBSCRIBE_DENIED
            assert client.may_subscribe(vector.name) is vector.covered
            assert not (is_pattern(vector.name) and client.may_publish(vector.name))
