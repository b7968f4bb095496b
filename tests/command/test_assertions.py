"""Properties `assertions`: what Antithesis' SDKs for Go, Rust and Python report, unchanged; and test templates, run by `belljar-composer`."""

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from compiling import OFFLINE, go_module
from conftest import ROOT, execute
from sameness import assert_same

PROGRAMS = ROOT / "tests/programs/antithesis"
FILE = "/var/log/sdk.jsonl"


def world(path, *arguments, properties=None, environment=None, **more):
    process = {"path": str(path), "args": [str(one) for one in arguments], "environment": environment or {}}
    return {
        "general": {"stop_time": "20 s"},
        "network": {"graph": {"type": "1_gbit_switch"}},
        "hosts": {"a": {"network_node_id": 0, "processes": [process]}},
        "properties": properties or [{"name": "sdk", "assertions": FILE}],
        **more,
    }


def run(belljar, workdir, experiment, *options, command="run", output="data", status=0):
    (workdir / "e.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    done = execute([belljar, command, "e.yaml", "-o", output, *options], cwd=workdir)
    assert done.status == status, done
    return done


def verdicts(folder):
    """Kind, whether it holds and the reason of each property, by its name."""
    properties = json.loads((folder / "sim-stats.json").read_text())["properties"]
    return {one["name"]: (one["kind"], one["holds"], one["reason"]) for one in properties}


@functools.cache
def built(language):
    """The program of a language, built with the SDK of its registry, or a reason to skip."""
    folder = ROOT / "target/antithesis" / language
    folder.mkdir(parents=True, exist_ok=True)
    if language == "go":
        return go_module(PROGRAMS / "go", folder / "program")
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    done = subprocess.run(["cargo", "build", "--quiet", "--locked"], cwd=PROGRAMS / language, capture_output=True, text=True, env={**os.environ, "CARGO_TARGET_DIR": str(folder)})
    if done.returncode != 0 and re.search(OFFLINE, done.stderr):
        pytest.skip(f"the SDK for {language} cannot be downloaded")
    assert done.returncode == 0, done.stderr
    return folder / "debug/antithesis"


def command_of(language):
    if language == "python":
        # A namespace package has no file of its own.
        sdk = importlib.util.find_spec("antithesis.assertions") if importlib.util.find_spec("antithesis") else None
        if sdk is None:
            pytest.skip("the SDK for Python is not installed")
        return [sys.executable, PROGRAMS / "program.py"], {"PYTHONPATH": os.path.dirname(os.path.dirname(sdk.origin))}
    return [built(language)], {}


# Cargo compiles the SDK for Rust and what it needs.
@pytest.mark.parametrize("language", ["go", pytest.param("rust", marks=pytest.mark.slow), "python"])
def test_sdks_report_unchanged(belljar, workdir, language):
    command, environment = command_of(language)
    run(belljar, workdir, world(*command, environment=environment), status=1 if language == "rust" else 0)
    right = {
        "sdk: numbers are positive": ("always", True, None),
        "sdk: some number is even": ("sometimes", True, None),
        "sdk: the end is reached": ("sometimes", True, None),
        "sdk: setup complete": ("setup", True, None),
    }
    # The SDK for Rust declares what the program may evaluate, the others what a catalogue of theirs has.
    declared = {
        "sdk: the first number is negative": ("sometimes", False, "was never evaluated"),
        "sdk: the program is wrong": ("never", True, None),
    }
    found = verdicts(workdir / "data")
    assert right.items() <= found.items() and found.items() <= (right | declared).items(), found
    lines = (workdir / f"data/hosts/a/fs{FILE}").read_text().splitlines()
    assert "antithesis_sdk" in json.loads(lines[0]) and any("antithesis_setup" in line for line in lines)
    done = run(belljar, workdir, world(*command, "wrong", environment=environment), output="wrong", status=1)
    found = verdicts(workdir / "wrong")
    assert right.items() <= found.items(), found
    assert found["sdk: the first number is negative"] == ("always", False, "false 1 times of 1")
    assert found["sdk: the program is wrong"] == ("never", False, "was reached 1 times")
    assert re.search(r"FAIL property always sdk: the first number is negative: false 1 times of 1; a: fs/var/log/sdk.jsonl:\d+ at ", done.out), done


def report(kind, must_hit, message, hit=True, condition=True):
    return json.dumps({"antithesis_assert": {"hit": hit, "must_hit": must_hit, "assert_type": kind, "message": message, "id": message, "condition": condition}})


def shell(*lines):
    return ["/bin/sh", "-c", "".join(f"echo '{line}' >> $ANTITHESIS_OUTPUT_DIR/sdk.jsonl\n" for line in lines)]


def test_programs_without_an_sdk_write_lines(belljar, workdir):
    declared = [report("sometimes", True, "elected", hit=False), report("reachability", False, "lost", hit=False)]
    run(belljar, workdir, world(*shell(*declared, report("sometimes", True, "elected"))))
    assert verdicts(workdir / "data") == {"sdk: elected": ("sometimes", True, None), "sdk: lost": ("never", True, None)}
    run(belljar, workdir, world(*shell(*declared)), output="missed", status=1)
    assert verdicts(workdir / "missed")["sdk: elected"] == ("sometimes", False, "was never true, of 0 times")


@pytest.mark.parametrize("line, reason", [
    ("{]", "fs/var/log/sdk.jsonl of host 'a' cannot be judged: line 2: not valid JSON: key must be a string at column 2"),
    (report("never", True, "m"), """fs/var/log/sdk.jsonl of host 'a' cannot be judged: line 2: "assert_type" of "antithesis_assert" is "never", not "always", "sometimes" or "reachability\""""),
])
def test_malformed_lines_fail_the_property(belljar, workdir, line, reason):
    run(belljar, workdir, world(*shell("{}", line)), status=1)
    assert verdicts(workdir / "data") == {"sdk": ("assertions", False, reason)}


def test_a_program_without_assertions_fails_the_property(belljar, workdir):
    run(belljar, workdir, world(*shell("{}")), status=1)
    assert verdicts(workdir / "data") == {"sdk": ("assertions", False, "no program has declared an assertion")}
    run(belljar, workdir, world("/bin/true"), status=1, output="none")
    assert verdicts(workdir / "none") == {"sdk": ("assertions", False, f"no host has file '{FILE}'")}


def test_goals_that_no_run_reaches_are_reported(belljar, workdir):
    """A goal is no failure of an exploration; what is reached in some run is reached."""
    experiment = world(*shell(report("sometimes", True, "elected", hit=False), report("always", True, "calm")), explore={"between": ["1 s", "5 s"], "hosts": "a", "kinds": ["clock"]})
    run(belljar, workdir, experiment, "--budget", "3runs", command="explore", output="x")
    found = json.loads((workdir / "x/report.json").read_text())
    assert found["findings"] == [] and found["unreached"] == ["sdk: elected"] and found["held"] == ["sdk"], found


def test_faults_start_when_the_setup_is_complete(belljar, workdir):
    """Run 0 has the time of the setup, here 8 s; no fault is drawn before it."""
    ready = json.dumps({"antithesis_setup": {"status": "complete", "details": None}})
    script = f"sleep 8; {shell(ready, report('always', True, 'calm'))[2]}sleep 100"
    experiment = world("/bin/sh", "-c", script, explore={"between": ["1 s", "12 s"], "hosts": "a", "faults": 3, "kinds": ["pause"]})
    experiment["hosts"]["a"]["processes"][0]["expected_final_state"] = "running"
    run(belljar, workdir, experiment)
    assert verdicts(workdir / "data") == {"sdk: calm": ("always", True, None), "sdk: setup complete": ("setup", True, None)}
    # The pauses are seen by a program that fails if one begins while it sleeps, and is over before the setup is complete.
    watch = "import time\nfor _ in range(75):\n    t = time.monotonic(); time.sleep(.1)\n    assert time.monotonic() - t < .15, 'paused'\n"
    experiment["hosts"]["a"]["processes"].append({"path": "python3", "args": ["-c", watch]})
    run(belljar, workdir, experiment, "--budget", "6runs", command="explore", output="x")
    found = json.loads((workdir / "x/report.json").read_text())
    assert found["findings"] == [] and found["kinds"][0]["runs"] > 0, found
    # Without the report of the setup, some pause is early.
    experiment["hosts"]["a"]["processes"][0]["args"][1] = script.replace("antithesis_setup", "antithesis_other")
    run(belljar, workdir, experiment, "--budget", "6runs", "--shrink", "0", command="explore", output="early", status=1)
    experiment["explore"]["between"] = ["1 s", "7 s"]
    experiment["hosts"]["a"]["processes"][0]["args"][1] = script
    done = run(belljar, workdir, experiment, "--budget", "6runs", command="explore", output="late", status=2)
    assert re.fullmatch(r"error: the setup is complete at 8\S* m?s, after which no fault fits before the end of 'between', 7 s\n", done.err), done


def test_verdicts_are_the_same(belljar, workdir):
    experiment = world(*shell(report("sometimes", True, "elected"), report("always", True, "calm", condition=False)))
    experiment["hosts"]["b"] = experiment["hosts"]["a"]
    (workdir / "same.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    found = assert_same(belljar, workdir, workdir / "same.yaml", ["--parallelism", "1"], ["--parallelism", "3"], ["--cells", "2"], ["--placement", "far"])
    assert {one["name"]: one["holds"] for one in json.loads(found["sim-stats.json"])["properties"]} == {"sdk: calm": False, "sdk: elected": True}


def template(workdir, name="basic", **commands):
    folder = workdir / "tests" / name
    folder.mkdir(parents=True)
    for command, script in commands.items():
        file = folder / command
        file.write_text(f"#!/bin/sh\necho {command}\n{script}\n")
        file.chmod(0o755)
    return folder.parent


def compose(belljar, workdir, folder, *options, seed=1, status=0, output="data"):
    composer = os.path.join(os.path.dirname(belljar), "belljar-composer")
    experiment = world(composer, "--tests", folder, "--time", "5", *options, properties=[{"name": "starts", "sometimes": "."}], general={"stop_time": "60 s", "seed": seed})
    run(belljar, workdir, experiment, status=status, output=output)
    (output,) = (workdir / output / "hosts/a").glob("belljar-composer.*.stdout")
    text = output.read_text()
    times = {}
    for at, name, what in re.findall(r"^(\d+\.\d+) s: (\S+) (starts|ends|is killed)", text, re.M):
        times.setdefault(name, []).append((what, float(at)))
    return text, times


def test_drivers_run_by_their_kinds(belljar, workdir):
    folder = template(workdir, first_a="sleep 0.5", parallel_driver_a="sleep 1", parallel_driver_b="sleep 1.2", serial_driver_a="sleep 0.3", anytime_a="sleep 9", finally_a="")
    text, times = compose(belljar, workdir, folder, "--pause", "0.2")
    assert text.startswith("template basic\n") and times["first_a"] == [("starts", 0.0), ("ends", times["first_a"][1][1])]
    begin = times["first_a"][1][1]
    assert all(at >= begin for name, all_of_it in times.items() if name != "first_a" for _, at in all_of_it)
    # A serial driver has no other driver beside it, a parallel one has.
    open_drivers, most = set(), 0
    for name, what in re.findall(r"s: (\S+_driver_\w+) (starts|ends)", text):
        open_drivers ^= {name}
        if what == "starts" and name.startswith("serial"):
            assert open_drivers == {name}, text
        most = max(most, len(open_drivers))
    assert most > 1 and "serial_driver_a" in times, text
    # The last command waits for drivers, and those that run at any time are killed after it.
    assert times["finally_a"][-1][0] == "ends" and times["finally_a"][0][1] >= 5
    assert text.rstrip().endswith("anytime_a is killed"), text


def test_commands_at_the_end_and_alone(belljar, workdir):
    folder = template(workdir, singleton_driver_a="sleep 100", eventually_a="")
    text, times = compose(belljar, workdir, folder)
    assert times["singleton_driver_a"] == [("starts", 0.0), ("is killed", 5.0)] and times["eventually_a"][0] == ("starts", 5.0), text


def test_templates_are_drawn_from_the_seed(belljar, workdir):
    for name in ("one", "two", "three"):
        folder = template(workdir, name, parallel_driver_a="sleep 0.1")
    texts = [compose(belljar, workdir, folder, seed=seed, output=f"{index}.data")[0] for index, seed in enumerate([1, 1, 2, 3, 4, 5])]
    assert texts[0] == texts[1] and len({text.split("\n")[0] for text in texts}) > 1
    assert compose(belljar, workdir, folder, "--template", "two", output="named.data")[0].startswith("template two\n")


@pytest.mark.parametrize("commands, options, problem", [
    ({"parallel_driver_a": "exit 3"}, [], r"parallel_driver_a failed: exit status: 3"),
    ({"driver_a": ""}, [], r".*/tests/basic/driver_a: the name begins with none of first_, .*"),
    ({"finally_a": ""}, [], r".*/tests/basic has no driver: .*"),
    ({"anytime_a": ""}, ["--template", "other"], r".*/tests has no template other, but basic"),
])
def test_failures_of_templates(belljar, workdir, commands, options, problem):
    compose(belljar, workdir, template(workdir, **commands), *options, status=1)
    (errors,) = (workdir / "data/hosts/a").glob("belljar-composer.*.stderr")
    assert re.fullmatch(f"(belljar-composer: {problem}\n)+", errors.read_text()), errors.read_text()


@pytest.mark.skipif(importlib.util.find_spec("antithesis") is None, reason="the SDK for Python is not installed")
def test_the_example_finds_the_money_that_a_crash_loses(belljar, workdir):
    folder = os.path.dirname(next(iter(importlib.util.find_spec("antithesis").submodule_search_locations)))
    where = [option for host in ("bank", "teller") for option in ("--set", f"hosts.{host}.processes.0.environment={json.dumps({'PYTHONPATH': folder})}")]
    example = ROOT / "examples" / "antithesis.yaml"
    done = execute([belljar, "run", example, "-o", "data", *where], cwd=workdir)
    assert done.status == 0, done
    assert {name: holds for name, (_, holds, _) in verdicts(workdir / "data").items()} == {
        "sdk: no money is lost": True, "sdk: money goes back": True, "sdk: setup complete": True}
    unsafe = ["--set", "hosts.bank.processes.0.args=serve --unsafe"]
    done = execute([belljar, "explore", example, "--budget", "20runs", "--first", "--shrink", "10", "-o", "found", *where, *unsafe], cwd=workdir)
    assert done.status == 1 and "FOUND property sdk: no money is lost (always)" in done.out, done
    done = execute([belljar, "explore", example, "--budget", "5runs", "-o", "none", *where], cwd=workdir)
    assert done.status == 0, done
