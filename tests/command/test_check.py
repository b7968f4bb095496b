"""`belljar check`: histories that are valid, invalid, doubtful and malformed, and the guide's example."""

import json
import re

import pytest
from conftest import ROOT, execute

GUIDE = (ROOT / "docs/guide/checking-histories.md").read_text()


def event(process, kind, f, value=None, **more):
    return json.dumps({"process": process, "type": kind, "f": f, "value": value, **more}) + "\n"


def both(process, f, argument=None, result=None, **more):
    """An operation that completes before anything else happens."""
    return event(process, "invoke", f, argument, **more) + event(process, "ok", f, argument if result is None else result, **more)


def check(belljar, workdir, text, *arguments):
    (workdir / "h.jsonl").write_text(text)
    return execute([belljar, "check", "h.jsonl", *arguments], cwd=workdir)


def test_a_history_is_valid_or_not(belljar, workdir):
    good = both(0, "write", 1, key="x") + both(1, "read", result=1, key="x") + both(0, "write", 2, key="y")
    done = check(belljar, workdir, good, "--model", "register")
    assert (done.status, done.out, done.err) == (0, "valid: register, linearizable; operations: 3, objects: 2\n", ""), done
    done = check(belljar, workdir, good + both(1, "read", result=3, key="y"), "--model", "register")
    assert done.status == 1 and 'not linearizable, key "y"\n' in done.out, done
    assert "lines 7-8: process 1, read -> 3" in done.out and "after which the value is 2" in done.out, done


def test_the_report_as_json(belljar, workdir):
    text = both(0, "enqueue", 1) + both(0, "enqueue", 2) + both(1, "dequeue", result=2)
    done = check(belljar, workdir, text, "--model", "queue", "--json")
    report = json.loads(done.out)
    assert done.status == 1 and report["valid"] is False and report["excluded"] == ["linearizable"], done
    prefix, refused, window = report["findings"][0]["sections"]
    assert [step["lines"] for step in refused["steps"]] == [[5, 6]]
    assert [step["lines"] for step in window["steps"]] == [[1, 2], [3, 4], [5, 6]]
    assert check(belljar, workdir, text, "--model", "queue", "--json").out == done.out


def test_levels_of_transactions(belljar, workdir):
    skew = [["r", "x", []], ["r", "y", []]]
    text = "".join(event(p, kind, "txn", skew + [["append", key, 1]]) for kind in ("invoke", "ok") for p, key in ((0, "x"), (1, "y")))
    done = check(belljar, workdir, text, "--model", "list-append")
    assert done.status == 1 and "\nG2-item\n" in done.out and "rw: line 1 reads key \"y\"" in done.out, done
    assert re.search(r"^excluded: repeatable-read, serializable, ", done.out, re.M), done
    done = check(belljar, workdir, text, "--model", "list-append", "--consistency", "snapshot-isolation")
    assert done.status == 0 and done.out.startswith("valid: list-append, snapshot-isolation; "), done


def test_a_doubt_has_a_status_of_its_own(belljar, workdir):
    text = "".join(event(p, "invoke", "add", 2 << p) for p in range(10)) + both("reader", "read", result=1)
    done = check(belljar, workdir, text, "--model", "counter", "--limit", "50")
    assert done.status == 3 and done.out.startswith("unknown: counter"), done
    assert "not decided: 11 operations: the limit of 50 configurations" in done.out, done
    assert check(belljar, workdir, text, "--model", "counter").status == 1


@pytest.mark.parametrize("text, message", [
    ("{\n", "line 1: not valid JSON: EOF while parsing an object at column 1; write one object a line"),
    (event(0, "ok", "read"), "line 1: process 0 completes an operation that it has not invoked; write a line with"),
    (both(0, "read") + event(0, "invoke", "pop"), 'line 3: "f" is "pop", but the operations are read and write; write an operation of the model register'),
])
def test_errors_name_file_line_and_remedy(belljar, workdir, text, message):
    done = check(belljar, workdir, text, "--model", "register")
    assert done.status == 2 and done.err.startswith("error: h.jsonl: " + message) and not done.out, done


def test_arguments_that_cannot_be(belljar, workdir):
    done = check(belljar, workdir, "", "--model", "register", "--consistency", "serializable")
    assert done.status == 2 and done.err.startswith("error: --consistency is only valid with --model list-append and rw-register"), done
    done = check(belljar, workdir, "", "--model", "stack")
    assert done.status == 2 and "cas-register" in done.err, done
    assert check(belljar, workdir, "").status == 2
    done = execute([belljar, "check", "none.jsonl", "--edn"], cwd=workdir)
    assert done.status == 2 and done.err == "error: none.jsonl cannot be read: No such file or directory (os error 2)\n", done


def test_edn(belljar, workdir):
    done = check(belljar, workdir, both(0, "txn", [["append", "x", 1]], time=3), "--edn")
    assert done.status == 0 and done.out.splitlines()[1] == '{:index 1, :time 3, :process 0, :type :ok, :f :txn, :value [[:append "x" 1]]}', done


def test_the_guides_example(belljar, workdir):
    block = re.search(r"^\$ cat stale.jsonl\n(.*?)^\$ belljar (check [^\n]*)\n(.*?)^```", GUIDE, re.M | re.S)
    (workdir / "stale.jsonl").write_text(block[1])
    done = execute([belljar, *block[2].split()], cwd=workdir)
    assert done.status == 1 and done.out == block[3], done
    history = re.search(r"^```json\n(.*?)^```", GUIDE, re.M | re.S)[1]
    assert check(belljar, workdir, history, "--model", "register").status == 0
