"""A desk for every test, closed afterwards."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.session.desk import Desk

MakeDesk = Callable[..., Desk]


@pytest.fixture
async def make_desk() -> AsyncIterator[MakeDesk]:
    desks: list[Desk] = []

    def make(**options: Any) -> Desk:
        desks.append(Desk(**options))
        return desks[-1]

    yield make
    for desk in desks:
        await desk.close()


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk()
