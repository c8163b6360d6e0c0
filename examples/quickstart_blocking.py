"""The same without asyncio: every call waits, iterators block.

arauto serve --config examples/config.yaml     (in another terminal)
python examples/quickstart_blocking.py
"""

import os

from arauto.client.blocking import Client

URL = os.environ.get("ARAUTO_URL", "ws://127.0.0.1:8080")


def main() -> None:
    with Client(URL, hub="shop") as c, c.subscribe("orders:lisbon") as orders:
        c.publish("orders:lisbon", {"id": 1, "items": ["tea"]})
        c.publish("orders:lisbon", "closing time")

        for message in orders:
            print(f"{message.content_type}: {message.data}")
            if message.data == "closing time":
                break


main()
