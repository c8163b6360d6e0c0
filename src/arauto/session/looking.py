"""Looking for the open channels that a pattern covers, at the cost of the session that asks.

What a pattern covers is charged for where it is joined. Here it is the names that have to be compared with
it, which may be very many also if it covers none of them.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from arauto.hub.name_index import SLICE_LEN
from arauto.session.cost import admit_deciding, matching_cost, pay

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["look", "walk"]

#: They are compared when the pattern is subscribed to, and again when it is given up.
_TIMES = 2


def look(session: "Session", pattern: str, after: str, scan_len: int) -> tuple[list[str], str]:
    """As `NameIndex.page`."""
    names = session.hub.names
    before = names.effort
    page = names.page(pattern, after, scan_len)
    pay(session, matching_cost(_TIMES * (names.effort - before)))
    return page


async def walk(session: "Session", pattern: str) -> AsyncIterator[list[str]]:
    """As `NameIndex.walk`.

    Raises:
        ArautoError: RATE_LIMITED, at once, if the session owes too much already.
    """
    admit_deciding(session)
    after = ""
    while True:
        page, after = look(session, pattern, after, SLICE_LEN)
        yield page
        if not after:
            return
        await asyncio.sleep(0)
        await session.env.hub.trying.turn()
