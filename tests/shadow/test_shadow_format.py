"""Shadow's experiment format, key by key: what each key does here, or that a note says it has no meaning."""

import copy
import lzma
import os
import pathlib
import random
import re
import subprocess
import tempfile

import pytest
import yaml
from conftest import execute

SWITCH = {"graph": {"type": "1_gbit_switch"}}
PRINT = {"path": "python3", "args": ["-c", "print('ran')"]}


def base(**more):
    return copy.deepcopy({"general": {"stop_time": "10 s"}, "network": SWITCH,
                          "hosts": {"alice": {"network_node_id": 0, "processes": [PRINT]}}, **more})


def resolved(belljar, workdir, text, *arguments):
    """The resolved experiment and what was said about it."""
    file = workdir / "experiment.yaml"
    file.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    done = execute([belljar, "run", file, "--show-config", *arguments])
    assert done.status == 0, done
    return yaml.safe_load(done.out), done


# Key of a section, a value, and how the resolved experiment shows it. `None`: named in a note as without effect.
KEYS = [
    ("general.stop_time", "3 min", "180 s"), ("general.seed", 7, 7), ("general.parallelism", 2, 2),
    ("general.bootstrap_end_time", "5 s", "5 s"), ("general.log_level", "debug", "debug"),
    ("general.heartbeat_interval", None, None), ("general.heartbeat_interval", "3 s", "3 s"),
    ("general.data_directory", "elsewhere.data", "elsewhere.data"), ("general.progress", True, True),
    ("general.model_unblocked_syscall_latency", True, True), ("network.use_shortest_path", False, False),
    ("hosts.alice.ip_addr", "100.1.2.3", "100.1.2.3"), ("hosts.alice.bandwidth_up", "5 Mbit", "5 Mbit"),
    ("hosts.alice.bandwidth_down", "81920 Kibit", "83886080 bit"),
    ("hosts.alice.host_options.log_level", "trace", "trace"), ("hosts.alice.host_options.pcap_enabled", True, True),
    ("hosts.alice.host_options.pcap_capture_size", "96 B", "96 B"),
    ("hosts.alice.processes.0.args", "-c 'print(1)'", ["-c", "print(1)"]),
    ("hosts.alice.processes.0.environment", {"A": "b c"}, {"A": "b c"}), ("hosts.alice.processes.0.start_time", "2", "2 s"),
    ("hosts.alice.processes.0.shutdown_time", "9 s", "9 s"), ("hosts.alice.processes.0.shutdown_signal", "SIGINT", "SIGINT"),
    ("hosts.alice.processes.0.expected_final_state", "running", "running"),
    ("hosts.alice.processes.0.expected_final_state", {"exited": 3}, {"exited": 3}),
    ("hosts.alice.processes.0.expected_final_state", {"signaled": 9}, {"signaled": "SIGKILL"}),
    ("hosts.alice.processes.0.expected_final_state", "any", "any"),
    ("experimental.strace_logging_mode", "deterministic", "deterministic"),
    ("experimental.socket_recv_buffer", "174760 B", "174760 B"), ("experimental.socket_recv_autotune", False, False),
    ("experimental.socket_send_buffer", "131072 B", "131072 B"), ("experimental.socket_send_autotune", False, False),
    ("experimental.unblocked_syscall_latency", "2 us", "2 us"), ("experimental.unblocked_vdso_latency", "20 ns", "20 ns"),
    ("experimental.max_unapplied_cpu_latency", "3 us", "3 us"), ("experimental.use_cpu_pinning", False, False),
    ("experimental.native_preemption_sim_interval", "20 ms", "20 ms"),
]
WITHOUT_MEANING = {
    "interface_qdisc": "round-robin", "native_preemption_enabled": True, "native_preemption_native_interval": "50 ms",
    "report_errors_to_stderr": True, "runahead": "2 ms", "scheduler": "thread-per-host", "use_dynamic_runahead": True,
    "use_memory_manager": True, "use_new_tcp": True, "use_object_counters": False, "use_preload_libc": False,
    "use_preload_openssl_crypto": True, "use_preload_openssl_rng": False, "use_sched_fifo": True,
    "use_syscall_counters": True, "use_worker_spinning": False,
}


def at(tree, path):
    for key in path.split("."):
        tree = tree[int(key)] if isinstance(tree, list) else tree[key]
    return tree


@pytest.mark.parametrize("key, value, shown", KEYS, ids=[f"{k}={v}" for k, v, _ in KEYS])
def test_keys_that_count(belljar, workdir, key, value, shown):
    experiment = base()
    *path, last = key.split(".")
    place = experiment
    for part in path:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    place[last] = value
    tree, done = resolved(belljar, workdir, experiment)
    found = at(tree, key)
    assert str(found).endswith(shown) if key.endswith("directory") else found == shown, done
    assert "that have no effect" not in done.err


def test_keys_without_a_meaning_are_told_in_one_note(belljar, run_experiment):
    done = run_experiment(base(experimental=WITHOUT_MEANING))
    notes = re.findall(r"^note: .*$", done.err, re.M)
    assert len(notes) == 1, done
    told = notes[0].removeprefix("note: options of 'experimental' that have no effect: ").split(", ")
    assert sorted(told) == sorted(WITHOUT_MEANING)


def test_anchors_merge_keys_and_extension_fields(belljar, workdir):
    tree, _ = resolved(belljar, workdir, """
x-process: &process { path: python3, args: [-c, pass] }
x-host: &host
  network_node_id: 0
  processes: [*process]
general: { stop_time: 1 min }
network: { graph: { type: 1_gbit_switch } }
hosts:
  a: *host
  b: { <<: *host, ip_addr: 10.0.0.9 }
  c: { <<: [*host], processes: [{ <<: *process, args: [-c, '1'] }] }
""")
    assert [h["processes"][0]["args"][1] for h in tree["hosts"].values()] == ["pass", "pass", "1"]
    assert tree["hosts"]["b"]["ip_addr"] == "10.0.0.9"


def test_host_option_defaults_are_merged(belljar, workdir):
    experiment = base(host_option_defaults={"pcap_enabled": True, "log_level": "error"})
    experiment["hosts"]["alice"]["host_options"] = {"log_level": None}
    options = resolved(belljar, workdir, experiment)[0]["hosts"]["alice"]["host_options"]
    assert options["pcap_enabled"] is True and options["log_level"] is None


def test_addresses_skip_what_is_taken_and_what_ends_in_0_or_255(belljar, workdir):
    experiment = base()
    experiment["hosts"] = {f"h{n:03}": {"network_node_id": 0, "processes": []} for n in range(256)}
    experiment["hosts"]["h000"]["ip_addr"] = "11.0.0.2"
    hosts = resolved(belljar, workdir, experiment)[0]["hosts"]
    addresses = [host["ip_addr"] for host in hosts.values()]
    assert addresses[:3] == ["11.0.0.2", "11.0.0.1", "11.0.0.3"] and addresses[-2:] == ["11.0.1.1", "11.0.1.2"]


def test_graphs_from_files_and_compressed(belljar, workdir):
    gml = 'graph [ directed 1 node [ id 5 host_bandwidth_up "1 Gbit" host_bandwidth_down "2 Gbit" label "five" ]' \
          ' edge [ source 5 target 5 latency "7 ms" packet_loss 0.5 label "loop" ] ]'
    (workdir / "plain.gml").write_text(gml)
    (workdir / "packed.gml.xz").write_bytes(lzma.compress(gml.encode()))
    for file in ({"path": "plain.gml"}, {"path": "packed.gml.xz", "compression": "xz"}):
        experiment = base(network={"graph": {"type": "gml", "file": file}})
        experiment["hosts"]["alice"]["network_node_id"] = 5
        tree, _ = resolved(belljar, workdir, experiment)
        assert tree["network"]["graph"]["inline"].strip() == gml and tree["hosts"]["alice"]["bandwidth_down"] == "2 Gbit"


def test_without_shortest_paths_only_edges_count(run_experiment):
    gml = "graph [ " + " ".join(f'node [ id {n} host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]' for n in range(3))
    gml += " ".join(f' edge [ source {a} target {b} latency "{ms} ms" ]' for a, b, ms in [(0, 1, 10), (1, 2, 10), (0, 2, 90)]) + " ]"
    code = "import socket, time\nb = time.monotonic(); socket.create_connection(('s', 80)); print(round((time.monotonic() - b) * 1000))"
    serve = "import socket\nl = socket.create_server(('', 80))\nwhile 1: l.accept()"
    for shortest, trip in ((True, "40\n"), (False, "180\n")):
        done = run_experiment({"general": {"stop_time": "5 s"}, "network": {"use_shortest_path": shortest, "graph": {"type": "gml", "inline": gml}}, "hosts": {
            "s": {"network_node_id": 2, "processes": [{"path": "python3", "args": ["-c", serve], "expected_final_state": "running"}]},
            "c": {"network_node_id": 0, "processes": [{"path": "python3", "args": ["-c", code], "start_time": "1 s"}]}}})
        assert done.text("c") == trip


def test_buffers_of_sockets(run_experiment):
    code = "import socket as s\nx = s.socket()\nprint(x.getsockopt(s.SOL_SOCKET, s.SO_RCVBUF), x.getsockopt(s.SOL_SOCKET, s.SO_SNDBUF))\n" \
           "print(open('/proc/sys/net/ipv4/tcp_rmem').read().split(), open('/proc/sys/net/ipv4/tcp_wmem').read().split())"
    process = {"path": "python3", "args": ["-c", code]}

    def said(**experimental):
        experiment = base(experimental=experimental)
        experiment["hosts"]["alice"]["processes"] = [process]
        return run_experiment(experiment).text("alice").splitlines()

    assert said()[0] == "131072 16384", "Linux's"
    sizes = said(socket_recv_buffer="200000 B", socket_send_buffer="100000 B", socket_send_autotune=False)
    assert sizes[0] == "200000 100000"
    assert sizes[1] == "['4096', '200000', '6291456'] ['4096', '100000', '100000']"
    assert said(socket_recv_autotune=False)[1].startswith("['4096', '174760', '174760']")


def test_processes_get_environment_signals_and_template(run_experiment, workdir):
    template = workdir / "template"
    (template / "hosts/alice").mkdir(parents=True)
    (template / "hosts/alice/torrc").write_text("from the template")
    code = "import os, signal, sys, time\nprint(os.environ['WHO'], open('torrc').read(), os.getcwd().endswith('hosts/alice'), flush=True)\n" \
           "signal.signal(signal.SIGINT, lambda *_: sys.exit(5))\ntime.sleep(100)"
    process = {"path": "python3", "args": ["-c", code], "environment": {"WHO": "me"}, "shutdown_time": "5 s", "shutdown_signal": "SIGINT",
               "expected_final_state": {"exited": 5}}
    experiment = base()
    experiment["general"]["template_directory"] = str(template)
    experiment["hosts"]["alice"]["processes"] = [process]
    done = run_experiment(experiment)
    assert done.text("alice") == "me from the template True\n"
    assert re.search(r"exited 5 +at 5.0", done.out), done.out


def test_an_experiment_from_standard_input(belljar, workdir):
    (workdir / "in.yaml").write_text(yaml.safe_dump(base()))
    with open(workdir / "in.yaml") as stdin:
        done = execute([belljar, "run", "-", "-o", workdir / "data"], cwd=workdir, stdin=stdin)
    assert done.status == 0 and (workdir / "data/hosts/alice/python3.1000.stdout").read_text() == "ran\n", done


def test_log_lines_as_parsers_expect_them(belljar, workdir):
    """Shadow's log format, with the lines that tornettools reads for its plots of resources."""
    experiment = base()
    experiment["general"].update(progress=True, heartbeat_interval="2 s")
    experiment["hosts"]["alice"]["processes"] = [{"path": "python3", "args": ["-c", "import time\nfor n in range(9): time.sleep(1)"]}]
    (workdir / "e.yaml").write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "run", workdir / "e.yaml", "-o", workdir / "data"])
    line = re.compile(r"(\d\d:\d\d:\d\d\.\d{6}) \[(\d+):([^\]]+)\] (n/a|\d\d:\d\d:\d\d\.\d{9}) \[(\w+)\] \[([^\]]+)\] \[[^\]]+:\d+\] \[\w+\] (.*)")
    lines = [m for m in map(line.fullmatch, done.out.splitlines()) if m]
    usage = [m for m in lines if m[7].startswith("Process resource usage at simtime ")]
    assert len(usage) >= 3, done
    for m in usage:
        found = re.fullmatch(r"Process resource usage at simtime (\d+) reported by getrusage\(\): ru_maxrss=([\d.]+) GiB, ru_utime=([\d.]+) minutes, "
                             r"ru_stime=([\d.]+) minutes, ru_nvcsw=(\d+), ru_nivcsw=(\d+)", m[7])
        assert found and int(found[1]) % 2_000_000_000 == 0, m[7]
    assert any(m[7].startswith("System memory usage in bytes at simtime ") for m in lines)
    assert any(m[6] == "alice:11.0.0.1" and "'python3.1000' exited 0" in m[7] for m in lines)
    quiet = execute([belljar, "run", workdir / "e.yaml", "-o", workdir / "quiet", "--set", "hosts.alice.host_options.log_level=error"])
    assert "'python3.1000' exited 0" not in quiet.out and "Process resource usage" in quiet.out, "a host's own level"


@pytest.mark.needs("curl")
def test_the_basic_file_transfer(run_experiment):
    """The shape of the first experiment of Shadow's documentation: a Python web server and three curl over 50 ms with loss."""
    done = run_experiment("""
general: { stop_time: 10s, model_unblocked_syscall_latency: true }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [
          id 0
          host_bandwidth_down "140 Mbit"
          host_bandwidth_up "18 Mbit"
        ]
        edge [
          source 0
          target 0
          latency "50 ms"
          packet_loss 0.01
        ]
      ]
hosts:
  server:
    network_node_id: 0
    processes:
    - path: python3
      args: -m http.server 80
      start_time: 3s
      expected_final_state: running
  client1: &client_host
    network_node_id: 0
    processes:
    - path: curl
      args: -s server
      start_time: 5s
  client2: *client_host
  client3: *client_host
""")
    for client in ("client1", "client2", "client3"):
        assert "Directory listing for /" in done.text(client, "curl")
    assert {p.name for p in done.host("server").iterdir()} >= {"python3.1000.stdout", "python3.1000.stderr"}


def internet(nodes, seed=1):
    """A complete undirected graph as tornettools makes them would be too large: a ring with random chords."""
    draw = random.Random(seed)
    lines = ["graph [", "directed 0"]
    for n in range(nodes):
        lines.append(f'node [ id {n} label "node{n}" host_bandwidth_up "{draw.randrange(1, 1000)} Mbit" host_bandwidth_down "100 Mbit" ]')
    for n in range(nodes):
        for target in {n, (n + 1) % nodes, *(draw.randrange(nodes) for _ in range(4))}:
            lines.append(f'edge [ source {n} target {target} latency "{draw.randrange(1, 300)} ms" packet_loss {draw.random() / 50:.6f} ]')
    return "\n".join([*lines, "]"])


@pytest.mark.parametrize("nodes", [600, pytest.param(6000, marks=pytest.mark.slow)])
def test_a_graph_of_the_internet_loads_in_seconds(belljar, workdir, nodes):
    # An edge that was drawn from both of its ends is one too many.
    text, seen = [], set()
    for line in internet(nodes).splitlines():
        ends = re.match(r"edge \[ source (\d+) target (\d+)", line)
        if ends:
            pair = tuple(sorted(map(int, ends.groups())))
            if pair in seen:
                continue
            seen.add(pair)
        text.append(line)
    (workdir / "internet.gml.xz").write_bytes(lzma.compress("\n".join(text).encode(), preset=1))
    hosts = {f"h{n:05}": {"network_node_id": n * 7 % nodes, "processes": [
        {"model": {"type": "sink", "port": 80}}, {"model": {"type": "bulk", "to": "h00000:80", "size": "1 KB"}, "start_time": "1 s"}]} for n in range(nodes // 6)}
    experiment = {"general": {"stop_time": "20 s"}, "network": {"graph": {"type": "gml", "file": {"path": "internet.gml.xz", "compression": "xz"}}}, "hosts": hosts}
    (workdir / "e.yaml").write_text(yaml.safe_dump(experiment))
    # Its own usage: RUSAGE_CHILDREN has the largest of all that any test has started.
    with open(workdir / "out", "w+") as out:
        run = subprocess.Popen([belljar, "run", workdir / "e.yaml", "-o", workdir / "data"], stdout=out, stderr=out)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read()
    assert run.returncode == 0, said
    print(f"{nodes} nodes, {len(seen)} edges: {usage.ru_utime + usage.ru_stime:.1f} s of CPU, at most {usage.ru_maxrss / 1024:.0f} MiB")
    assert usage.ru_maxrss < 1024 * 1024 and re.search(rf"bulk +{nodes // 6} ", said)


def test_called_as_shadow(belljar, workdir):
    """`belljar shadow`, and a link of that name, take Shadow's command line: scripts start it themselves."""
    file = workdir / "experiment.yaml"
    file.write_text(yaml.safe_dump(base()))
    link = workdir / "shadow"
    link.symlink_to(belljar)
    for number, command in enumerate([[link], [belljar, "shadow"]]):
        done = execute([*command, "-d", workdir / f"out{number}", "--use-new-tcp", "true", "--strace-logging-mode=standard", "-p", "1",
                        "--pcap-enabled", "true", "--seed", "7", file])
        assert done.status == 0 and "that have no effect: use_new_tcp" in done.err, done
        results = workdir / f"out{number}" / "hosts/alice"
        assert [f.read_text() for f in results.glob("*.stdout")] == ["ran\n"]
        assert list(results.glob("*.strace"))
        # A capture of each interface, header and all, though no packet has passed.
        for interface in ("lo", "eth0"):
            assert len((results / f"{interface}.pcap").read_bytes()) == 24
    for command in ([link], [belljar, "shadow"]):
        done = execute([*command, "--version"])
        assert done.status == 0 and re.fullmatch(r"Shadow \d+\.\d+\.\d+ \u2014 Belljar \d+\.\d+\.\d+\n", done.out), done
        info = execute([*command, "--show-build-info"])
        assert info.status == 0 and not info.out and info.err.startswith(done.out + "Built for "), info
    left = workdir / "tmp"
    left.mkdir()
    cleaned = execute([link, "--shm-cleanup"], env={**os.environ, "TMPDIR": str(left)})
    assert (cleaned.status, cleaned.out, cleaned.err) == (0, "", "") and not list(left.iterdir())
    refused = execute([link, "--shm-cleanup", file])
    assert refused.status == 2 and "'--shm-cleanup' takes no other arguments" in refused.err, refused
    wrong = execute([link, "--strace-logging-mode", "loud", file])
    assert wrong.status == 2 and "strace_logging_mode" in wrong.err, wrong


def test_the_log_ends_with_the_number_of_processes_that_failed(belljar, workdir):
    experiment = base()
    failing = {"path": "python3", "args": ["-c", "raise SystemExit(3)"]}
    experiment["hosts"]["alice"]["processes"] += [failing, failing]
    file = workdir / "experiment.yaml"
    file.write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "run", "--log", "-o", workdir / "out", file])
    assert done.status != 0
    lines = [line for line in done.out.splitlines() if "in unexpected final state" in line]
    assert len(lines) == 1 and lines[0].endswith("2 managed processes in unexpected final state") and "[ERROR]" in lines[0], done


def test_a_program_above_the_experiment(belljar, workdir):
    """`..` in a program's path, with results and program below /tmp, where hosts start with a directory of their own."""
    with tempfile.TemporaryDirectory(prefix="belljar-above-", dir="/tmp") as folder:
        folder = pathlib.Path(folder)
        (folder / "here").mkdir()
        program = folder / "hello"
        program.write_text("#!/bin/sh\necho above\n")
        program.chmod(0o755)
        experiment = base()
        experiment["hosts"]["alice"]["processes"] = [{"path": "../hello"}]
        (folder / "here/experiment.yaml").write_text(yaml.safe_dump(experiment))
        done = execute([belljar, "run", "-o", folder / "here/out", folder / "here/experiment.yaml"])
        assert done.status == 0, done
        assert [f.read_text() for f in (folder / "here/out/hosts/alice").glob("*.stdout")] == ["above\n"]
