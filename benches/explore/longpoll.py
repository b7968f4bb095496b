#!/usr/bin/python3
"""A queue of messages for clients that wait for one, built on asyncio.Condition.

    longpoll.py serve [--mended]
    longpoll.py produce SERVER
    longpoll.py consume SERVER PATIENCE

A consumer whose time is over goes away, others wait on. A watch of the server says if there is a message and a consumer that waits, and they do not meet within a second.
With --mended a wait that is cancelled passes its notification on, as Python 3.13 does."""

import asyncio
import sys

PORT = 7030


class Mended(asyncio.Condition):
    async def wait(self):
        self.release()
        future = self._get_loop().create_future()
        self._waiters.append(future)
        cancelled = False
        try:
            return await future
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            if future in self._waiters:
                self._waiters.remove(future)
            while True:
                try:
                    await self.acquire()
                    break
                except asyncio.CancelledError:
                    cancelled = True
            if cancelled and future.done() and not future.cancelled():
                self.notify()


class Queue:
    def __init__(self, condition):
        self.condition, self.messages, self.waiting = condition(), [], 0

    async def put(self, message):
        async with self.condition:
            self.messages.append(message)
            self.condition.notify()

    async def get(self):
        async with self.condition:
            while not self.messages:
                self.waiting += 1
                try:
                    await self.condition.wait()
                finally:
                    self.waiting -= 1
            return self.messages.pop(0)

    async def watch(self):
        """A lost wake-up: a message and a waiting consumer, all the time that four looks take."""
        count = 0
        while True:
            await asyncio.sleep(0.25)
            count = count + 1 if self.messages and self.waiting else 0
            if count == 4:
                print("starved: a consumer waits while there is a message", flush=True)


async def serve(condition):
    queue = Queue(condition)

    async def client(reader, writer):
        try:
            while line := await reader.readline():
                word, _, rest = line.decode().strip().partition(" ")
                if word == "put":
                    await queue.put(rest)
                    continue
                try:
                    message = await asyncio.wait_for(queue.get(), float(rest))
                except asyncio.TimeoutError:
                    message = "-"
                writer.write(f"{message}\n".encode())
        except OSError:
            pass
        finally:
            writer.close()

    watch = asyncio.create_task(queue.watch())
    async with await asyncio.start_server(client, "", PORT) as server:
        await server.serve_forever()
    watch.cancel()


async def produce(server):
    _, writer = await asyncio.open_connection(server, PORT)
    for number in range(30):
        await asyncio.sleep(1.7)
        writer.write(f"put {number}\n".encode())
    await asyncio.sleep(5)


async def consume(server, patience):
    reader, writer = await asyncio.open_connection(server, PORT)
    while True:
        writer.write(f"get {patience}\n".encode())
        message = await reader.readline()
        if message == b"-\n":
            await asyncio.sleep(2)
            continue
        print("got", message.decode().strip(), flush=True)
        await asyncio.sleep(0.05)


if sys.argv[1] == "serve":
    asyncio.run(serve(Mended if "--mended" in sys.argv else asyncio.Condition))
else:
    asyncio.run(produce(sys.argv[2]) if sys.argv[1] == "produce" else consume(*sys.argv[2:]))
