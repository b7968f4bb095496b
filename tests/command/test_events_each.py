"""Each kind of event, in the words of the experiment file and in those of the Python package, which must be the same; and
what it does to a host that asks two others ten times a second for their clocks."""

import json
import sys

import pytest
import yaml
from conftest import ROOT, experiment, graph

sys.path.insert(0, str(ROOT / "python"))
from belljar import Experiment, one_of  # noqa: E402

ASKER = r"""
import json, select, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peers = {socket.gethostbyname(n): n for n in ("b", "c")}
begin, seen = time.monotonic(), []
for k in range(30):
    for address in peers:
        s.sendto(f"{k} {time.monotonic()}".encode().ljust(972), (address, 9))
    while (left := begin + (k + 1) / 10 - time.monotonic()) > 0:
        if select.select([s], [], [], left)[0]:
            data, (address, _) = s.recvfrom(2000)
            number, sent, clock = data.split()
            now = time.monotonic()
            seen.append([int(number), peers[address], round((now - float(sent)) * 1000, 2), float(clock) - time.time()])
print(json.dumps(seen))
"""
ECHO = r"""
import os, pathlib, signal, socket, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("signalled", flush=True))
kept, volatile = pathlib.Path("/var/lib/here"), pathlib.Path("/run/here")
print("starts at", round(time.monotonic() - 3600, 1), kept.exists(), volatile.exists(), flush=True)
for path in (kept, volatile): path.write_text("x")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9))
while True:
    data, source = s.recvfrom(2000)
    s.sendto(data.rstrip() + f" {time.time()}".encode(), source)
"""
EXTRA = r"""
import socket, sys, time
try:
    print("found", socket.gethostbyname("only.in.dns"))
except OSError as error:
    print("not found")
"""

# At half past the hundredth the asker is silent: 0.05 s are over before it begins.
WAY = {"b": 20, "c": 40}


class Seen:
    def __init__(self, done):
        self.done = done
        rows = json.loads(done.text("a", "python3"))
        self.trips = {peer: {k: trip for k, name, trip, _ in rows if name == peer} for peer in "bc"}
        self.clocks = {peer: {k: clock for k, name, _, clock in rows if name == peer} for peer in "bc"}

    def missing(self, peer):
        """From which to which question nothing has come back, `None` if all has."""
        gone = sorted(set(range(30)) - set(self.trips[peer]))
        assert gone == list(range(gone[0], gone[-1] + 1)) if gone else True, gone
        return (gone[0], gone[-1]) if gone else None

    def said(self, host):
        return "".join(f.read_text() for f in self.done.streams(host, "python3")).splitlines()

    def changed(self, peer, more):
        """From which to which question the way took so many milliseconds more (rounded)."""
        late = sorted(k for k, trip in self.trips[peer].items() if abs(trip - WAY[peer] - more) < 1)
        return (late[0], late[-1], len(late)) if late else None


def both_down(seen):
    assert seen.missing("b") == (10, 19) and seen.missing("c") is None


def from_one_on(seen):
    assert seen.missing("b") == (10, 29)


def detour(seen):
    # 0 to 1 by way of 2: 30 and 10 ms instead of 10.
    assert seen.changed("b", 60) == (10, 19, 10) and seen.changed("c", 20) == (10, 19, 10)


def slower(seen):
    # The last answer leaves when all is as before.
    assert seen.changed("b", 80) == (10, 18, 9) and seen.changed("b", 40) == (19, 19, 1)
    assert seen.changed("c", 0) == (0, 29, 30)


def one_way_lossy(seen):
    assert seen.missing("b") == (10, 19), "questions arrive, answers don't"


def jittery(seen):
    trips = [seen.trips["b"][k] for k in range(10, 20)]
    assert len(set(trips)) > 5 and all(10 <= trip <= 31 for trip in trips), trips


def apart(seen):
    assert seen.missing("b") == (10, 19) and seen.missing("c") is None


def alone(seen):
    assert seen.missing("b") == seen.missing("c") == (10, 19)


def either(seen):
    assert sorted([str(seen.missing("b")), str(seen.missing("c"))]) in (["(10, 19)", "None"], ["(10, 19)", "(10, 19)"])


def narrow(seen):
    # 1,000 bytes take 40 ms at 200 kbit/s; two of them leave one after the other.
    assert seen.changed("b", 40)[:2] == (10, 19) and seen.changed("c", 80)[:2] == (10, 19)


def crashed(kept):
    def check(seen):
        assert seen.missing("b") == (10, 19) and seen.missing("c") is None
        assert seen.said("b") == ["starts at 0.0 False False", f"starts at 0.0 {kept} False"], seen.said("b")

    return check


def restarted(seen):
    assert seen.missing("b") == (10, 14) and seen.missing("c") == (10, 14)


def started(seen):
    assert seen.said("c")[1:] == ["found 10.9.9.9"]


def unstarted(seen):
    assert len(seen.said("c")) == 1


def killed(seen):
    assert seen.missing("b") == (10, 19) and seen.missing("c") is None
    # The host stays: its files in memory do too, and its clock goes on.
    assert seen.said("b") == ["starts at 0.0 False False", "starts at 2.0 True True"], seen.said("b")


def stood(seen):
    assert seen.missing("b") is None and seen.missing("c") is None
    # Questions arrive meanwhile; all are answered at 1.45 s.
    late = {k: trip for k, trip in seen.trips["b"].items() if trip > 21}
    assert late and max(late.values()) - min(late.values()) == pytest.approx(100 * (len(late) - 1), abs=2), late


def slowed(seen):
    assert seen.missing("b") is None and seen.missing("c") is None
    late = {k: trip for k, trip in seen.trips["b"].items() if trip > 21}
    assert len(late) >= 8 and max(late.values()) > 800, late


def signalled(seen):
    assert seen.said("b")[1:] == ["signalled"] and len(seen.said("c")) == 1


def stepped(seen):
    for k, ahead in seen.clocks["b"].items():
        assert ahead == pytest.approx((-5 if k >= 10 else 0) - 0.01, abs=0.001), k
    assert abs(seen.clocks["c"][29] + 0.02) < 0.001


def drifting(seen):
    gained = {k: ahead + 0.01 for k, ahead in seen.clocks["b"].items()}
    # A tenth faster for a second.
    assert gained[9] == pytest.approx(0, abs=0.002) and gained[20] == pytest.approx(0.1, abs=0.002)
    assert gained[29] == pytest.approx(0.1, abs=0.002), "right again, but ahead"


def nameless(seen):
    assert seen.said("c")[1:] == ["not found"]


# What happens, as the file says it and as Python does, and what comes of it.
EACH = {
    "link_down": ("- {at: 1 s, link_down: [a, b], for: 1 s}",
                  lambda e: e.link_down("a", "b", at="1 s", lasting="1 s"), both_down),
    "link_down of an edge": ("- {at: 1 s, link_down: {edge: [0, 1]}, for: 1 s}",
                             lambda e: e.link_down(e.network.between("A", "B"), at="1 s", lasting="1 s"), detour),
    "link_up": ("- {at: 1 s, link_down: [a, all]}\n- {at: 1.01 s, link_up: [a, c]}\n- {at: 2 s, link_up: [a, b]}",
                lambda e: e.link_down("a", "all", at="1 s").link_up("a", "c", at="1.01 s").link_up("a", "b", at="2 s"), both_down),
    "link_change": ("- {at: 1 s, link_change: [a, b], latency: 50 ms, for: 1 s}",
                    lambda e: e.link_change("a", "b", at="1 s", lasting="1 s", latency="50 ms"), slower),
    "link_change to loss": ("- {at: 1 s, link_change: {from: b, to: a}, packet_loss: 1.0, for: 1 s}",
                            lambda e: e.link_change({"from": "b", "to": "a"}, loss=1.0, at="1 s", lasting="1 s"), one_way_lossy),
    "link_change to jitter": ("- {at: 1 s, link_change: [a, b], jitter: 5 ms, for: 1 s}",
                              lambda e: e.link_change("a", "b", jitter="5 ms", at="1 s", lasting="1 s"), jittery),
    "link_reset": ("- {at: 1 s, link_change: [a, b], latency: 50 ms}\n- {at: 2 s, link_reset: [a, b]}",
                   lambda e: e.link_change("a", "b", latency="50 ms", at="1 s").link_reset("a", "b", at="2 s"), slower),
    "partition": ("- {at: 1 s, partition: [[a], [b]], for: 1 s}",
                  lambda e: e.partition("a", ["b"], at="1 s", lasting="1 s"), apart),
    "partition of one": ("- {at: 1 s, partition: [[a]], for: 1 s}",
                         lambda e: e.partition("a", at="1 s", lasting="1 s"), alone),
    "partition drawn": ("- {at: 1 s, partition: [{one_of: ['*']}], for: 1 s}",
                        lambda e: e.partition(one_of("*"), at="1 s", lasting="1 s"), either),
    "heal": ("- {at: 1 s, partition: [[a], [b]], name: split}\n- {at: 1.5 s, partition: [[b], [a, c]], name: other}\n"
             "- {at: 1.7 s, heal: split}\n- {at: 2 s, heal: other}",
             lambda e: e.partition("a", "b", at="1 s", name="split").partition("b", ["a", "c"], at="1.5 s", name="other")
             .heal("split", at="1.7 s").heal("other", at="2 s"), apart),
    "heal all": ("- {at: 1 s, partition: [[a], [b]]}\n- {at: 1 s, partition: [[b], [a, c]]}\n- {at: 2 s, heal: all}",
                 lambda e: e.partition("a", "b", at="1 s").partition("b", ["a", "c"], at="1 s").heal(at="2 s"), apart),
    "bandwidth": ("- {at: 1 s, bandwidth: a, up: 200 Kbit, for: 1 s}",
                  lambda e: e.bandwidth("a", up="200 Kbit", at="1 s", lasting="1 s"), narrow),
    "crash": ("- {at: 1 s, crash: b, for: 1 s}", lambda e: e.crash("b", at="1 s", lasting="1 s"), crashed(True)),
    "crash that loses files": ("- {at: 1 s, crash: b, files: lost, for: 1 s}",
                               lambda e: e.crash("b", files="lost", at="1 s", lasting="1 s"), crashed(False)),
    "crash for good": ("- {at: 1 s, crash: [b]}", lambda e: e.crash(["b"], at="1 s"), from_one_on),
    "restart": ("- {at: 1 s, crash: [b, c]}\n- {at: 1.5 s, restart: all}",
                lambda e: e.crash(["b", "c"], at="1 s").restart("all", at="1.5 s"), restarted),
    "start": ("- {at: 1 s, start: 1, hosts: c}", lambda e: e.start(1, on="c", at="1 s"), started),
    "start of what runs": ("- {at: 1 s, start: 0, hosts: c}", lambda e: e.start(0, on="c", at="1 s"), unstarted),
    "pause of a process": ("- {at: 0.95 s, pause: b, process: python3, for: 500 ms}",
                           lambda e: e.pause("b", process="python3", at="0.95 s", lasting="500 ms"), stood),
    "resume of a process": ("- {at: 0.95 s, pause: b, process: 0}\n- {at: 1.45 s, resume: b, process: '*'}",
                            lambda e: e.pause("b", process=0, at="0.95 s").resume("b", process="*", at="1.45 s"), stood),
    "cpu": ("- {at: 1 s, cpu: b, share: 0.05, period: 1 s, for: 1 s}",
            lambda e: e.slow_cpu("b", 0.05, period="1 s", at="1 s", lasting="1 s"), slowed),
    "memory": ("- {at: 1 s, memory: b, limit: 1 MiB, for: 1 s}",
               lambda e: e.limit_memory("b", "1 MiB", at="1 s", lasting="1 s"), killed),
    "kill": ("- {at: 1 s, kill: 'python*', hosts: b, for: 1 s}",
             lambda e: e.kill("python*", on="b", at="1 s", lasting="1 s"), killed),
    "signal": ("- {at: 1 s, signal: SIGUSR1, hosts: b, process: python3}",
               lambda e: e.signal("SIGUSR1", on="b", process="python3", at="1 s"), signalled),
    "clock step": ("- {at: 1 s, clock: b, step: -5 s}", lambda e: e.clock("b", step="-5 s", at="1 s"), stepped),
    "clock drift": ("- {at: 1 s, clock: b, drift_ppm: 100000, for: 1 s}",
                    lambda e: e.clock("b", drift_ppm=100000, at="1 s", lasting="1 s"), drifting),
    "dns_down": ("- {at: 1 s, dns_down: c}\n- {at: 1 s, start: 1, hosts: c}",
                 lambda e: e.dns_down("c", at="1 s").start(1, on="c", at="1 s"), nameless),
    "dns_answers": ("- {at: 1 s, dns_answers: c, names: only.*, answer: NXDOMAIN}\n- {at: 1 s, start: 1, hosts: c}",
                    lambda e: e.dns_answers("c", "NXDOMAIN", names="only.*", at="1 s").start(1, on="c", at="1 s"), nameless),
    "dns_up": ("- {at: 0.5 s, dns_down: all}\n- {at: 0.9 s, dns_up: all}\n- {at: 1 s, start: 1, hosts: c}",
               lambda e: e.dns_down(at="0.5 s").dns_up(at="0.9 s").start(1, on="c", at="1 s"), started),
}


def world():
    def program(code, **more):
        return {"path": "/usr/bin/python3", "args": ["-c", code], "expected_final_state": "any", **more}

    text = experiment(
        {"a": (0, [program(ASKER, start_time="50 ms", expected_final_state={"exited": 0})]), "b": (1, [program(ECHO)]),
         "c": (2, [program(ECHO), program(EXTRA, start_time="never")])},
        graph((0, 1, "10 ms"), (1, 2, "10 ms"), (0, 2, "30 ms")), stop="5 s")
    text["belljar"] = {"dns": {"records": ["only.in.dns A 10.9.9.9"]}}
    text["hosts"]["c"]["processes"][1]["environment"] = {"RES_OPTIONS": "timeout:1 attempts:1"}
    return text


@pytest.mark.parametrize("name", EACH)
def test_event(run_experiment, name):
    written, said, check = EACH[name]
    events = yaml.safe_load(written)
    e = Experiment(stop_time="5 s")
    e.network.edge("A", "B", latency="10 ms")
    said(e)
    assert e.events == events, "Python says what the file says"
    check(Seen(run_experiment({**world(), "events": events})))


def test_schedules_are_drawn_from_the_seed(run_experiment):
    e = Experiment(stop_time="5 s")
    e.crash(one_of("b", "c"), every="200 ms", between=["0.5 s", "2.5 s"], probability=0.5, lasting="100 ms", name="monkey")
    written = "- {every: 200 ms, between: [0.5 s, 2.5 s], probability: 0.5, crash: {one_of: [b, c]}, for: 100 ms, name: monkey}"
    assert e.events == yaml.safe_load(written)

    def missing(seed, events):
        seen = Seen(run_experiment({**world(), "events": events}, seed=seed, name=f"seed{seed}-{len(events)}"))
        return {peer: sorted(set(range(30)) - set(trips)) for peer, trips in seen.trips.items()}

    first, other = missing(1, e.events), missing(2, e.events)
    assert first != other and all(first.values()) and all(other.values()), "each host is hit"
    # Other events do not disturb what this one draws.
    more = [{"at": "4 s", "clock": "all", "step": "1 s"}, {"every": "1 s", "probability": 0.5, "signal": "SIGUSR1", "hosts": "b"}]
    assert missing(1, [*more, *e.events]) == first


def test_mistakes_in_python():
    e = Experiment(stop_time="5 s")
    with pytest.raises(ValueError, match="crash: give either at=, or every="):
        e.crash("a")
    with pytest.raises(ValueError, match="a link has two ends, not 3"):
        e.link_down("a", "b", "c", at="1 s")
    e.network.node("A")
    with pytest.raises(ValueError, match="no place 'C'"):
        e.network.between("A", "C")
