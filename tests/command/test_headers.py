"""What the heads of examples and the READMEs beside programs say to type works as it stands there."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import EXAMPLES, ROOT, execute

#: A command in a head: what follows after four spaces explains it.
COMMAND = re.compile(r"(?:^|\s)((?:[A-Z_]+=\S+ )?(?:(?:\./)?belljar [a-z]+ |pytest |python3 examples/|cat ).*?)(?:\s{4,}.*)?$")
#: Experiments with what they need besides the packages of other examples, as a shell tests it. Python's packages are those that guests find.
PYTHON = "env -i PATH=/usr/local/bin:/usr/bin:/bin python3 -c"
CONTROLLER = f"{PYTHON} 'import grpc, p4.v1.p4runtime_pb2_grpc'"
NEEDS = {
    "antithesis.yaml": f"{PYTHON} 'import antithesis'",
    "controller.yaml": CONTROLLER,
    "flowcache.yaml": CONTROLLER,
    "p4runtime.yaml": CONTROLLER,
    "machine.yaml": 'test -n "$BELLJAR_KERNEL" && command -v qemu-system-x86_64',
    "switch.yaml": "test -e adapters/cosim/rtl/build/switch",
    "test_etcd.py": "command -v etcd",
}
#: What shows a failure ends with status 1: the head says so.
FAILURE = re.compile(r"--(unsafe|forget|forgetful|direct)\b|explore examples/preemption.yaml --budget \w+$")


def head(file):
    """Lines of the comment at the head of a file."""
    text = file.read_text()
    if file.suffix == ".py":
        found = re.match(r'(?:#!.*\n)?"""(.*?)"""', text, re.S)
        return found[1].splitlines() if found else []
    return [line[1:] for line in re.match(r"(?:#.*\n)*", text)[0].splitlines()]


def commands(file):
    return [found[1] for line in head(file) if line.startswith("  ") and (found := COMMAND.search(line))]


FILES = sorted(file for file in [*EXAMPLES.glob("**/*.yaml"), *EXAMPLES.glob("**/*.py"), *ROOT.glob("adapters/**/*.yaml")]
               if "built" not in file.parts and commands(file))


@pytest.fixture
def checkout(belljar, workdir, monkeypatch):
    """A folder like the checkout, with the programs of the adapters that a C compiler builds."""
    (workdir / "belljar").symlink_to(belljar)
    for name in ("examples", "python"):
        (workdir / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "adapters", workdir / "adapters")
    for line in head(ROOT / "adapters/cosim/delay.yaml"):
        if found := re.search(r"cc .*", line):
            assert execute(["sh", "-c", found[0]], cwd=workdir).status == 0
    monkeypatch.setenv("PATH", f"{workdir}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.setenv("BELLJAR_BIN", str(belljar))
    return workdir


def has_needs(file, folder):
    return subprocess.run(["sh", "-c", NEEDS.get(file.name, "true")], cwd=folder, capture_output=True).returncode == 0


def test_heads_are_found():
    assert len(FILES) >= 45 and sum(len(commands(file)) for file in FILES) >= 60
    assert commands(EXAMPLES / "wireless.yaml") == ["belljar run examples/wireless.yaml --pcap", "belljar inspect wireless.data radios", "belljar report wireless.data"]


def test_runs_of_the_heads_are_accepted(checkout, programs):
    """Their options and experiments are read; the runs themselves are those of other tests, and of the next one."""
    wrong = []
    for file in FILES:
        folders = []
        for command in commands(file):
            if not re.search(r"belljar (run|explore|emulate) ", command):
                continue
            own = re.search(r" -o (\S+)", command)
            folders.append(own[1] if own else f"{file.stem}.{'explore' if 'explore' in command else 'data'}")
            if " run " in command and has_needs(file, checkout):
                done = execute(["sh", "-c", f"{command} --show-config"], cwd=checkout)
                wrong += [] if done.status == 0 and f"{file.name}" in command else [f"{command}: {done}"]
        if len(set(folders)) < len(folders):
            wrong.append(f"two commands of {file.name} write to one folder: {folders}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_commands_of_the_heads(checkout, programs, file):
    if not has_needs(file, checkout):
        pytest.skip(f"this machine lacks what {file.name} needs: {NEEDS[file.name]}")
    for command in commands(file):
        if "belljar emulate" in command and os.geteuid() != 0 and execute(["unshare", "-Ur", "true"]).status != 0:
            continue
        done = execute(["sh", "-c", command.replace("pytest ", f"{sys.executable} -m pytest -p belljar.pytest_plugin ")], cwd=checkout)
        assert done.status == (1 if FAILURE.search(command) else 0), done


def test_the_readme_of_the_benches_names_their_options(belljar):
    """Each program is there, says --help, and has the options that its row names."""
    rows = re.findall(r"^\| `(\w+)\.py` \|(.*)$", (ROOT / "benches/README.md").read_text(), re.M)
    assert len(rows) >= 30
    env = {**os.environ, "BELLJAR_BIN": str(belljar)}
    said = {name: subprocess.Popen([sys.executable, ROOT / "benches" / f"{name}.py", "--help"], env=env, stdout=subprocess.PIPE, text=True) for name, _ in rows}
    helps = {name: process.communicate()[0] for name, process in said.items()}
    assert all(process.returncode == 0 for process in said.values()), {name: p.returncode for name, p in said.items() if p.returncode}
    # The programs' own options; those of Belljar are named with it.
    missing = [f"{name}.py {option}" for name, row in rows for option in re.findall(r"`(--[\w-]+)", row) if option not in helps[name]]
    assert not missing, missing
    text = (ROOT / "benches/README.md").read_text().rpartition("\n| ")[2]
    for option in re.findall(r"`(--(?:minutes|quick|full|tables))\b", text):
        assert option in helps["report"], option


def test_makefiles_of_the_adapters_build_what_their_readmes_name():
    """What their makefiles would do, without the compilers."""
    for folder, target in (("ns3", "olsr-line"), ("cosim/rtl", "switch")):
        done = execute(["make", "-n", "-B", "-C", ROOT / "adapters" / folder])
        assert done.status == 0 and target in done.out, done
