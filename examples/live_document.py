"""One document, two editors, always the same value on both sides.

arauto serve --config examples/config.yaml     (in another terminal)
python examples/live_document.py
"""

import asyncio
import os

from arauto.client import Client
from arauto.errors import ArautoError

URL = os.environ.get("ARAUTO_URL", "ws://127.0.0.1:8080")
BOARD = "doc:board"


async def main() -> None:
    async with (
        Client(URL, hub="office") as ana,
        Client(URL, hub="office") as bob,
        ana.document(BOARD) as mine,
        bob.document(BOARD) as theirs,
    ):
        await mine.change([{"op": "add", "path": "", "value": {"cards": {}}}])
        # All operations of one change apply, or none; missing parents are made on the way.
        await mine.change(
            [
                {"op": "add", "path": "/cards/tea", "value": {"done": False}},
                {"op": "add", "path": "/notes/first", "value": "buy milk too"},
            ]
        )

        async for update in theirs.updates():
            print(f"bob sees version {update.version}: {update.value}")
            if update.version == mine.version:
                break

        # A change can demand a version, so that two editors do not overwrite each other unseen.
        seen = theirs.version
        await theirs.change([{"op": "replace", "path": "/cards/tea/done", "value": True}])
        try:
            await mine.change([{"op": "remove", "path": "/cards/tea"}], if_version=seen)
        except ArautoError as error:
            print(f"ana was too late: {error.code.name}")
        print(f"tea is done: {mine.get('/cards/tea/done')}")


asyncio.run(main())
