"""Every packet is delivered, dropped for a reason at a location, consumed, or on its way at the end: random experiments.

Traffic models talk over links, switches, routers, P4 switches, radio channels and the graph, while links fail, change and
lose frames and hosts crash. A failure names the seed; `BELLJAR_ACCOUNTS_SEED=<seed>` draws that experiment alone."""

import csv
import json
import os
import random
import re
import shutil
import subprocess
from collections import Counter

import pytest
import yaml
from conftest import EXAMPLES, ROOT, execute

COUNT, BATCH = 300, 20

QUEUES = [
    {"packets": 3}, {"bytes": "6 KB"}, {"codel": {"packets": 30}}, {"fq_codel": {"packets": 20, "flows": 8}},
    {"red": {"min": "1 KB", "max": "5 KB", "limit": "9 KB", "weight": 0.1}}, {"priority": {"bands": [{"packets": 5}] * 3}},
]


def model(type, start, **keys):
    return {"model": {"type": type, **keys}, "start_time": start}


def draw_link(draw, queue=True):
    latency = round(20 * 1000 ** draw.random())
    link = {"latency": f"{latency} us", "rate": draw.choice(["1 Mbit", "20 Mbit", "1 Gbit", "unlimited"])}
    if draw.random() < 0.3:
        link["jitter"] = f"{draw.randrange(latency)} us"
    if draw.random() < 0.4:
        link["packet_loss"] = draw.choice([0.01, 0.2, {"gilbert_elliott": {"to_bad": 0.05, "to_good": 0.4}}])
    if queue and draw.random() < 0.5 and link["rate"] != "unlimited":
        link["queue"] = draw.choice(QUEUES)
    for impairment in ("duplication", "corruption"):
        if draw.random() < 0.3:
            link[impairment] = draw.choice([0.01, 0.2])
    if draw.random() < 0.2:
        link["reordering"] = {"probability": 0.2, "delay": "4 ms"}
    return link


def draw_experiment(seed):
    draw = random.Random(seed)
    hosts = [f"h{n}" for n in range(draw.randrange(2, 7))]
    middle = [f"{draw.choice('sssrrp')}{n}" for n in range(draw.randrange(0, 4))]
    links, ports = [], dict.fromkeys(middle, 0)

    def end(node):
        """A P4 switch has the ports 1 to 3 of its program, of which one has no link now and then."""
        if not node.startswith("p"):
            return node
        ports[node] += 1
        return f"{node}:p{ports[node]}"

    def free(nodes):
        return [node for node in nodes if not node.startswith("p") or ports[node] < 3]

    def join(a, b):
        queue = not (a + b).count("p")
        links.append({"name": f"l{len(links)}", "between": [end(a), end(b)], **draw_link(draw, queue)})

    for n, node in enumerate(middle[1:], 1):
        if free(middle[:n]):
            join(node, draw.choice(free(middle[:n])))
    switches = [node for node in middle if node.startswith("s")]
    if len(switches) > 1 and len(switches) == len(middle):
        join(*draw.sample(switches, 2))  # now and then a loop: the spanning tree blocks a port
    on_graph = not middle or draw.random() < 0.4
    for host in hosts:
        if free(middle) and (not on_graph or draw.random() < 0.6):
            join(host, draw.choice(free(middle)))
    linked = {name.split(":")[0] for link in links for name in link["between"]}
    middle = [node for node in middle if node in linked]
    result = {"general": {"stop_time": f"{draw.randrange(1500, 4000)} ms", "seed": seed}, "hosts": {}, "links": links, "events": []}
    if on_graph:
        rate = draw.choice(["1 Mbit", "100 Mbit"])
        result["network"] = {"graph": {"type": "gml", "inline": f"""graph [ directed 0
            node [ id 0 host_bandwidth_up "{rate}" host_bandwidth_down "{rate}" ]
            edge [ source 0 target 0 latency "{draw.randrange(1, 30)} ms" packet_loss {draw.choice([0, 0.1])} ] ]"""}}
    for kind, section in (("s", "switches"), ("r", "routers")):
        if of_kind := [node for node in middle if node.startswith(kind)]:
            result[section] = {node: {} for node in of_kind}
    for node in middle:
        if node.startswith("p"):
            bridge = {"p4": str(EXAMPLES / "p4-bridge.p4"), "runtime": str(EXAMPLES / "p4-bridge-runtime.json")}
            result.setdefault("switches", {})[node] = bridge
    if len(hosts) > 2 and draw.random() < 0.3:
        stations = {host: [draw.randrange(300), draw.randrange(300)] for host in hosts}
        result["radios"] = {"air": {"range": 200, "packet_loss": draw.choice([0, 0.2, 0.7]), "stations": stations}}
    of_radio = "radios" in result
    for host in hosts:
        own = {"processes": [model("http_server", "0 s", port=80), model("sink", "0 s", port=9, protocol="udp"), model("sink", "0 s", port=5001)]}
        if on_graph:
            own["network_node_id"] = 0
        elif host not in linked and not of_radio:
            continue
        if draw.random() < 0.3:
            own["forwarding"] = True
        if draw.random() < 0.2:
            own["cpu"] = {"packet": "40 us", "interrupt": "5 us", "backlog": 4}
        result["hosts"][host] = own
    names = list(result["hosts"])
    for host in names:
        for _ in range(draw.randrange(3)):
            to, start = draw.choice(names), f"{draw.randrange(1200)} ms"
            result["hosts"][host]["processes"].append(draw.choice([
                model("bulk", start, to=f"{to}:{draw.choice([5001, 5001, 99])}", size="400 KB"),
                model("constant_rate", start, to=f"{to}:{draw.choice([9, 9, 98])}", rate=draw.choice(["3 Mbit", "30 Mbit"]), datagram_size=draw.choice(["200 B", "1400 B", "5 KB"])),
                model("http", start, to=f"{to}:80", count=20),
            ]))
    for _ in range(draw.randrange(4)):
        at, lasting = f"{draw.randrange(300, 1400)} ms", f"{draw.randrange(100, 900)} ms"
        kinds = [{"crash": draw.choice(names), "for": lasting}, {"partition": [names[0]], "for": lasting}]
        if links:
            name = draw.choice(links)["name"]
            kinds += [{"link_down": name, "for": lasting}, {"link_change": name, "packet_loss": 0.5, "duplication": 0.3, "for": lasting}]
        result["events"].append({"at": at, **draw.choice(kinds)})
    return {key: value for key, value in result.items() if value}


def seeds():
    if one := os.environ.get("BELLJAR_ACCOUNTS_SEED"):
        return [(int(one), int(one) + 1)]
    return [(n, n + BATCH) for n in range(0, COUNT, BATCH)]


@pytest.mark.parametrize("first, end", seeds())
def test_every_sum_holds(belljar, workdir, first, end):
    reasons, held = set(), 0
    for seed in range(first, end):
        (workdir / "experiment.yaml").write_text(yaml.safe_dump(draw_experiment(seed), sort_keys=False))
        data = workdir / f"seed{seed}"
        cells = ["--cells", "2"] if seed % 3 == 0 else []
        done = execute([belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", *cells])
        assert done.status == 0, f"seed {seed}: {done}"
        said = json.loads((data / "sim-stats.json").read_text())
        wrong = [what for what in said["warnings"] if "account does not balance" in what]
        assert not wrong, f"seed {seed}: {wrong}"
        accounts = said.get("packets", {}).values()  # a host alone sends nothing
        for account in accounts:
            reasons |= set(account.get("drops", {}))
            held += account.get("held", 0)
        dropped = sum(sum(account.get("drops", {}).values()) for account in accounts)
        assert f" {dropped} dropped" in done.out, f"seed {seed}: {done}"
    if end - first == BATCH:
        assert held and len(reasons) > 5, (held, reasons)


def is_of(host, location):
    """A location is the host's: its stack, an interface, a driver, the paths over the graph from it, or a link's direction from it."""
    return location == host or location.startswith(f"{host}:") or location == f"graph: from {host}" or re.fullmatch(rf"[^:]+: {host} to .*", location)


def last_rows(file, keys):
    """The drops in the last row of each host or direction, by reason."""
    with file.open(newline="") as text:
        table = csv.reader(text)
        columns = next(table)
        first, end = columns.index("bytes") + 1 if "bytes" in columns else columns.index("bytes_out") + 1, len(columns) - keys
        return {tuple(row[1:first - 2] if "link" in columns else row[1:2]): {name: int(n) for name, n in zip(columns[first:end], row[first:end]) if n != "0"} for row in table}


def drops_of(accounts):
    return dict(sum((Counter(account.get("drops", {})) for account in accounts), Counter()))


def check_agreement(belljar, data):
    """Statistics, time series and `compare` have the drops that the accounts have. Gives their reasons."""
    stats = json.loads((data / "sim-stats.json").read_text())
    accounts = stats.get("packets", {})
    sampled = last_rows(data / "metrics/hosts.csv", 3)
    for host, of_host in stats["hosts"].items():
        expected = drops_of(account for location, account in accounts.items() if is_of(host, location))
        assert of_host["drops"] == expected and sampled.get((host,), {}) == expected, (host, of_host["drops"], expected, sampled.get((host,)))
    topology = json.loads((data / "topology.json").read_text())
    names = {node["id"]: node.get("label") for node in topology["nodes"]} | {host["node"]: host["name"] for host in topology["hosts"] if host["node"] not in [n["id"] for n in topology["nodes"] if n.get("kind") != "host"]}
    of_links = last_rows(data / "metrics/links.csv", 1) if stats.get("links") else {}
    for edge in (edge for edge in topology["edges"] if "link" in edge):
        ends = [(names[edge[end]], interface) for end, interface in zip(("source", "target"), edge["interfaces"])]
        for (near, interface), (far, _) in (ends, ends[::-1]):
            direction = stats["links"][edge["link"]][f"{near} to {far}"]["drops"]
            of_link, at = accounts.get(f"{edge['link']}: {near} to {far}", {}), f"{near}:{interface}"
            expected = drops_of([of_link, accounts.get(at, {})])
            assert of_links.get((edge["link"], near, far), {}) == direction, (edge["link"], near, direction)
            # P4 switches and radio channels have one account for all of their ports.
            has_ports = not near.startswith(("p", "air"))
            assert direction == expected if has_ports else not Counter(expected) - Counter(direction), (edge["link"], near, direction, expected)
    shown = execute([belljar, "compare", data, data]).out
    for host, of_host in stats["hosts"].items():
        own = accounts.get(host, {})
        outside = sum(drops_of(account for location, account in accounts.items() if is_of(host, location) and location != host).values())
        entered = own.get("received", 0) + sum(own.get("originated", {}).values())
        for label, dropped, of in ((f"{host}: of packets sent", outside, of_host["packets_out"]), (f"{host}: of its packets", sum(own.get("drops", {}).values()), entered)):
            found = re.search(rf"^ *{re.escape(label)} +([0-9.]+) ", shown, re.M)
            assert (found is not None) == (of > 0), (label, shown)
            assert not found or float(found[1]) == pytest.approx(100 * dropped / of, rel=1e-3, abs=1e-4), (label, found[1], dropped, of)
    return {(reason, "stack" if location in stats["hosts"] else "elsewhere") for location, account in accounts.items() for reason in account.get("drops", {})}


@pytest.mark.parametrize("first, end", [(n, n + 10) for n in range(0, 40, 10)])
def test_all_numbers_agree(belljar, workdir, first, end):
    reasons = set()
    for seed in range(first, end):
        experiment = draw_experiment(seed) | {"belljar": {"metrics": {"interval": "70 ms"}}}
        (workdir / "experiment.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
        cells = ["--cells", "2"] if seed % 3 == 0 else []
        data = workdir / f"seed{seed}"
        done = execute([belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", *cells])
        assert done.status == 0, f"seed {seed}: {done}"
        try:
            reasons |= check_agreement(belljar, data)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert {("packet_loss", "elsewhere"), ("no_socket", "stack")} <= reasons, reasons


#: Statements of the program that count packets, with which counts of one reason can be left out: file, statement, statement in its place.
COUNTS = [
    ("net/src/nic/mod.rs", "self.drops[reason as usize] += 1;", "self.drops[reason as usize] += belljar_base::counted(reason.name());"),
    ("net/src/link/direction.rs", "*self.drops.entry(reason).or_default() += 1;", "*self.drops.entry(reason).or_default() += belljar_base::counted(&format!(\"link: {}\", reason.name()));"),
    ("net/src/switch.rs", "0 => self.no_port += 1,", "0 => self.no_port += belljar_base::counted(\"switch\"),"),
    ("netstack/src/account.rs", "self.ended[usize::from(end.0) % COUNTERS] += 1;",
     "let cause = DropCause::ALL.into_iter().find(|cause| PacketDisposition::dropped(*cause).0 == end.0);"
     "self.ended[usize::from(end.0) % COUNTERS] += belljar_base::counted(cause.map_or(\"\", |cause| cause.name()));"),
    ("p4/src/switch/mod.rs", "self.drops[reason as usize] += 1;\n        if let Some(trace)", "self.drops[reason as usize] += belljar_base::counted(\"p4\");\n        if let Some(trace)"),
    ("radio/src/medium.rs", "self.flow.lost += copy;", "self.flow.lost += copy * belljar_base::counted(\"radio\");"),
]
#: Packets whose count is left out, with the reason under which they are counted otherwise.
FORGOTTEN = {
    "egress_full": "egress_full", "router_full": "router_full", "codel": "codel", "red": "red", "host_down": "host_down",
    "link: packet_loss": "packet_loss", "link: link_down": "link_down", "no_socket": "no_socket", "switch": "no_port", "p4": "p4", "radio": "lost",
}


def build_that_forgets(workdir):
    """A binary that does not count the packets named by BELLJAR_FORGET."""
    tree = workdir / "tree"
    for name in subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    for name, statement, instead in COUNTS:
        file = tree / "crates" / name
        text = file.read_text()
        assert text.count(statement) == 1, f"{name} does not count by {statement!r} any more"
        file.write_text(text.replace(statement, instead))
    library = tree / "crates/base/src/lib.rs"
    library.write_text(library.read_text() + """
/// Number of packets to count for one that belongs to `what`.
pub fn counted(what: &str) -> u64 {
    static FORGET: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    u64::from(FORGET.get_or_init(|| std::env::var("BELLJAR_FORGET").ok()).as_deref() != Some(what))
}
""")
    built = execute([tree / "belljar", "--version"], timeout=3600, env={**os.environ, "CARGO_TARGET_DIR": str(workdir / "target")})
    assert built.status == 0, built.err[-3000:]
    return workdir / "target/release/belljar"


@pytest.mark.slow
def test_packets_that_are_not_counted_are_noticed(workdir):
    """Eleven kinds of drops, each left out of the count in a build of its own: every time an account does not balance, and says where."""
    program = build_that_forgets(workdir)
    noticed, seed = set(), 0
    while len(noticed) < len(FORGOTTEN):
        assert seed < COUNT, f"no experiment drops packets by {set(FORGOTTEN) - noticed}"
        (workdir / "experiment.yaml").write_text(yaml.safe_dump(draw_experiment(seed), sort_keys=False))

        def run(forgotten):
            data = workdir / "data"
            done = execute([program, "run", workdir / "experiment.yaml", "-o", data, "--no-progress"], env={**os.environ, "BELLJAR_FORGET": forgotten})
            assert done.status == 0, f"seed {seed}: {done}"
            said = json.loads((data / "sim-stats.json").read_text())
            shutil.rmtree(data)
            return said, [what for what in said["warnings"] if "account does not balance" in what]

        said, wrong = run("nothing")
        assert not wrong, f"seed {seed}: {wrong}"
        for what, reason in FORGOTTEN.items():
            if what in noticed:
                continue
            at = [location for location, account in said.get("packets", {}).items()
                  if reason in account.get("drops", {}) or what == "p4" and location.startswith("p") and account.get("drops")]
            # Another statement may have counted them here.
            if at and any(f" at {location}:" in line for line in run(what)[1] for location in at):
                noticed.add(what)
        seed += 1
    shutil.rmtree(workdir / "target")
