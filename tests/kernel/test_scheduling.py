"""`scheduling: random`: the seed decides the order of a host's threads, at system calls."""

import collections

import pytest
from compiling import compile_newer
from conftest import TARGET

# Two processes increment a number in a file, without a lock: an increment is lost where one reads between the other's read and write.
RACE = """
import os
for n in range(20):
    with open('number') as file:
        number = int(file.read())
    with open('next', 'w') as file:
        file.write(str(number + 1))
    os.rename('next', 'number')
"""
# Waiters of a condition variable, in the order in which they are woken.
WAITERS = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static void *wait_for_it(void *number) {
    pthread_mutex_lock(&mutex);
    pthread_cond_wait(&condition, &mutex);
    printf("%ld", (long)number);
    pthread_mutex_unlock(&mutex);
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    for (long n = 0; n < 4; n++) {
        pthread_create(&threads[n], NULL, wait_for_it, (void *)n);
        usleep(1000);
    }
    for (int n = 0; n < 4; n++) {
        pthread_mutex_lock(&mutex);
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
        usleep(1000);
    }
    for (int n = 0; n < 4; n++) { pthread_join(threads[n], NULL); }
    puts("");
    return 0;
}
"""


def experiment(scheduling, processes):
    host = {"network_node_id": 0, "host_options": {"scheduling": scheduling}, "processes": processes}
    return {"general": {"stop_time": "20 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {"a": host}}


@pytest.mark.parametrize("scheduling", ["fifo", "random"])
def test_a_race_is_lost_under_some_seeds(run_experiment, scheduling):
    start = "echo 0 > number"
    racers = [{"path": "python3", "args": ["-c", RACE], "start_time": "1 s", "expected_final_state": "any"}] * 2
    processes = [{"path": "sh", "args": ["-c", start]}, *racers, {"path": "cat", "args": ["number"], "start_time": "10 s"}]
    found = collections.Counter()
    for seed in range(1, 7):
        results = run_experiment(experiment(scheduling, processes), seed=seed)
        found[results.text("a", "cat").strip()] += 1
    if scheduling == "fifo":
        assert len(found) == 1, "seeds make no difference"
    else:
        assert len(found) > 2, found


def test_waiters_are_woken_in_any_order(run_experiment, workdir):
    source, program = workdir / "waiters.c", TARGET / "test-work" / "waiters"
    source.write_text(WAITERS)
    compile_newer(program, ["gcc", "-O1", "-pthread"], source)
    orders = set()
    for seed in range(1, 7):
        results = run_experiment(experiment("random", [{"path": str(program)}]), seed=seed)
        orders.add(results.text("a").strip())
    assert len(orders) > 2 and all(sorted(order) == list("0123") for order in orders), orders
    fifo = run_experiment(experiment("fifo", [{"path": str(program)}]))
    assert fifo.text("a").strip() == "0123"
