"""What an experiment can say wrongly of P4 switches and other simulators: one message each, with the remedy."""

import pytest
import yaml
from conftest import EXAMPLES, execute

BRIDGE, ROUTER = str(EXAMPLES / "p4-bridge.p4"), str(EXAMPLES / "p4-router.json")


def validate(belljar, workdir, links, **sections):
    experiment = {
        "general": {"stop_time": "1 s"}, "hosts": {name: {"processes": []} for name in ("a", "b")}, "links": links, **sections}
    file = workdir / "wrong.yaml"
    file.write_text(yaml.safe_dump(experiment))
    return execute([belljar, "validate", file])


@pytest.mark.parametrize("settings, ends, said, remedy", [
    ({"queues": 3}, ["s1", "s1"], "'queues' is not valid without 'p4'", "give the switch a program: p4: program.p4"),
    ({"p4": BRIDGE, "ageing": "3 s"}, ["s1", "s1"], "'ageing' is not valid with 'p4'", "the program decides what is forgotten"),
    ({"p4": BRIDGE}, ["s1:left", "s1:p2"], "the interface 's1:left' has no port number",
     "end its name in the number of the P4 port, 0 to 510, such as p1"),
    ({"p4": BRIDGE}, ["s1:p2", "s1:q2"], "two interfaces of 's1' have the port number 2", "give each the number of one P4 port"),
    ({"p4": "nowhere.p4"}, ["s1", "s1"], "there is no file 'nowhere.p4'", "looked for "),
])
def test_p4_switches(belljar, workdir, settings, ends, said, remedy):
    links = [{"between": [host, end]} for host, end in zip("ab", ends)]
    done = validate(belljar, workdir, links, switches={"s1": settings})
    assert done.status == 2 and said in done.err and remedy in done.err, done


@pytest.mark.parametrize("settings, said, remedy", [
    ({"p4": BRIDGE, "include": "nowhere"}, "'include' is no folder: 'nowhere'", ""),
    ({"p4": ROUTER, "include": "."}, "'include' is for P4 source, and '", "name a .p4 file, or leave it out: JSON is compiled already"),
    ({"p4": BRIDGE, "define": {"2X": 1}}, "'2X' cannot be the name of a macro", "write letters, digits and '_', such as define: { PORTS: 4 }"),
    ({"p4": BRIDGE, "cpu_port": 1}, "a link ends at the 'cpu_port' of 's1'",
     "controllers stand behind that port: take a number that no interface has, such as 510"),
    ({"p4": BRIDGE, "queues": 0}, "'queues' must not be 0", "a port has 1 to 8 priorities, and so queues"),
    ({"p4": "binary.json"}, "' is not text: byte ", ""),
    ({"p4": ROUTER, "p4info": BRIDGE, "management": {"interface": "p2"}}, "the P4Info does not fit the program: ", ""),
    ({"runtime": "x.json", "management": {"interface": "p2"}}, "'runtime' is not valid without 'p4'", "give the switch a program: p4: program.p4"),
    ({"p4": BRIDGE, "management": None}, "no link ends at the management interface 's1:mgmt'", "add a link: { between: [controller, s1:mgmt] }"),
    ({"p4": BRIDGE, "management": {"interface": "p2", "port": 0}}, "no server can listen on port 0", "P4Runtime's port is 9559"),
    ({"p4": BRIDGE, "management": {"interface": "p2", "thrift_port": 0}}, "no server can listen on port 0", "BMv2's port is 9090"),
    ({"p4": BRIDGE, "management": {"interface": "p2", "port": 9090}}, "P4Runtime and Thrift cannot both have the port 9090",
     "give 'thrift_port' another number, such as 9091"),
    ({"p4": BRIDGE, "management": {"interface": "p2", "port": []}}, "'port' is an empty list", "P4Runtime's port is 9559"),
])
def test_p4_settings(belljar, workdir, settings, said, remedy):
    (workdir / "binary.json").write_bytes(b"{\xff\xfe}")
    links = [{"between": ["a", "s1:p1"]}, {"between": ["b", "s1:p2"]}]
    done = validate(belljar, workdir, links, switches={"s1": settings})
    assert done.status == 2 and said in done.err and remedy in done.err and "wrong.yaml" in done.err, done


def test_a_management_interface_by_another_name(belljar, workdir):
    links = [{"between": ["a", "s1:mgmt"]}, {"between": ["b", "s1:p2"]}]
    done = validate(belljar, workdir, links, switches={"s1": {"p4": BRIDGE, "management": {"interface": "mgmtt"}}})
    assert done.status == 2 and "did you mean 'interface: mgmt'?" in done.err, done


def test_two_switches_with_one_device_id(belljar, workdir):
    links = [{"between": ["a", "s1:mgmt"]}, {"between": ["b", "t1:mgmt"]}]
    done = validate(belljar, workdir, links, switches={name: {"p4": BRIDGE, "management": None} for name in ("s1", "t1")})
    said = "switches 's1' and 't1' both have the device id 1"
    remedy = "give each another device_id; unless given it is the number at the end of the switch's name"
    assert done.status == 2 and said in done.err and remedy in done.err, done
    place = next(n for n, line in enumerate((workdir / "wrong.yaml").read_text().splitlines(), 1) if n > 1 and "t1:" == line.strip())
    assert f"wrong.yaml:{place + 1}:" in done.err, (place, done.err)


@pytest.mark.parametrize("swapped, link, said, remedy", [
    (False, {"queue": {"codel": {}}}, "the port 'p1' of a P4 switch cannot have this queue",
     "if it is meant for the other end alone, add reverse: { queue: { packets: 64 } }"),
    (True, {"queue": {"codel": {}}}, "the port 'p1' of a P4 switch cannot have this queue: it has packets or bytes, and strict priorities",
     "if it is meant for the other end alone, write it within reverse: and queue: { packets: 64 } outside"),
    (False, {"reverse": {"queue": {"packets": 10, "ecn_threshold": 5}}}, "its program marks packets, by enq_qdepth or deq_qdepth", ""),
])
def test_queues_at_p4_ports(belljar, workdir, swapped, link, said, remedy):
    ends = ["s1:p1", "a"] if swapped else ["a", "s1:p1"]
    done = validate(belljar, workdir, [{"between": ends, **link}, {"between": ["b", "s1:p2"]}], switches={"s1": {"p4": BRIDGE}})
    assert done.status == 2 and said in done.err and remedy in done.err, done


@pytest.mark.parametrize("event, said, remedy", [
    ({"p4": "s2", "commands": "x"}, "there is no P4 switch 's2'", "P4 switches have names such as 's1'"),
    ({"p4": "s1"}, "this event does not say what the switch is to carry out", "add runtime: entries.json or commands: commands.txt"),
    ({"p4": "s1", "commands": "nowhere.txt"}, "there is no file 'nowhere.txt'", "looked for "),
    ({"p4": "s1", "commands": ["first.txt", "wrong.txt"]}, "switch 's1': ", "wrong.txt: line 1"),
    ({"link_change": {"link": "first"}, "queue": {"codel": {}}}, "'s1:p1' is a P4 switch's port, which cannot have this queue: ",
     "if it is meant for the other end alone, name that: link_change: { link: NAME, from: HOST }"),
])
def test_p4_events(belljar, workdir, event, said, remedy):
    (workdir / "first.txt").write_text("table_add stations forward 02:00:00:00:00:09 => 1\n")
    (workdir / "wrong.txt").write_text("table_add stations forward 02:00:00:00:00:09 => 2\n")
    links = [{"between": ["a", "s1:p1"], "name": "first"}, {"between": ["b", "s1:p2"]}]
    done = validate(belljar, workdir, links, switches={"s1": {"p4": BRIDGE}}, events=[{"at": "500 ms", **event}])
    assert done.status == 2 and said in done.err and remedy in done.err, done


def test_an_event_for_switches_that_are_not_there(belljar, workdir):
    done = validate(belljar, workdir, [{"between": ["a", "b"]}], events=[{"at": "500 ms", "p4": "s1", "commands": "x"}])
    assert done.status == 2 and "this experiment has none: give a switch a program by p4: program.p4" in done.err, done


@pytest.mark.parametrize("settings, end, said, remedy", [
    ({"command": ["true", "{p}"], "latency": "1 us", "sync_interval": "2 us"}, "m:p", "is longer than the 'latency'",
     "leave 'sync_interval' out: it is as long as the latency then"),
    ({}, "m:p", "has no 'command', and port 'p' no 'socket'", ", or the path of a socket for each port"),
    ({"command": ["true", "{elsewhere}"]}, "m:p", "'{elsewhere}' in 'command' is no port at the end of a link",
     "links end at: p; '{folder}' is its folder in the results"),
    ({"command": ["true", "{p}"], "working_directory": "nowhere"}, "m:p", "'working_directory' is no directory: 'nowhere'", ""),
    ({"command": ["true", "{p}"]}, {"simulator": "m", "prot": "p"}, "an end of a link", "port"),
])
def test_simulators(belljar, workdir, settings, end, said, remedy):
    done = validate(belljar, workdir, [{"between": ["a", end]}, {"between": ["a", "b"]}], simulators={"m": settings})
    assert done.status == 2 and said in done.err and remedy in done.err, done


def test_a_port_that_no_argument_names_is_noted(belljar, workdir):
    links = [{"between": ["a", "m:p"]}, {"between": ["b", "m:q"]}]
    done = validate(belljar, workdir, links, simulators={"m": {"command": ["true", "{p}"]}})
    said = "simulator 'm': no argument of its command has the address of port 'q', '{q}'"
    assert done.status == 0 and said in done.out, done
