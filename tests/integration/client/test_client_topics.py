"""Topics through the client."""

from arauto.client import Client
from tests.integration.conftest import RunningNode


async def test_a_topic_greets_with_the_last_message_of_every_topic_below_it(
    node: RunningNode,
) -> None:
    """They were taken for old messages come again, since nobody had marked them as retained."""
    async with (
        Client(node.url, hub="shop") as publisher,
        Client(node.url, hub="shop") as reader,
    ):
        for topic in ("/orders/pt/porto", "/orders/pt/braga"):
            await publisher.publish(topic, "first")
            await publisher.publish(topic, "last")
        orders = await reader.subscribe("/orders").ready()
        greetings = [await anext(orders) for _ in range(2)]
        assert {m.channel: m.data for m in greetings} == {
            "/orders/pt/porto": "last",
            "/orders/pt/braga": "last",
        }
