#!/usr/bin/env python3
"""Start-up time and memory per host: N hosts with one small sleeping process each, against one host. Memory is what
all processes of the run have of their own: what they share with others, such as programs' text, is not counted."""

import argparse

from common import BUILT, compile_c, remove, run_experiment, save, spread


# Removed at the end: for some seconds after many files were removed, ext4 takes long to make new ones.
FOLDERS = []


def run(program, hosts, cells):
    lines = "\n".join(
        f"  host{i:06}: {{network_node_id: 0, processes: [{{path: {program}, expected_final_state: running}}]}}"
        for i in range(hosts)
    )
    results, usage = run_experiment(
        f"general: {{stop_time: 1 s}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts:\n{lines}\n",
        *(["--cells", cells] if cells > 1 else []),
        private=True,
    )
    started = len(list(results.glob("hosts/*/sleeper*.stdout")))
    FOLDERS.append(results)
    assert started == hosts, f"{started} of {hosts} processes started"
    return usage


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cells", type=int, default=1, help="processes that the hosts are spread over")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--json")
    a = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    source = BUILT / "sleeper.c"
    source.write_text("#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")
    program = compile_c(source, "sleeper-static" if a.static else "sleeper", *(["-static-pie"] if a.static else []))
    wall, cpu, memory = [], [], []
    for _ in range(a.repeat):
        one, many = run(program, 1, 1), run(program, a.hosts, a.cells)
        extra = max(1, a.hosts - 1)
        wall.append((many.wall - one.wall) / extra * 1e6)
        cpu.append((many.cpu - one.cpu) / extra * 1e6)
        memory.append((many.private_kib - one.private_kib) / extra)
        print(f"{a.hosts} hosts: {many.wall:.2f} s, {many.cpu:.2f} s of CPU, {many.private_kib / 1024:.0f} MiB of their own", flush=True)
    for results in FOLDERS:
        remove(results)
    result = {"bench": "hosts", "hosts": a.hosts, "cells": a.cells, "wall_us_per_host": spread(wall), "cpu_us_per_host": spread(cpu),
              "kib_per_host": spread(memory)}
    print(f"per host: {result['wall_us_per_host']['median']:.0f} us, {result['cpu_us_per_host']['median']:.0f} us of CPU, "
          f"{result['kib_per_host']['median']:.0f} KiB")
    save("hosts", result, a.json)


if __name__ == "__main__":
    main()
