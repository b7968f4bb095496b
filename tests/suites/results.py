"""What a suite's tests came to, and how two places compare."""

import dataclasses
import fnmatch
import json
import pathlib

import yaml

# The worst of a test's outcomes is its outcome; one that only "started" never came to an end.
OUTCOMES = ("started", "passed", "skipped", "failed", "crashed", "hung")
BAD = ("failed", "crashed", "hung", "not run")


@dataclasses.dataclass
class Results:
    """Test by test: its outcome and, where it did not pass, why."""

    outcomes: dict = dataclasses.field(default_factory=dict)

    def add(self, test, outcome, detail=""):
        before, _ = self.outcomes.get(test, ("started", ""))
        if test not in self.outcomes or OUTCOMES.index(outcome) > OUTCOMES.index(before):
            self.outcomes[test] = (outcome, detail)

    def unfinished(self):
        return [test for test, (outcome, _) in self.outcomes.items() if outcome == "started"]

    def count(self, *outcomes):
        return sum(outcome in outcomes for outcome, _ in self.outcomes.values())

    def counts(self):
        skipped = self.count("skipped")
        return {"run": len(self.outcomes) - skipped, "passed": self.count("passed"), "failed": self.count(*BAD), "skipped": skipped}

    def of(self, test):
        """A test's outcome. What a class or a test around it came to holds for one that never started."""
        found = self.outcomes.get(test)
        if found is None:
            owner = test.rpartition(".")[0]
            found = next((self.outcomes[a] for a in (f"setUpClass ({owner})", *parents(test)) if a in self.outcomes), None)
        return found or ("not run", "")

    def save(self, path):
        path.write_text(json.dumps(self.outcomes, indent=0, sort_keys=True))

    @classmethod
    def load(cls, path):
        return cls({test: tuple(found) for test, found in json.loads(path.read_text()).items()})


def parents(test):
    """The tests that a test of Go's is a part of: a/b/c is part of a/b and of a."""
    while "/" in test:
        test = test.rpartition("/")[0]
        yield test


def worse(native, simulated):
    """The tests that pass natively and not in the other place, with what became of them there."""
    for test in sorted(native.outcomes.keys() | simulated.outcomes.keys()):
        found = simulated.of(test)
        # A module that came to no end, or a class of tests: natively there is nothing of that name.
        passes = native.outcomes.get(test, ("passed" if found[0] in BAD else "skipped",))[0] == "passed"
        if passes and found[0] != "passed":
            yield test, *found


@dataclasses.dataclass
class Explanation:
    """Why tests differ. `tests` are patterns of names, `where` the placements that they differ in."""

    why: str
    tests: list
    where: tuple = ("near", "far")

    def covers(self, unit, test, where):
        return where in self.where and any(fnmatch.fnmatchcase(f"{unit}:{test}", pattern) for pattern in self.tests)


def explanations():
    entries = yaml.safe_load((pathlib.Path(__file__).parent / "explanations.yaml").read_text()) or []
    return [Explanation(e["why"].strip(), e["tests"], tuple(e.get("where", ("near", "far")))) for e in entries]
