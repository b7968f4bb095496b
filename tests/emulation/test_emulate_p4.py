"""P4 switches in emulations: controllers on a management interface, and events that change a switch at a time."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import test_emulate
from conftest import as_expected, execute, measured, timely
from dilating import emulates, program  # noqa: F401
from test_emulate import ROOT, in_time, output, statistics, verdict

pytestmark = [pytest.mark.waits, emulates]
P4 = ROOT / "tests" / "p4"
# The python3 that has the packages.
PYTHON = ["--set", f'hosts.controller.processes.0.environment={{"PATH": "{Path(sys.executable).parent}:/usr/bin:/bin"}}']
needs_stubs = pytest.mark.skipif(
    execute([sys.executable, "-c", "import grpc, p4.v1.p4runtime_pb2_grpc"]).status != 0,
    reason="no Python packages grpcio and p4runtime: ./test installs them")


def emulate(tmp_path, file, *options, command="emulate"):
    done = subprocess.run([test_emulate.BELLJAR, command, str(file), "-o", str(tmp_path / command), *options],
                          capture_output=True, text=True, timeout=600)
    return done, tmp_path / command


@measured(4)
@needs_stubs
@pytest.mark.needs("ping")
def test_the_controller_of_the_example_runs_in_both_worlds(tmp_path):
    example = ROOT / "examples/p4/controller/controller.yaml"
    said = {}
    for command in ("run", "emulate"):
        done, results = emulate(tmp_path, example, *PYTHON, command=command)
        as_expected(done)
        pings = [file.read_text() for file in sorted((results / "hosts/h1").glob("ping*.stdout"))]
        received = [int(re.search(r"(\d+) received", ping)[1]) for ping in pings]
        # The first packet to the other network is the controller's question.
        timely(len(received) == 2 and received[0] == 3 and received[1] >= 4, pings)
        lines = [line.split(" ", 1)[1] for line in output(results, "controller", "controller.py").splitlines()]
        said[command] = sorted(line for line in lines if line.startswith(("station", "host")))
    # The same stations and hosts are learnt at the same ports.
    timely(said["run"] and said["run"] == said["emulate"], said)


SWITCH = """
general: {{stop_time: {stop}}}
switches: {{s1: {{p4: {program}, management: {{thrift_port: 9091, control_latency: 20 ms}}}}}}
hosts:
  c: {{processes: [{{path: {python}, args: [{client}, s1, "9091"], start_time: 500 ms}}]}}
  a: {{interfaces: {{eth0: {{addresses: [10.9.0.1/24]}}}}, processes: {a}}}
links:
- {{between: [c, "s1:mgmt"], latency: 1 ms}}
- {{between: ["a:eth0", "s1:p1"], latency: 1 ms}}
"""


@measured(4)
@pytest.mark.needs("arping")
def test_thrift_and_a_port_at_which_the_switchs_kernel_is_silent(tmp_path):
    """The address of the management interface is not to be seen at the ports of the program."""
    text = SWITCH.format(stop="8 s", program=P4 / "thrift.p4", python=sys.executable, client=P4 / "thrift_client.py",
                         a="[{path: arping, args: [-c, '2', -w, '3', -I, eth0, s1], expected_final_state: {exited: 1}}]")
    (tmp_path / "exp.yaml").write_text(text)
    done, results = emulate(tmp_path, tmp_path / "exp.yaml", "--until-done")
    as_expected(done)
    assert "Received 0 response" in output(results, "a", "arping")
    simulated, simulation = emulate(tmp_path, tmp_path / "exp.yaml", command="run")
    assert simulated.returncode == 0, simulated.stdout + simulated.stderr
    said = [dict(line.split(" ", 1) for line in output(data, "c", Path(sys.executable).name).splitlines()) for data in (results, simulation)]
    # Times, durations, ages of entries and counts of arping's frames depend on time.
    of_time = ("handles", "entry", "ternary", "counter", "elapsed")
    assert len(said[0]) > 10 and said[0].keys() == said[1].keys()
    assert [word for word in said[0] if said[0][word] != said[1][word] and word not in of_time] == [], said


EVENTS = """
general: {{stop_time: 8 s}}
switches: {{s1: {{p4: {program}}}}}
hosts:
  a: {{interfaces: {{eth0: {{mac: "02:00:00:00:00:01"}}}}, processes: [{{path: ping, args: [-D, -n, -i, '0.2', -c, '20', b], expected_final_state: any}}]}}
  b: {{interfaces: {{eth0: {{mac: "02:00:00:00:00:02"}}}}}}
links:
- {{between: ["a:eth0", "s1:p1"], latency: 1 ms}}
- {{between: ["b:eth0", "s1:p2"], latency: 1 ms}}
events:
- {{at: 2 s, p4: s1, runtime: {runtime}}}
"""


@measured(4)
@pytest.mark.needs("ping")
def test_events_change_a_switch_at_their_times(tmp_path):
    runtime = tmp_path / "runtime.json"
    runtime.write_text((ROOT / "examples/p4-bridge-runtime.json").read_text())
    (tmp_path / "exp.yaml").write_text(EVENTS.format(program=ROOT / "examples/p4-bridge.p4", runtime=runtime))
    done, results = emulate(tmp_path, tmp_path / "exp.yaml")
    as_expected(done)
    answers = re.findall(r"^\[([\d.]+)\].*icmp_seq=(\d+)", output(results, "a", "ping"), re.M)
    # Without entries the program passes nothing.
    timely(answers and 5 <= int(answers[0][1]) <= 20 or not in_time(results), answers)
    assert answers, done.stdout + done.stderr
    # The switch's process accounts for all packets, those that its program dropped before among them.
    counted = statistics(results)
    account = counted["packets"]["s1"]
    assert "s1" not in " ".join(verdict(results)["unaccounted"]), verdict(results)
    assert not [text for text in counted["warnings"] if "does not balance" in text], counted["warnings"]
    assert account["received"] >= account["sent"] >= 2 * len(answers) and sum(account["drops"].values()) > 0, account


@measured(4)
def test_an_event_that_a_switch_refuses_is_a_warning(tmp_path):
    """A controller may have changed the switch meanwhile, so only the switch can refuse the event."""
    runtime = tmp_path / "runtime.json"
    runtime.write_text('{"target": "bmv2", "table_entries": [{"table": "no_such_table", "match": {}, "action_name": "none", "action_params": {}}]}')
    (tmp_path / "exp.yaml").write_text(f"""
general: {{stop_time: 3 s}}
switches: {{s1: {{p4: {ROOT / "examples/p4-bridge.p4"}, management: {{}}}}}}
hosts: {{c: {{processes: [{{path: sleep, args: ["2"]}}]}}, a: {{processes: []}}}}
links: [{{between: [c, "s1:mgmt"]}}, {{between: [a, "s1:p1"]}}]
events: [{{at: 1 s, p4: s1, runtime: {runtime}}}]
""")
    for command in ("run", "emulate"):
        done, results = emulate(tmp_path, tmp_path / "exp.yaml", command=command)
        assert done.returncode == 0, done.stdout + done.stderr
        warnings = [text for text in statistics(results)["warnings"] if text.startswith("switch 's1' at 1.000000 s: ")]
        assert len(warnings) == 1 and "no_such_table" in warnings[0], json.dumps(statistics(results)["warnings"])
