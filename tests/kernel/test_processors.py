"""Processors that a host shows: `cpu_count`, the files that describe them, and the programs that read those."""

import json
import re
import shutil

import pytest
from conftest import contents_of, execute
from test_guests import GUESTS, build


def world(processes, stop="10 s", **host):
    return {"general": {"stop_time": stop}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {"a": {"network_node_id": 0, "processes": processes, **host}}}


def shell(text):
    return {"path": "sh", "args": ["-c", text]}


@pytest.mark.parametrize("count", [1, 2, 33, 128])
def test_programs_see_the_number_of_processors(run_experiment, count):
    ask = "nproc; nproc --all; getconf _NPROCESSORS_ONLN; getconf _NPROCESSORS_CONF; grep -c ^processor /proc/cpuinfo; grep -c ^cpu[0-9] /proc/stat; ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l"
    done = run_experiment(world([shell(ask)], cpu_count=count))
    assert done.text("a").split() == [str(count)] * 7
    assert run_experiment(world([shell("nproc")])).text("a") == "1\n"


def test_the_guest_program_with_several_processors(run_experiment):
    done = run_experiment(world([{"path": str(build(GUESTS / "topology.c", "dynamic"))}], cpu_count=5))
    verdicts = re.findall(r"^(ok|not ok) \d+ - \w+$", done.text("a"), re.M)
    assert verdicts == ["ok"] * 5, done.text("a")


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu is not installed")
@pytest.mark.parametrize("count", [1, 4])
def test_lscpu_in_all_its_forms(run_experiment, count):
    forms = ["", "-e", "-p", "-C", "-J", "-B", "-x", "-e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE", "-C=NAME,ALL-SIZE,SETS -J"]
    done = run_experiment(world([shell("\n".join(f"echo '= {form}'; lscpu {form} || exit 1" for form in forms))], cpu_count=count))
    said = dict(part.split("\n", 1) for part in done.text("a").removeprefix("= ").split("\n= "))
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in said[""].splitlines())}
    assert fields["CPU(s)"] == fields["Core(s) per socket"] == str(count) and fields["Socket(s)"] == fields["Thread(s) per core"] == "1"
    assert fields["NUMA node(s)"] == "1" and fields["L3 cache"].startswith("8 MiB")
    assert len(said["-e"].splitlines()) == 1 + count and len(said["-C"].splitlines()) == 5
    assert [line for line in said["-p"].splitlines() if line[0] != "#"] == [f"{n},{n},0,0,,{n},{n},{n},0" for n in range(count)]
    assert json.loads(said["-J"])["lscpu"] and len(json.loads(said["-C=NAME,ALL-SIZE,SETS -J"])["caches"]) == 4


@pytest.mark.skipif(shutil.which("hwloc-calc") is None, reason="hwloc is not installed")
def test_hwloc_finds_cores_caches_and_a_node(run_experiment):
    counts = " ; ".join(f"hwloc-calc --number-of {kind} all" for kind in ("package", "core", "pu", "numanode", "l3", "l2"))
    done = run_experiment(world([shell(f"{counts}; hwloc-bind core:2 -- nproc; hwloc-bind core:2 -- taskset -pc $$")], cpu_count=4))
    lines = done.text("a").splitlines()
    assert lines[:7] == ["1", "4", "4", "1", "1", "4", "1"], done.text("a")
    assert [file.read_text() for file in done.streams("a", kind="stderr")] == [""]


def test_rdpid_rdtscp_and_getcpu_agree(run_experiment, workdir):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (workdir / "which.c").write_text("""#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <x86intrin.h>
int main(void) {
    unsigned aux; __rdtscp(&aux);
    printf("%d %u", sched_getcpu(), aux);
    unsigned long id; __asm__ volatile("rdpid %0" : "=r"(id));
    printf(" %lu\\n", id);
}
""")
    assert execute(["gcc", "-O1", "-o", workdir / "which", workdir / "which.c"]).status == 0
    for placement in ("near", "far"):
        done = run_experiment({**world([shell(f"{workdir}/which; exec taskset -c 2 {workdir}/which")], cpu_count=4), "belljar": {"placement": placement}})
        assert done.text("a") == "0 0 0\n2 2 2\n", placement


def test_results_depend_on_the_number_only_as_programs_do(belljar, workdir):
    """The same bytes near and far and for every number of workers, with threads that are bound to processors."""
    bound = "import os, threading, time\n" \
        "def work(n):\n    os.sched_setaffinity(0, {n % os.cpu_count()}); time.sleep(0.01 * n); print(n, os.sched_getaffinity(0), time.monotonic_ns())\n" \
        "all = [threading.Thread(target=work, args=(n,)) for n in range(8)]\n" \
        "for t in all: t.start()\nfor t in all: t.join()\n"
    results = []
    for number, (placement, workers) in enumerate([("near", 1), ("far", 2)]):
        file, data = workdir / f"{number}.yaml", workdir / f"{number}.data"
        host = {"network_node_id": 0, "cpu_count": 3, "processes": [{"path": "/usr/bin/python3", "args": ["-c", bound]}]}
        file.write_text(json.dumps({**world([]), "hosts": {f"h{n}": host for n in range(3)}, "belljar": {"placement": placement}}))
        done = execute([belljar, "run", file, "-o", data, "--parallelism", str(workers)])
        assert done.status == 0, str(done)
        results.append({name: content for name, content in contents_of(data).items() if name.startswith("hosts/")})
    assert results[0] == results[1]
    said = next(content for name, content in results[0].items() if name.endswith(".stdout")).decode()
    assert [line.split()[1] for line in said.splitlines()] == [f"{{{n % 3}}}" for n in range(8)]
