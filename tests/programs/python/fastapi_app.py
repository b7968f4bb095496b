"""FastAPI: answers, waits without blocking, streams, and speaks over a web socket."""

import asyncio

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.get("/hello/{name}")
async def hello(name: str):
    await asyncio.sleep(0.01)
    return {"hello": name}


@app.get("/loop")
async def loop(request: Request):
    return type(asyncio.get_running_loop()).__module__


@app.post("/length")
async def length(request: Request):
    return len(await request.body())


@app.get("/thread")
def thread():
    return "in a thread"


@app.get("/stream")
async def stream():
    async def numbers():
        for n in range(1000):
            yield f"{n}\n"

    return StreamingResponse(numbers())


@app.websocket("/echo")
async def echo(socket: WebSocket):
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text.upper())
