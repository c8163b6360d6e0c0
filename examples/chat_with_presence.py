"""A chat room that shows who comes and goes.

arauto serve --config examples/config.yaml     (in another terminal)
python examples/chat_with_presence.py
"""

import asyncio
import os

from arauto.client import Client
from arauto.codec.events import Join, Leave

URL = os.environ.get("ARAUTO_URL", "ws://127.0.0.1:8080")
ROOM = "room:lobby"


async def bob(joined: asyncio.Event) -> None:
    async with Client(URL, hub="chat") as c, c.subscribe(ROOM) as room:
        await joined.wait()
        # `echo=False`: everyone but this session receives it.
        await c.publish(ROOM, "hello, I am Bob", echo=False)
        async for message in room:
            print(f"bob hears: {message.data}")
            break


async def main() -> None:
    async with Client(URL, hub="chat") as c, c.subscribe(ROOM) as room:
        joined = asyncio.Event()
        visitor = asyncio.create_task(bob(joined))

        async for event in room.events():
            if isinstance(event, Join) and event.member.session != c.session:
                present = await c.presence(ROOM)
                print(f"somebody joined, {present.total} are here")
                joined.set()
                message = await anext(room)
                print(f"ana hears: {message.data}")
                await c.publish(ROOM, "welcome, Bob", echo=False)
            elif isinstance(event, Leave):
                print("somebody left")
                break
        await visitor


asyncio.run(main())
