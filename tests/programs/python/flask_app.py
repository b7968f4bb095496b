"""Flask: answers, takes what is sent, and streams."""

from flask import Flask, Response, request

app = Flask(__name__)


@app.get("/hello/<name>")
def hello(name):
    return {"hello": name}


@app.post("/length")
def length():
    return str(len(request.get_data()))


@app.get("/stream")
def stream():
    return Response(f"{n}\n" for n in range(1000))
