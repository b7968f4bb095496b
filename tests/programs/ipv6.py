"""Programs of Debian over IPv6, each as it is used between two hosts: what tests/network/test_ipv6_programs.py runs of each by itself, with
those of one name together for the table."""

import re

from .cases import case, over_ipv6

SERVER = "2001:db8::b00:2"
CLIENT = "2001:db8::b00:1"
PYTHON = "/usr/bin/python3"
NGINX = "daemon off; events {} error_log stderr; pid /tmp/n.pid; http { access_log off; server { listen [::]:80 ipv6only=on; location / { return 200 \"hello $remote_addr\\n\"; } } }"
ASYNCIO_SERVER = "import asyncio\nasync def serve(r, w):\n    w.write(await r.readline() + w.get_extra_info('peername')[0].encode()); w.close()\nasync def main():\n    async with await asyncio.start_server(serve, '::', 80) as s: await s.serve_forever()\nasyncio.run(main())"
ASYNCIO_CLIENT = "import asyncio, sys\nasync def main():\n    r, w = await asyncio.open_connection(sys.argv[1], 80)\n    w.write(b'hello\\n'); print((await r.read()).decode())\nasyncio.run(main())"
NODE_SERVER = "require('http').createServer((q, a) => a.end('hello ' + q.socket.remoteAddress + '\\n')).listen(80, '::')"
NODE_CLIENT = "require('http').get('http://server/', {family: 6}, a => a.on('data', d => process.stdout.write(d)))"

# Name, programs that are needed, the server, the client (SERVER stands for its address), and what the client says.
PROGRAMS = {
    "curl": (["nginx", "curl"], ["nginx", "-c", "/etc/nginx/six.conf"], ["curl", "-6", "-sS", "http://server/", "http://[SERVER]/"], r"(hello CLIENT\n){2}"),
    "iperf3": (["iperf3"], ["iperf3", "-6", "-s"], ["iperf3", "-6", "-c", "server", "-n", "2M"], r"local CLIENT port \d+ connected to SERVER port 5201(.|\n)*receiver"),
    "iperf3-udp": (["iperf3"], ["iperf3", "-s"], ["iperf3", "-6", "-u", "-b", "2M", "-t", "1", "-c", "server"], r"0/\d+ \(0%\) +receiver"),
    "iperf": (["iperf"], ["iperf", "-V", "-s"], ["iperf", "-V", "-c", "SERVER", "-n", "2M"], r"local CLIENT port \d+ connected with SERVER port 5001"),
    "redis": (["redis-server", "redis-cli"], ["redis-server", "--bind", "::", "--protected-mode", "no", "--save", ""], ["redis-cli", "-h", "SERVER", "client", "list"], r"addr=\[CLIENT\]:\d+ laddr=\[SERVER\]:6379"),
    "asyncio": ([], [PYTHON, "-c", ASYNCIO_SERVER], [PYTHON, "-c", ASYNCIO_CLIENT, "server"], r"hello\nCLIENT"),
    "node": (["node"], ["node", "-e", NODE_SERVER], ["node", "-e", NODE_CLIENT], r"hello CLIENT"),
    "go": (["go"], ["GO", "serve"], ["GO", "http://server/"], r"hello CLIENT"),
    "dig": (["dig"], None, ["dig", "+short", "AAAA", "server"], r"SERVER"),
    "ping": (["ping"], None, ["ping", "-6", "-c", "3", "-s", "3000", "server"], r"3008 bytes from server \(SERVER\): icmp_seq=3 ttl=\d+(.|\n)*3 received"),
    "traceroute": (["traceroute"], None, ["traceroute", "-6", "-n", "server"], r"SERVER  "),
    "traceroute-icmp": (["traceroute"], None, ["traceroute", "-6", "-n", "-I", "server"], r"SERVER  "),
    "traceroute-tcp": (["traceroute"], None, ["traceroute", "-6", "-n", "-T", "server"], r"SERVER  "),
    "mtr": (["mtr"], None, ["mtr", "-6", "-n", "-r", "-c", "2", "server"], r"SERVER +0\.0% +2 "),
    "socat": (["socat"], ["socat", "TCP6-LISTEN:7,fork", "EXEC:cat"], ["sh", "-c", "echo hello | socat - TCP6:[SERVER]:7"], r"hello"),
    "ss": (["ss"], [PYTHON, "-m", "http.server", "--bind", "::", "80"], [PYTHON, "-c", "import socket, subprocess; s = socket.create_connection(('server', 80)); print(subprocess.run(['ss', '-6tn'], capture_output=True, text=True).stdout)"], r"ESTAB +0 +0 +\[CLIENT\]:\d+ +\[SERVER\]:80"),
    "tcpdump": (["tcpdump", "ping"], None, ["sh", "-c", "tcpdump -n -i eth0 -c 2 'ip6 host SERVER and (ip6[40] == 128 or ip6[40] == 129)' & sleep 1; ping -n -6 -c 1 server > /dev/null; wait"], r"IP6 CLIENT > SERVER: ICMP6, echo request.*\n.*IP6 SERVER > CLIENT: ICMP6, echo reply"),
}


def together(*names):
    """The servers of these and their clients, ten seconds apart; each client says what is expected of it."""
    def hosts(folder):
        setup = {"path": "sh", "args": ["-c", f"mkdir -p /etc/nginx; echo '{NGINX}' > /etc/nginx/six.conf"]}
        # A server that takes both families serves all.
        servers = {command[0]: command for _, command, _, _ in (PROGRAMS[name] for name in names) if command}
        start = lambda command, second: {"path": command[0], "args": [word.replace("SERVER", SERVER) for word in command[1:]], "start_time": f"{second} s", "expected_final_state": "any"}
        # Before that the client does not know that its address is free.
        clients = [start(PROGRAMS[name][2], 6 + 10 * n) for n, name in enumerate(names)]
        both = {"client": (0, clients), "server": (0, [setup, *(start(command, 1) for command in servers.values())])}
        return over_ipv6(both, f"{20 + 10 * len(names)} s")

    def check(done):
        said = "".join(file.read_text() for file in done.streams("client"))
        for name in names:
            expected = PROGRAMS[name][3].replace("CLIENT", CLIENT).replace("SERVER", SERVER)
            assert re.search(expected, said), (name, said, str(done))

    return hosts, check


ROWS = [
    ("nginx over IPv6", "nginx curl", "nginx curl", "nginx -v", "listening on `[::]`, curl -6 by name and by address", ["curl"]),
    ("iperf3 over IPv6", "iperf3", "iperf3", "iperf3 --version", "TCP and UDP, -6", ["iperf3", "iperf3-udp"]),
    ("iperf2 over IPv6", "iperf", "iperf", "iperf --version", "TCP, -V", ["iperf"]),
    ("Redis over IPv6", "redis-server redis-cli", "redis-server", "redis-server --version", "bound to `::`, redis-cli by address", ["redis"]),
    ("dig over IPv6", "dig", "bind9-dnsutils", "dig -v", "AAAA of the experiment's name server", ["dig"]),
    ("ping over IPv6", "ping", "iputils-ping", "ping -V", "three echoes in fragments", ["ping"]),
    ("traceroute over IPv6", "traceroute", "traceroute", "traceroute --version", "by UDP, ICMP and TCP", ["traceroute", "traceroute-icmp", "traceroute-tcp"]),
    ("mtr over IPv6", "mtr", "mtr-tiny", "mtr --version", "a report of the path to another host", ["mtr"]),
    ("socat over IPv6", "socat", "socat", "socat -V", "a server that forks and runs a program, a client", ["socat"]),
    ("ss over IPv6", "ss python3", "iproute2", "ss -V", "a connection to another host, ss -6tn", ["ss"]),
    ("tcpdump over IPv6", "tcpdump ping", "tcpdump iputils-ping", "tcpdump --version", "echoes on eth0 by a filter", ["tcpdump"]),
]
for title, needs, packages, version, how, names in ROWS:
    case(title, needs, packages, version, how)(lambda names=names: together(*names))
