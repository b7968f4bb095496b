"""The examples of examples/p4 that have a controller: programs over P4Runtime's own Python stubs, as guests."""

import pathlib
import re
import sys

import pytest
import yaml
from conftest import EXAMPLES, contents_of, execute

P4 = EXAMPLES / "p4"
pytestmark = [
    pytest.mark.needs("ping"),
    pytest.mark.skipif(execute([sys.executable, "-c", "import grpc, p4.v1.p4runtime_pb2_grpc"]).status != 0,
                       reason="no Python packages grpcio and p4runtime: ./test installs them"),
]
# The controllers are run by the Python that has the packages.
PYTHON = ["--set", f'hosts.controller.processes.0.environment={{"PATH": "{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"}}']


@pytest.fixture
def example(run_experiment):
    def run(name):
        return run_experiment(P4 / name / f"{name}.yaml", args=PYTHON)

    return run


def pings(done, host="h1"):
    return [file.read_text() for file in done.streams(host, "ping")]


@pytest.mark.needs("ip")
def test_p4runtime(example):
    done = example("p4runtime")
    said = done.text("controller", "controller.py").splitlines()
    assert said[0] == "tunnels are there" and len(said) == 17, said
    last = dict(re.fullmatch(r"(\w+ \w+ \d+): (\d+) packets, .*", line).groups() for line in said[-4:])
    # A packet in both counters of its tunnel each second.
    assert last == {"s1 ingress 100": "4", "s2 egress 100": "4", "s2 ingress 200": "4", "s1 egress 200": "4"}
    assert "6 received" in pings(done)[0] and "icmp_seq=1 " not in pings(done)[0], pings(done)


@pytest.mark.needs("ip")
def test_flowcache(example):
    done = example("flowcache")
    said = [line.split(" ", 1) for line in done.text("controller", "controller.py").splitlines()]
    news = [(round(float(at)), what) for at, what in said if "new flow" in what]
    # Two switches and two directions, and again once the entries were idle.
    assert len(news) == 8 and {at for at, _ in news} == {2, 6}, said
    assert sum("idle flow" in what for _, what in said) == 8, said
    for ping in pings(done):
        assert "3 received" in ping, ping
        # Only the first packet goes by the controllers, as it is.
        assert [int(ttl) for ttl in re.findall(r"ttl=(\d+)", ping)] == [64, 62, 62], ping


def test_l2_and_l3(example):
    done = example("controller")
    said = [line.split(" ", 1)[1] for line in done.text("controller", "controller.py").splitlines()]
    assert said[0] == "ready" and "who has 10.1.2.1" in said and "host 10.1.2.1 is 02:00:00:00:02:01" in said, said
    bridged, routed = pings(done)
    assert "3 received" in bridged and "ttl=64" in bridged, bridged
    # The first packet to an unknown host is what the controller asks for.
    assert "4 received" in routed and routed.count("ttl=63") == 4, routed


def test_the_device_config_of_the_tutorials(belljar, workdir):
    """`P4DeviceConfig`, in which the tutorials' controllers wrap the JSON: of this file, and accepted by the server."""
    script = workdir / "wrapped.py"
    script.write_text(
        "import sys\n"
        f"sys.path[:0] = [{str(P4)!r}]\n"
        "import queue, grpc, p4config_pb2\n"
        "from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc\n"
        "from p4.config.v1 import p4info_pb2\n"
        "from google.protobuf import text_format\n"
        "config = p4config_pb2.P4DeviceConfig(reassign=True, device_data=open(sys.argv[1], 'rb').read())\n"
        "info = text_format.Parse(open(sys.argv[2]).read(), p4info_pb2.P4Info())\n"
        "stub = p4runtime_pb2_grpc.P4RuntimeStub(grpc.insecure_channel('s1:9559'))\n"
        "request = p4runtime_pb2.StreamMessageRequest()\n"
        "request.arbitration.device_id = 1\n"
        "request.arbitration.election_id.low = 1\n"
        "requests = queue.Queue()\n"
        "requests.put(request)\n"
        "answers = stub.StreamChannel(iter(requests.get, None))\n"
        "assert next(answers).arbitration.status.code == 0\n"
        "request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1, action=3)\n"
        "request.election_id.low = 1\n"
        "request.config.p4info.CopyFrom(info)\n"
        "request.config.p4_device_config = config.SerializeToString()\n"
        "stub.SetForwardingPipelineConfig(request)\n"
        "print('installed', len(info.tables))\n"
        "requests.put(None)\n")
    json, info = workdir / "basic.json", workdir / "basic.p4info.txtpb"
    done = execute([belljar, "p4", "build", P4 / "basic/basic.p4", "-o", json, "--p4info", info])
    assert done.status == 0, done
    experiment = {
        "general": {"stop_time": "5 s"},
        "switches": {"s1": {"management": {}}, "net": {}},
        "hosts": {"controller": {
            "host_options": {"shared": [str(workdir)]},
            "processes": [{"path": sys.executable, "args": [str(script), str(json), str(info)], "start_time": "1 s"}]}},
        "links": [{"between": ["controller", "net"]}, {"between": ["s1:mgmt", "net"]}],
    }
    file, data = workdir / "wrapped.yaml", workdir / "wrapped.data"
    file.write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "run", file, "-o", data])
    assert done.status == 0, done
    said = [path.read_text() for path in data.glob("hosts/controller/*.stdout")]
    assert said == ["installed 1\n"], (said, done)


def test_runs_are_alike(belljar, workdir):
    contents = []
    for workers in ("1", "2"):
        data = workdir / f"{workers}.data"
        done = execute([belljar, "run", P4 / "controller/controller.yaml", "-o", data, "--parallelism", workers, *PYTHON])
        assert done.status == 0, done
        contents.append({name: content for name, content in contents_of(data).items() if name.endswith(("stdout", "stderr"))})
    assert contents[0] == contents[1]
