"""What cannot be run: one clear message with the name and the line, a failing exit status, nothing left behind."""

import os
import pathlib
import re
import subprocess

import pytest
from conftest import execute

GOOD = """\
general:
  stop_time: 10 s
network:
  graph:
    type: gml
    inline: |
      graph [
        directed 0
        node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
        node [ id 1 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
        edge [ source 0 target 1 latency "10 ms" ]
        edge [ source 0 target 0 latency "1 ms" ]
      ]
hosts:
  alice:
    network_node_id: 0
    processes:
    - path: /bin/true
  bob:
    network_node_id: 1
    processes:
    - path: /bin/true
"""

# name -> (text of the good experiment, what takes its place, what the message must say beside the line)
FILES = {
    "not-yaml": ("  alice:\n", "  alice: [\n", r"(?i)yaml|expected|',' or ']'|flow"),
    "tab": ("    network_node_id: 0\n", "\tnetwork_node_id: 0\n", r"(?i)tab|yaml|character|indent"),
    "unknown-field": ("  stop_time: 10 s", "  stop_tine: 10 s", r"stop_tine[\s\S]*stop_time"),
    "missing-field": ("  stop_time: 10 s", "  seed: 3", r"stop_time"),
    "bad-time": ("10 s", "10 parsecs", r"parsecs"),
    "bad-number": ("network_node_id: 1", "network_node_id: one", r"one|network_node_id"),
    "duplicate-host": ("  bob:\n", "  alice:\n", r"alice"),
    "bad-host-name": ("  bob:\n", "  b_o b:\n", r"b_o b"),
    "no-processes": ("    processes:\n    - path: /bin/true\n  bob:", "    processes: 7\n  bob:", r"processes|sequence|list"),
    "unknown-node": ("network_node_id: 1", "network_node_id: 17", r"17"),
    "impossible-address": ("network_node_id: 1", "network_node_id: 1\n    ip_addr: 11.0.0.256", r"11\.0\.0\.256"),
    "broadcast-address": ("network_node_id: 1", "network_node_id: 1\n    ip_addr: 255.255.255.255", r"255\.255\.255\.255"),
    "loopback-address": ("network_node_id: 1", "network_node_id: 1\n    ip_addr: 127.0.0.1", r"127\.0\.0\.1"),
    "bad-signal": ("- path: /bin/true\n  bob", "- {path: /bin/true, shutdown_signal: SIGFOO}\n  bob", r"SIGFOO"),
    "bad-state": ("- path: /bin/true\n  bob", "- {path: /bin/true, expected_final_state: {exitd: 0}}\n  bob", r"exitd[\s\S]*exited"),
    "gml-syntax": ("directed 0", "directed 0 ]]", r"(?i)gml|graph|\]"),
    "gml-no-latency": ('target 1 latency "10 ms"', "target 1", r"latency"),
    "gml-zero-loss": ('latency "10 ms"', 'latency "10 ms" packet_loss 1.5', r"packet_loss|1\.5"),
    "gml-unknown-node": ("target 1 latency", "target 9 latency", r"9"),
    "gml-duplicate-node": ("node [ id 1 ", "node [ id 0 ", r"0"),
    "gml-bad-unit": ('latency "10 ms"', 'latency "10 mss"', r"mss"),
    "missing-program": ("- path: /bin/true\n  bob", "- path: /no/such/program\n  bob", r"/no/such/program"),
    "missing-program-in-path": ("- path: /bin/true\n  bob", "- path: no-such-program\n  bob", r"no-such-program"),
    "directory-as-program": ("- path: /bin/true\n  bob", "- path: /usr/bin\n  bob", r"/usr/bin.*directory"),
    "not-executable": ("- path: /bin/true\n  bob", "- path: /etc/passwd\n  bob", r"/etc/passwd.*not executable"),
}
EVERYWHERE = {"missing-field", "not-yaml", "gml-syntax"}  # where it is noticed may be further down


def with_our_temporary_directory(path):
    """Processes that were started with this TMPDIR, which no one else uses."""
    mark, found = f"TMPDIR={path}".encode(), []
    for environ in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                found.append((environ.parent / "cmdline").read_bytes())
        except OSError:
            pass
    return found


@pytest.fixture
def nothing_left(monkeypatch, workdir):
    """A temporary directory of the test's own, which must be empty afterwards; and no process may stay."""
    temporary = workdir / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield
    assert with_our_temporary_directory(temporary) == []
    assert list(temporary.iterdir()) == []


def one_message(done, pattern):
    said = done.out + done.err
    assert "panicked" not in said and "RUST_BACKTRACE" not in said, said
    assert len(re.findall(r"^error\b", said, re.M)) == 1, f"not exactly one error:\n{done}"
    assert re.search(pattern, said), f"nothing of {pattern!r} in\n{done}"


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize("case", FILES)
def test_bad_file(belljar, workdir, nothing_left, case, command):
    old, new, pattern = FILES[case]
    assert GOOD.count(old) == 1 or case == "no-processes", case
    text = GOOD.replace(old, new)
    file = workdir / "bad.yaml"
    file.write_text(text)
    data = workdir / "data"
    done = execute([belljar, command, file, *(["-o", data] if command == "run" else [])])
    assert done.status not in (0, "killed"), str(done)
    one_message(done, pattern)
    assert not data.exists(), "a results folder was made for an experiment that cannot run"
    lines = [int(n) for n in re.findall(r"bad\.yaml:(\d+)", done.err)]
    assert len(lines) == 1, f"no line:\n{done}"
    changed = next(i for i, (a, b) in enumerate(zip(GOOD.splitlines(), text.splitlines()), 1) if a != b)
    added = new.count("\n") - old.count("\n")
    if case not in EVERYWHERE:
        assert changed <= lines[0] <= changed + max(added, 0) + new.count("\n"), f"line {lines[0]}, not {changed}\n{done}"


def test_the_good_file_is_good(belljar, workdir, nothing_left):
    (workdir / "good.yaml").write_text(GOOD)
    done = execute([belljar, "validate", workdir / "good.yaml"])
    assert done.status == 0 and "error" not in done.err, str(done)


@pytest.mark.parametrize("name", ["none.yaml", "a-directory"])
def test_no_file(belljar, workdir, nothing_left, name):
    (workdir / "a-directory").mkdir()
    done = execute([belljar, "run", workdir / name, "-o", workdir / "data"])
    assert done.status not in (0, "killed")
    one_message(done, name)


def elf(machine=62, bits=2, kind=2, interpreter=None):
    """A small ELF file: enough to be recognised, not to run."""
    path = (interpreter or "").encode() + b"\0"
    header = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9)
    if bits == 1:
        return header + b"\2\0" + machine.to_bytes(2, "little") + (1).to_bytes(4, "little") + bytes(400)

    def n(v, size):
        return v.to_bytes(size, "little")

    header += n(kind, 2) + n(machine, 2) + n(1, 4) + n(0x400080, 8) + n(64, 8) + n(0, 8) + n(0, 4)
    header += n(64, 2) + n(56, 2) + n(2 if interpreter else 1, 2) + n(64, 2) + n(0, 2) + n(0, 2)
    size = 64 + 2 * 56 + len(path) + 64
    load = n(1, 4) + n(5, 4) + n(0, 8) + n(0x400000, 8) * 2 + n(size, 8) * 2 + n(0x1000, 8)
    interp = n(3, 4) + n(4, 4) + n(176, 8) + n(0x4000B0, 8) * 2 + n(len(path), 8) * 2 + n(1, 8)
    return header + ((interp + load) if interpreter else (load + bytes(56))) + path + bytes(64)


PROGRAMS = {
    "no-interpreter": (elf(interpreter="/lib/no-such-loader.so"), r"/lib/no-such-loader\.so"),
    "script-without-interpreter": (b"#!/no/such/interpreter\n", r"/no/such/interpreter"),
    "32-bit": (elf(machine=3, bits=1), r"(?i)32.bit|i386"),
    "arm": (elf(machine=183), r"(?i)aarch64|arm|x86.64|machine"),
    "not-a-program": (b"\1\2\3\4nothing that runs\n", r"(?i)not a program|format|ELF|executable"),
    "empty": (b"", r"(?i)empty|not a program|format|ELF|executable"),
    "truncated": (elf()[:40], r"(?i)truncated|short|not a program|format|ELF|executable"),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_bad_program(belljar, workdir, nothing_left, case):
    content, pattern = PROGRAMS[case]
    program = workdir / f"program-{case}"
    program.write_bytes(content)
    program.chmod(0o755)
    file = workdir / "bad.yaml"
    file.write_text(GOOD.replace("/bin/true\n  bob", f"{program}\n  bob"))
    done = execute([belljar, "run", file, "-o", workdir / "data"])
    said = done.out + done.err
    assert done.status not in (0, "killed"), str(done)
    assert "panicked" not in said, said
    lines = [line for line in said.splitlines() if f"program-{case}" in line]
    assert lines and re.search(pattern, said), f"the program or {pattern!r} is not named:\n{done}"
    assert len([line for line in lines if re.search(r"(?i)error|cannot|fail", line)]) <= 1, f"said more than once:\n{done}"


@pytest.mark.parametrize("case", ["exists", "below-a-file", "read-only"])
def test_results_folder(belljar, workdir, nothing_left, case):
    (workdir / "good.yaml").write_text(GOOD)
    if case == "exists":
        data = workdir / "data"
        data.mkdir()
        (data / "precious").write_text("keep me")
    elif case == "below-a-file":
        (workdir / "plain").write_text("")
        data = workdir / "plain" / "data"
    else:
        data = pathlib.Path("/proc/belljar-data")  # nobody can write there, root neither
    done = execute([belljar, "run", workdir / "good.yaml", "-o", data])
    assert done.status not in (0, "killed")
    one_message(done, re.escape(str(data)))
    if case == "exists":
        assert [f.name for f in data.iterdir()] == ["precious"]


@pytest.mark.parametrize("arguments", [[], ["run"], ["fly"], ["run", "--fast", "x"], ["exec", "--"]])
def test_bad_command_line(belljar, nothing_left, arguments):
    done = subprocess.run([belljar, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode not in (0, 101) and "sage" in done.stderr and "panicked" not in done.stderr, done


def test_exec_of_nothing(exec_guest, nothing_left):
    done = exec_guest(["no-such-program"])
    assert done.status not in (0, "killed")
    one_message(done, "no-such-program")


def test_what_is_no_file_of_an_experiment_is_refused_at_once(belljar, workdir):
    fifo, large = workdir / "fifo.yaml", workdir / "large.yaml"
    os.mkfifo(fifo)
    with open(large, "w") as file:
        file.truncate(1 << 40)
    irregular = "it is a {}, not a regular file; `-` reads standard input"
    for path, why in (("/dev/zero", irregular.format("device")), (fifo, irregular.format("FIFO")), (large, "it has more than 256 MiB")):
        done = execute([belljar, "validate", path], timeout=20)
        assert done.status == 2 and why in done.err and str(path) in done.err, done
    (workdir / "good.yaml").write_text(GOOD)
    script = f"{belljar} validate <(cat {workdir}/good.yaml)"
    assert execute(["bash", "-c", script]).status == 0, "process substitution"


def test_a_setup_needs_a_shell(belljar, workdir):
    (workdir / "root").mkdir()
    file = workdir / "setup.yaml"
    file.write_text(GOOD.replace("    - path: /bin/true\n  bob:", "    - path: /bin/true\n  bob:\n    root: root\n    setup: [ip link]").replace(
        "    network_node_id: 1\n    processes:\n    - path: /bin/true\n", "    network_node_id: 1\n    processes: []\n"))
    done = execute([belljar, "run", file])
    line = file.read_text().splitlines().index("    setup: [ip link]") + 1
    assert done.status == 2 and "'setup' needs a shell: " in done.err and f"setup.yaml:{line}:" in done.err, done
