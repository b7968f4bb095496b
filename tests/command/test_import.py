"""`belljar import`: commands of labs run, and what is not imported is noted with its line."""

import re
import textwrap

import pytest
import yaml
from conftest import execute

pytestmark = pytest.mark.needs("bash", "ip", "ping")

LOOPBACK = """\
name: loops
topology:
  nodes:
    core:
      kind: linux
      exec:
        - ip addr add 172.20.1.1/30 dev eth1
        - ip addr add 192.0.2.1/32 dev lo
        - ip link add dum1 type dummy
        - ip link set dum1 up
        - sh -c "sleep 1; ip -br link show dum1; ip -br addr show lo"
    edge:
      kind: linux
      exec: ["ip addr add 172.20.1.2/30 dev eth1", "ip route add 192.0.2.0/24 via 172.20.1.1", "sleep 2", "ping -c 2 192.0.2.1"]
  links:
    - endpoints: ["core:eth1", "edge:eth1"]
"""


@pytest.fixture
def take(belljar, workdir):
    """take(name, {file: text}, *args) -> the experiment's file and the notes, without the folder."""

    def run(name, files, *args):
        for file, text in files.items():
            path = workdir / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        output = workdir / "out.yaml"
        done = execute([belljar, "import", workdir / name, "-o", output, *args])
        assert done.status == 0, done
        return output, done.err.replace(f"note: {workdir}/", "").splitlines()

    return run


def test_addresses_of_loopback_and_a_dummy(take, run_experiment):
    output, notes = take("lab.clab.yml", {"lab.clab.yml": LOOPBACK})
    assert notes == []
    ran = run_experiment(output)
    core, edge = ran.text("core", "bash"), ran.text("edge", "bash")
    dummy, loopback = core.splitlines()
    assert dummy.split()[:2] == ["dum1", "UNKNOWN"] and "192.0.2.1/32" in loopback, core
    assert "2 received" in edge, edge


def test_interfaces_of_the_labs_own_commands(take, run_experiment):
    """A VLAN, a dummy of the topology, addresses on both, and routes to them."""
    output, notes = take("lab.clab.yml", {"lab.clab.yml": """\
        topology:
          nodes:
            a:
              exec:
              - ip link add link eth1 name eth1.10 type vlan id 10
              - ip addr add 10.10.0.1/24 dev eth1.10
              - ip link set eth1.10 up
              - ip route add 10.20.0.0/24 via 10.10.0.2
              - sleep 1
              - ping -c 1 -W 1 10.20.0.2
            b:
              exec:
              - ip link add link eth1 name eth1.10 type vlan id 10
              - ip addr add 10.10.0.2/24 dev eth1.10
              - ip link set eth1.10 up
              - ip addr add 10.20.0.2/24 dev dum
              - ip link show dum
          links:
          - endpoints: ["a:eth1", "b:eth1"]
          - type: dummy
            endpoint: {node: b, interface: dum, mac: 02:00:00:00:00:07}
            mtu: 1400
        """})
    assert notes == []
    ran = run_experiment(output)
    assert "1 received" in ran.text("a", "bash")
    assert "mtu 1400" in ran.text("b", "bash") and "02:00:00:00:00:07" in ran.text("b", "bash")


def test_a_command_that_fails_fails_the_run(take, run_experiment):
    lab = """\
        topology:
          nodes:
            a: {exec: ["ip addr add 10.0.0.1/24 dev eth1", "ls /nowhere", "ip addr add 10.9.0.1/24 dev eth7", "echo the last"]}
            b: {exec: ["ip addr add 10.0.0.2/24 dev eth1"]}
          links: [{endpoints: ["a:eth1", "b:eth1"]}]
        """
    output, notes = take("lab.clab.yml", {"lab.clab.yml": lab})
    assert notes == []
    ran = run_experiment(output, status=1)
    # The later commands run nevertheless, as in the lab.
    assert ran.text("a", "bash") == "the last\n"
    said = ran.streams("a", "bash", "stderr")[0].read_text()
    assert "exit status 2: ls /nowhere" in said and "exit status 1: ip addr add 10.9.0.1/24 dev eth7" in said, said
    output, notes = take("lab.clab.yml", {"lab.clab.yml": lab}, "--tolerate-failures")
    assert notes == [f"lab.clab.yml: line 3: 'a' may fail at '{command}'" for command in
                     ("echo the last", "ip addr add 10.9.0.1/24 dev eth7", "ls /nowhere")]
    ran = run_experiment(output)
    assert ran.text("a", "bash") == "the last\n"


def test_environment_binds_and_the_main_program(take, run_experiment, workdir):
    output, notes = take("lab.clab.yml", {
        "conf/daemons": "zebra=yes\n",
        "conf/more/deep": "below\n",
        "secret": "read only\n",
        "lab.env": "# a comment\nexport COLOUR=red\nSIZE='3'\n",
        "lab.clab.yml": """\
            topology:
              nodes:
                a:
                  env: {NAME: "__clabNodeName__ & co"}
                  env-files: [lab.env]
                  binds:
                  - ./conf:/etc/lab-conf
                  - ./secret:/srv/deep/secret:ro
                  volumes: [/var/lab-volume]
                  entrypoint: python3 -m http.server
                  cmd: "8080"
                  exec:
                  - sh -c "echo $COLOUR $SIZE $NAME"
                  - cat /etc/lab-conf/daemons /etc/lab-conf/more/deep /srv/deep/secret
                  - ls -d /var/lab-volume
                  - sh -c "if echo x > /srv/deep/secret; then exit 1; fi"
                  - sh -c "echo changed > /etc/lab-conf/daemons"
                  - python3 -c "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/').status)"
                b: {}
              links: [{endpoints: ["a:eth1", "b:eth1"]}]
            """,
    })
    assert [note for note in notes if "results" in note or "machine" in note] == [
        "lab.clab.yml: line 7: what a host writes to '/etc/lab-conf' stays in its folder of the results"], notes
    ran = run_experiment(output)
    out = ran.streams("a", "bash")[-1].read_text()
    assert out == "red 3 a & co\nzebra=yes\nbelow\nread only\n/var/lab-volume\n200\n", out
    assert (workdir / "conf/daemons").read_text() == "zebra=yes\n"
    states = [process.get("expected_final_state") for process in yaml.safe_load(output.read_text())["hosts"]["a"]["processes"]]
    assert states == [None, "running", None]


def test_a_lab_of_kathara(take, run_experiment):
    """Startup scripts run as they stand, after the machine's folder has been copied; [exec] comes last."""
    output, notes = take("lab.conf", {
        "lab.conf": """\
            LAB_DESCRIPTION="two machines"
            pc1[0]="A"  # the left one
            pc1[mem]="64m"
            pc1[env]="GREETING=hello # there"
            pc1[exec]="echo $GREETING; test -e /etc/lab/motd"
            pc2[0]="A"
            pc2[ipv6]="true"
            """,
        "shared.startup": "echo shared\n",
        "pc1.startup": """\
            #!/bin/bash
            ip address add 10.0.0.1/24 dev eth0
            ip address add 10.1.1.1/32 dev lo
            for n in 1 2; do
                echo "number $n"
            done
            cat /etc/lab/motd
            exit 0
            """,
        "pc2.startup": """\
            ifconfig eth0 10.0.0.2 netmask 255.255.255.0 up
            route add -net 10.1.1.0 netmask 255.255.255.0 gw 10.0.0.1
            ip -6 addr add 2001:db8::2/64 dev eth0
            ping -c 1 10.1.1.1
            false
            ip -6 addr show dev eth0 | grep -c 2001:db8::2
            """,
        "pc2.shutdown": "echo bye\n",
        "pc3.startup": "echo nobody\n",
        "pc1/etc/lab/motd": "welcome\n",
    })
    assert notes == [
        "lab.conf: IPv6 is on: an interface with an IPv4 address only is assigned one of IPv6 too",
        "lab.conf: line 3: option 'mem' of machines is not taken over",
        "pc2.shutdown: commands at the end of a machine are not run",
        "pc3.startup: not run: lab.conf has no machine 'pc3'",
    ]
    assert output.read_text().splitlines()[1] == "# LAB_DESCRIPTION: two machines"
    ran = run_experiment(output, status=1)
    assert ran.text("pc1", "bash") == "shared\nnumber 1\nnumber 2\nwelcome\nhello # there\n"
    out = ran.text("pc2", "bash")
    assert "1 received" in out and out.endswith("\n1\n"), out
    said = ran.streams("pc2", "bash", "stderr")[0].read_text()
    assert "exit status 1: false" in said, said
    # The other machine has ended as expected.
    assert ran.streams("pc1", "bash", "stderr")[0].read_text() == ""


def test_a_p4_tutorials_command_that_fails(take, workdir):
    """Commands of hosts must succeed, unless failures are tolerated."""
    topology = '{"hosts": {"h1": {"ip": "10.0.1.1/24", "commands": ["ls /nowhere"]}},\n "switches": {"s1": {}}, "links": [["h1", "s1-p1"]]}'
    files = {"topology.json": topology, "x.p4": "V1Switch"}
    for arguments, state, expected in (
        ((), None, []),
        (("--tolerate-failures",), "any", ["topology.json: line 1: 'h1' may fail at 'ls /nowhere'"]),
    ):
        output, notes = take("topology.json", files, *arguments)
        process = yaml.safe_load(output.read_text())["hosts"]["h1"]["processes"][0]
        assert process.get("expected_final_state") == state, process
        assert [note for note in notes if note.startswith("topology.json: line")] == expected, notes


OFFICE = """\
    import os, time
    from mininet.topo import Topo
    from mininet.net import Mininet
    from mininet.node import Node
    from mininet.link import TCLink
    from mininet.cli import CLI

    class Router(Node):
        def config(self, **params):
            super().config(**params)
            self.cmd("sysctl net.ipv4.ip_forward=1")

    class Office(Topo):
        def build(self, far=20):
            r = self.addNode("R0", cls=Router, ip="10.1.0.1/24")
            s1 = self.addSwitch("s1")
            self.addLink(s1, r, intfName2="r0-eth1", params2={"ip": "10.1.0.1/24"})
            self.addLink(self.addHost("h1", ip="10.1.0.2/24", defaultRoute="via 10.1.0.1"), s1, bw=100, delay="1ms", max_queue_size=50)
            self.addLink(self.addHost("h2", ip="10.2.0.2/24", defaultRoute="via 10.2.0.1"), r, params2={"ip": "10.2.0.1/24"},
                         bw=10, delay=f"{far}ms", loss=0, speedup=1, colour="red")

    net = Mininet(topo=Office(), link=TCLink)
    net.addController("c0")
    net.start()
    print("not for the record")
    net["h1"].cmd("ping -c 2", net["h2"].IP())
    time.sleep(4)
    net.configLinkStatus("R0", "h2", "down")
    time.sleep(1)
    net["h1"].cmd("ping -c 1 -W 1 10.2.0.2")
    CLI(net)
    net.stop()
    int(net["h1"].cmd("hostname"))
    """


def test_a_script_of_mininet(take, run_experiment, belljar, workdir):
    (workdir / "office.py").write_text(textwrap.dedent(OFFICE))
    refused = execute([belljar, "import", workdir / "office.py"])
    assert refused.status == 2 and "its code runs with your rights" in refused.err, refused
    output, notes = take("office.py", {"office.py": OFFICE}, "--run-script", "--tolerate-failures")
    assert "not for the record" in notes
    said = "\n".join(note for note in notes if note.startswith("office.py") and "may fail at" not in note)
    assert "links without 'bw' have the default rate, 1 Gbit" in said
    assert "'R0' is called 'r0' here" in said and "option 'colour' of this link is not taken over" in said
    assert "controller 'c0' is left out" in said and "the script failed here: ValueError" in said, said
    ran = run_experiment(output)
    first, second = ran.text("h1", "bash").split("PING")[1:]
    # Two links of 1 ms and 20 ms each way, and the processing of none.
    assert "2 received" in first and "time=42." in first, first
    assert "0 received" in second, second


@pytest.mark.needs("iptables", "curl")
def test_a_nat_of_mininet(take, run_experiment):
    output, notes = take("nat.py", {"nat.py": """\
        from mininet.net import Mininet
        from mininet.node import NAT
        net = Mininet()
        s1 = net.addSwitch("s1")
        h1 = net.addHost("h1")
        net.addLink(h1, s1)
        nat = net.addNAT()
        web = net.addHost("web", ip="192.0.2.80/24")
        link = net.addLink(nat, web)
        other = net.addNAT("nat1", connect=False)
        net.addLink(other, s1)
        net.start()
        nat.setIP("192.0.2.1/24", intf="nat0-eth1")
        web.cmd("python3 -m http.server 80 &")
        h1.cmd("sleep 2; curl -s -o page http://192.0.2.80/ && echo fetched")
        web.cmd("sleep 3; kill %1")
        """}, "--run-script")
    assert any(note.startswith("nat.py: line 10: NAT 'nat1' translates addresses and has no outer link") for note in notes), notes
    assert not any("'nat0'" in note for note in notes), notes
    ran = run_experiment(output)
    assert ran.text("h1", "bash") == "fetched\n"
    # The server sees the outer address of the NAT.
    log = next((ran.path / "hosts/web").glob("*.stderr")).read_text()
    assert "192.0.2.1 - - " in log and "10.0.0.1" not in log, log


def test_scripts_of_mininet_without_a_network(belljar, workdir):
    for name, text, said in (
        ("empty.py", "x = 1\n", "the script makes no network"),
        ("old.py", "print 'two'\n", "it is written for Python 2"),
        ("broken.py", "from mininet.topo import Topo\nraise KeyError('k')\n", "--> broken.py:2:1"),
        ("endless.py", "import time\nfrom mininet.util import quietRun\nwhile 'up' not in quietRun('ovs-vsctl show'):\n    time.sleep(1)\n", "do not wait for their output"),
        ("nameless.py", "from mininet.net import Mininet\nMininet().addHost('...')\n", "no letter or digit of the name '...' can be in a host's name"),
    ):
        (workdir / name).write_text(text)
        done = execute([belljar, "import", "--run-script", name], cwd=workdir)
        assert done.status == 2 and said in done.err, done


SIMBRICKS = """\
    from simbricks.components.i40e import system as i40e_sys
    from simbricks.components.i40e.simulation import behavioral as i40e_sim
    from simbricks.orchestration import simulation as sim
    from simbricks.orchestration import system
    from simbricks.orchestration.helpers import instantiation as inst_helpers
    from simbricks.orchestration.helpers import simulation as sim_helpers

    class Said(system.BaseLinuxApplication):
        def run_cmds(self, inst):
            return ["echo from $(hostname)", "ip -4 -o addr show eth0"]

    sys = system.System()
    hosts, nics = [], []
    for number in (1, 2):
        host = i40e_sys.I40ELinuxHost(sys)
        host.add_disk(system.DistroDiskImage(sys, "base"))
        nic = i40e_sys.IntelI40eNIC(sys)
        nic.add_ipv4(f"10.0.0.{number}")
        host.connect_pcie_dev(nic).latency = 800
        hosts.append(host)
        nics.append(nic)
    hosts[1].name = "The Server"
    wire = system.EthWire(sys)
    for nic in nics:
        wire.connect_eth_peer_if(nic._eth_if).latency = 2 * 10**6
    ping = system.PingClient(hosts[0], nics[1]._ip)
    ping.wait = True
    hosts[0].add_app(ping)
    hosts[0].add_app(Said(hosts[0]))
    hosts[1].add_app(system.Sleep(hosts[1], infinite=True))
    simulation = sim_helpers.simple_simulation(sys, compmap={
        system.FullSystemHost: sim.QemuSim, i40e_sys.IntelI40eNIC: i40e_sim.I40eNicSim, system.EthWire: sim.WireNet})
    instantiations = [inst_helpers.simple_instantiation(simulation)] * 2
    """


def test_a_script_of_simbricks(take, run_experiment, belljar, workdir):
    output, notes = take("ping.py", {"ping.py": SIMBRICKS}, "--run-script")
    assert [note for note in notes if "'The Server' is called 'the-server' here" in note] and len(notes) == 7, notes
    assert "ping.py: the script makes 2 experiments: the first is imported" in notes, notes
    ran = run_experiment(output)
    said = ran.text("host0", "bash")
    assert "10 received" in said and "from host0\n" in said and "inet 10.0.0.1/24" in said, said
    # Two channels of 2 ms in each direction, and what the controllers take.
    times = [float(time) for time in re.findall(r"time=([\d.]+) ms", said)]
    assert len(times) == 10 and all(8 < time < 8.2 for time in times[1:]), times
    refused = execute([belljar, "import", workdir / "ping.py"])
    assert refused.status == 2 and "a script of SimBricks is a program" in refused.err and "--run-script" in refused.err, refused


def test_all_of_a_script_of_simbricks_that_has_no_counterpart(belljar, workdir):
    script = SIMBRICKS.replace("sim.WireNet", "sim.TofinoNet").replace(
        "sys = system.System()", "sys = system.System(); ssd = system.NVMeSSD(sys); inner = system.Host(sys)").replace(
        "i40e_sim.I40eNicSim", "i40e_sim.I40eVerilatorSim if False else sim.CorundumVerilatorNICSim") + "raise ValueError('late')\n"
    (workdir / "wrong.py").write_text(textwrap.dedent(script))
    done = execute([belljar, "import", "--run-script", workdir / "wrong.py"])
    found = re.findall(r"^error: (.*)\n *--> .*?wrong\.py:(\d+)", done.err, re.M)
    assert done.status == 2 and [(message, int(line)) for message, line in found] == [
        ("component 'NVMeSSD' has no counterpart", 12),
        ("host 'host0' is part of a network simulator: make it a host of its own", 12),
        ("simulator 'CorundumVerilatorNICSim' of controller 'nic0' has no counterpart", 31),
        ("simulator 'CorundumVerilatorNICSim' of controller 'nic1' has no counterpart", 31),
        ("simulator 'TofinoNet' of network 'wire0' has no counterpart", 31),
        ("the script failed here: ValueError: late", 34),
    ], done.err


def test_an_earlier_script_of_simbricks(take):
    output, notes = take("pair.py", {"pair.py": """\
        import simbricks.orchestration.experiments as exp
        import simbricks.orchestration.nodeconfig as node
        import simbricks.orchestration.simulators as sim
        from simbricks.orchestration.simulator_utils import create_basic_hosts
        e = exp.Experiment("pair")
        net = sim.SwitchNet()
        net.sync = True
        e.add_network(net)
        servers = create_basic_hosts(e, 2, "server", net, sim.I40eNIC, sim.Gem5Host, node.I40eDCTCPNode, node.IperfTCPServer)
        clients = create_basic_hosts(e, 1, "client", net, sim.CorundumBMNIC, sim.QemuHost, node.CorundumLinuxNode, node.IperfTCPClient, ip_start=3)
        for client in clients:
            client.wait = True
            client.node_config.app.server_ip = servers[0].node_config.ip
        experiments = [e]
        """}, "--run-script")
    text = yaml.safe_load(output.read_text())
    assert sorted(text["hosts"]) == ["client.0", "server.0", "server.1"] and text["switches"] == ["switch0"]
    (client,) = text["hosts"]["client.0"]["processes"]
    assert client["start_time"] == "1 s" and "iperf -l 32M -w 32M -c 10.0.0.1 -i 1 -P 1\n" in client["args"][1]
    (server,) = text["hosts"]["server.1"]["processes"]
    assert server["expected_final_state"] == "any" and "tcp_congestion_control=dctcp" in server["args"][1]
    assert text["hosts"]["server.1"]["devices"] == [{"pci": "nic1", "driver": "e1000", "interface": "eth0", "latency": "500 ns"}]
    assert text["links"][2] == {"between": ["nic2", "switch0"], "rate": "10 Gbit", "latency": "500 ns"}, text["links"]


def test_a_topology_for_mn_custom(take):
    """A script that leaves the network to `mn --custom`."""
    output, _ = take("custom.py", {"custom.py": """\
        from mininet.topo import Topo
        class Mine(Topo):
            def build(self, n=3):
                s = self.addSwitch("s1")
                for k in range(n):
                    self.addLink(self.addHost(f"h{k + 1}"), s)
        topos = {"mine": lambda: Mine(2)}
        """}, "--run-script")
    content = yaml.safe_load(output.read_text())
    assert list(content["hosts"]) == ["h1", "h2"] and len(content["links"]) == 2
    assert content["hosts"]["h2"]["interfaces"] == {"h2-eth0": {"addresses": ["10.0.0.2/8"]}}


RELATIONSHIPS = "1|2|0\n1|3|-1\n2|4|-1\n3|5|-1\n4|6|-1\n3|6|-1\n5|6|0\n"


@pytest.mark.needs("bird", "traceroute")
def test_an_internet_of_bird(take, run_experiment):
    output, _ = take("as-rel.txt", {"as-rel.txt": RELATIONSHIPS})
    ran = run_experiment(output)
    assert "3 received" in ran.text("as1", "ping")
    # Six systems have a network each, of which all have a route in one of the routing tables.
    counts = {name: ran.text(name, "birdc") for name in ("as1", "as5", "as6")}
    assert all("6 networks" in text for text in counts.values()), counts


@pytest.mark.needs("vtysh", "traceroute")
def test_an_internet_of_frr(take, run_experiment):
    output, _ = take("as-rel.txt", {"as-rel.txt": RELATIONSHIPS}, "--daemon", "frr", "--sample", "4", "--seed", "3")
    ran = run_experiment(output)
    first = sorted(yaml.safe_load(output.read_text())["hosts"], key=lambda name: int(name[2:]))[0]
    assert "3 received" in ran.text(first, "ping")


def test_a_graph_is_simulated_with_its_hosts(take, run_experiment):
    graph = "graph [ node [ id 0 label \"Paris\" Latitude 48.85 Longitude 2.35 ] node [ id 1 label \"Rome\" Latitude 41.9 Longitude 12.5 ] edge [ source 0 target 1 ] ]"
    output, _ = take("net.gml", {"net.gml": graph})
    content = yaml.safe_load(output.read_text())
    content["hosts"]["h-paris"]["processes"] = [{"path": "ping", "args": ["-c", "1", "h-rome"], "start_time": "1 s"}]
    output.write_text(yaml.safe_dump(content))
    ran = run_experiment(output)
    # 1,107 km of fibre each way, by the great circle.
    assert "time=21.7 ms" in ran.text("h-paris", "ping"), ran.text("h-paris", "ping")


def said_at(notes, name):
    """Notes about lines of a file: {line: texts}."""
    found = {}
    for note in notes:
        match = re.match(rf"{re.escape(name)}: line (\d+): (.*)", note)
        if match:
            found.setdefault(int(match[1]), []).append(match[2])
    return found


def test_keys_of_netlab_that_are_not_read_are_noted(take):
    _, notes = take("topology.yml", {"topology.yml": """\
        name: lab
        module: [ospf]
        plugin: [fabric]
        defaults.device: frr
        defaults:
          mtu: 1500
          links.bandwidth: 1000
          devices: {frr: {mtu: 1400}}
          provider: clab
        addressing:
          lan: {ipv4: 10.8.0.0/16, prefix: 24, start: 5}
          loopback: {ipv4: 10.9.0.0/24}
          own: {ipv4: 10.7.0.0/24}
        groups:
          g: {members: [r1], device: frr, node_data: {mtu: 1500}, config: [x], vars: {a: 1}}
        nodes:
          r1: {id: 1, image: "frr:9", module: [bgp], cpu: 2}
          r2: {memory: 512, bgp.as: 65000}
        links:
        - {r1: , r2: {ipv4: 2, vrf: red}, bandwidth: 1000, ospf: {cost: 3, area: 1}, role: external}
        - group: core
          mtu: 1400
          gateway: true
          members: [r1-r2]
        """})
    assert said_at(notes, "topology.yml") == {
        2: ["routers have the routes of shortest paths, not those of ospf"], 3: ["'plugin' of a topology is not taken over"],
        6: ["'defaults.mtu' of a topology is not taken over"], 7: ["'defaults.links.bandwidth' of a topology is not taken over"],
        8: ["'defaults.devices' of a topology is not taken over"], 11: ["'addressing.lan.start' of a topology is not taken over"],
        12: ["'addressing.loopback' of a topology is not taken over"], 13: ["'addressing.own' of a topology is not taken over"],
        15: [f"'groups.g.{key}' of a topology is not taken over" for key in ("config", "node_data", "vars")],
        17: ["'cpu' of node 'r1' is not taken over", "'module' of node 'r1' is not taken over"],
        18: ["'bgp.as' of node 'r2' is not taken over", "'memory' of node 'r2' is not taken over"],
        20: ["'ospf.area' of links is not taken over", "'role' of links is not taken over", "'vrf' of 'r2' at this link is not taken over"],
        23: ["'gateway' of links is not taken over"],
    }


def test_options_of_mininet_that_are_not_read_are_noted(take):
    _, notes = take("lab.py", {"lab.py": """\
        from functools import partial
        from mininet.net import Mininet
        from mininet.node import Host, OVSSwitch, RemoteController
        from mininet.topo import Topo
        class Router(Host):
            def config(self, table=0, **params):
                return super().config(**params)
        class Mine(Topo):
            def build(self):
                a = self.addHost("h1", cpu=.1, cores=2, privateDirs=["/x"], inNamespace=False, foo=3)
                b = self.addHost("h2", cls=Router, table=7, ip="10.0.0.2/8", bar=1)
                s = self.addSwitch("s1", stp=True, failMode="standalone", dpid="1", zz=1)
                self.addLink(a, s, bw=10, weird=[1])
                self.addLink(b, s)
        net = Mininet(Mine(), switch=partial(OVSSwitch, protocols="OpenFlow13"), controller=RemoteController,
                      autoStaticArp=True, autoSetMacs=True, waitConnected=True)
        net["h1"].setIP("10.0.0.9/8")
        net.start()
        net.pingAll()
        net["h2"].setIP("10.0.0.99", 8)
        net["h2"].setDefaultRoute("via 10.0.0.9")
        net["h2"].popen("ls", cwd="/tmp")
        net.staticArp()
        net.stop()
        """}, "--run-script", "--tolerate-failures")
    said = {line: [text for text in texts if "may fail" not in text] for line, texts in said_at(notes, "lab.py").items()}
    assert {line: texts for line, texts in said.items() if texts} == {
        10: [f"option '{key}' of 'h1' is not taken over" for key in ("cores", "cpu", "foo", "inNamespace", "privateDirs")],
        11: ["option 'bar' of 'h2' is not taken over"],
        12: [f"option '{key}' of 's1' is not taken over" for key in ("failMode", "protocols", "stp", "zz")],
        13: ["option 'weird' of this link is not taken over"],
        15: ["controller 'RemoteController' is left out: switches learn addresses by themselves", "option 'autoStaticArp' of Mininet is not taken over"],
        20: ["address 10.0.0.99 of h2-eth0 is there from the start: commands before this line see it too"],
        21: ["the default route of 'h2' is there from the start: commands before this line see it too"],
        22: ["option 'cwd' of popen is not taken over"], 23: ["static ARP entries are not taken over: hosts ask for addresses"],
    }


def test_speeds_of_graphs_that_are_not_understood(take):
    _, notes = take("net.gml", {"net.gml": """\
        graph [
          node [ id 0 label "A" ]
          node [ id 1 label "B" graphics [ x 1 y 2 ] vendor [ name "x" ] ]
          edge [ source 0 target 1 LinkSpeed "zz" LinkSpeedUnits "G" ]
          edge [ source 0 target 1 LinkSpeed "10" ]
          edge [ source 1 target 0 LinkSpeed "10" LinkSpeedUnits "G" ]
        ]
        """})
    said = said_at(notes, "net.gml")
    assert "the speed 'zz G' of this link is not understood: 1 Gbit, the default" in said[4], notes
    assert "the speed '10' of this link is not understood: 1 Gbit, the default" in said[5], notes
    assert 6 not in said and not any("no speed" in note for note in notes), notes
    assert said[3] == ["attribute 'vendor' of 1 nodes is not taken over, the first here"], notes


def test_compressed_files_are_named(belljar, workdir):
    done = execute([belljar, "import", workdir / "20260101.as-rel.txt.bz2"])
    assert done.status == 2 and f"as-rel.txt.bz2 is compressed: unpack it first, by bunzip2 {workdir}" in done.err, done
