"""Talks over a web socket: talk.py URL WORD..."""

import asyncio
import sys

import websockets


async def main(url, *words):
    async with websockets.connect(url) as socket:
        for word in words:
            await socket.send(word)
            print(await socket.recv())


asyncio.run(main(*sys.argv[1:]))
