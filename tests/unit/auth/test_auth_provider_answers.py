"""What a provider's answer says is believed in full or not at all."""

from typing import Any, cast

import pytest

from arauto.errors import ArautoError, Code
from arauto.model import Identity
from arauto.session.auth.outbound import OutboundClient, OutboundResponse
from arauto.session.auth.provider import HttpAuthProvider
from arauto.settings import AuthProvider
from arauto.testing.clock import FakeClock


class Service:
    """Answers every call with the same body."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def request(self, *_: Any, **__: Any) -> OutboundResponse:
        return OutboundResponse(200, "application/json", self.body)


async def ask(body: bytes) -> Identity:
    client = cast(OutboundClient, Service(body))
    provider = HttpAuthProvider(AuthProvider(url="https://id.example/"), client, FakeClock())
    return await provider.authenticate("shop", "s-1", b"alice", "192.0.2.7")


async def test_an_answer_that_says_everything_once_is_believed() -> None:
    answer = b'{"success":true,"user":"alice","extra":{"user":"x"},"rpcs":["a","a"]}'
    identity = await ask(answer)
    assert identity.user == "alice"
    assert identity.grants.rpcs == ("a", "a")


@pytest.mark.parametrize(
    "body",
    [
        b'{"success":false,"success":true,"user":"root"}',
        b'{"success":true,"success":true,"user":"root"}',
        b'{"success":true,"user":"alice","user":"root"}',
        b'{"success":true,"user":"alice","\\u0075ser":"root"}',
        b'{"success":true,"user":"u","channels":[],"channels":[{"channel":"*","publish":true}]}',
        b'{"success":true,"user":"u","channels":[{"channel":"*","subscribe":false,"subscribe":true}]}',
        b'{"success":true,"user":"u","extra":{"role":"guest","role":"admin"}}',
        b'{"success":true,"user":"u","expires_in_s":1,"expires_in_s":null}',
    ],
)
async def test_an_answer_that_says_a_thing_twice_lets_nobody_in(body: bytes) -> None:
    with pytest.raises(ArautoError) as caught:
        await ask(body)
    assert caught.value.code is Code.AUTH_UNAVAILABLE
