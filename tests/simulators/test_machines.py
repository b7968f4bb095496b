"""Whole machines: Linux in QEMU at the end of links, with ordinary hosts at the other ends."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from conftest import EXAMPLES, contents_of, execute
from test_routing import tshark

pytestmark = pytest.mark.needs("qemu-system-x86_64", "busybox")


@pytest.fixture(scope="module", autouse=True)
def kernel():
    """The kernel of the machines, with its modules."""
    named = os.environ.get("BELLJAR_KERNEL")
    if not named:
        pytest.skip("no kernel is there: ./test unpacks Debian's, or set BELLJAR_KERNEL")
    return pathlib.Path(named)


def pair(processes, server=(), line=None, stop="30 s", **machine):
    """A machine and a server, joined by a link."""
    return {"general": {"stop_time": stop}, "host_option_defaults": {"pcap_enabled": True},
            "hosts": {"m1": {"machine": {"type": "qemu", **machine}, "processes": processes}, "server": {"processes": list(server)}},
            "links": [{"between": ["m1", "server"], "latency": "1 ms", "rate": "100 Mbit", **(line or {})}]}


def said(done, host):
    """What the programs of a host wrote, in the order of their numbers; QEMU is a machine's first."""
    return [file.read_text() for file in done.streams(host)]


def times_of(replies):
    return [float(ms) for ms in re.findall(r"time=([\d.]+) ms", replies)]


@pytest.mark.needs("curl", "tshark")
def test_example(run_experiment):
    done = run_experiment(EXAMPLES / "machine.yaml")
    pings = times_of(done.text("m1", "busybox"))
    # Two times the latency, and what Linux and the driver take for a packet.
    assert len(pings) == 5 and all(2 < ms < 2.5 for ms in pings[1:]), pings
    size = pathlib.Path("/usr/share/common-licenses/GPL-3").stat().st_size
    assert re.match(rf"{size} bytes in [\d.]+ s\n", done.text("m1", "curl"))
    console = (done.host("m1") / "console.txt").read_text()
    assert "belljar: busybox ended with status 0" in console and "belljar: curl ended with status 0" in console
    # The machine alone speaks for its address: one answer to each request, and nothing is refused.
    capture = done.pcap("m1")
    assert sorted(kind for [kind] in tshark(capture, "icmp", "icmp.type")) == ["0"] * 5 + ["8"] * 5
    assert not tshark(capture, "tcp.flags.reset == 1", "frame.number")


@pytest.mark.needs("iperf")
@pytest.mark.slow
def test_throughput_both_ways(run_experiment):
    """TCP of the machine's kernel fills a link, as sender and as receiver."""
    processes = [
        {"path": "iperf", "args": ["-c", "server", "-p", "5001", "-t", "1"]},
        {"path": "iperf", "args": ["-s", "-p", "5002"], "expected_final_state": "running"},
    ]
    server = [
        {"path": "iperf", "args": ["-s", "-p", "5001"], "expected_final_state": "running"},
        {"path": "iperf", "args": ["-c", "m1", "-p", "5002", "-t", "1"], "start_time": "8 s"},
    ]
    done = run_experiment(pair(processes, server, {"rate": "20 Mbit"}, stop="12 s"))
    rates = [float(re.findall(r"([\d.]+) Mbits/sec", text)[-1]) for text in (said(done, "m1")[1], said(done, "server")[1])]
    assert all(15 < rate < 25 for rate in rates), rates


TALK = [
    {"path": "busybox", "args": ["ping", "-c", "3", "-i", "0.1", "server"]},
    {"path": "busybox", "args": ["sh", "-c", "cat /proc/sys/kernel/random/uuid; date; echo hello | busybox nc server 7"]},
]


def talk():
    return pair(TALK, [{"path": "busybox", "args": ["nc", "-l", "-p", "7"]}], stop="12 s")


@pytest.mark.slow  # a machine boots for 17 s; test_example boots one
def test_a_root_of_its_own_and_a_program_that_fails(run_experiment, workdir):
    """With a root the machine has its files and no others."""
    root = workdir / "root"
    (root / "bin").mkdir(parents=True)
    (root / "data").write_text("from the root\n")
    (root / "bin/busybox").write_bytes(pathlib.Path("/usr/bin/busybox").read_bytes() if pathlib.Path("/usr/bin/busybox").exists() else pathlib.Path("/bin/busybox").read_bytes())
    (root / "bin/busybox").chmod(0o755)
    experiment = pair([{"path": "/bin/busybox", "args": ["sh", "-c", "/bin/busybox cat /data /proc/sys/net/ipv4/tcp_ecn; echo $WORD; exit 3"],
                        "environment": {"WORD": "it's"}, "expected_final_state": {"exited": 3}},
                       {"path": "/bin/busybox", "args": ["false"]}])
    experiment["hosts"]["m1"] |= {"root": str(root), "host_options": {"sysctls": {"net.ipv4.tcp_ecn": 1}}}
    done = run_experiment(experiment, status=1)
    assert [text for text in said(done, "m1") if "from the root" in text] == ["from the root\n1\nit's\n"]
    # A program that fails is a failure of the run.
    console = (done.host("m1") / "console.txt").read_text()
    assert console.count("busybox was to end with status") == 1 and "busybox was to end with status 0" in console, console
    assert "qemu-system-x86_64" in done.out + done.err


def test_a_kernel_without_ports_is_refused(run_experiment, kernel, workdir):
    """Such as those for clouds, by the configuration beside the image: QEMU would not end."""
    boot = workdir / "boot"
    boot.mkdir()
    shutil.copy(kernel, boot / kernel.name)
    (boot / kernel.name.replace("vmlinuz-", "config-")).write_text("# CONFIG_DEVPORT is not set\n")
    modules = kernel.parent.parent / "lib/modules" / kernel.name.removeprefix("vmlinuz-")
    done = run_experiment(pair(TALK, kernel=str(boot / kernel.name), modules=str(modules)), status=None)
    assert done.status != 0 and "has no /dev/port" in done.err and "linux-image-amd64" in done.err, done


@pytest.mark.parametrize("nic", [pytest.param("e1000", marks=pytest.mark.slow), "virtio-net"])
def test_a_machine_behind_each_kind_of_controller(run_experiment, nic):
    """Programs' output arrives, TCP works in both directions, frames leave and arrive in time, and a run on one worker, with its processes
    far, gives the same bytes."""
    experiment = talk()
    experiment["hosts"]["m1"]["machine"]["nic"] = nic
    done = run_experiment(experiment)
    _, replies, talked = said(done, "m1")
    pings = times_of(replies)
    assert len(pings) == 3 and all(2 < ms < 2.5 for ms in pings[1:]), pings
    assert re.match(r"[0-9a-f-]{36}\n.* 2000\n$", talked) and said(done, "server") == ["hello\n"], talked
    again = run_experiment(experiment, args=["--parallelism", "1", "--placement", "far"])
    assert contents_of(again.path / "hosts") == contents_of(done.path / "hosts")


def validate(belljar, workdir, experiment, **env):
    file = workdir / "exp.yaml"
    file.write_text(yaml.safe_dump(experiment, sort_keys=False))
    return execute([belljar, "validate", file], env={**os.environ, **env})


@pytest.mark.parametrize("machine, message, remedy", [
    ({"qemu": "qemu-system-none"}, "there is no program 'qemu-system-none' in PATH", "install it"),
    ({"kernel": "/nonexistent/vmlinuz-1"}, "there is no '/nonexistent/vmlinuz-1'", "looked for"),
    ({"kernel": "/etc/passwd"}, "the modules of /etc/passwd are neither beside it nor in /lib/modules", "modules: DIR/lib/modules/VERSION"),
    ({"modules": "/proc"}, "there are no modules in /proc", "DIR/lib/modules/VERSION"),
    ({"busybox": "/usr/bin/env"}, "is not linked statically", "apt install busybox-static"),
    ({"memory": "1 MiB"}, "'memory' is too little for Linux", "64 MiB"),
    ({"shift": 11}, "'shift' must be at most 10, not 11", ""),
    ({"quantum": "10 ns"}, "'quantum' must be 1 us or more", ""),
    ({"nic": "e1001"}, "e1001", "e1000"),
    ({"files": ["/nonexistent"]}, "there is no '/nonexistent'", "looked for"),
    ({"kernels": 1}, "'kernels' is not a key of 'machine'", "did you mean 'kernel'?"),
])
def test_what_is_missing_is_named(belljar, workdir, machine, message, remedy):
    done = validate(belljar, workdir, pair([], **machine))
    assert done.status == 2 and message in done.err and remedy in done.err, done


def test_a_kernel_is_named_by_the_environment(belljar, workdir):
    done = validate(belljar, workdir, pair([]), BELLJAR_KERNEL="/nonexistent")
    assert done.status == 2 and "there is no kernel /nonexistent, which BELLJAR_KERNEL names" in done.err, done


@pytest.mark.parametrize("host, message", [
    ({"cpu": {"syscall": "1 us"}}, "'cpu' is not valid for host 'm1', which is a machine"),
    ({"clock": {"offset": "1 s"}}, "'clock' is not valid for host 'm1', which is a machine"),
    ({"processes": [{"path": "true", "user": "daemon"}]}, "'true' is to run as a user, and processes of a machine run as root"),
    ({"processes": [{"path": "true", "start_time": "never"}]}, "'true' is to be started by an event, which cannot reach into a machine"),
    ({"processes": [{"model": {"type": "sink", "port": 5001}}]}, "cannot run in a machine"),
    ({"host_options": {"shared": ["/tmp"]}}, "'shared' is not valid for host 'm1', which is a machine"),
    ({"processes": [{"path": "true", "arg0": "other"}]}, "'arg0' is not valid for host 'm1', which is a machine"),
])
def test_what_a_machine_cannot_have(belljar, workdir, host, message):
    experiment = pair([])
    experiment["hosts"]["m1"] |= host
    done = validate(belljar, workdir, experiment)
    assert done.status == 2 and message in done.err, done


def test_what_is_resolved_reads_back(belljar, workdir):
    experiment = pair(TALK, memory="128 MiB", kernel_args=["nokaslr"], shift=1, quantum="20 us", files=["/etc/services"], nic="virtio-net", args=["-D", "log"])
    file = workdir / "exp.yaml"
    file.write_text(yaml.safe_dump(experiment, sort_keys=False))
    shown = execute([belljar, "run", file, "--show-config"]).out
    (workdir / "again.yaml").write_text(shown)
    assert execute([belljar, "run", workdir / "again.yaml", "--show-config"]).out == shown
    machine = yaml.safe_load(shown)["hosts"]["m1"]["machine"]
    assert machine["shift"] == 1 and machine["files"] == ["/etc/services"] and machine["args"] == ["-D", "log"]


def test_other_backends_refuse_machines(belljar, workdir):
    file = workdir / "exp.yaml"
    file.write_text(yaml.safe_dump(pair([]), sort_keys=False))
    done = subprocess.run([belljar, "emulate", file, "-o", workdir / "data"], capture_output=True, text=True)
    assert done.returncode == 2 and "host 'm1': a whole machine keeps a simulation's time" in done.stderr, done
