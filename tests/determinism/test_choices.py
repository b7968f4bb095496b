"""Choices: the same file for any workers, cells and placement; recording changes nothing, and a run with a file of choices is that run."""

import pytest
import yaml
from conftest import contents_of, execute, experiment, graph

PYTHON = "/usr/bin/python3"
# Threads that share a lock and a queue, files, random numbers, and datagrams over a path that loses and delays them.
WORKER = r"""
import os, queue, random, socket, sys, threading, time
lines, lock = queue.Queue(), threading.Lock()
def work(name):
    for n in range(30):
        with lock:
            lines.put((name, n, os.urandom(2).hex()))
        time.sleep(random.random() / 50)
threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
[thread.start() for thread in threads]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9))
s.settimeout(0.5)
for n in range(60):
    try:
        s.sendto(b"%d" % n, (sys.argv[1], 9))
        print(time.monotonic_ns(), s.recv(99).decode(), flush=True)
    except OSError as error:
        print(time.monotonic_ns(), error.strerror, flush=True)
[thread.join() for thread in threads]
while not lines.empty():
    print(*lines.get(), flush=True)
"""
EVENTS = [
    {"every": "3 s", "call_faults": {"one_of": "all"}, "results": ["short", "EINTR", "EAGAIN"], "share": 0.2, "for": "1 s"},
    {"every": "4 s", "probability": 0.5, "pause": {"one_of": "all"}, "for": "300 ms"},
]


@pytest.fixture
def file(workdir):
    def worker(peer):
        return {"path": PYTHON, "args": ["-c", WORKER, peer], "expected_final_state": "any"}

    lossy = graph((0, 1, "5 ms"), (1, 2, "7 ms"), (0, 2, "9 ms")).replace('latency "7 ms"', 'latency "7 ms" jitter "2 ms" packet_loss 0.2')
    assert "packet_loss 0.2" in lossy
    drawn = experiment({"a": (0, [worker("b")]), "b": (1, [worker("c")]), "c": (2, [worker("b")])}, lossy, stop="16 s")
    drawn["host_option_defaults"] = {**drawn.get("host_option_defaults", {}), "scheduling": "random"}
    path = workdir / "choices.yaml"
    path.write_text(yaml.safe_dump({**drawn, "events": EVENTS}, sort_keys=False))
    return path


def run(belljar, workdir, file, name, *options):
    """Results of the hosts, and the recorded choices if they are asked for."""
    data = workdir / f"{name}.data"
    done = execute([belljar, "run", file, "-o", data, "--no-progress", *options])
    assert done.status == 0, done
    results = {path: content for path, content in contents_of(data).items() if str(path).startswith("hosts/")}
    return results, done


def recorded(belljar, workdir, file, name, *options):
    choices = workdir / f"{name}.txt"
    results, _ = run(belljar, workdir, file, name, "--record-choices", choices, *options)
    return results, choices.read_text()


WAYS = [("--parallelism", "2"), ("--parallelism", "3"), ("--parallelism", "2", "--cells", "2"), ("--placement", "near"), ("--placement", "far")]


def test_choices_do_not_depend_on_how_the_run_is_computed(belljar, workdir, file):
    plain, _ = run(belljar, workdir, file, "plain", "--parallelism", "1")
    results, choices = recorded(belljar, workdir, file, "first", "--parallelism", "1")
    assert results == plain
    for stream in ("flow/b/c/loss ", "flow/b/c/jitter ", "host/a/scheduling/threads ", "host/a/scheduling/slices ", "host/a/random ", "/call-fault/", "event/"):
        assert stream in choices, stream
    lines = [line.split(" ") for line in choices.splitlines()[2:]]
    assert lines == sorted(lines, key=lambda words: (words[0], int(words[1])))
    for number, way in enumerate(WAYS):
        again, others = recorded(belljar, workdir, file, f"way{number}", *way)
        assert again == plain and others == choices, way


def test_a_run_with_a_file_of_choices_is_that_run(belljar, workdir, file):
    results, choices = recorded(belljar, workdir, file, "first")
    for number, way in enumerate([(), *WAYS]):
        # Another seed would bring other draws: all that matters is forced.
        again, done = run(belljar, workdir, file, f"forced{number}", "--seed", "77", "--choices", workdir / "first.txt", *way)
        assert again == results, way
        assert "choices:" not in done.out and "are of another experiment" in done.err, done
    others, different = recorded(belljar, workdir, file, "other", "--seed", "77")
    assert others != results and different != choices


def test_one_choice_is_changed_alone(belljar, workdir, file):
    """A packet that arrived is lost, and all that is drawn before it is as it was."""
    _, choices = recorded(belljar, workdir, file, "first")
    head = choices.splitlines()[:2]
    arrived = [line for line in choices.splitlines() if line.startswith("flow/b/c/loss ") and line.endswith(" 0 0")][20]
    stream, index, *_ = arrived.split(" ")
    one = workdir / "one.txt"
    one.write_text("\n".join([*head, f"{stream} {index} 1", ""]))
    changed, other = [], choices.splitlines()
    for number, way in enumerate([(), ("--cells", "2"), ("--placement", "far")]):
        results, text = recorded(belljar, workdir, file, f"one{number}", "--choices", one, *way)
        changed.append((results, text))
    assert changed[0] == changed[1] == changed[2]
    now = changed[0][1].splitlines()
    assert f"{stream} {index} 1 0" in now and arrived not in now
    before = [line for line in other if line.startswith(stream) and int(line.split(" ")[1]) < int(index)]
    assert [line for line in now if line.startswith(stream)][: len(before)] == before


def test_choices_that_are_not_made_are_named(belljar, workdir, file):
    one = workdir / "one.txt"
    one.write_text("belljar choices 1\nflow/b/c/loss 100000 1\nflow/b/c/loss 3 7\nhost/z/scheduling/slices 0 1\n")
    for number, way in enumerate([(), ("--cells", "3")]):
        _, done = run(belljar, workdir, file, f"never{number}", "--choices", one, *way)
        for problem in (
            "choice 100000 of flow/b/c/loss was never reached",
            "choice 3 of flow/b/c/loss was not forced: 7 is not a number below 2",
            "choice 0 of host/z/scheduling/slices was never reached",
        ):
            assert f"warning: choices: {problem}" in done.out, done
