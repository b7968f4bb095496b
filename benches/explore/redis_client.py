#!/usr/bin/python3
"""Reads of redis-py's asyncio client with a timeout: after a cancelled command, does the next one get its answer?

    redis_client.py SERVER"""

import asyncio
import sys

import redis.asyncio as redis
from redis.exceptions import RedisError


async def main(server):
    client = redis.Redis(host=server, socket_connect_timeout=2, max_connections=1)
    for number in range(10):
        await client.set(f"key{number}", f"value{number}")
    print("stored", flush=True)
    for number in range(150):
        key = f"key{number % 10}"
        try:
            value = await asyncio.wait_for(client.get(key), 0.1)
        except (asyncio.TimeoutError, RedisError, OSError):
            continue
        finally:
            await asyncio.sleep(0.1)
        if value != key.replace("key", "value").encode():
            print(f"wrong answer: {key} is {value}", flush=True)


asyncio.run(main(sys.argv[1]))
