"""Programs that people run, each in a small experiment, near and far; what comes of it stands in docs/compatibility.md."""

import json
import re
import shutil
import subprocess

import pytest
from conftest import TARGET, experiment
from programs.cases import CASES
from programs.made import Missing
from programs.table import PLACEMENTS, kept_result

# What the summary says of calls, options and the like that a program asked for in vain.
UNSUPPORTED = r"warning: (?:system call )?(.+) (?:is|are) not (?:supported|permitted)"


def version(case):
    if callable(case.version):
        said = case.version()
    else:
        done = subprocess.run(case.version, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        said = done.stdout + done.stderr
    found = re.search(r"\d+\.\d[\w.-]*\w|\d{8}", said)
    return found[0] if found else "?"


@pytest.mark.slow
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_program(case, placement, run_experiment, workdir):
    absent = [program for program in case.needs if shutil.which(program) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed: apt install {case.packages}")
    try:
        case.prepare()
    except Missing as reason:
        pytest.skip(str(reason))
    kept = kept_result(TARGET, case, placement)
    kept.parent.mkdir(parents=True, exist_ok=True)
    found = {"version": version(case), "result": "fails"}
    kept.write_text(json.dumps(found))
    made = case.hosts(workdir)
    whole = made if "general" in made else experiment(made, stop=case.stop)
    done = run_experiment(whole, args=["--placement", placement], status=None, timeout=900)
    case.check(done)
    found["unsupported"] = sorted(set(re.findall(UNSUPPORTED, done.out + done.err)))
    found["result"] = "works"
    kept.write_text(json.dumps(found))
    unexpected = set(found["unsupported"]) - set(case.tolerates)
    assert not unexpected, f"calls without support, and no reason why that does no harm: {unexpected}"
