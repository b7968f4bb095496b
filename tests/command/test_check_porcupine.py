"""`belljar check` against porcupine, a checker by others in Go: the same verdict on 12,000 random histories."""

import collections
import json
import random

import pytest
from compiling import go_module
from conftest import ROOT, execute

#: Histories of each model.
HISTORIES = 2_000
#: No effect: the operation has to wait, as `acquire` of a lock that is held.
WAIT = object()


def register(state, process, f, value):
    """State after an operation and its result, or WAIT."""
    if f == "read":
        return state, state
    if f == "write":
        return value, value
    return (value[1], value) if state == value[0] else WAIT


def queue(state, process, f, value):
    if f == "enqueue":
        return (*state, value), value
    return state[1:], state[0] if state else None


def mutex(state, process, f, value):
    if f == "acquire":
        return ("held", None) if state is None else WAIT
    return (None, None) if state is not None else WAIT


def owned_mutex(state, process, f, value):
    if f == "acquire":
        return (process, None) if state is None else WAIT
    return (None, None) if state == process else WAIT


def elements(state, process, f, value):
    if f == "read":
        return state, list(state)
    if f == "contains":
        return state, value in state
    rest = [one for one in state if one != value]
    return (sorted([*rest, value]) if f == "add" else rest), value


def small(draw):
    return draw.randrange(4)


def no_value(draw):
    return None


# Initial state, step, and each operation with the drawing of its argument.
MODELS = {
    "register": (None, register, {"read": no_value, "write": small}),
    "cas-register": (None, register, {"read": no_value, "write": small, "cas": lambda draw: [small(draw), small(draw)]}),
    "queue": ((), queue, {"enqueue": small, "dequeue": no_value}),
    "mutex": (None, mutex, {"acquire": no_value, "release": no_value}),
    "owned-mutex": (None, owned_mutex, {"acquire": no_value, "release": no_value}),
    "set": ([], elements, {"add": small, "remove": small, "contains": small, "read": no_value}),
}


def linearizable(draw, model, fault=0.0):
    """Events of clients of an object, as [process, type, f, value]. An operation takes effect between its events; one that does not
    complete has taken effect or not. With a probability `fault` it finds an older state, which is what a wrong object does."""
    state, step, operations = MODELS[model]
    states = [state]
    events, open_by, done = [], {}, set()
    # For long queues with several operations of unknown outcome porcupine takes minutes.
    processes, length = draw.randint(1, 5), draw.choice([4, 8, 12, 16] if model == "queue" else [4, 8, 12, 16, 24])
    doubt = draw.choice([0, 0.1, 0.3])
    for _ in range(length * 4):
        process = draw.randrange(processes)
        if process not in open_by:
            if length == 0:
                continue
            length -= 1
            f = draw.choice(list(operations))
            open_by[process] = (f, operations[f](draw))
            events.append([process, "invoke", *open_by[process]])
        elif process not in done:
            f, value = open_by[process]
            if draw.random() < doubt / 2:
                # The effect is left out, and the client is told so or knows nothing.
                events.append([process, draw.choice(["fail", "info"]), f, value])
                del open_by[process]
            elif (after := step(draw.choice(states) if draw.random() < fault else state, process, f, value)) is not WAIT:
                state, result = after
                states.append(state)
                open_by[process] = (f, result)
                done.add(process)
        else:
            f, result = open_by.pop(process)
            done.remove(process)
            known = draw.random() >= doubt
            events.append([process, "ok" if known else "info", f, result if known else None])
    return events


def mutated(draw, model, events):
    """The events with some changes, each of which may make them impossible."""
    events = [list(event) for event in events]
    for _ in range(draw.randint(2, 10)):
        at = draw.randrange(len(events))
        process, kind, f, value = events[at]
        change = draw.choice(["result", "result", "outcome", "earlier", "removed", "removed"])
        if change == "result" and kind == "ok":
            results = {"read": [0, 1] if model == "set" else small(draw), "dequeue": draw.choice([None, small(draw)]), "contains": draw.choice([True, False])}
            events[at][3] = results.get(f, value)
        elif change == "outcome" and kind in ("fail", "info") and f not in ("read", "dequeue", "contains"):
            # The argument is the result.
            before = [event for event in events[:at] if event[0] == process]
            events[at][1:] = ["ok", f, before[-1][3]]
        elif change == "outcome" and kind == "ok":
            events[at][1] = draw.choice(["fail", "fail", "info"])
        elif change == "earlier":
            # Up to the process's own event before it.
            while at > 0 and events[at - 1][0] != process and draw.random() < 0.9:
                events[at - 1], events[at] = events[at], events[at - 1]
                at -= 1
        elif change == "removed" and kind == "invoke":
            after = [number for number in range(at + 1, len(events)) if events[number][0] == process][:1]
            if after and len(events) > 2:
                del events[after[0]], events[at]
    return events


def drawn(seed, model):
    """Events of a history: linearizable by construction for every third seed, else those of a wrong object, or changed afterwards."""
    draw = random.Random(f"{model} {seed}")
    if seed % 3 == 1:
        return linearizable(draw, model, fault=draw.choice([0.1, 0.3]))
    events = linearizable(draw, model)
    return events if seed % 3 == 0 else mutated(draw, model, events)


def lines_of(key, events):
    """Lines of one history: a process of its own for each of its clients."""
    return [json.dumps({"process": f"{key}/{process}", "type": kind, "f": f, "key": key, "value": value}) + "\n" for process, kind, f, value in events]


@pytest.fixture(scope="session")
def porcupine():
    return go_module(ROOT / "tests/programs/porcupine", ROOT / "target/porcupine/porcupine")


@pytest.mark.parametrize("model", MODELS)
def test_verdicts_are_porcupines(belljar, workdir, porcupine, model):
    histories = {key: lines_of(key, drawn(key, model)) for key in range(HISTORIES)}
    (workdir / "h.jsonl").write_text("".join(line for lines in histories.values() for line in lines))
    done = execute(["sh", "-c", f"exec {porcupine} {model} < h.jsonl"], cwd=workdir)
    assert done.status == 0, done
    theirs = {one["key"]: one["linearizable"] for one in map(json.loads, done.out.splitlines())}
    done = execute([belljar, "check", "h.jsonl", "--model", model, "--json"], cwd=workdir)
    report = json.loads(done.out)
    assert done.status == 1 and report["doubts"] == [] and report["objects"] == HISTORIES, (done.status, done.err)
    impossible = {finding["key"] for finding in report["findings"]}
    ours = {key: key not in impossible for key in histories}
    assert theirs.keys() == ours.keys()
    different = [key for key in histories if ours[key] != theirs[key]]
    assert not different, f"{len(different)} verdicts differ; on this history, belljar's is {ours[different[0]]}:\n" + "".join(histories[different[0]])
    # What is linearizable by construction is, and both verdicts occur often.
    assert all(ours[key] for key in histories if key % 3 == 0)
    assert collections.Counter(ours.values())[False] > HISTORIES / 10
    assert sum('"info"' in line for lines in histories.values() for line in lines) > HISTORIES / 4


def test_a_wrong_verdict_would_be_seen(belljar, workdir, porcupine):
    """Both judge what they are given: the same lines by another model are another verdict."""
    lines = lines_of("k", [[0, "invoke", "acquire", None], [0, "ok", "acquire", None], [1, "invoke", "release", None], [1, "ok", "release", None]])
    (workdir / "h.jsonl").write_text("".join(lines))
    for model, holds in ("mutex", True), ("owned-mutex", False):
        done = execute(["sh", "-c", f"exec {porcupine} {model} < h.jsonl"], cwd=workdir)
        assert json.loads(done.out) == {"key": "k", "linearizable": holds}, done
        assert execute([belljar, "check", "h.jsonl", "--model", model], cwd=workdir).status == 1 - holds
