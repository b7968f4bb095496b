"""Models given as programs: right and wrong histories of a bank, the verdicts of the built-in models, and programs that are no models."""

import json
import re
import stat

import pytest
import yaml
from conftest import ROOT, execute
from test_check import both, check, event
from test_check_porcupine import drawn, lines_of

GUIDE = (ROOT / "docs/guide/checking-histories.md").read_text()
#: The guide's files of Python, by name.
BANK, OWNED = re.findall(r"^```python\n(.*?)^```", GUIDE, re.M | re.S)[:2]
REGISTER = """
initial = None
reads = ["read"]

def step(state, f, value, result):
    if f == "read":
        return result == state, state
    if f == "cas":
        return state == value[0], value[1]
    return True, value
"""
QUEUE = """
initial = []

def step(state, f, value, result):
    if f == "enqueue":
        return True, [*state, value]
    return result == (state[0] if state else None), state[1:]
"""
SET = """
initial = []
reads = ["read", "contains"]

def step(state, f, value, result):
    if f == "read":
        return result == state, state
    if f == "contains":
        return result == (value in state), state
    rest = [one for one in state if one != value]
    return True, sorted([*rest, value]) if f == "add" else rest
"""


def test_the_guides_example_in_rust_is_the_one_that_is_tested():
    (example,) = re.findall(r"^```rust\n(.*?)^```", GUIDE, re.M | re.S)
    assert "".join(f"/// {line}".rstrip() + "\n" for line in example.splitlines()) in (ROOT / "crates/histories/src/linear/model.rs").read_text()


def judge(belljar, workdir, model, text, *arguments, name="model.py"):
    (workdir / name).write_text(model)
    return check(belljar, workdir, text, "--model", f"./{name}", *arguments)


def test_a_bank(belljar, workdir):
    good = both(0, "deposit", 10) + both(1, "withdraw", 7, True) + both(0, "balance", result=3)
    done = judge(belljar, workdir, BANK, good)
    assert (done.status, done.out) == (0, "valid: model.py, linearizable; operations: 3\n"), done
    # The account cannot give what it has not.
    done = judge(belljar, workdir, BANK, good + both(1, "withdraw", 5, True))
    assert done.status == 1 and "after which the state is 3:" in done.out and "lines 7-8: process 1, withdraw 5 -> true" in done.out, done
    done = judge(belljar, workdir, BANK, good + both(1, "withdraw", 5, False) + both(0, "balance", result=3))
    assert done.status == 0, done
    # A deposit of unknown outcome may be there or not, but not both in turn.
    doubt = event(2, "invoke", "deposit", 4)
    assert judge(belljar, workdir, BANK, doubt + good + both(0, "balance", result=7)).status == 0
    assert judge(belljar, workdir, BANK, doubt + good + both(0, "balance", result=7) + both(0, "balance", result=3)).status == 1
    # A withdrawal of unknown outcome has no known result.
    doubt = event(2, "invoke", "withdraw", 2)
    assert judge(belljar, workdir, BANK, good + doubt + both(0, "balance", result=1)).status == 0
    assert judge(belljar, workdir, BANK, good + doubt + both(0, "balance", result=2)).status == 1


def test_keys_are_objects_of_their_own(belljar, workdir):
    text = both(0, "deposit", 1, key="x") + both(0, "deposit", 2, key="y") + both(0, "balance", result=1, key="x")
    assert judge(belljar, workdir, BANK, text).out == "valid: model.py, linearizable; operations: 3, objects: 2\n"
    done = judge(belljar, workdir, BANK, text + both(0, "balance", result=1, key="y"))
    assert done.status == 1 and 'not linearizable, key "y"' in done.out, done


def test_a_model_of_processes_and_one_without_results(belljar, workdir):
    own = both(0, "acquire") + both(0, "release")
    assert judge(belljar, workdir, OWNED, own + both(1, "acquire") + both(1, "release")).status == 0
    assert judge(belljar, workdir, OWNED, both(0, "acquire") + both(1, "release")).status == 1
    # Without 'result', the value of a read is what it returned; one of unknown outcome may have returned anything.
    plain = "initial = 0\ndef step(state, f, value):\n    return (value == state, state) if f == 'read' else (True, value)\n"
    assert judge(belljar, workdir, plain, both(0, "write", 3) + event(1, "invoke", "read") + both(0, "read", result=3)).status == 0
    assert judge(belljar, workdir, plain, both(0, "write", 3) + both(0, "read", result=0)).status == 1


@pytest.mark.parametrize("name, model", [("cas-register", REGISTER), ("queue", QUEUE), ("set", SET)])
def test_verdicts_are_those_of_the_built_in_models(belljar, workdir, name, model):
    text = "".join(line for key in range(300) for line in lines_of(key, drawn(key, name)))
    ours = judge(belljar, workdir, model, text, "--json")
    assert ours.status == 1, ours
    built_in = json.loads(check(belljar, workdir, text, "--model", name, "--json").out)
    ours = json.loads(ours.out)
    keys = [[finding["key"] for finding in report["findings"]] for report in (ours, built_in)]
    assert keys[0] == keys[1] and 30 < len(keys[0]) < 150 and ours["objects"] == built_in["objects"]


def program(workdir, text, name="model"):
    path = workdir / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


COUNTER = """#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    if question.get("initial"):
        answer = {"state": 0, "reads": ["read"]}
    elif question["f"] == "add":
        answer = {"ok": True, "state": question["state"] + question["value"]}
    elif "result" not in question or question["result"] == question["state"]:
        answer = {"ok": True, "state": question["state"]}
    else:
        answer = {"ok": False}
    print(json.dumps(answer), flush=True)
"""


def test_any_program_is_a_model(belljar, workdir):
    program(workdir, COUNTER)
    text = both(0, "add", 2) + both(0, "add", 3)
    assert check(belljar, workdir, text + both(1, "read", result=5), "--model", "./model").status == 0
    assert check(belljar, workdir, text + both(1, "read", result=3), "--model", "./model").status == 1
    report = [check(belljar, workdir, text + both(1, "read", result=3), "--model", "./model", "--json").out for _ in range(2)]
    assert report[0] == report[1]


STEP = "def step(state, f, value, result):\n    "


@pytest.mark.parametrize("model, problem", [
    ("initial = 0\n", "there is no function 'step'"),
    ("def step(state, f, value): return True, state\n", "there is no 'initial', the state before all operations"),
    ("initial = 0\ndef step(state): return True, state\n", "the parameters of 'step' are state: they are state, f and value"),
    ("initial = {1}\n" + STEP + "return True, 0\n", "'initial' has a set, which JSON has not"),
    ("initial = 0\n" + STEP + "return True, {1: 2}\n", "the state has the key 1, and keys in JSON are strings, as the answer to \"write\" of lines 1-2 in the state 0"),
    ("initial = 0\n" + STEP + "return True, 2 ** 70\n", "the state has 1180591620717411303424, and whole numbers have 64 bits"),
    ("initial = 0\n" + STEP + "return state\n", "'step' returned 0, not (ok, state) with ok True or False"),
    ("initial = 0\n" + STEP + "return 1 / state, state\n", "line 3: ZeroDivisionError: division by zero, as the answer to \"write\" of lines 1-2 in the state 0"),
    ("initial = 0\nimport nothing_of_this_name\n", "line 2: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    ("initial = \n", "SyntaxError: invalid syntax"),
    ("initial = 0\nimport os\n" + STEP + "os._exit(3)\n", "the model ended with exit status: 3 instead of an answer to \"write\" of lines 1-2"),
    ("initial = 0\nimport sys\n" + STEP + "sys.exit('no more')\n", "the model ended with exit status: 1 instead of an answer to \"write\" of lines 1-2: no more"),
    ("initial = 0\nimport random\n" + STEP + "return True, random.random()\n", "asked twice for \"read\" of lines 5-6 in the state 0."),
    ("import time\ninitial = time.time()\n" + STEP + "return True, state\n", "asked twice for the initial state, it answered "),
    ("initial = 0\ncount = 0\n" + STEP + "global count\n    count += 1\n    return count < 3, value\n", "asked twice for \"read\" of lines 5-6 in the state 2, it answered that it is impossible, then the state null"),
    ("initial = 0\nreads = ['write']\n" + STEP + "return True, value\n", "\"write\" of lines 1-2 changes the state 0 to 1, and is among \"reads\""),
    ("initial = 0\nreads = 5\n" + STEP + "return True, value\n", "'reads' is 5, not a list of the names of functions"),
])
def test_python_that_is_no_model(belljar, workdir, model, problem):
    done = judge(belljar, workdir, model, both(0, "write", 1) + both(0, "write", 2) + both(1, "read", result=2))
    assert done.status == 2 and not done.out, done
    assert re.match(rf"error: \S*/model\.py: (line \d+: )?{re.escape(problem)}", done.err), done.err
    assert "; " in done.err and "panicked" not in done.err and done.err.count("\n") == 1, done.err
    assert not (workdir / "__pycache__").exists()


INITIAL = "read q; echo '{\"state\": 0}'\n"


@pytest.mark.parametrize("script, problem", [
    ("exit 0\n", "the model ended with exit status: 0 instead of an answer to the question for the initial state"),
    ("echo no such library >&2; exit 127\n", "the model ended with exit status: 127 instead of an answer to the question for the initial state: no such library"),
    ("echo hello; cat >/dev/null\n", "its answer is not JSON: hello"),
    ("echo '[]'; cat >/dev/null\n", "its answer is no object: []"),
    ("echo '{}'; cat >/dev/null\n", 'its answer has no "state": {}'),
    ("echo '{\"state\": 0, \"read\": []}'; cat >/dev/null\n", 'its answer has the member "read", which is none of state, reads, process'),
    ("echo '{\"state\": 0, \"reads\": \"read\"}'; cat >/dev/null\n", '"reads" of its first answer is "read", not a list of functions'),
    (INITIAL + "read q; echo '{\"ok\": 1, \"state\": 0}'\n", '"ok" of its answer is 1, not true or false'),
    (INITIAL + "read q; echo '{\"state\": 0}'\n", 'its answer has no "ok"'),
    (INITIAL + "read q; echo '{\"ok\": true}'\n", 'its answer has no "state"'),
    (INITIAL + "read q; echo '{\"error\": \"there is no write\"}'\n", 'there is no write, as the answer to "write" of lines 1-2 in the state 0'),
    (INITIAL + "kill -9 $$\n", "the model ended with signal: 9"),
    ("head -c 20000000 /dev/zero; cat >/dev/null\n", "the answer to the question for the initial state has more than 16 MiB"),
    ("head -c 20000000 /dev/zero >&2; exit 1\n", "the model ended with exit status: 1"),
])
def test_programs_that_are_no_models(belljar, workdir, script, problem):
    path = program(workdir, "#!/bin/sh\n" + script)
    done = check(belljar, workdir, both(0, "write", 1), "--model", path)
    assert done.status == 2 and not done.out and done.err.startswith(f"error: {path}: {problem}"), done


def test_an_endless_model_is_ended(belljar, workdir):
    """Its child, too, which has its output."""
    path = program(workdir, "#!/bin/sh\n" + INITIAL + "sleep 1000 & echo $! > child; wait\n")
    done = check(belljar, workdir, both(0, "write", 1), "--model", path)
    assert done.status == 2 and done.err.startswith(f'error: {path}: no answer to "write" of lines 1-2 within 10 s; '), done
    child = (workdir / "child").read_text().strip()
    state = ROOT.__class__(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_models_that_cannot_be_started(belljar, workdir):
    (workdir / "model").write_text("#!/bin/sh\n")
    done = check(belljar, workdir, both(0, "write", 1), "--model", "./model")
    assert done.status == 2 and re.match(r"error: \S*/model: the model cannot be started: Permission denied", done.err), done
    done = check(belljar, workdir, both(0, "write", 1), "--model", "./none.py")
    assert done.status == 2 and re.search(r"/none\.py: .*No such file or directory", done.err), done
    done = check(belljar, workdir, both(0, "write", 1), "--model", "bank")
    assert done.status == 2 and "name a file such as ./bank.py, or one of register, " in done.err, done
    done = judge(belljar, workdir, BANK, both(0, "deposit", 1), "--consistency", "serializable")
    assert done.status == 2 and "the model ./model.py has no isolation levels" in done.err, done


def world(histories, **more):
    """Hosts that write these histories, judged by the model beside the experiment."""
    scripts = {host: "".join(f"echo '{line}' >> h.jsonl; sleep 0.1\n" for line in text.splitlines()) for host, text in histories.items()}
    return {
        "general": {"stop_time": "10 s"},
        "network": {"graph": {"type": "1_gbit_switch"}},
        "hosts": {host: {"network_node_id": 0, "processes": [{"path": "sh", "args": ["-c", script]}]} for host, script in scripts.items()},
        "properties": [{"name": "bank", "history": "h.jsonl", "model": "./bank.py"}],
        **more,
    }


def run(belljar, workdir, experiment, *options, command="run", output="data", model=BANK):
    (workdir / "bank.py").write_text(model)
    (workdir / "e.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    return execute([belljar, command, "e.yaml", "-o", output, *options], cwd=workdir)


WRONG = {"a": both(0, "deposit", 10), "b": "".join([event(0, "invoke", "withdraw", 20), event(0, "ok", "withdraw", True)])}


def verdict(folder):
    (property,) = json.loads((folder / "sim-stats.json").read_text())["properties"]
    return property


def test_a_property_by_a_model(belljar, workdir):
    right = {**WRONG, "b": WRONG["b"].replace("true", "false")}
    done = run(belljar, workdir, world(right))
    assert done.status == 0 and verdict(workdir / "data")["holds"], done
    seen = []
    for number, options in enumerate([["--parallelism", "1"], ["--parallelism", "2"], ["--placement", "far"], ["--cells", "2"]]):
        done = run(belljar, workdir, world(WRONG), *options, output=f"{number}.data")
        assert done.status == 1 and "FAIL property history bank: bank.py: not linearizable" in done.out, done
        seen.append((verdict(workdir / f"{number}.data"), (workdir / f"{number}.data/properties/bank.txt").read_text()))
    assert all(one == seen[0] for one in seen) and "after which the state is 10" in seen[0][1], seen
    # The results name the model wherever they are run again, and the merged history is judged from the command line alike.
    done = execute([belljar, "run", "0.data/processed-config.yaml", "-o", "again"], cwd=workdir)
    assert done.status == 1 and verdict(workdir / "again") == seen[0][0], done
    done = execute([belljar, "check", "0.data/properties/bank.jsonl", "--model", "bank.py"], cwd=workdir)
    assert done.out == seen[0][1], done


def test_a_property_by_a_program_that_is_no_model(belljar, workdir):
    done = run(belljar, workdir, world(WRONG), model="initial = 0\ndef step(state, f, value): return None\n")
    assert done.status == 1, done
    found = verdict(workdir / "data")
    assert found["reason"].startswith(f"{workdir}/bank.py: 'step' returned None, not (ok, state)") and found["file"] is None, found


@pytest.mark.parametrize("model, message", [("./none.py", "there is no file './none.py'"), ("./none", "there is no program './none'"), ("./e.yaml", "e.yaml' is not executable")])
def test_models_that_are_not_there_are_refused_before_the_run(belljar, workdir, model, message):
    experiment = world(WRONG)
    experiment["properties"][0]["model"] = model
    done = run(belljar, workdir, experiment)
    assert done.status == 2 and message in done.err and "--> e.yaml:" in done.err and not (workdir / "data").exists(), done


def test_explored_by_a_model(belljar, workdir):
    """A bank that forgets a deposit when it is paused: each run is judged by the model."""
    deposit, balance = both(0, "deposit", 5).splitlines(), both(0, "balance", result=0).splitlines()
    lines = [f"echo '{deposit[0]}' > h.jsonl", f"echo '{deposit[1]}' >> h.jsonl", "cash=5"]
    for _ in range(20):
        lines += ["before=$(date +%s%N)", "sleep 0.1", "[ $(($(date +%s%N) - before)) -lt 150000000 ] || cash=0"]
    answer = balance[1].replace('"value": 0', '"value": \'$cash\'')
    lines += [f"echo '{balance[0]}' >> h.jsonl", f"echo '{answer}' >> h.jsonl"]
    experiment = world({"a": ""}, explore={"between": ["500 ms", "1500 ms"], "hosts": "a", "kinds": ["pause"]})
    experiment["hosts"]["a"]["processes"][0]["args"][1] = "\n".join(lines)
    done = run(belljar, workdir, experiment)
    assert done.status == 0, done
    done = run(belljar, workdir, experiment, "--budget", "12runs", "--first", "--shrink", "4", command="explore", output="x")
    assert done.status == 1 and "FOUND property bank (history)" in done.out and "bank.py: not linearizable" in done.out, done
