"""Clients that send frames with next to nothing in them, as fast as they can."""

import pytest

from arauto.codec.websocket import close_code
from arauto.errors import Code
from tests.integration.conftest import RunningNode
from tests.integration.security.raw import frame, upgraded, witness

#: More pieces than one message may have: several messages, which nobody can read.
_IN_PIECES = frame(b"", fin=False) + frame(b"", 0x0, fin=False) * 200 + frame(b"x", 0x0)
FLOODS = {
    "pings": frame(b"", 0x9) * 5_000,
    "pongs": frame(b"", 0xA) * 5_000,
    "empty pieces": _IN_PIECES * 25,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_who_sends_nothing_but_tiny_frames_is_sent_away(
    node: RunningNode, flood: bytes
) -> None:
    async with witness(node), upgraded(node) as raw:
        await raw.send(flood)
        assert await raw.close_code() == close_code(Code.TOO_MANY_ERRORS)


async def test_a_few_hundred_at_once_are_answered(node: RunningNode) -> None:
    async with upgraded(node) as raw:
        await raw.send(frame(b"", 0x9) * 500)
        pongs = 0
        while pongs < 500:
            opcode, _ = await raw.frame()
            pongs += opcode == 0xA
