"""What the tests share: the belljar binary, experiments and their results, guest programs."""

import contextlib
import fcntl
import functools
import inspect
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import warnings

import pytest
import yaml
from compiling import locked

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
EXAMPLES = ROOT / "examples"
# Seconds after which something hangs. Machines are slow and busy: no shorter wait says anything.
PATIENCE = 600

# Debian's own programs first: what a version manager puts before them on PATH are shell scripts.
os.environ["PATH"] = "/usr/bin:/bin:/usr/sbin:/sbin:" + os.environ.get("PATH", "") + ":/usr/local/go/bin"

# Without it each `belljar run` and `exec` starts itself a second time on processors with AVX-512 (crates/cli/src/vectors.rs), in 10 ms.
# Here are thousands.
os.environ.setdefault("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F,-AVX512VL")

# The kernel of whole machines, which ./test unpacks: a test that needs one says what is missing.
if unpacked := sorted(path for path in TARGET.glob("machine/boot/vmlinuz-*") if "cloud" not in path.name):
    os.environ.setdefault("BELLJAR_KERNEL", str(unpacked[-1]))

# Who starts the tests in the background of a script has them ignored, and so would the guests that run natively.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
# Under nohup the tests go on; a handler, unlike ignoring, is not passed on to programs.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also the slow tests: long flows, 1,000 hosts")


#: Priority of tests that wait in real time: what they do is short and comes before what others compute. Root alone may raise it.
URGENT = -11


@functools.cache
def may_precede():
    """True if tests that wait may run at a higher priority, and so beside those that compute."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, URGENT)
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:
        return False
    return True


def pytest_xdist_auto_num_workers():
    """Tests wait about as long as they compute: for programs in real time, and for each other's builds. One more worker has those that
    compute hardly at all, where they run beside the others."""
    return 2 * len(os.sched_getaffinity(0)) + may_precede()


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs only with --all")
    config.addinivalue_line("markers", "alone: measures real time, or counts what is on the machine: no other test runs beside it")
    config.addinivalue_line("markers", "waits: waits in real time and computes little: runs at a higher priority, or beside others of this kind alone")
    config.addinivalue_line("markers", "needs(*programs): skipped where one of these is not installed")
    config.addinivalue_line("markers", "reads(*paths): skipped where whoever runs the tests may not read one of these")


# Files that take minutes. They come first, so that at the end no worker has one left while the others have nothing to do.
LONGEST = ["test_machines.py", "test_machines_determinism.py", "test_packets.py", "test_guests.py", "test_daemons.py", "test_benches.py",
           "test_package.py", "test_rtl.py", "test_devices.py", "test_keys_act.py", "test_instructions.py"]


#: Kinds of tests. Those of one kind run beside each other, but for those that are alone; those that wait run beside those that compute
#: where they may have a higher priority.
COMPUTES, WAITS, ALONE = range(3)


def kind(item):
    if item.get_closest_marker("alone") is not None:
        return ALONE
    return WAITS if item.get_closest_marker("waits") is not None else COMPUTES


def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONGEST)}
    # Files whose tests all wait come last, and after them those whose tests all run alone: no other test then waits for them.
    kinds = {}
    for item in items:
        kinds[item.path] = min(kind(item), kinds.get(item.path, ALONE))
    items.sort(key=lambda item: (kinds[item.path], order.get(item.path.name, len(order))))
    if may_precede():
        # Files that wait are spread among those that compute.
        files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
        computing = sum(kinds[path] == COMPUTES for path in files)
        waiting = [path for path in files if kinds[path] == WAITS]
        files.update((path, (number + 0.5) * computing / (len(waiting) + 1)) for number, path in enumerate(waiting))
        items.sort(key=lambda item: files[item.path])


def pytest_runtest_setup(item):
    if item.get_closest_marker("slow") and not item.config.getoption("--all"):
        pytest.skip("slow: ./test --all runs it")
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
    for mark in item.iter_markers("reads"):
        for path in mark.args:
            # A guest is root as data only: of the machine's files it sees what the simulator's user may read.
            if is_withheld(path):
                pytest.skip(f"only root may read {path}, which the guests of this test do")


def pytest_terminal_summary(terminalreporter):
    """Lines that passed tests have recorded by `record_property("reported", line)`: durations that a reader of ./test should see."""
    for report in terminalreporter.stats.get("passed", ()):
        for name, line in report.user_properties:
            if name == "reported":
                terminalreporter.write_line(line)


#: Lock of the current test. It is held from one test to the next of a kind that others wait for: otherwise other workers would begin
#: tests between them, for which the next one had to wait.
_held = []


def turn(which):
    """The lock under which a test of a kind runs: no test of another kind runs meanwhile, nor one beside a test that is alone."""
    lock = contextlib.ExitStack()
    files = [TARGET / "test-work" / name for name in (".computing", ".waiting")]
    # A waiting test keeps the turn, so that a stream of others does not overtake it.
    with locked(TARGET / "test-work/.turn"):
        for number, file in enumerate(files):
            if which == ALONE:
                lock.enter_context(locked(file, fcntl.LOCK_EX))
            elif number != which:
                with locked(file, fcntl.LOCK_EX):
                    lock.enter_context(locked(files[which], fcntl.LOCK_SH))
    return lock


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Tests run beside each other, where there are workers for it; one that is marked waits for the others and holds them off."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    urgent = kind(item) == WAITS and may_precede()
    turn_of = lambda item: COMPUTES if kind(item) == WAITS and may_precede() else kind(item)
    if not _held:
        _held.append(turn(turn_of(item)))
    if urgent:
        os.setpriority(os.PRIO_PROCESS, 0, URGENT)
    yield
    if urgent:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    if nextitem is None or turn_of(item) == COMPUTES or turn_of(nextitem) != turn_of(item):
        _held.pop().close()


def is_withheld(path):
    """Whether there is, or may be, something that whoever runs the tests may not read. Of an empty file nothing is read."""
    try:
        size = os.stat(path).st_size
    except PermissionError:
        return True
    except FileNotFoundError:
        return False
    return size > 0 and not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        item.failed = True
        kept = getattr(item, "kept", None)
        if kept:
            report.sections.append(("results kept in", str(kept)))


@pytest.fixture
def workdir(request):
    """A directory of the test's own under the target directory: gone when it passes, kept and named when it fails."""
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in request.node.name)[:100]
    path = TARGET / "test-work" / f"{name}-{os.getpid()}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    request.node.kept = path
    yield path
    accounts_balance(path)
    if not getattr(request.node, "failed", False):
        shutil.rmtree(path, ignore_errors=True)


def accounts_balance(folder):
    """Fails if a run below `folder` lost or invented a packet: see `LocationAccount` of the results."""
    for file in folder.rglob("sim-stats.json"):
        try:
            warnings = json.loads(file.read_bytes()).get("warnings", {})
        except (ValueError, OSError):  # a run that was killed, or of another user
            continue
        uncounted = {what: count for what, count in warnings.items() if "account does not balance" in what}
        assert not uncounted, f"{file}: {uncounted}"


@pytest.fixture(scope="session")
def belljar():
    """The binary, built from the sources as they are; BELLJAR_BIN names another one."""
    given = os.environ.get("BELLJAR_BIN")
    if given:
        return pathlib.Path(given).resolve()
    built = subprocess.run([ROOT / "belljar", "--version"], env={**os.environ, "BELLJAR_COMMANDS": "all"}, capture_output=True, text=True)
    if built.returncode != 0:
        pytest.fail("belljar does not build:\n" + built.stderr[-4000:], pytrace=False)
    return TARGET / "release" / "belljar"


class Late(AssertionError):
    """An expectation on real time that does not hold: the fault of a busy machine, or of what was measured."""


def timely(holds, said=""):
    """Asserts what a busy machine may spoil, and never make right."""
    if not holds:
        raise Late(said)


def as_expected(done):
    """Asserts that a command has run its experiment to the end; that processes ended as expected there, in real time, is `timely`."""
    assert done.returncode in (0, 1) and "error: " not in done.stderr and "panicked" not in done.stderr, done.stdout + done.stderr
    timely(done.returncode == 0, done.stdout + done.stderr)


def measured(attempts):
    """Has a test that measures real time made again, in a folder of its own, when what is `timely` does not hold. Everything else
    that fails ends it at once, and a measurement that is never right is a failure."""

    def wrap(test):
        folder = next(name for name in inspect.signature(test).parameters if name in ("tmp_path", "workdir"))

        @functools.wraps(test)
        def made(**fixtures):
            for attempt in range(1, attempts + 1):
                place = fixtures[folder] / str(attempt)  # short, for the paths of sockets
                place.mkdir()
                try:
                    return test(**{**fixtures, folder: place})
                except Late as late:
                    if attempt == attempts:
                        raise
                    warnings.warn(f"{test.__name__} is measured again: {str(late)[:300]}", stacklevel=2)

        return made

    return wrap


def best(measure, holds, attempts=5):
    """What this machine's kernel does by `measure`, asked again while it is not what it should be, a few times: a busy machine may come in
    between, and never makes something right."""
    for _ in range(attempts):
        found = measure()
        if holds(found):
            break
    return found


def in_namespaces(script, folder, holds):
    """A script run in namespaces of this machine, in a folder of its own; again while its run does not hold, since a busy machine falls
    behind the script's times."""
    folder.mkdir()
    return best(lambda: execute(["unshare", "-nm", "bash", "-c", script], cwd=folder), holds, attempts=3)


def until(holds, said="it", patience=PATIENCE, pause=0.05):
    """Waits for a condition, and gives what it gives; a failure after a time in which everything comes."""
    late = time.monotonic() + patience
    while not (found := holds()):
        if time.monotonic() > late:
            pytest.fail(f"not within {patience} s: {said() if callable(said) else said}")
        time.sleep(pause)
    return found


def begun(run, holds):
    """Waits for something in a run, which must not end before it."""
    until(lambda: holds() or run.poll() is not None)
    assert run.poll() is None, run.communicate()


@pytest.fixture(scope="session")
def browser():
    found = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian: apt install chromium)")
    return found


def look(browser, workdir, page, *arguments):
    """Lets the browser load a file or a page of this machine, all other names unknown to it, and gives what it says of it."""
    url = page.as_uri() if isinstance(page, pathlib.Path) else page
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
               "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
               f"--user-data-dir={tempfile.mkdtemp(dir=workdir)}", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
               "--virtual-time-budget=5000"]
    done = execute([*command, *arguments, url], cwd=workdir)
    assert done.status == 0, done.err[-2000:]
    said = re.findall(r"CONSOLE.*", done.err)
    assert not said, f"the page complains: {said}"
    return done.out


def free_port():
    """A port of 127.0.0.1 that nobody uses and none is given who asks for any port."""
    for port in random.SystemRandom().sample(range(21_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("all ports are in use")


class Run:
    """A finished command: its exit status and what it wrote."""

    def __init__(self, command, status, out, err):
        self.command, self.status, self.out_bytes, self.err_bytes = command, status, out, err
        self.out = out.decode(errors="replace")
        self.err = err.decode(errors="replace")

    def __str__(self):
        return f"$ {' '.join(map(str, self.command))}\nstatus {self.status}\n{self.out[-3000:]}{self.err[-3000:]}"


class Results(Run):
    """The results of one experiment: `belljar run` and the folder it wrote."""

    def __init__(self, run, path):
        super().__init__(run.command, run.status, run.out_bytes, run.err_bytes)
        self.path = path

    def host(self, name):
        return self.path / "hosts" / name

    def streams(self, host, program=None, kind="stdout"):
        """The files `<prog>.<pid>.<kind>` of a host, in the order of their pids."""
        files = [f for f in self.host(host).glob(f"*.{kind}") if program is None or f.name.startswith(program + ".")]
        return sorted(files, key=lambda f: int(f.name.split(".")[-2]))

    def stdout(self, host, program=None):
        """What the one process (or the one of that program) wrote to its standard output, as bytes."""
        files = self.streams(host, program)
        assert len(files) == 1, f"{host} has {[f.name for f in files]}, not one stdout of {program or 'a program'}\n{self}"
        return files[0].read_bytes()

    def text(self, host, program=None):
        return self.stdout(host, program).decode()

    def pcap(self, host, interface="eth0"):
        return self.host(host) / f"{interface}.pcap"


def execute(command, timeout=PATIENCE, cwd=ROOT, env=None, stdin=subprocess.DEVNULL):
    """Runs a command to its end. One that takes too long is killed with its children, and that is a failure."""
    process = subprocess.Popen(
        list(map(str, command)), cwd=cwd, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        late = Run(command, "killed", out, err)
        pytest.fail(f"still running after {timeout} s\n{late}", pytrace=False)
    return Run(command, process.returncode, out, err)


@pytest.fixture
def run_experiment(belljar, workdir):
    """run_experiment(yaml text, dict or path) -> Results; `status=None` accepts any exit status."""
    count = 0

    def run(experiment, *, args=(), seed=None, pcap=False, timeout=PATIENCE, status=0, name=None):
        nonlocal count
        count += 1
        name = name or f"run{count}"
        if isinstance(experiment, pathlib.Path):
            file = experiment
        else:
            file = workdir / f"{name}.yaml"
            file.write_text(experiment if isinstance(experiment, str) else yaml.safe_dump(experiment, sort_keys=False))
        data = workdir / f"{name}.data"
        command = [belljar, "run", file, "-o", data]
        command += ["--seed", str(seed)] if seed is not None else []
        command += ["--pcap"] if pcap else []
        done = execute(command + list(args), timeout)
        if status is not None:
            assert done.status == status, f"exit status {done.status}, not {status}\n{done}{outputs(data)}"
        return Results(done, data)

    return run


def outputs(data):
    """What the guests of a failed run said, for the failure's message."""
    said = ""
    for file in sorted(data.glob("hosts/*/*.std*")):
        content = file.read_bytes()
        if content:
            said += f"\n--- {file.relative_to(data)}\n{content[-1500:].decode(errors='replace')}"
    return said


def typed(belljar, workdir, guide):
    """Types the commands of a guide's console block in a folder like the checkout. Gives each command, its end and the lines below it."""
    (workdir / "belljar").symlink_to(belljar)
    (workdir / "examples").symlink_to(EXAMPLES)
    (block,) = re.findall(r"^```console\n(.*?)^```", (ROOT / "docs/guide" / guide).read_text(), re.M | re.S)
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, *shown = part.splitlines()
        yield command, execute(["sh", "-c", command], cwd=workdir), shown


@pytest.fixture
def exec_guest(belljar, workdir):
    """exec_guest(["date"]) -> Run of `belljar exec -- date` in a directory of its own."""

    def run(command, timeout=PATIENCE, env=None, stdin=subprocess.DEVNULL):
        return execute([belljar, "exec", "--", *command], timeout, cwd=workdir, env=env, stdin=stdin)

    return run


def bind(listener, path):
    """Binds a UNIX socket to a path that may be longer than a socket's address."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def contents_of(folder):
    """Every file of a folder, links as what they name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path).encode()
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def assert_same_hosts(runs):
    """Asserts that the hosts of all runs have the same files, byte by byte."""
    first, *others = (contents_of(run.path / "hosts") for run in runs)
    assert first and others
    for other in others:
        assert first == other


def recorded(folder, name):
    """A script that ran on Linux, behind what sets it up, and its output there."""
    return (folder / "setup.sh").read_text() + (folder / f"{name}.sh").read_text(), (folder / f"{name}.out").read_text()


def frames_of(capture):
    """The frames of a capture."""
    data, at = capture.read_bytes(), 24
    while at < len(data):
        size = struct.unpack("<I", data[at + 8:at + 12])[0]
        yield data[at + 16:at + 16 + size]
        at += 16 + size


def graph(*edges, directed=0, bandwidth="1 Gbit"):
    """A GML text from edges (source, target, latency[, loss]); every node gets a self-loop of 1 ms unless given one."""
    nodes = sorted({n for e in edges for n in e[:2]})
    given = {(e[0], e[1]) for e in edges}
    edges = list(edges) + [(n, n, "1 ms") for n in nodes if (n, n) not in given]
    text = f"graph [\n  directed {directed}\n"
    for n in nodes:
        text += f'  node [\n    id {n}\n    host_bandwidth_up "{bandwidth}"\n    host_bandwidth_down "{bandwidth}"\n  ]\n'
    for source, target, latency, *loss in edges:
        text += f'  edge [\n    source {source}\n    target {target}\n    latency "{latency}"\n'
        text += f"    packet_loss {loss[0]}\n" if loss else ""
        text += "  ]\n"
    return text + "]\n"


def experiment(hosts, gml=None, stop="60 s", **general):
    """An experiment as a dict. `hosts`: name -> (node, [process, ...]), a process being a dict or (path, args...)."""

    def process(p):
        return p if isinstance(p, dict) else {"path": str(p[0]), "args": [str(a) for a in p[1:]]}

    network = {"graph": {"type": "gml", "inline": gml} if gml else {"type": "1_gbit_switch"}}
    return {
        "general": {"stop_time": stop, **general},
        "network": network,
        "hosts": {n: {"network_node_id": node, "processes": [process(p) for p in ps]} for n, (node, ps) in hosts.items()},
    }


@pytest.fixture(scope="session")
def programs():
    """The programs of examples/, built."""
    with locked(TARGET / "test-work/.programs"):
        built = subprocess.run(["make", "--silent", "-C", str(EXAMPLES)], capture_output=True, text=True)
    if built.returncode != 0:
        pytest.fail("the programs of the examples do not build:\n" + built.stderr[-4000:], pytrace=False)
    return EXAMPLES / "built"


# Packages here, and modules of one folder that another folder uses.
sys.path.insert(0, str(ROOT / "tests"))
sys.path.extend(str(folder) for folder in sorted((ROOT / "tests").iterdir()) if folder.is_dir() and not (folder / "__init__.py").exists())
