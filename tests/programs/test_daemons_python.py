"""What Python programs make of processes: subprocess, multiprocessing by fork, spawn and forkserver, gunicorn."""

import pytest
from conftest import experiment

PYTHON = "/usr/bin/python3"

SUBPROCESS = r"""
import os, signal, subprocess as s, sys
done = s.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True, text=True)
print(done.returncode, repr(done.stdout), repr(done.stderr))
print(s.check_output("printf 'b\\na\\n' | sort | tr a-z A-Z", shell=True, text=True).split())
cat = s.Popen(["cat"], stdin=s.PIPE, stdout=s.PIPE, preexec_fn=os.setsid)
print(os.getsid(cat.pid) == cat.pid, len(cat.communicate(b"x" * 300000)[0]), cat.returncode)
sleeper = s.Popen(["sleep", "100"]); sleeper.send_signal(signal.SIGTERM); print(sleeper.wait())
try: s.run(["sleep", "10"], timeout=1.5)
except s.TimeoutExpired: print("timed out")
try: s.run(["/nonexistent"])
except FileNotFoundError: print("not found")
sys.stdout.flush()
child = os.fork()
if child == 0: os.execvp("echo", ["echo", "executed"])
print(os.waitpid(child, 0)[1])
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid(); os.read(0, 1); os.write(write, b"%d" % os.getppid()); os._exit(0)
    os._exit(7)
print(os.wait()[1] >> 8); os.close(write); print(os.read(read, 10))
"""

MULTIPROCESSING = r"""
import multiprocessing as mp, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory

def square(x): return x * x
def add(queue, value, lock):
    for _ in range(100):
        with lock: value.value += 1
    queue.put(os.getpid() != os.getppid())
def talk(pipe): pipe.send(pipe.recv().upper()); pipe.close()
def poke(name): t = shared_memory.SharedMemory(name); t.buf[1] = t.buf[0] + 1; t.close()

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with context.Pool(4) as pool: print(sum(pool.map(square, range(1000))))
    queue, value, lock = context.Queue(), context.Value("i", 0), context.Lock()
    adders = [context.Process(target=add, args=(queue, value, lock)) for _ in range(4)]
    for p in adders: p.start()
    print([queue.get() for _ in adders]); [p.join() for p in adders]
    print(value.value, [p.exitcode for p in adders])
    here, there = context.Pipe()
    p = context.Process(target=talk, args=(there,)); p.start(); here.send("hello"); print(here.recv()); p.join()
    memory = shared_memory.SharedMemory(create=True, size=1000); memory.buf[0] = 5
    p = context.Process(target=poke, args=(memory.name,)); p.start(); p.join(); print(memory.buf[1])
    memory.close(); memory.unlink()
    p = context.Process(target=time.sleep, args=(100,)); p.start(); p.terminate(); p.join(); print(p.exitcode)
    with ProcessPoolExecutor(3, mp_context=context) as pool: print(list(pool.map(square, range(5))))
    with context.Manager() as manager: d = manager.dict(); d["x"] = 1; print(dict(d))
"""

APP = """
import os, signal
def app(environ, start):
    start("200 OK", [("Content-Type", "text/plain")])
    return [f"{environ['REMOTE_ADDR']} {os.getpid()} {os.getppid()}\\n".encode()]
"""


@pytest.mark.parametrize("placement", ["auto", "far"])
def test_subprocess(run_experiment, placement):
    done = run_experiment(experiment({"host": (0, [(PYTHON, "-c", SUBPROCESS)])}), args=["--placement", placement])
    assert done.text("host").splitlines() == [
        "3 'out\\n' 'err\\n'", "['A', 'B']", "True 300000 0", "-15", "timed out", "not found", "executed", "0", "7",
        "b'1'",
    ]


@pytest.mark.parametrize("placement", ["auto", "far"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(run_experiment, workdir, method, placement):
    (workdir / "program.py").write_text(MULTIPROCESSING)
    run = experiment({"host": (0, [(PYTHON, workdir / "program.py", method)])})
    done = run_experiment(run, args=["--placement", placement])
    assert done.text("host").splitlines() == [
        "332833500", "[True, True, True, True]", "400 [0, 0, 0, 0]", "HELLO", "6", "-15", "[0, 1, 4, 9, 16]", "{'x': 1}",
    ]


@pytest.mark.needs("gunicorn", "curl")
def test_gunicorn(run_experiment, workdir):
    """A master and three workers answer 30 requests; a killed worker is replaced."""
    (workdir / "app.py").write_text(APP)
    server = [
        {"path": "gunicorn", "args": f"-w 3 -b 0.0.0.0:80 --pid /run/g.pid --chdir {workdir} app:app",
         "shutdown_time": "20 s"},
        {"path": "pkill", "args": "-KILL -o -P 1000", "start_time": "10 s"},
    ]
    gets = [{"path": "curl", "args": "-sS http://web/", "start_time": f"{2 + n // 10 * 5} s"} for n in range(30)]
    done = run_experiment(experiment({"web": (0, server), "client": (0, gets)}, stop="30 s"))
    said = [f.read_text().split() for f in done.streams("client", "curl")]
    assert len(said) == 30 and all(parent == "1000" for _, _, parent in said), said
    early, late = ({worker for _, worker, _ in part} for part in (said[:20], said[20:]))
    assert not late - early or max(map(int, late)) > max(map(int, early)), said
    log = done.streams("web", "gunicorn", "stderr")[0].read_text()
    assert log.count("Booting worker") == 4 and "was terminated due to signal 9" in log, log
    assert "Shutting down: Master" in log, log
