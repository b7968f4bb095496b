"""What an experiment can say wrongly of P4 switches and other simulators: one message each, with the remedy."""

import pytest
import yaml
from conftest import EXAMPLES, execute

BRIDGE = str(EXAMPLES / "p4-bridge.p4")


def validate(belljar, workdir, links, **sections):
    experiment = {
        "general": {"stop_time": "1 s"}, "hosts": {name: {"processes": []} for name in ("a", "b")}, "links": links, **sections}
    file = workdir / "wrong.yaml"
    file.write_text(yaml.safe_dump(experiment))
    return execute([belljar, "validate", file], 20)


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
