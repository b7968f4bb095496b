"""Events `pause` and `resume`: what a host that stands still sees when it goes on, the same however the run is computed."""

import json

import pytest
import yaml
from conftest import contents_of, execute
from sameness import assert_same

# Prints the time of each turn, in tenths of a second.
TICKS = "while :; do date +%s.%1N | cut -c 6-; sleep .1; done"
PINGS = ["-c", "ping -c 30 -i .1 -W 5 a | sed -n 's/.*icmp_seq=\\([0-9]*\\).*time=\\([0-9]*\\).*/\\1 \\2/p'"]
# The monotonic time at which an interval timer of 100 ms fires, and how often it has.
TIMER = """import os, struct, time, ctypes
libc = ctypes.CDLL(None)
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, struct.pack('qqqq', 0, 100_000_000, 0, 100_000_000), None)
fired = 0
while fired < 30:
    fired += struct.unpack('Q', os.read(timer, 8))[0]
    print(f'{time.monotonic():.2f} {fired}', flush=True)
"""


def network(links):
    host = {"processes": []} if links else {"network_node_id": 0, "processes": []}
    experiment = {"general": {"stop_time": "4 s"}, "hosts": {name: {**host} for name in "abc"}}
    if links:
        experiment["switches"] = {"s": {}}
        experiment["links"] = [{"between": [name, "s"], "rate": "100 Mbit", "latency": "1 ms"} for name in "abc"]
    else:
        experiment["network"] = {"graph": {"type": "1_gbit_switch"}}
    return experiment


def paused(links, events):
    experiment = network(links)
    process = {"expected_final_state": "any"}
    experiment["hosts"]["a"]["processes"] = [{"path": "sh", "args": ["-c", TICKS], **process}, {"path": "python3", "args": ["-c", TIMER], **process}]
    experiment["hosts"]["b"]["processes"] = [{"path": "sh", "args": PINGS, **process}]
    experiment["events"] = events
    return experiment


PAUSE = [{"at": "1050 ms", "pause": "a", "for": "1 s"}]
WAYS = pytest.mark.parametrize("links", [False, True], ids=["graph", "links"])


def run(belljar, workdir, experiment, *options):
    (workdir / "exp.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    return execute([belljar, "run", workdir / "exp.yaml", "-o", workdir / "data", "--no-progress", *options])


def lines(workdir, host, program):
    (file,) = (workdir / "data/hosts" / host).glob(f"{program}.*.stdout")
    return [tuple(map(float, line.split())) for line in file.read_text().splitlines()]


@WAYS
def test_nothing_happens_in_a_pause_and_everything_after_it(belljar, workdir, links):
    done = run(belljar, workdir, paused(links, PAUSE))
    assert done.status == 0, done
    ticks = [round(time % 100, 1) for (time,) in lines(workdir, "a", "sh")]
    assert not [tick for tick in ticks if 1.1 < tick < 2.0], ticks
    assert 1.0 in ticks and any(2.0 <= tick <= 2.2 for tick in ticks), ticks
    # Ten periods of the timer are over when it is looked at again; the clock has gone on.
    fired = lines(workdir, "a", "python3")
    gap = next((one, other) for one, other in zip(fired, fired[1:]) if other[0] - one[0] > .5)
    assert gap[1][1] - gap[0][1] in (9, 10, 11) and 1.04 <= gap[1][0] - gap[0][0] <= 1.06, gap
    # Requests that came in the pause are answered at its end, in their order, and none is lost.
    answers = lines(workdir, "b", "sh")
    assert [number for number, _ in answers] == list(range(1, 31)), answers
    late = [time for _, time in answers if time > 50]
    assert len(late) in (9, 10) and late == sorted(late, reverse=True) and 900 < late[0] <= 1003, answers


@WAYS
@pytest.mark.parametrize("events", [
    [{"at": "1 s", "pause": "a", "for": "1 s"}],
    # One pause after the other, without an instant between.
    [{"at": "1 s", "pause": "a", "for": "500 ms"}, {"at": "1500 ms", "pause": "a", "for": "500 ms"}],
], ids=["once", "twice"])
def test_queued_frames_leave_at_the_rate_after_a_pause(belljar, workdir, links, events):
    """A host whose slow interface always transmits: the frame under way leaves, the others when the host goes on, and none is lost."""
    experiment = network(links)
    if links:
        experiment["links"][0]["rate"] = "1 Mbit"
    else:
        experiment["hosts"]["a"]["bandwidth_up"] = "1 Mbit"
    flood = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfor n in range(400):\n s.sendto(bytes(1200), ('b', 9)); time.sleep(.005)"
    watch = ("import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 9)); s.settimeout(2)\n"
             "for n in range(400): s.recv(2000); print(time.time() % 100)")
    experiment["hosts"]["a"]["processes"] = [{"path": "python3", "args": ["-c", flood], "expected_final_state": "any"}]
    experiment["hosts"]["b"]["processes"] = [{"path": "python3", "args": ["-c", watch], "expected_final_state": "any"}]
    experiment["general"]["stop_time"] = "8 s"
    experiment["events"] = events
    done = run(belljar, workdir, experiment)
    assert done.status == 0, done
    arrived = [time for (time,) in lines(workdir, "b", "python3")]
    # At a rate of 1 Mbit a frame takes 10 ms, and 2 ms on the links. Between two pauses the host starts to transmit one.
    pauses = [(1, 2)] if len(events) == 1 else [(1, 1.5), (1.5, 2)]
    assert len(arrived) == 400 and not [time for time in arrived if any(start + 0.013 < time < end for start, end in pauses)], arrived[80:120]
    assert all(later - earlier > 0.0095 for earlier, later in zip(arrived, arrived[1:])), arrived


def test_a_crash_ends_a_pause(belljar, workdir):
    events = [{"at": "1 s", "pause": "a"}, {"at": "1500 ms", "crash": "a", "for": "500 ms"}, {"at": "3 s", "resume": "a"}]
    done = run(belljar, workdir, paused(False, events))
    assert done.status == 0, done
    before, after = sorted((workdir / "data/hosts/a").glob("sh.*.stdout"), key=lambda file: int(file.name.split(".")[1]))
    ticks = [float(line) % 100 for file in (before, after) for line in file.read_text().splitlines()]
    assert not [tick for tick in ticks if 1.1 < tick < 2.0] and len(after.read_text().splitlines()) > 15, ticks


def test_other_events_wait_for_the_end_of_a_pause(belljar, workdir):
    events = [{"at": "1 s", "pause": "a", "for": "1 s"}, {"at": "1200 ms", "signal": "SIGKILL", "hosts": "a", "process": "sh"},
              {"at": "1300 ms", "clock": "a", "step": "1 h"}]
    done = run(belljar, workdir, paused(False, events))
    statistics = json.loads((workdir / "data/sim-stats.json").read_text())
    shell = statistics["hosts"]["a"]["processes"][0]
    assert shell["state"] == "signaled SIGKILL" and 2.0 <= shell["ended"] < 2.01, (shell, done)


def test_a_pause_to_the_end_holds_what_arrives(belljar, workdir):
    """The accounts of packets balance, which every run checks."""
    done = run(belljar, workdir, paused(True, [{"at": "1 s", "pause": "a"}]))
    statistics = json.loads((workdir / "data/sim-stats.json").read_text())
    assert done.status == 0 and not [text for text in statistics["warnings"] if "account" in text], statistics["warnings"]


@WAYS
def test_pauses_do_not_depend_on_how_the_run_is_computed(belljar, workdir, links):
    events = [{"every": "300 ms", "probability": 0.6, "pause": {"one_of": "all"}, "for": "200 ms"}, {"at": "2 s", "crash": "c", "for": "100 ms"}]
    experiment = paused(links, events)
    experiment["hosts"]["c"]["processes"] = experiment["hosts"]["b"]["processes"]
    experiment["belljar"] = {"metrics": {"interval": "100 ms"}}
    (workdir / "exp.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    ways = [("--parallelism", "1"), ("--parallelism", "2"), ("--parallelism", "3"), ("--cells", "2")]
    assert_same(belljar, workdir, workdir / "exp.yaml", *(("--pcap", *way) for way in ways))


def test_pauses_do_not_depend_on_placement(belljar, workdir):
    found = {}
    for placement in ("near", "far"):
        folder = workdir / placement
        folder.mkdir()
        done = run(belljar, folder, paused(False, PAUSE), "--placement", placement)
        assert done.status == 0, done
        every = contents_of(folder / "data")
        found[placement] = {name: every[name] for name in every if str(name).startswith("hosts")}
    assert found["near"] == found["far"]


def test_whole_machines_and_emulated_hosts_do_not_pause(belljar, workdir):
    experiment = paused(False, PAUSE)
    (workdir / "exp.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    done = execute([belljar, "validate", "--for", "emulate", workdir / "exp.yaml"])
    assert done.status == 2 and "write signal: SIGSTOP" in done.err, done
