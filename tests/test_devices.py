"""PCI devices: hosts of ours with drivers, controllers of ours, and both ends in other processes over channels."""

import os
import pathlib
import re
import subprocess

import pytest
import yaml
from conftest import ROOT
from test_simulators import CLIENT, SERVER, of_hosts, run  # noqa: F401

E1000_HOST = ROOT / "cosim" / "e1000_host.c"


def experiment(devices, *, latency="501 ns", start="10 ms", stop="120 ms", **more):
    """A client with a controller, on a link with a server. A channel of 500 ns makes two million rounds a second."""
    process = {"path": "python3", "args": ["-B", "-c", CLIENT], "start_time": start}
    server = {"path": "python3", "args": ["-B", "-c", SERVER], "expected_final_state": "running"}
    return {
        "general": {"stop_time": stop}, "host_option_defaults": {"pcap_enabled": True},
        "hosts": {"client": {"devices": [{"pci": "nic0", "driver": "e1000", "latency": latency, **devices}], "processes": [process]},
                  "server": {"processes": [server]}},
        **more}


def inside(more=None, **devices):
    link = {"between": ["nic0:eth", "server"], "latency": "100 us", "rate": "1 Gbit"}
    return experiment(devices, nics={"nic0": {}}, links=[link], **(more or {}))


def outside(belljar, workdir, **devices):
    """The same with the controller in a process of its own: another Belljar, whose "simulator" is the first one."""
    ports = {"nic0": {"socket": str(workdir / "pci.sock"), "role": "connect"}, "eth": {"socket": str(workdir / "eth.sock"), "role": "connect"}}
    other = {
        "general": {"stop_time": "1 s"}, "network": {"graph": {"type": "1_gbit_switch"}},
        "hosts": {"nobody": {"network_node_id": 0, "processes": []}},
        "nics": {"nic0": {}},
        "simulators": {"machine": {"ports": ports, "latency": "40 us", "devices": [{"pci": "nic0", "latency": "500 ns"}]}},
        "links": [{"between": ["nic0:eth", "machine:eth"], "latency": "20 us", "rate": "1 Gbit"}]}
    (workdir / "other.yaml").write_text(yaml.safe_dump(other))
    command = [str(belljar), "run", str(workdir / "other.yaml"), "-o", "{folder}/inner", "--no-progress"]
    sockets = {"pci": {"socket": str(workdir / "pci.sock"), "role": "listen"}, "eth": {"socket": str(workdir / "eth.sock"), "role": "listen"}}
    return experiment(
        devices, latency="500 ns",
        simulators={"nic0": {"command": command, "latency": "40 us", "ports": sockets}},
        links=[{"between": ["nic0:eth", "server"], "latency": "40 us", "rate": "1 Gbit"}])


def counters(out):
    lines = (out / "hosts/client/eth0.counters").read_text().splitlines()
    return {name: int(count) for name, count in (line.split(": ") for line in lines)}


@pytest.mark.parametrize("interrupts", ["msi", "intx"])
def test_programs_work_over_a_controller(run, interrupts):  # noqa: F811
    out, _ = run("inside", inside({"start": "1 s", "stop": "3 s"}, interrupts=interrupts))
    said = (out / "hosts/client/python3.1000.stdout").read_text()
    assert "tcp 300000" in said and said.count("udp") == 20
    counted = counters(out)
    assert counted["rx_packets"] > 200 and counted["tx_packets"] > 40 and counted["interrupts"] > 20
    # Those that the device counts are read every two seconds.
    assert 0 < counted["rx_good_packets"] <= counted["rx_packets"]
    # A datagram and its echo: twice the link, and the controller's way of doing things.
    first = int(re.search(r"udp 5 201 (\d+)", said)[1])
    assert 200_000 + 5_000 < first < 200_000 + 20_000, first


def test_a_controller_in_another_process_is_the_same_controller(run, belljar, workdir):  # noqa: F811
    """To the picosecond, in captures and as programs see it, in five runs with one and two workers."""
    whole, _ = run("inside", inside())
    expected = of_hosts(whole)
    assert "tcp 300000" in expected["hosts/client/python3.1000.stdout"].decode()
    again, _ = run("again", inside(), "--parallelism", "2")
    assert of_hosts(again) == expected
    for n in range(3):
        out, _ = run(f"outside{n}", outside(belljar, workdir), "--parallelism", "12"[n % 2])
        got = of_hosts(out)
        assert sorted(got) == sorted(expected)
        differ = [name for name in got if got[name] != expected[name]]
        assert not differ, differ


def test_a_host_in_c_uses_our_controller(run, workdir):  # noqa: F811
    program = workdir / "e1000_host"
    subprocess.run(["cc", "-O2", "-o", program, E1000_HOST], check=True)
    echo = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7))\n"
            "while True:\n data, who = s.recvfrom(2000); s.sendto(data, who)\n")
    exp = {
        "general": {"stop_time": "20 ms"},
        "hosts": {"server": {"interfaces": {"eth0": {"addresses": ["10.0.0.2/24"]}},
                             "processes": [{"path": "python3", "args": ["-B", "-c", echo], "expected_final_state": "running"}]}},
        "nics": {"nic0": {}},
        "simulators": {"machine": {"command": [str(program), "{nic0}", "10.0.0.1", "10.0.0.2", "7", "20"], "devices": [{"pci": "nic0"}]}},
        "links": [{"between": ["nic0:eth", "server"], "latency": "50 us", "rate": "1 Gbit"}]}
    said = set()
    for n in range(3):
        out, _ = run(f"foreign{n}", exp, "--parallelism", "12"[n % 2])
        said.add((out / "simulators/machine/stdout").read_text())
    assert len(said) == 1
    text = said.pop()
    assert text.startswith("device 8086:100e\n20 datagrams sent, 20 echoed, mean round trip 1"), text


def test_it_can_be_run_again_from_its_results(run):  # noqa: F811
    first, _ = run("first", inside(ring=64, interrupt_interval="20 us"))
    again, _ = run("again", first / "processed-config.yaml")
    assert of_hosts(again) == of_hosts(first)


@pytest.mark.skipif(not os.environ.get("BELLJAR_SIMBRICKS"), reason="BELLJAR_SIMBRICKS names no tree of SimBricks that is built")
def test_simbricks_e1000(run):  # noqa: F811
    """Its model behind our driver: `BELLJAR_SIMBRICKS/sims/nic/e1000_gem5/e1000_gem5`."""
    program = pathlib.Path(os.environ["BELLJAR_SIMBRICKS"]) / "sims/nic/e1000_gem5/e1000_gem5"
    command = [str(program), "{pci.socket}", "{eth.socket}", "{pci.memory}", "0", "0", "500", "499", "500"]
    ports = {"pci": {"role": "listen"}, "eth": {"role": "listen"}}
    exp = experiment({}, latency="500 ns", simulators={"nic0": {"command": command, "ports": ports}},
                     links=[{"between": ["nic0:eth", "server"], "latency": "100 us", "rate": "1 Gbit"}])
    seen = set()
    for n in range(2):
        out, _ = run(f"simbricks{n}", exp)
        said = (out / "hosts/client/python3.1000.stdout").read_text()
        assert "tcp 300000" in said and said.count("udp") == 20
        seen.add(said)
    assert len(seen) == 1
