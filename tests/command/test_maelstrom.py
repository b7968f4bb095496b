"""`belljar maelstrom`: nodes of each workload, right and wrong, their faults, and nodes that do not keep to the protocol."""

import json
import re

import pytest
import yaml
from conftest import ROOT, execute
from sameness import assert_same, run

NODES = ROOT / "tests/programs/maelstrom/nodes.py"
QUICK = ["--time-limit", "15", "--rate", "20"]
THREE = [*QUICK, "--node-count", "3"]
#: Options of each workload, and the finding of its wrong node.
WORKLOADS = {
    "echo": ([], "wrong echo"),
    "broadcast": (["--nemesis", "partition", "--nemesis-interval", "2", "--latency", "20"], "lost element"),
    "g-set": ([], "lost element"),
    "g-counter": ([], "wrong sum"),
    "pn-counter": ([], "wrong sum"),
    "unique-ids": ([], "duplicate identifier"),
    "kafka": ([], "inconsistent offset"),
    "lin-kv": (["--concurrency", "2n"], "not linearizable"),
    "txn-list-append": (["--latency", "5", "--latency-dist", "uniform", "--key-count", "3"], "lost-update|incompatible-order|G[0-9s]|G-"),
    "txn-rw-register": (["--latency", "5", "--latency-dist", "uniform", "--key-count", "3"], "lost-update|internal|G[0-9s]|G-"),
}


def maelstrom(belljar, workdir, *options, status=0, node=NODES, output="m.data"):
    done = execute([belljar, "maelstrom", "--bin", node, "-o", workdir / output, *options], cwd=workdir)
    assert done.status == status, done
    return done


@pytest.mark.parametrize("workload", WORKLOADS)
def test_right_nodes_pass_and_wrong_ones_do_not(belljar, workdir, workload):
    options, kind = WORKLOADS[workload]
    done = maelstrom(belljar, workdir, "-w", workload, *THREE, *options, "--", workload, "right")
    operations = int(re.search(r"^valid: .*operations: (\d+)", done.out, re.M)[1])
    assert operations > 200, done
    done = maelstrom(belljar, workdir, "-w", workload, *THREE, *options, "--", workload, "wrong", status=1, output="wrong.data")
    assert re.search(rf"^({kind})", done.out, re.M), done


def test_reports_have_latencies_and_messages(belljar, workdir):
    done = maelstrom(belljar, workdir, "-w", "broadcast", *THREE, "--latency", "100", "--topology", "line", "--", "broadcast", "right")
    longest = int(re.search(r"stable latencies: .* longest (\d+) ms", done.out)[1])
    # From one end of the line to the other, two hops.
    assert 100 <= longest <= 300, done
    between, each = re.search(r"messages between nodes and services: (\d+), ([0-9.]+) an operation", done.out).groups()
    lines = [json.loads(line) for n in range(3) for line in (workdir / f"m.data/hosts/n{n}/messages.jsonl").read_text().splitlines()]
    assert int(between) == sum(not line["dest"].startswith("c") for line in lines) and float(each) > 1
    assert {line["body"]["type"] for line in lines} == {"gossip", "gossip_ok", "broadcast_ok", "read_ok"}


@pytest.mark.parametrize("workload", ["kafka", "txn-list-append"])
def test_runs_are_the_same(belljar, workdir, workload):
    options = ["-w", workload, *THREE, "--latency", "5", "--latency-dist", "uniform", "--seed", "3", "--nemesis", "partition", "--nemesis-interval", "2"]
    done = execute([belljar, "maelstrom", "--bin", NODES, *options, "--write", "m.yaml", "--", workload, "right"], cwd=workdir)
    text = (workdir / "m.yaml").read_text()
    assert done.status == 0 and "partition: [[" in text, done
    # These nodes speak with a service alone, which Maelstrom leaves on all sides.
    (workdir / "m.yaml").write_text(text.replace("partition: [[", "partition: [[lin-kv, "))
    found = assert_same(belljar, workdir, workdir / "m.yaml", ["--parallelism", "1"], ["--parallelism", "3"], ["--cells", "2"], ["--placement", "far"])
    statistics = json.loads(found["sim-stats.json"])
    assert any("partition" in element.get("drops", {}) for element in statistics["packets"].values()), statistics["packets"]
    assert all(one["holds"] for one in statistics["properties"]), statistics["properties"]
    other = run(belljar, workdir, workdir / "m.yaml", "--seed", "4")
    assert other["hosts/clients/history.jsonl"] != found["hosts/clients/history.jsonl"]


@pytest.mark.slow  # a campaign of 20 s; test_explore.py has shorter ones
def test_exploring_finds_lost_messages(belljar, workdir):
    done = execute([belljar, "maelstrom", "--bin", NODES, "-w", "broadcast", *THREE, "--latency", "20", "--write", "m.yaml", "--", "broadcast", "wrong"], cwd=workdir)
    assert done.status == 0, done
    done = execute([belljar, "explore", "m.yaml", "--budget", "10runs", "--first", "-o", "m.explore"], cwd=workdir)
    assert done.status == 1 and "FOUND property broadcast (history)" in done.out, done
    found = yaml.safe_load((workdir / "m.explore/findings/property-broadcast-history/experiment.yaml").read_text())
    assert found["events"], found


def script(workdir, text):
    file = workdir / "node.py"
    file.write_text("#!/usr/bin/env python3\nimport json, sys\n" + text)
    file.chmod(0o755)
    return file


START = """
def send(request, **body):
    print(json.dumps({'src': name, 'dest': request['src'], 'body': {'in_reply_to': request['body'].get('msg_id'), **body}}), flush=True)
init = json.loads(input())
name = init['body']['node_id']
send(init, type='init_ok')
"""


@pytest.mark.parametrize("text, host, problem", [
    ("print('starting', flush=True)\ninput()\n", "n0", r"n0: line 1 of its standard output is no message, it is not valid JSON \(.*\): \"starting\"; a node writes other text to standard error"),
    ("input()\n", "n0", 'n0 ended before it answered "init"'),
    ("for line in sys.stdin: pass\n", "n0", r'n0 did not answer "init" within 10 s: a node answers with "init_ok"'),
    (START.replace("init_ok", "ok") + "input()\n", "n0", 'n0 answered "init" with .*: "init_ok" is expected'),
    (START + "send({'src': 'n7', 'body': {}}, type='x')\ninput()\n", "n0", "n0: line 2: there is no node or service n7"),
    (START + "name = 'n9'\nsend(json.loads(input()), type='x')\ninput()\n", "n0", 'n0: line 2 has the "src" "n9": a node sends in its own name, or forwards in that of a client or node'),
    (START + "sys.exit(3)\n", "n0", None),
    (START + "for line in sys.stdin: send(json.loads(line), type='echo_okay')\n", "clients", r'n0 answered "echo" with .*: "type" is "echo_okay", not "echo_ok"'),
    (START + "for line in sys.stdin: send(json.loads(line), type='echo_ok')\n", "clients", r'n0 answered "echo" with .*: "echo" is missing'),
], ids=["text", "ends", "silent", "other answer", "unknown receiver", "other sender", "status", "reply's type", "reply's member"])
def test_nodes_that_do_not_keep_to_the_protocol(belljar, workdir, text, host, problem):
    done = maelstrom(belljar, workdir, "-w", "echo", *QUICK, "--node-count", "1", node=script(workdir, text), status=1)
    (errors,) = (workdir / f"m.data/hosts/{host}").glob("belljar-maelstrom.*.stderr")
    if problem:
        assert re.fullmatch(f"belljar-maelstrom: {problem}\n", errors.read_text()), errors.read_text()
    else:
        assert re.search(r"FAIL n0 .*exited 3", done.out), done


FORWARDS = START + """
for line in sys.stdin:
    message = json.loads(line)
    if name == 'n0':
        send(message, type='echo_ok', echo=message['body']['echo'])
    else:
        print(json.dumps({**message, 'dest': 'n0'}), flush=True)
"""


def test_a_node_may_forward_requests_in_the_name_of_clients(belljar, workdir):
    done = maelstrom(belljar, workdir, "-w", "echo", *THREE, "--availability", "total", node=script(workdir, FORWARDS))
    assert re.search(r"^valid: echo", done.out, re.M), done
    forwarded = [json.loads(line) for line in (workdir / "m.data/hosts/n1/messages.jsonl").read_text().splitlines()[1:]]
    assert forwarded and all(line["dest"] == "n0" and line["src"].startswith("c") for line in forwarded), forwarded[:3]


def test_availability(belljar, workdir):
    refusing = START + "for line in sys.stdin: send(json.loads(line), type='error', code=11, text='not now')\n"
    node = script(workdir, refusing)
    maelstrom(belljar, workdir, "-w", "echo", *THREE, node=node)
    maelstrom(belljar, workdir, "-w", "echo", *THREE, "--availability", "0.5", node=node, status=1, output="all.data")
    (errors,) = (workdir / "all.data/hosts/clients").glob("*.stderr")
    assert errors.read_text() == "belljar-maelstrom: 0.0 % of the requests succeeded, fewer than 50.0 %\n"


@pytest.mark.parametrize("options, said", [
    (["--bin", "missing"], "error: --bin: missing cannot be used: No such file or directory"),
    (["--bin", "/bin/true", "--latency-dist", "exponential"], "invalid value 'exponential' for '--latency-dist"),
    (["--bin", "/bin/true", "-w", "paxos"], "invalid value 'paxos' for '--workload"),
    (["--bin", "/bin/true", "--rate", "0"], "a number above 0 is needed"),
    (["--bin", "/bin/true", "--concurrency", "n"], "a number such as 10 or 2n is needed"),
    (["--bin", "/bin/true", "--availability", "2"], "'total' or a number from 0 to 1 is needed"),
    (["--bin", "/bin/true", "--write", "no/such/folder.yaml"], "error: no/such/folder.yaml cannot be written"),
])
def test_options_are_refused(belljar, workdir, options, said):
    done = execute([belljar, "maelstrom", *options], cwd=workdir)
    assert done.status == 2 and said in done.err, done
