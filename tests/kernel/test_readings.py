"""Clock readings around computation: equal by default, and apart where a reading takes time."""

import shutil
import subprocess

import pytest
import yaml
from conftest import contents_of, execute

# Counts the intervals around computation that are empty, by each clock that programs measure with.
INTERVALS = r"""
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <x86intrin.h>

static volatile unsigned work = 1;
static void compute(void) { for (int k = 0; k < 20000; k++) work = work * 3 + k; }
static long long clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static long long of_day(void) {
    struct timeval t;
    gettimeofday(&t, NULL);
    return t.tv_sec * 1000000LL + t.tv_usec;
}

int main(void) {
    int empty[4] = {0};
    for (int i = 0; i < 100; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        long long then[4] = {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME), of_day(), __rdtsc()};
        compute();
        long long now[4] = {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME), of_day(), __rdtsc()};
        for (int k = 0; k < 4; k++)
            empty[k] += now[k] == then[k];
    }
    printf("%d %d %d %d\n", empty[0], empty[1], empty[2], empty[3]);
}
"""


@pytest.fixture
def intervals(workdir):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (workdir / "intervals.c").write_text(INTERVALS)
    subprocess.run(["gcc", "-O1", "-o", workdir / "intervals", workdir / "intervals.c"], check=True)
    return workdir / "intervals"


def host(program, **more):
    return {"network_node_id": 0, "processes": [{"path": str(program)}], **more}


def world(hosts, **more):
    return {"general": {"stop_time": "5 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts, **more}


def test_two_readings_differ_where_a_reading_takes_time(run_experiment, intervals):
    assert execute([intervals]).out == "0 0 0 0\n", "as on a machine"
    hosts = {
        "free": host(intervals), "slow": host(intervals, clock={"reading": "1 us"}), "modest": host(intervals, clock={"reading": "1 us", "drift_ppm": -50}),
        "working": host(intervals, cpu={"syscall": "1 us"}), "both": host(intervals, cpu={"syscall": "1 us"}, clock={"reading": "1 us"}),
    }
    done = run_experiment(world(hosts))
    said = {name: done.text(name).strip() for name in hosts}
    # The counter that RDTSC reads increases by itself. A call of a host with a processor is no reading.
    assert said == {"free": "100 100 100 0", "working": "100 100 100 0", "slow": "0 0 0 0", "modest": "0 0 0 0", "both": "0 0 0 0"}


def test_the_default_of_all_hosts_and_the_strongest_of_one(run_experiment, intervals):
    hosts = {"a": host(intervals), "b": host(intervals, clock={"reading": 0}), "c": host(intervals, clock={"offset": "1 s"})}
    done = run_experiment(world(hosts, host_option_defaults={"clock": {"reading": "1 us"}}))
    assert [done.text(name).strip() for name in hosts] == ["0 0 0 0", "100 100 100 0", "0 0 0 0"]


def test_readings_cost_the_same_near_and_far(belljar, intervals, workdir):
    results = []
    for placement in ("near", "far"):
        file, data = workdir / f"{placement}.yaml", workdir / f"{placement}.data"
        hosts = {"a": host(intervals, clock={"reading": "1.5 us"})}
        file.write_text(yaml.safe_dump(world(hosts, belljar={"placement": placement}, experimental={"strace_logging_mode": "standard"})))
        done = execute([belljar, "run", file, "-o", data])
        assert done.status == 0, str(done)
        results.append({name: content for name, content in contents_of(data).items() if name.startswith("hosts/")})
    assert results[0] == results[1]
    assert any(name.endswith(".strace") for name in results[0])
