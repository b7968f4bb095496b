"""A server of one short page on asyncio: server.py PORT."""

import asyncio
import sys


async def answer(reader, writer):
    while (await reader.readline()).strip():
        pass
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
    await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "0.0.0.0", int(sys.argv[1]))
    await server.serve_forever()


asyncio.run(main())
