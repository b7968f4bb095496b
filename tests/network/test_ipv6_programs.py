"""Programs that people use, over IPv6: near and far, with addresses from the graph's prefix and with such as hosts make of
what a router announces; dual-stack sockets and addresses of one link."""

import os
import re
import shutil
import subprocess

import pytest
from programs.ipv6 import CLIENT, NGINX, PROGRAMS, PYTHON, SERVER
from test_ipv6 import GRAPH, ON
from test_links import check_captures, python, world

ON_LINK = "2001:db8:1::2"
GO = """package main
import ("fmt"; "io"; "net"; "net/http"; "os")
func main() {
	if os.Args[1] == "serve" {
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { host, _, _ := net.SplitHostPort(r.RemoteAddr); fmt.Fprintln(w, "hello", host) })
		panic(http.ListenAndServe("[::]:80", nil))
	}
	answer, err := http.Get(os.Args[1])
	if err != nil { panic(err) }
	text, _ := io.ReadAll(answer.Body)
	fmt.Print(string(text))
}
"""


def experiment(name, where, on_links, program):
    """A client and a server on the graph; or on one link with a router, from whom the client knows which network it is."""
    _, server, client, _ = PROGRAMS[name]
    address = ON_LINK if on_links else SERVER

    def process(command, start):
        path, *args = (str(program) if word == "GO" else word.replace("SERVER", address) for word in command)
        return {"path": path, "args": args, "start_time": start, "placement": where, "expected_final_state": "any"}

    setup = {"path": "sh", "args": ["-c", f"mkdir -p /etc/nginx; echo '{NGINX}' > /etc/nginx/six.conf"]}
    # Before that the client does not know that its address is free.
    hosts = {"client": {"processes": [process(client, "6 s")]}, "server": {"processes": [setup] + ([process(server, "1 s")] if server else [])}}
    if not on_links:
        return {"general": {"stop_time": "40 s"}, "network": GRAPH, **ON, "hosts": {name: {"network_node_id": 0, **host} for name, host in hosts.items()}}
    hosts["client"]["interfaces"] = {"eth0": ["10.0.1.1/24", "slaac"]}
    hosts["server"]["interfaces"] = {"eth0": ["10.0.1.2/24", f"{ON_LINK}/64"]}
    routers = {"r": {"interfaces": {"eth0": {"addresses": ["10.0.1.254/24", "2001:db8:1::fe/64"], "advertise": True}}}}
    return world(hosts, [{"between": [end, "s"], "latency": "1 ms"} for end in ("client", "server", "r:eth0")], "40 s", switches=["s"], routers=routers, **ON)


@pytest.fixture(scope="module")
def go_program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("go")
    (folder / "six.go").write_text(GO)
    subprocess.run(["go", "build", "-o", folder / "six", folder / "six.go"], check=True, cwd=folder, timeout=600)
    return folder / "six"


def check(run_experiment, request, name, where, on_links):
    needed = [program for program in PROGRAMS[name][0] if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin:/usr/local/go/bin") is None]
    if needed:
        pytest.skip(f"not installed: {needed}")
    program = request.getfixturevalue("go_program") if name == "go" else None
    done = run_experiment(experiment(name, where, on_links, program), pcap=True)
    said = "".join(file.read_text() for file in sorted(done.host("client").glob("*.1000.stdout")))
    client = "2001:db8:1:0:[0-9a-f]+:[0-9a-f]+ff:fe[0-9a-f]+:[0-9a-f]+" if on_links else CLIENT
    expected = PROGRAMS[name][3].replace("CLIENT", client).replace("SERVER", ON_LINK if on_links else SERVER)
    assert re.search(expected, said), said + "".join(file.read_text() for file in done.host("client").glob("*.stderr"))
    check_captures(done)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["near", "far"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(run_experiment, request, name, where):
    check(run_experiment, request, name, where, on_links=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["curl", "iperf3", "redis", "go", "ping", "traceroute", "mtr", "tcpdump"])
def test_programs_with_addresses_of_their_own_making(run_experiment, request, name):
    check(run_experiment, request, name, "auto", on_links=True)


LOCAL = """
import errno, socket, sys
link = socket.if_nametoindex("eth0")
own = next(line.split()[0] for line in open("/proc/net/if_inet6") if line.startswith("fe80"))
s = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)
own = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(own))
open("/tmp/own", "w").write(own)
while True:
    c, a = s.accept()
    c.sendall(f"{a[0][:7]} {a[3] == link}".encode())
    c.close()
"""
# What happy eyeballs do: a connection to an address that nobody answers for is overtaken by one over IPv4.
EYEBALLS = """
import asyncio, socket, time
async def main():
    before = time.monotonic()
    loop = asyncio.get_running_loop()
    async def resolve(*_, **__):
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::dead", 80, 0, 0)), (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.1.2", 80))]
    loop.getaddrinfo = resolve
    r, w = await asyncio.open_connection("either", 80, happy_eyeballs_delay=0.25)
    print((await r.read()).decode(), w.get_extra_info("peername")[0], round(time.monotonic() - before, 2))
asyncio.run(main())
"""
SCOPED = """
import socket, sys
to = sys.argv[1]
for name in (to + "%eth0", to):
    s = socket.socket(socket.AF_INET6)
    try:
        s.connect(socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)[0][4])
        print(s.recv(99).decode(), s.getpeername()[0] == to, s.getpeername()[3])
    except OSError as e: print(e.errno)
mapped = socket.create_connection(("::ffff:10.0.1.2", 80))
print(mapped.recv(99).decode(), mapped.family == socket.AF_INET6)
"""


def test_addresses_of_one_link_mapped_ones_and_happy_eyeballs(run_experiment):
    """The same from near and far: a link-local address needs its link, IPv4 comes to dual-stack sockets as mapped addresses,
    and who has a choice of families does not wait for the one that is silent."""
    def run(where):
        hosts = {
            "client": {"interfaces": {"eth0": ["10.0.1.1/24", "2001:db8:1::1/64"]}, "routes": [{"to": "::/0", "via": "2001:db8:1::fe"}],
                       "processes": [python(SCOPED, "fe80::2", start="5 s", placement=where), python(EYEBALLS, start="6 s", placement=where)]},
            "server": {"interfaces": {"eth0": ["10.0.1.2/24", "2001:db8:1::2/64"]},
                       "processes": [{"path": "ip", "args": ["addr", "add", "fe80::2/64", "dev", "eth0", "nodad"]}, python(LOCAL, start="1 s", placement=where)]},
        }
        done = run_experiment(world(hosts, [{"between": ["client:eth0", "server:eth0"], "latency": "1 ms"}], "15 s", **ON), name=where, pcap=True)
        check_captures(done)
        return [file.read_text() for file in sorted(done.host("client").glob("*.stdout"))], [file.read_bytes() for file in sorted(done.path.rglob("*.pcap"))]

    near, far = run("near"), run("far")
    assert near == far
    assert near[0] == ["fe80::x True True 2\n".replace("fe80::x", near[0][0][:7]) + "22\n::ffff: False True\n", "::ffff: False 10.0.1.2 0.25\n"], near[0]
