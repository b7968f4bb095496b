"""Loop that asks `initial` and `step` of a file: the file's path is the argument."""

import importlib.util
import inspect
import json
import math
import os
import sys
import traceback


class Unknown:
    """Result of an operation of unknown outcome: it equals everything."""

    __hash__ = None

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __bool__(self):
        raise TypeError("the result is unknown and has no truth: compare it by '==', or look at 'known'")

    def __repr__(self):
        return "unknown"


UNKNOWN = Unknown()


class Refused(Exception):
    """A file without a model, or a step without an answer."""


def checked(value, at="the state"):
    """The value, if JSON gives it back as it is; tuples become lists."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise Refused(f"{at} has {value}, and whole numbers have 64 bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Refused(f"{at} has {value}, which JSON has not")
        return value
    if isinstance(value, (list, tuple)):
        return [checked(one, at) for one in value]
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise Refused(f"{at} has the key {name!r}, and keys in JSON are strings")
        return {name: checked(one, at) for name, one in value.items()}
    raise Refused(f"{at} has a {type(value).__name__}, which JSON has not: use numbers, strings, lists and dicts, such as a sorted list for a set")


def described(error, path):
    """An error with its line in the file."""
    if isinstance(error, Refused):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return text
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"line {lines[-1]}: {text}" if lines else text


class Model:
    def __init__(self, path):
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location("belljar_model", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["belljar_model"] = module
        spec.loader.exec_module(module)
        if not hasattr(module, "initial"):
            raise Refused("there is no 'initial', the state before all operations: write for example initial = 0")
        if not callable(getattr(module, "step", None)):
            raise Refused("there is no function 'step': write def step(state, f, value, result): ..., which returns (ok, state)")
        self.step = module.step
        self.initial = checked(module.initial, "'initial'")
        self.reads = getattr(module, "reads", [])
        if not isinstance(self.reads, (list, tuple)) or not all(isinstance(name, str) for name in self.reads):
            raise Refused(f"'reads' is {self.reads!r:.200}, not a list of the names of functions")
        names = list(inspect.signature(self.step).parameters)
        self.more = names[3:]
        if len(names) < 3 or len(set(self.more)) != len(self.more) or not set(self.more) <= {"result", "known", "process"}:
            raise Refused(f"the parameters of 'step' are {', '.join(names) or 'none'}: they are state, f and value, and then any of result, known and process")

    def start(self):
        return {"state": self.initial, "reads": self.reads, "process": "process" in self.more}

    def answer(self, question):
        known = "result" in question
        value, result = question["value"], question.get("result", UNKNOWN)
        if "result" not in self.more:
            # The one value of the operation, as a completion has it.
            value = result if known or value is None else value
        more = {"result": result, "known": known, "process": question.get("process")}
        answer = self.step(question["state"], question["f"], value, **{name: more[name] for name in self.more})
        if not isinstance(answer, (tuple, list)) or len(answer) != 2 or not isinstance(answer[0], bool):
            raise Refused(f"'step' returned {answer!r:.200}, not (ok, state) with ok True or False")
        if not answer[0]:
            return {"ok": False}
        return {"ok": True, "state": checked(answer[1])}


def main():
    path = sys.argv[1]
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    # What the file prints is no answer, and what it reads is no question.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    model = None
    for line in questions:
        question = json.loads(line)
        try:
            if question.get("initial"):
                model = Model(path)
                answer = model.start()
            else:
                answer = model.answer(question)
        except Exception as error:
            answer = {"error": described(error, path)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


main()
