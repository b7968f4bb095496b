#!/usr/bin/python3
"""asyncio: a server of upper-case lines, and fifty clients of it that sleep different times, all in one process.
Given a host, the clients run first and then a line is exchanged with that host's echo (port 7777)."""

import asyncio
import sys
import time


async def answer(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def client(i):
    reader, writer = await asyncio.open_connection("localhost", 7777)
    await asyncio.sleep(i / 10)
    writer.write(f"line {i}\n".encode())
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line.decode().strip()


async def main():
    server = await asyncio.start_server(answer, "", 7777)
    start = time.monotonic()
    lines = await asyncio.gather(*(client(i) for i in range(50)))
    assert lines == [f"LINE {i}" for i in range(50)], lines
    print(f"50 clients in {time.monotonic() - start:.1f} s", flush=True)
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.25)
    except asyncio.TimeoutError:
        print("a wait timed out, as it should", flush=True)
    if "--serve" in sys.argv:
        await server.serve_forever()
    server.close()


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
