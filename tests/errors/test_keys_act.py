"""Each key that acts in the table of keys changes the results of a run, and nothing else does."""

import concurrent.futures
import copy
import hashlib
import lzma
import os
import re
import shutil
import subprocess

import pytest
import yaml
from compiling import compile_newer
from conftest import EXAMPLES, TARGET, execute

from . import acting, keys

ROOTED = """
#include <stdio.h>
#include <string.h>
int main(void) {
    char text[99] = "none";
    FILE *file = fopen("/mark", "r");
    if (file) { fgets(text, sizeof text, file); }
    puts(text);
    return 0;
}
"""
# A program for a P4 switch: frames go from port 1 to OUT and back.
SMALL = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t { }
parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control check(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { INGRESS } }
control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { EGRESS } }
control update(inout headers_t hdr, inout metadata_t meta) { apply { } }
control deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }
V1Switch(parse(), check(), ingress(), egress(), update(), deparse()) main;
"""
CROSS = "standard.egress_spec = standard.ingress_port == 1 ? 9w2 : 9w1;"
GRAPH = """graph [ directed 0
node [ id 0 host_bandwidth_up "5 Mbit" host_bandwidth_down "5 Mbit" ] node [ id 1 host_bandwidth_up "5 Mbit" host_bandwidth_down "5 Mbit" ]
edge [ source 0 target 0 latency "1 ms" ] edge [ source 1 target 1 latency "1 ms" ] edge [ source 0 target 1 latency "LATENCY" ] ]
"""
BOX = "import runpy, sys\nsys.argv[1:] += ['--delay', 'DELAY']\nrunpy.run_path('MIDDLEBOX', run_name='__main__')\n"


def small(ingress=CROSS, egress="", first=""):
    return first + SMALL.replace("INGRESS", ingress).replace("EGRESS", egress)


@pytest.fixture(scope="module")
def files(belljar):
    """The files that the experiments name, by name."""
    source = TARGET / "errors" / "rooted.c"
    source.parent.mkdir(parents=True, exist_ok=True)
    if not source.exists() or source.read_text() != ROOTED:
        source.write_text(ROOTED)
    rooted = source.with_suffix("")
    compile_newer(rooted, ["gcc", "-static", "-O1"], source)
    bridge = (EXAMPLES / "p4-bridge.p4").read_text()
    runtime = (EXAMPLES / "p4-bridge-runtime.json").read_text()
    texts = {
        "template/hosts/a/left": "from the template",
        "one.gml": GRAPH.replace("LATENCY", "9 ms"), "other.gml": GRAPH.replace("LATENCY", "7 ms"),
        "packed": lzma.compress(GRAPH.replace("LATENCY", "8 ms").encode()),
        "root/mark": "one", "other-root/mark": "other", "root/rooted": rooted.read_bytes(), "other-root/rooted": rooted.read_bytes(),
        "bridge.p4": bridge, "bridge.json": runtime, "other.json": runtime.replace('"port": 2', '"port": 3'),
        "cross.p4": small(), "cpu.p4": small("standard.egress_spec = 510;"), "drop.p4": small("mark_to_drop(standard);"),
        "defined.p4": small("standard.egress_spec = OUT;", first="#ifndef OUT\n#define OUT 3\n#endif\n"),
        "included.p4": small("standard.egress_spec = OUT;", first='#include "ports.p4"\n'),
        "one/ports.p4": "#define OUT 2\n", "other/ports.p4": "#define OUT 3\n",
        "priorities.p4": small(CROSS + " standard.priority = 7;"),
        "timed.p4": small(CROSS + " hdr.ethernet.src = standard.ingress_global_timestamp;"),
        "one.tcl": "".join(f"$node_({n}) set X_ {100 * n}.0\n$node_({n}) set Y_ 0.0\n" for n in range(3)),
        "other.tcl": "".join(f"$node_({n}) set X_ {200 * n}.0\n$node_({n}) set Y_ 0.0\n" for n in range(3)),
        "one.movements": "0.0 0.0 0.0\n0.0 100.0 0.0\n0.0 200.0 0.0\n", "other.movements": "0.0 0.0 0.0\n0.0 200.0 0.0\n0.0 400.0 0.0\n",
        "space.movements": "".join(f"0.0 {100.0 * n} 0.0 0.1 0.2 {100.0 * n} 0.3 0.0 0.4 0.5 {100.0 * n} 0.0\n" for n in range(3)),
        **{f"{folder}/box.py": BOX.replace("DELAY", delay).replace("MIDDLEBOX", acting.MIDDLEBOX) for folder, delay in (("boxes", "0"), ("other-boxes", "300"))},
    }
    folder = TARGET / "test-work" / f"acting-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    for root in ("root", "other-root"):
        (folder / root / "rooted").chmod(0o755)
    built = execute([belljar, "p4", "build", folder / "bridge.p4", "-o", folder / "bridge-as.json", "--p4info", folder / "bridge-as.txtpb"])
    assert built.status == 0, built
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


# Of real time, or the experiment itself.
REAL = re.compile(rb"^\d\d:\d\d:\d\d\.\d+ \[\d+:\w+\] |^.* simulated in .*$|^.*[0-9.]+x.*$|^results: .*$", re.M)
SELF = {"processed-config.yaml", "manifest.sha256"}


def seen(belljar, folder, experiment, *options):
    """What a run of the experiment shows: exit status, output, files of the results. One that is refused shows its error."""
    text = yaml.safe_dump(experiment, sort_keys=False)
    name = hashlib.sha256(repr((text, options)).encode()).hexdigest()[:16]
    file = folder / f"{name}.yaml"
    file.write_text(text)
    own = "data_directory" in experiment["general"]
    out = folder / experiment["general"].get("data_directory", f"{name}.data")
    done = subprocess.run([belljar, "run", file, *options, *([] if own else ["-o", out])], capture_output=True, cwd=folder, timeout=120, check=False)
    shown = REAL.sub(b"", done.stdout)
    files = {os.path.relpath(path, folder if own else out): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file() and path.name not in SELF}
    shutil.rmtree(out, ignore_errors=True)
    status = done.returncode
    if status not in (0, 1) or not files:
        return f"{done.stderr.decode()}\n{text}"
    return status, shown, files


NUMBERS = range(len(acting.GROUPS))


def cells(table):
    return {(section, key, thing) for section, thing, names, _ in table for key in names.split()}


def test_every_cell_is_tried_or_has_a_reason():
    table = {(row.section, key, thing): keys.verdict(row.verdicts["run"])[0] for row in keys.ROWS for key in row.keys for thing in row.things}
    acts, idle = ({cell for cell, word in table.items() if word == which} for which in (keys.ACTS, "none"))
    tried = set().union(*(group.cells() for group in acting.GROUPS))
    unchanged = set().union(*(group.cells() for group in acting.UNCHANGED))
    assert tried <= acts, f"tried as keys that act: {tried - acts}"
    assert unchanged <= idle, f"tried as keys without an effect: {unchanged - idle}"
    held, argued = cells(acting.HELD), cells(acting.ARGUED)
    assert held <= acts and argued <= acts | idle, (held - acts, argued - acts - idle)
    open_cells = acts - tried - held - argued | idle - unchanged - argued
    assert not open_cells, f"in no experiment of tests/errors/acting.py: {sorted(open_cells)}"
    for _, thing, names, file in acting.HELD:
        text = (keys.ROOT / "tests" / file).read_text()
        absent = [key for key in names.split() if key.rpartition(".")[2] not in text and not key.startswith("reverse")]
        assert not absent, f"{file} has no {absent} ({thing})"


def results_of(belljar, files, group):
    """For each key, what the two runs show. An experiment is run once."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        known = {}

        def run(experiment):
            text = repr(experiment)
            if text not in known:
                known[text] = pool.submit(seen, belljar, files, experiment)
            return known[text]

        pairs = {key: [run(experiment) for experiment in group.pair(key)] for key in group.values}
        return {key: [result.result() for result in pair] for key, pair in pairs.items()}


@pytest.mark.parametrize("number", [pytest.param(number, marks=pytest.mark.slow) if acting.GROUPS[number].slow else number for number in NUMBERS])
def test_each_key_acts(belljar, files, number):
    group = acting.GROUPS[number]
    wrong = []
    for key, results in results_of(belljar, files, group).items():
        wrong += [f"{key}: {result}" for result in results if isinstance(result, str)]
        if results[0] == results[1]:
            wrong.append(f"{key} has no effect in\n{yaml.safe_dump(group.pair(key)[1])}")
    assert not wrong, f"{group.section} at {group.things}:\n" + "\n".join(wrong)


def first_difference(one, other):
    """Names of what differs between the sights of two runs."""
    if isinstance(one, str) or isinstance(other, str):
        return [text for text in (one, other) if isinstance(text, str)]
    files = [name for name in sorted({*one[2], *other[2]}) if one[2].get(name) != other[2].get(name)]
    return [f"status {one[0]}, {other[0]}"] * (one[0] != other[0]) + files


# Cells do as `run` does: with another value of a key, both give the same files, which differ from those without it (`test_each_key_acts`). One group of
# twelve is tried each time, all with --all, but for other simulators and machines, which print times of their own.
@pytest.mark.parametrize("number", [pytest.param(number, marks=pytest.mark.slow) if number % 12 else number for number in NUMBERS
                                    if not acting.GROUPS[number].slow and acting.GROUPS[number].section != "simulators"])
def test_each_key_acts_the_same_in_cells(belljar, files, number):
    group = acting.GROUPS[number]
    wrong = []
    for key in group.values:
        experiment = group.pair(key)[1]
        if "data_directory" in experiment["general"]:
            continue
        one, other = seen(belljar, files, experiment), seen(belljar, files, experiment, "--cells", "2")
        wrong += [f"{key}: {name}" for name in first_difference(one, other)]
    assert not wrong, f"{group.section} at {group.things}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("number", range(len(acting.UNCHANGED)))
def test_keys_without_an_effect_change_nothing(belljar, files, number):
    group = acting.UNCHANGED[number]
    for key, (one, other) in results_of(belljar, files, group).items():
        assert not isinstance(other, str), other
        assert one == other, f"{group.section}.{key} changes {[name for name in one[2] if one[2][name] != other[2].get(name)]}"


def without_models(experiment):
    """The experiment without what has models: other backends refuse it for them."""
    made = copy.deepcopy(experiment)
    for host in made["hosts"].values():
        host["processes"] = [process for process in host.get("processes", []) if "model" not in process]
    made["events"] = [event for event in made.get("events", []) if "constant_rate" not in event.values()]
    return {key: value for key, value in made.items() if value != []}


@pytest.mark.parametrize("backend", ["emulate", "dilated", "deploy"])
def test_other_backends_refuse_what_the_table_says(belljar, files, backend):
    """Each with the line in the file; and they take what acts there or has no effect."""
    table = {(row.section, key, thing): row.verdicts["tdf" if backend == "dilated" else backend] for row in keys.ROWS for key in row.keys for thing in row.things}

    def wrong(number, key):
        group = acting.GROUPS[number]
        name = group.names[key]
        if name == "processes.user" and os.geteuid() != 0:
            return None  # an emulation without root has the users that the machine lends
        other = group.pair(key)[1]
        if not (name.startswith("processes.model") or name == "stop" or group.section.startswith("draw_")):
            other = without_models(other)
        if backend == "deploy" and group.section != "events" and name != "one_of":
            other.pop("events", None)
        file = files / f"{backend}-{number}-{key}.yaml"
        file.write_text(yaml.safe_dump(other))
        done = execute([belljar, "validate", "--for", backend, file])
        errors, lines = (len(re.findall(pattern, done.err, re.M)) for pattern in ("^error: ", r"^ *--> .*\.yaml:\d+:\d+$"))
        for thing in group.things:
            refused = keys.verdict(table[group.section, name, thing])[0] == keys.REFUSED
            if (done.status, errors > 0) != ((2, True) if refused else (0, False)) or errors != lines:
                return f"{group.section}.{name} at {thing}: {table[group.section, name, thing]}\n{done}\n{file.read_text()}"
        return None

    cases = [(number, key) for number in NUMBERS for key in acting.GROUPS[number].values]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [text for text in pool.map(lambda case: wrong(*case), cases) if text]
    assert not found, "\n".join(found)


# Beside those of the keys: defaults that do not reach each host, queues of P4 switches, and a stop before an event limits a rate.
RESOLVED = [
    (acting.changed(acting.P4, links__0={"between": ["a", "s:p1"], "rate": "unlimited"}), []),
    (acting.changed(acting.BOTH, host_option_defaults={"queue": {"packets": 9}}, hosts__c={"processes": [], "interfaces": {"eth0": "10.9.9.3/24"}},
                    switches=["s"], links=[{"between": [end, "s"]} for end in ("a:eth1", "b:eth1", "c")]), []),
    (acting.changed(acting.LINKED, links__0={"between": ["a", "b"], "name": "l", "rate": "unlimited", "queue": {"packets": 9}},
                    events=[{"at": "500 ms", "link_change": "l", "rate": "1 Mbit"}]), ["--stop-time", "100 ms"]),
]


def test_resolved_experiments_load_again(belljar, files):
    """What `--show-config` prints, and each results folder has, is an experiment that loads, and that is printed the same."""
    cases = [(group.pair(key)[1], []) for group in acting.GROUPS if not group.slow for key in group.values] + RESOLVED

    def wrong(number):
        experiment, arguments = cases[number]
        source, again = files / f"source{number}.yaml", files / f"resolved{number}.yaml"
        source.write_text(yaml.safe_dump(experiment))
        shown = execute([belljar, "run", source, "--show-config", *arguments])
        again.write_text(shown.out)
        second = execute([belljar, "run", again, "--show-config"])
        if (shown.status, second.status) != (0, 0) or shown.out != second.out:
            return f"{shown.err}{second.err}{source.read_text()}"
        return None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [text for text in pool.map(wrong, range(len(cases))) if text]
    assert not found, "\n".join(found[:5])
