"""Publishing without a session costs what it takes to decide about it, and ends where that is too much."""

from arauto.codec.events import PublishItem
from arauto.errors import Code
from arauto.hub.refusals import Asker
from arauto.model import Identity
from arauto.session.oneshot import Caller, publish_all
from arauto.settings import HubSettings
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import grants


async def test_a_request_for_which_grants_have_to_be_tried_too_often_ends_there(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=HubSettings())
    hub = await desk.directory.get("shop")
    caller = Caller(Identity("ann", grants(*(f"*{'a' * 120}b*{'a' * 100}{n}" for n in range(200)))))
    items = tuple(PublishItem(channel="a" * 240 + str(n), payload=b"") for n in range(1_000))
    asker = Asker(user="ann")
    outcomes = await publish_all(hub, items, asker, caller, size_bytes=1)
    codes = [outcome.error.code for outcome in outcomes if outcome.error is not None]
    denied = codes.index(Code.RATE_LIMITED)
    assert denied > 0
    assert set(codes[:denied]) == {Code.PUBLISH_DENIED}
    assert set(codes[denied:]) == {Code.RATE_LIMITED}
    one = 200 * 230 * 250 / 131_072 + 200
    assert 1_000 < caller.deciding_tokens < 1_000 + one
