"""The worker of a document lets others go on, whatever becomes of the changes."""

import asyncio

import pytest

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code
from arauto.features.document.channel import DocumentChannel
from arauto.features.document.state import DocumentState
from tests.unit.hub.world import NOBODY, World

_COPIES = tuple(Operation(op="copy", path=f"/{n}", source="/a") for n in range(4))
#: (operations that fail, how many of them go in one turn at most)
_FAILING = {
    "many values": ((*_COPIES, Operation(op="test", path="/a", value=1)), 3),
    "no values": ((Operation(op="remove", path="/nothing"),), 101),
}


@pytest.mark.parametrize("kind", _FAILING)
async def test_changes_that_fail_are_worked_off_some_in_a_turn(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    channel = await world.channel("doc:1")
    assert isinstance(channel, DocumentChannel)
    errors: list[ArautoError | None] = []

    def reply(version: int, error: ArautoError | None, visited_nodes: int) -> None:
        errors.append(error)

    channel.change([Operation(op="add", path="/a", value=[0] * 1_000)], -1, NOBODY, reply)
    await world.settle()
    operations, most = _FAILING[kind]
    in_turn: list[int] = []
    real = DocumentState.change

    def change(*args: object, **options: object) -> object:
        in_turn[-1] += 1
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(DocumentState, "change", change)
    for _ in range(300):
        channel.change(operations, -1, NOBODY, reply)
    while len(errors) < 301:
        in_turn.append(0)
        await asyncio.sleep(0)
    assert max(in_turn) <= most
    assert errors[0] is None
    assert {error.code for error in errors[1:] if error is not None} <= {
        Code.TEST_FAILED,
        Code.BAD_OPERATION,
        Code.NOT_FOUND,
    }
