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
from compiling import OFFLINE, go_module, locked
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


@functools.cache
def sdk_of_python():
    """Folder with the SDK for Python: that of the tests' own environment or, without one, of a wheel from its registry."""
    found = importlib.util.find_spec("antithesis")
    if found is not None:
        # A namespace package has no file of its own.
        return os.path.dirname(next(iter(found.submodule_search_locations)))
    folder = ROOT / "target/antithesis/python"
    with locked(folder.with_name(".python.lock")):
        if (folder / "antithesis").is_dir():
            return str(folder)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "antithesis"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 and re.search("No matching distribution|Could not fetch|No module named pip", done.stderr):
        pytest.skip("the SDK for Python cannot be downloaded")
    assert done.returncode == 0, done.stderr
    return str(folder)


def command_of(language):
    if language == "python":
        return [sys.executable, PROGRAMS / "program.py"], {"PYTHONPATH": sdk_of_python()}
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
    assert verdicts(workdir / "none") == {"sdk": ("assertions", False, f"in doubt: no host has file '{FILE}'")}


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


#: Commands that note, by the one clock of the simulation, when they run on which host.
NOTED = "echo $(hostname) {name} $(date +%s.%N) >> log; trap 'exit 1' TERM\n{script}\necho $(hostname) {name} ends $(date +%s.%N) >> log"


def together(belljar, workdir, hosts, *options, events=(), modes=((),), seed=1, status=0, **more):
    """Composers of several hosts, each with its own template: what they have noted, as (time, host, command, whether it ends), and the results."""
    composer = os.path.join(os.path.dirname(belljar), "belljar-composer")
    experiment = {"general": {"stop_time": "100 s", "seed": seed}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {}, "events": list(events)}
    for name, commands in hosts.items():
        folder = workdir / name
        for command, script in commands.items():
            file = folder / "basic" / command
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("#!/bin/bash\n" + NOTED.format(name=command, script=script))
            file.chmod(0o755)
        arguments = ["--tests", str(folder), "--time", "8", "--pause", "0.4", "--hosts", ",".join(hosts), *options]
        process = {"path": composer, "args": arguments, "start_time": f"{len(experiment['hosts'])} s", **more}
        experiment["hosts"][name] = {"network_node_id": 0, "processes": [process]}
    (workdir / "together.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    found = assert_same(belljar, workdir, workdir / "together.yaml", *modes)
    text = b"".join(content for name, content in found.items() if name.endswith("/log")).decode()
    noted = [(float(at), host, command, bool(ends)) for host, command, ends, at in re.findall(r"^(\S+) (\S+) (ends )?(\S+)$", text, re.M)]
    states = json.loads(found["sim-stats.json"])["hosts"]
    assert all(process["as_expected"] for host in states.values() for process in host["processes"]) == (status == 0), states
    return sorted(noted), found


def errors_of(found, host):
    (text,) = (content for name, content in found.items() if re.fullmatch(f"hosts/{host}/belljar-composer.*stderr", name))
    return text.decode()


ALL = {"first_a": "sleep 0.5", "parallel_driver_a": "sleep 0.7", "parallel_driver_b": "sleep 0.3", "serial_driver_a": "sleep 0.3", "anytime_a": "sleep 1"}


def assert_one_course(noted, last):
    """One first command, no driver beside a serial one, and one last command after all drivers."""
    spans = []
    for at, host, command, ends in noted:
        if not ends:
            end = min((until for until, *other in noted if other == [host, command, True] and until >= at), default=float("inf"))
            spans.append((at, end, host, command))
    firsts = [span for span in spans if span[3].startswith("first_")]
    lasts = [span for span in spans if span[3].startswith(last)]
    drivers = [span for span in spans if "_driver_" in span[3]]
    assert len(firsts) == len(lasts) == 1, spans
    assert all(start >= firsts[0][1] for start, _, _, command in spans if not command.startswith("first_")), spans
    for start, end, host, command in drivers:
        if command.startswith("serial_"):
            assert not [other for other in drivers if other[:3] != (start, end, host) and other[0] < end and other[1] > start], (spans, start)
    if last == "finally_":
        assert all(end <= lasts[0][0] for _, end, _, _ in drivers), spans
    assert all(start <= lasts[0][0] for start, *_ in spans), spans
    return spans


@pytest.mark.parametrize("last", ["finally_", "eventually_"])
def test_hosts_run_one_template_together(belljar, workdir, last):
    hosts = {name: {**ALL, f"{last}a": "sleep 0.2"} for name in "abc"}
    modes = [("--parallelism", "1"), ("--parallelism", "3"), ("--cells", "2"), ("--placement", "far")]
    noted, found = together(belljar, workdir, hosts, modes=modes)
    spans = assert_one_course(noted, last)
    assert {host for _, _, host, command in spans if "_driver_" in command} == set("abc")
    assert {command for *_, command in spans} == {*hosts["a"]}
    # Drivers of several hosts run beside each other.
    assert any(one[2] != other[2] and one[0] < other[1] and other[0] < one[1] for one in spans for other in spans if "parallel" in one[3] and "parallel" in other[3])
    _, other = together(belljar, workdir, hosts, seed=2)
    assert other != found


def test_faults_delay_a_course_of_several_hosts_and_do_not_split_it(belljar, workdir):
    hosts = {"a": {"parallel_driver_a": "sleep 0.4", "first_a": ""}, "b": {"parallel_driver_b": "sleep 0.7", "serial_driver_b": "sleep 0.2"}, "c": {"parallel_driver_c": "sleep 0.2", "finally_c": ""}}
    events = [
        {"at": "3 s", "partition": [["a"], ["b", "c"]], "for": "3 s"},
        {"at": "7 s", "link_change": ["a", "b"], "packet_loss": 0.5, "latency": "80 ms", "for": "3 s"},
        {"at": "7 s", "connection_reset": ["a", "b"]},
        {"at": "8 s", "pause": "c", "for": "1500 ms"},
    ]
    noted, _ = together(belljar, workdir, hosts, events=events, modes=[("--parallelism", "1"), ("--parallelism", "2")])
    spans = assert_one_course(noted, "finally_")
    assert {host for _, _, host, _ in spans} == set("abc")


def test_a_host_of_several_crashes(belljar, workdir):
    hosts = {name: {"first_a": "", "parallel_driver_a": "sleep 0.7", "finally_a": ""} for name in "ab"}
    noted, found = together(belljar, workdir, hosts, "--parallel", "8", events=[{"at": "6 s", "crash": "b", "for": "500 ms"}])
    (text,) = (content.decode() for name, content in found.items() if re.fullmatch("hosts/a/belljar-composer.*stdout", name))
    assert "b/parallel_driver_a is lost with its host" in text, text
    assert_one_course([each for each in noted if each[2] != "parallel_driver_a"], "finally_")
    assert any(host == "b" and at > 946684806.5 for at, host, *_ in noted), noted
    # The first one begins a new course, which the other follows.
    noted, found = together(belljar, workdir, hosts, events=[{"at": "6 s", "crash": "a", "for": "500 ms"}])
    firsts = [at for at, _, command, ends in noted if command == "first_a" and not ends]
    assert len(firsts) == 2 and firsts[1] > 946684806.5, noted
    assert len([each for each in noted if each[2] == "finally_a" and each[3]]) == 1, noted


def test_failures_of_several_hosts(belljar, workdir):
    driver = {"parallel_driver_a": "sleep 0.1"}
    _, found = together(belljar, workdir, {"a": driver, "b": {"parallel_driver_b": "exit 3"}}, status=1)
    assert errors_of(found, "a") == "" and set(errors_of(found, "b").splitlines()) == {"belljar-composer: parallel_driver_b failed: exit status: 3"}
    _, found = together(belljar, workdir, {"a": driver, "c": {"driver_x": ""}}, status=1)
    assert re.fullmatch("belljar-composer: c: .*/c/basic/driver_x: the name begins with none of first_, .*\n", errors_of(found, "a"))
    assert re.fullmatch("belljar-composer: .*/c/basic/driver_x: the name begins with none of first_, .*\n", errors_of(found, "c"))


def test_hosts_that_do_not_meet(belljar, workdir):
    """Each end says that it has waited for the other, or that it was started wrongly."""
    composer = os.path.join(os.path.dirname(belljar), "belljar-composer")
    folder = template(workdir, parallel_driver_a="")

    def said(hosts):
        process = {"path": composer, "args": ["--tests", str(folder), "--hosts", hosts]}
        experiment = {"general": {"stop_time": "100 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {name: {"network_node_id": 0, "processes": []} for name in "ab"}}
        experiment["hosts"]["b"]["processes"] = [process]
        run(belljar, workdir, experiment, "--force", status=1)
        (errors,) = (workdir / "data/hosts/b").glob("belljar-composer.*.stderr")
        return errors.read_text()

    more = "start belljar-composer there too, with the same --hosts and --port"
    assert said("b,a") == f"belljar-composer: a has not answered within 60 s: {more}\n"
    assert said("a,b") == f"belljar-composer: a, the first of --hosts, has not asked within 60 s: {more}\n"
    assert said("b,x") == "belljar-composer: there is no host x with an IPv4 address\n"
    assert said("a,c") == "belljar-composer: --hosts names a, c, but not this host, b\n"
    assert said("a,b,a") == "belljar-composer: --hosts names a twice\n"


def test_the_example_finds_the_money_that_a_crash_loses(belljar, workdir):
    where = [option for host in ("bank", "teller") for option in ("--set", f"hosts.{host}.processes.0.environment={json.dumps({'PYTHONPATH': sdk_of_python()})}")]
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
