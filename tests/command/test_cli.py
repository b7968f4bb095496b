"""The command line beyond running: what is asked for, what is printed, what is said when it cannot be done."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from conftest import EXAMPLES, execute, experiment, graph

TWO = experiment(
    {"alice": (0, [("/bin/sh", "-c", "echo hello; sleep 1; date +%s.%N; head -c 8 /dev/urandom | od -An -tx1")]),
     "bob": (1, [("/bin/sleep", "2")])},
    graph((0, 1, "10 ms")), stop="5 s")
COMMANDS = ["run", "exec", "validate", "doctor", "diff", "check", "inspect", "report", "capture", "trace", "import", "draw", "schema"]


def write(workdir, content, name="exp.yaml"):
    (workdir / name).write_text(yaml.safe_dump(content, sort_keys=False))
    return workdir / name


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(belljar, command):
    done = execute([belljar, command, "--help"])
    assert done.status == 0 and re.search(rf"Examples?:(\n .*)*\n +belljar {command}", done.out), done
    listed = execute([belljar, "--help"]).out
    assert re.search(rf"^ +{command} ", listed, re.M)


def test_every_option_of_run_is_an_environment_variable(belljar):
    text = execute([belljar, "run", "--help"]).out
    options = re.split(r"\n {2,6}(?=(?:-\w, )?--\w)", text)[1:]
    without = [o.split()[0] for o in options if "[env: BELLJAR_" not in " ".join(o.split()) and not o.startswith(("-h", "-V"))]
    assert len(options) > 15 and not without, without


def test_environment_and_command_line(belljar, workdir):
    file = write(workdir, TWO)
    env = {**os.environ, "BELLJAR_SEED": "77", "BELLJAR_SET": "general.bootstrap_end_time=1 s", "BELLJAR_SHOW_CONFIG": "1"}
    shown = yaml.safe_load(execute([belljar, "run", file], env=env).out)
    assert shown["general"]["seed"] == 77 and shown["general"]["bootstrap_end_time"] == "1 s"
    shown = yaml.safe_load(execute([belljar, "run", file, "--seed", "5"], env=env).out)
    assert shown["general"]["seed"] == 5, "the command line counts for more"


def test_show_config_runs_again_and_runs_nothing(belljar, workdir):
    file = write(workdir, TWO)
    shown = execute([belljar, "run", file, "--show-config", "-o", workdir / "data"])
    assert shown.status == 0 and not (workdir / "data").exists()
    (workdir / "shown.yaml").write_text(shown.out)
    again = execute([belljar, "run", workdir / "shown.yaml", "--show-config"])
    assert again.out == shown.out


def test_standard_input(belljar, workdir):
    file = write(workdir, TWO)
    with file.open() as text:
        done = execute([belljar, "run", "-", "-o", workdir / "data", "--no-progress"], stdin=text)
    assert done.status == 0 and (workdir / "data/hosts/alice/sh.1000.stdout").read_text().startswith("hello\n")


@pytest.mark.parametrize("setting, path, value", [
    ("general.stop_time=3 s", ("general", "stop_time"), "3 s"),
    ("hosts.alice.processes.0.args=[-c, 'exit 0']", ("hosts", "alice", "processes", 0, "args"), ["-c", "exit 0"]),
    ("hosts.bob.bandwidth_up=1 Mbit", ("hosts", "bob", "bandwidth_up"), "1 Mbit"),
    ("belljar.metrics.interval=50 ms", ("belljar", "metrics", "interval"), "50 ms"),
])
def test_set(belljar, workdir, setting, path, value):
    done = execute([belljar, "run", write(workdir, TWO), "--show-config", "--set", setting])
    assert done.status == 0, done
    found = yaml.safe_load(done.out)
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize("setting, message", [
    ("general.stop_time=10 parsecs", r"parsecs[\s\S]*--set general.stop_time:1:1"),
    ("general.sed=1", r"'sed' is not a key[\s\S]*did you mean 'seed'"),
    ("hosts.alice.processes.7.path=/bin/true", r"no item '7'[\s\S]*numbered from 0 to 0"),
    ("general.stop_time.x=1", r"cannot be set"),
    ("seed", r"key=value"),
])
def test_set_wrongly(belljar, workdir, setting, message):
    done = execute([belljar, "run", write(workdir, TWO), "-o", workdir / "data", "--set", setting])
    assert done.status == 2 and re.search(message, done.err) and not (workdir / "data").exists(), done


def test_template_directory(belljar, workdir):
    (workdir / "template/hosts/alice").mkdir(parents=True)
    (workdir / "template/hosts/alice/greeting").write_text("from the template\n")
    file = write(workdir, experiment({"alice": (0, [("/bin/cat", "greeting")])}, stop="2 s"))
    done = execute([belljar, "run", file, "-o", workdir / "data", "--template-directory", workdir / "template"])
    assert done.status == 0, done
    assert (workdir / "data/hosts/alice/cat.1000.stdout").read_text() == "from the template\n"


def test_log_in_shadows_format(belljar, workdir):
    """What tornettools' parser takes from the log: the words by their places in a line."""
    done = execute([belljar, "run", write(workdir, TWO), "-o", workdir / "data", "--log", "--heartbeat-interval", "1 s"])
    line = re.compile(r"\d\d:\d\d:\d\d\.\d{6} \[\d+:[\w-]+\] (\d\d:\d\d:\d\d\.\d{9}|n/a) \[(ERROR|WARN|INFO)\] \[\S+\] \[\S+:\d+\] \[\w+\] .+")
    beats = [text.split() for text in done.out.splitlines() if "Process resource usage at simtime" in text]
    assert len(beats) >= 2 and all(line.fullmatch(" ".join(b)) for b in beats), done
    times = [float(b[12]) for b in beats]
    assert times == sorted(times) and all(t % 1e9 == 0 for t in times)
    for beat in beats:
        pairs = dict(w.split("=") for w in beat if "=" in w)
        assert float(pairs["ru_maxrss"]) > 0 and {"ru_utime", "ru_stime", "ru_nvcsw,", "ru_nivcsw"} <= {*pairs, "ru_nvcsw,"}
    memory = [text.split("/proc/meminfo: ")[1] for text in done.out.splitlines() if "/proc/meminfo: " in text]
    assert json.loads(memory[0])["mem_total"] > 1 << 20
    assert re.search(r"\[INFO\] \[alice:11\.0\.0\.1\] .*process 'sh\.1000' exited 0", done.out), done


def test_an_unbounded_stack_is_bounded_before_anything_is_written(belljar, workdir):
    """Clusters have them: Linux lays libraries out elsewhere then, so the program starts itself over, as it does on processors with AVX-512."""
    if execute(["sh", "-c", "ulimit -s unlimited"]).status != 0:
        pytest.skip("this user's stack may not be unbounded: ulimit -Hs")
    command = 'unset GLIBC_TUNABLES; ulimit -s unlimited; exec "$0" run "$1" -o data --parallelism "$2" --cells "$2"'
    for count in ("1", "2"):
        done = execute(["sh", "-c", command, belljar, write(workdir, TWO), count], cwd=workdir)
        assert done.status == 0, done
        shutil.rmtree(workdir / "data")


def test_no_log_unless_asked_for(belljar, workdir):
    done = execute([belljar, "run", write(workdir, TWO), "-o", workdir / "data"])
    assert "simtime" not in done.out and "[INFO]" not in done.out


def test_doctor(belljar):
    done = execute([belljar, "doctor"])
    assert done.status == 0, done
    lines = [text for text in done.out.splitlines() if not text.startswith(" ")]
    assert all(re.match(r"(ok|limited|missing) +\S", text) for text in lines)
    for what in ("running guests", "syscall user dispatch", "FSGSBASE", "XSAVEC", "AVX", "CPUID faulting", "TSC trapping",
                 "RDRAND, RDSEED, RDPID, XGETBV, RDPRU", "memory mappings", "processes", "open files", "the machine's files", "user namespaces", "perf"):
        assert any(what in text for text in lines), what
    short = done.out.splitlines()
    for number, text in enumerate(short):
        if text.startswith(("limited", "missing")):
            assert short[number + 1].startswith("   "), f"no remedy: {text}"


def test_doctor_finds_what_is_scarce(belljar):
    done = execute(["sh", "-c", 'ulimit -n 256; "$0" doctor', belljar])
    assert re.search(r"^limited +open files +RLIMIT_NOFILE 256", done.out, re.M), done


def test_logs_of_calls_stay_in_the_hosts_folder_whatever_a_guest_calls_itself(run_experiment):
    script = "printf ../../a/b > /proc/$$/comm; (echo one); printf 'c\\0/d' > /proc/$$/comm; (echo two); true"
    hosts = {"alice": (0, [{"path": "/bin/sh", "args": ["-c", script]}])}
    done = run_experiment(experiment(hosts), args=["--strace"])
    names = sorted(file.name for file in (done.path / "hosts/alice").glob("*.strace"))
    assert [name.rsplit(".", 2)[0] for name in names] == [".._.._a_b", "c__d", "sh"], names


def test_exec_says_what_waits_for_ever(exec_guest):
    """Nobody else can wake it: the simulation ends, and it is said why."""
    for command, calls in [
        (["sleep", "infinity"], "sleep waits for ever, in pause"),
        (["sh", "-c", "read x < /proc/self/fd/0; mkfifo f; read x < f"], "sh waits for ever, in openat"),
        (["sh", "-c", "kill -STOP $$"], "sh waits for ever, in a stop by a signal"),
    ]:
        done = exec_guest(command)
        assert (done.status, done.err) == (130, f"belljar: {calls}\n"), str(done)
    assert exec_guest(["sleep", "100"]).err == ""


@pytest.fixture
def pair(run_experiment):
    def run(**more):
        return run_experiment(TWO, args=["--strace", "--pcap"], **more)
    return run


def test_diff_of_equal_runs(belljar, pair, workdir):
    a, b = pair(name="one"), pair(name="two", )
    done = execute([belljar, "diff", a.path, b.path])
    assert done.status == 0 and done.out.startswith("the same: "), done
    quiet = execute([belljar, "diff", "--quiet", a.path, b.path])
    assert quiet.status == 0 and not quiet.out


def test_diff_names_the_first_divergence(belljar, pair):
    a, b = pair(name="one", seed=1), pair(name="two", seed=2)
    done = execute([belljar, "diff", a.path, b.path])
    assert done.status == 1
    assert re.search(r"they were not asked to do the same: processed-config.yaml, line 3", done.out), done
    first = re.search(r"first divergence at (\d+\.\d{9}) s: host (\w+), process (\S+), system call \d+", done.out)
    assert first, done
    times = [float(t) for t in re.findall(r"^  at (\d+\.\d{9}) s:", done.out, re.M)]
    assert all(float(first[1]) <= t for t in times) and times == sorted(times)
    assert "getrandom" in done.out or "urandom" in done.out, "where randomness comes in is where runs part"
    assert "stdout, line 3" in done.out, "what od wrote"


def test_diff_of_one_byte(belljar, pair, workdir):
    a = pair(name="one")
    b = workdir / "two.data"
    shutil.copytree(a.path, b, symlinks=True)
    out = b / "hosts/alice/sh.1000.stdout"
    out.write_text(out.read_text().replace("hello", "hallo"))
    done = execute([belljar, "diff", a.path, b])
    assert done.status == 1 and "host alice, process sh.1000, stdout, line 1" in done.out, done
    assert "- hello" in done.out and "+ hallo" in done.out


@pytest.mark.parametrize("command", ["diff", "inspect", "report", "trace"])
def test_what_is_no_results_folder(belljar, workdir, command):
    empty = workdir / "empty"
    empty.mkdir()
    for path, message in ((workdir / "none", r"no results folder .*none.*belljar run"), (empty, r"empty is not the results")):
        done = execute([belljar, command, path, *([path] if command == "diff" else [])])
        assert done.status == 2 and re.search("^error: .*" + message, done.err), done
    (empty / "sim-stats.json").write_text("{")
    done = execute([belljar, command, empty, *([empty] if command == "diff" else [])])
    assert done.status == 2 and "sim-stats.json cannot be read" in done.err, done


def test_inspect(belljar, run_experiment):
    ran = run_experiment(TWO, args=["--set", "belljar.metrics.interval=100 ms"])
    done = execute([belljar, "inspect", ran.path])
    assert done.status == 0
    for heading in ("processes", "hosts", "traffic over time", "system calls", "warnings"):
        assert re.search(rf"^{heading}$", done.out, re.M), heading
    assert re.search(r"ok +alice +sh\.1000 +0\.000000 +1\.\d+ +exited 0", done.out), done
    one = execute([belljar, "inspect", ran.path, "syscalls", "--rows", "3"])
    assert re.search(r"^  and \d+ more$", one.out, re.M) and "processes" not in one.out


def test_metrics(run_experiment, belljar):
    text = yaml.safe_load((EXAMPLES / "first.yaml").read_text())
    text["belljar"] = {"metrics": {"interval": "10 ms"}}
    a, b = run_experiment(text, name="one", args=["--parallelism", "1"]), run_experiment(text, name="two", args=["--parallelism", "2"])
    for name in ("hosts.csv", "tcp.csv"):
        assert (a.path / "metrics" / name).read_bytes() == (b.path / "metrics" / name).read_bytes(), name
    lines = (a.path / "metrics/hosts.csv").read_text().splitlines()
    columns = lines[0].split(",")
    rows = [dict(zip(columns, line.split(","))) for line in lines[1:]]
    stats = json.loads((a.path / "sim-stats.json").read_text())
    for host, expected in stats["hosts"].items():
        own = [r for r in rows if r["host"] == host]
        for key in ("packets_in", "bytes_in", "packets_out", "bytes_out"):
            values = [int(r[key]) for r in own]
            assert values == sorted(values) and values[-1] == expected[key], (host, key)
        assert all(int(own[-1][reason]) == count for reason, count in expected["drops"].items())
        assert all(round(float(r["time"]) * 1e9) % 10_000_000 == 0 or r["time"] == own[-1]["time"] for r in own)
    tcp = [dict(zip((a.path / "metrics/tcp.csv").read_text().splitlines()[0].split(","), line.split(",")))
           for line in (a.path / "metrics/tcp.csv").read_text().splitlines()[1:]]
    server = [r for r in tcp if r["host"] == "server" and r["remote"].startswith("11.0.0.4:")]
    assert max(int(r["cwnd"]) for r in server) > 10, "slow start was not seen"
    assert any(235_000 < int(r["rtt_us"]) < 300_000 for r in server), "the path to tokyo has 240 ms"


def test_no_metrics_unless_asked_for(run_experiment):
    assert not (run_experiment(TWO).path / "metrics").exists()


def test_manifest(run_experiment):
    ran = run_experiment(TWO)
    manifest = ran.path / "manifest.sha256"
    names = {line.split("  ", 1)[1] for line in manifest.read_text().splitlines()}
    assert any(re.search(r"/libc\.so|/libc-", name) for name in names) and any(name.endswith("/sleep") for name in names), names
    assert not any(str(ran.path) in name for name in names)
    checked = execute(["sha256sum", "-c", "--quiet", "--strict", manifest])
    assert checked.status == 0, checked


def test_trace(belljar, run_experiment, workdir):
    ran = run_experiment(TWO, args=["--strace", "--pcap", "--set", "belljar.metrics.interval=100 ms"])
    done = execute([belljar, "trace", ran.path, "-o", workdir / "trace.json"])
    assert done.status == 0 and done.out.strip() == str(workdir / "trace.json")
    events = json.loads((workdir / "trace.json").read_text())["traceEvents"]
    groups = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert set(groups) == {"alice (11.0.0.1)", "bob (11.0.0.2)"}
    sleeps = [e for e in events if e["ph"] == "X" and "nanosleep" in e["name"] and e["pid"] == groups["bob (11.0.0.2)"]]
    assert len(sleeps) == 1 and sleeps[0]["dur"] == 2e6, sleeps
    assert any(e["ph"] == "C" for e in events)
    everything = execute([belljar, "trace", ran.path, "-o", "-", "--all"])
    assert len(json.loads(everything.out)["traceEvents"]) > len(events)


@pytest.fixture(scope="session")
def schema(belljar):
    return json.loads(execute([belljar, "schema"]).out)


@pytest.fixture(scope="session")
def validator(schema):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_examples_are_valid_by_the_schema(validator):
    files = sorted(EXAMPLES.glob("*.yaml"))
    assert len(files) >= 5
    for file in files:
        errors = [e.message for e in validator.iter_errors(yaml.safe_load(file.read_text()))]
        assert not errors, f"{file.name}: {errors}"


def test_resolved_experiments_are_valid_by_the_schema(belljar, validator, workdir):
    done = execute([belljar, "run", write(workdir, TWO), "--show-config"])
    assert not list(validator.iter_errors(yaml.safe_load(done.out)))


@pytest.mark.parametrize("change", [
    lambda e: e.pop("general"), lambda e: e["general"].update(stop_tine="1 s"), lambda e: e["general"].update(seed=-1),
    lambda e: e["hosts"].update(Alice={}), lambda e: e["hosts"]["alice"].pop("network_node_id"),
    lambda e: e["hosts"]["alice"]["processes"][0].pop("path"), lambda e: e["network"]["graph"].update(type="dot"),
    lambda e: e["hosts"]["alice"]["processes"][0].update(expected_final_state={"exitd": 0}),
    # Without a unit.
    lambda e: e.update(links=[{"between": ["alice", "bob"], "rate": 10}]), lambda e: e.update(links=[{"between": ["alice", "bob"], "latency": "10"}]),
    lambda e: e.update(events=[{"at": 1, "crash": "alice"}]), lambda e: e["hosts"]["alice"].update(clock={"offset": 1}),
])
def test_the_schema_finds_mistakes(validator, change):
    broken = json.loads(json.dumps(TWO))
    assert not list(validator.iter_errors(broken))
    change(broken)
    assert list(validator.iter_errors(broken))


# place in an experiment -> where the schema has its keys
SECTIONS = {
    "general": ["properties", "general"], "network": ["properties", "network"],
    "network.graph": ["properties", "network", "properties", "graph"],
    "experimental": ["properties", "experimental"], "belljar": ["properties", "belljar"],
    "belljar.metrics": ["properties", "belljar", "properties", "metrics"],
    "belljar.dns": ["properties", "belljar", "properties", "dns"],
    "host_option_defaults": ["properties", "host_option_defaults"],
    "radios.air": ["properties", "radios", "additionalProperties"], "events": ["$defs", "event"], "hosts.alice": ["$defs", "host"], "hosts.alice.processes.0": ["$defs", "process"], "": [],
    "properties": ["$defs", "property"], "eventually": ["$defs", "property", "properties", "eventually"],
    "links": ["$defs", "link"], "reverse": ["$defs", "link", "properties", "reverse"],
}
# What is set where a section is in a list.
IN_LISTS = {
    "properties": "properties=[{qqqqqqqq: 1}]", "eventually": "properties=[{name: p, eventually: {qqqqqqqq: 1}}]",
    "events": "events=[{qqqqqqqq: 1}]", "links": "links=[{between: [alice, bob], qqqqqqqq: 1}]", "reverse": "links=[{between: [alice, bob], reverse: {qqqqqqqq: 1}}]"}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_schema_has_the_keys_of_the_loader(belljar, schema, workdir, section):
    """The loader says which keys it knows when it meets one that is like none of them."""
    found = schema
    for key in SECTIONS[section]:
        found = found[key]
    setting = IN_LISTS.get(section, f"{section}.qqqqqqqq=1".lstrip("."))
    done = execute([belljar, "run", write(workdir, TWO), "--show-config", "--set", setting])
    keys = re.search(r"valid keys are (.*)", done.err)
    assert keys, done
    assert set(keys[1].split(", ")) == set(found["properties"]), section


def test_the_schema_names_the_settings_that_there_are(schema):
    source = (EXAMPLES.parent / "crates" / "linux-abi" / "src" / "sysctl.rs").read_text()
    known = re.findall(r'^    \("(net[\w.]+)", ', source, re.M)
    names = [place["propertyNames"]["anyOf"] for place in walk(schema) if "anyOf" in place.get("propertyNames", ()) and "sysctl" in place.get("description", "")]
    # Settings of interfaces have the interface's name within them.
    assert names == [[{"enum": known}, {"pattern": r"^net\.ipv[46]\.conf\."}]] * 2


def walk(node):
    """All mappings in a tree."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(child)


def test_the_schema_has_the_keys_of_models(belljar, schema, workdir):
    for model in schema["$defs"]["model"]["oneOf"]:
        kind = model["properties"]["type"]["const"]
        setting = f"hosts.alice.processes=[{{model: {{type: {kind}, qqqqqqqqqq: 1}}}}]"
        done = execute([belljar, "run", write(workdir, TWO), "--show-config", "--set", setting])
        keys = re.search(r"valid keys are (.*)", done.err)
        assert keys and set(keys[1].split(", ")) == set(model["properties"]), done


def test_results_folders_are_refused_with_a_remedy(belljar, workdir):
    file = write(workdir, TWO)
    (workdir / "plain").write_text("")
    for path, message in ((workdir, "exists already: replace it with --force, or name another"),
                          (workdir / "plain/data", "a file stands where a folder is needed"),
                          (pathlib.Path("/proc/data"), "name another folder with -o")):
        done = execute([belljar, "run", file, "-o", path])
        assert done.status == 2 and re.match(f"error: .*{re.escape(str(path))}", done.err) and message in done.err, done




def test_force_replaces_the_folder_of_an_earlier_run(belljar, workdir):
    file = write(workdir, TWO)
    first = execute([belljar, "run", file, "-o", workdir / "data"])
    assert first.status == 0, first
    (workdir / "data" / "left").write_text("")
    # What is refused leaves it.
    assert execute([belljar, "run", file, "-o", workdir / "data", "--force", "--set", "general.sed=1"]).status == 2
    assert (workdir / "data" / "left").exists()
    again = execute([belljar, "run", file, "-o", workdir / "data", "--force"])
    assert again.status == 0 and not (workdir / "data" / "left").exists(), again
    for path, message in ((workdir, "is not a results folder of Belljar"), (file, "is not a folder"), (".", "contains the working directory")):
        done = execute([belljar, "run", file, "-o", path, "--force"])
        assert done.status == 2 and message in done.err and done.err.count("\n") == 1, done
    assert execute([belljar, "run", file, "-o", workdir / "new", "--force"]).status == 0


def test_a_reader_may_leave(belljar):
    for command in (["schema"], ["doctor"]):
        done = subprocess.run(["sh", "-c", f"({belljar} {' '.join(command)}; echo status $? >&2) | true"], capture_output=True, text=True, timeout=600)
        assert "panicked" not in done.stderr and done.stderr.strip() in ("status 141", "status 0"), done.stderr


@pytest.mark.parametrize("command", ["", "run", "exec", "validate", "doctor", "diff", "inspect", "report", "capture", "trace", "schema"])
def test_every_help_has_an_example(belljar, command):
    done = subprocess.run([belljar, *command.split(), "--help"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "Example" in done.stdout and f"belljar {command}".strip() in done.stdout.split("Example")[1]


def test_notes_on_files_in_arguments(belljar, workdir):
    certificate = workdir / "web.pem"
    # Its times alone: from 2026-01-31 12:00 on.
    certificate.write_text("-----BEGIN CERTIFICATE-----\nMB4XDTI2MDEzMTEyMDAwMFoXDTM2MDEyOTEyMDAwMFo=\n-----END CERTIFICATE-----\n")
    (workdir / "in.txt").write_text("input\n")
    content = experiment({"alice": (0, [("/bin/cat", "in.txt"), ("/bin/cat", str(certificate))])}, graph((0, 0, "1 ms")), stop="2 s")
    done = execute([belljar, "run", write(workdir, content), "-o", workdir / "out"])
    assert f"programs look for 'in.txt' in their working directory hosts/alice: write {workdir}/in.txt for the file beside the experiment" in done.err, done
    assert f"the certificate {certificate} is valid from 2026-01-31T12:00:00Z" in done.err
    assert " on, after the start of its clock: write belljar: { start_date: ... }" in done.err
    content["belljar"] = {"start_date": "2026-02-01"}
    content["hosts"]["alice"]["processes"][0]["args"] = [str(workdir / "in.txt")]
    done = execute([belljar, "run", write(workdir, content), "-o", workdir / "again"])
    assert done.status == 0 and "note:" not in done.err, done
