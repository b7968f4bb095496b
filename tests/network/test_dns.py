"""The simulated network's name server, asked by resolvers of several kinds."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import EXAMPLES, experiment, graph


@pytest.mark.needs("busybox", "curl")
def test_dns(run_experiment):
    done = run_experiment(EXAMPLES / "dns.yaml")
    alias, mail = (f.read_text() for f in done.streams("client", "busybox"))
    assert "192.0.2.53:53" in alias and "www.example.org\tcanonical name = web" in alias and "Address: 11.0.0.2" in alias
    assert "mail exchanger = 10 mail.example.org" in mail, mail
    # curl asks for both families at once: one round trip
    assert 0.010 <= float(done.text("client", "curl")) < 0.0111
    assert (done.host("client") / "GPL-3").stat().st_size > 30_000


GO = r"""
package main
import ("context"; "fmt"; "net"; "time")
func main() {
    r := &net.Resolver{PreferGo: true}
    c := context.Background()
    begin := time.Now()
    for _, n := range []string{"site.test", "nobody.test"} {
        a, err := r.LookupHost(c, n)
        fmt.Println(n, a, err != nil && err.(*net.DNSError).IsNotFound)
    }
    n, err := r.LookupTXT(c, "site.test")
    fmt.Println(n, err)
    _, s, err := r.LookupSRV(c, "x", "tcp", "site.test")
    fmt.Println(s[0].Target, s[0].Port, err)
    fmt.Println(time.Since(begin))
}
"""


@pytest.mark.needs("go")
def test_go_asks_the_name_server(run_experiment, workdir):
    source, program = workdir / "ask.go", workdir / "ask"
    source.write_text(GO)
    env = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", program, source], check=True, env=env)
    text = experiment({"asker": (0, [(program,)])}, graph((0, 0, "20 ms")))
    text["belljar"] = {
        "dns": {
            "address": "10.1.1.1",
            "records": ["site.test A 10.7.7.7", "site.test TXT hello", "_x._tcp.site.test SRV 0 0 99 site.test"],
        }
    }
    said = run_experiment(text).text("asker", "ask").splitlines()
    assert said[:4] == ["site.test [10.7.7.7] false", "nobody.test [] true", "[hello] <nil>", "site.test. 99 <nil>"]
    assert 0.16 <= float(said[4].removesuffix("ms")) / 1000 < 0.17 if said[4].endswith("ms") else False, said


RAW = r"""
import socket, struct
def ask(name, kind):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(2)
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0"
    s.sendto(struct.pack(">6H", 5, 0x100, 1, 0, 0, 0) + labels + struct.pack(">2H", kind, 1), ("192.0.2.53", 53))
    answer, source = s.recvfrom(512)
    ident, flags, _, answers = struct.unpack(">4H", answer[:8])
    print(name, kind, source[0], flags & 15, answers, answer[-4:].hex() if kind == 1 and answers else "")
ask("asker", 1); ask("asker", 28); ask("1.0.0.11.in-addr.arpa", 12); ask("nobody", 1)
"""


def test_hosts_have_addresses_and_names(run_experiment):
    said = run_experiment(experiment({"asker": (0, [("/usr/bin/python3", "-c", RAW)])})).text("asker", "python3")
    assert said.splitlines() == [
        "asker 1 192.0.2.53 0 1 0b000001",
        "asker 28 192.0.2.53 0 0 ",
        "1.0.0.11.in-addr.arpa 12 192.0.2.53 0 1 ",
        "nobody 1 192.0.2.53 3 0 ",
    ]


# More than fits into 512 bytes, or into what EDNS may say.
MANY = [f"many.site A 10.2.{n // 100}.{n % 100}" for n in range(150)]


def asked(run_experiment, *commands, hosts=None, records=(), events=(), env=None):
    """What these commands of a host say, each two seconds after the one before."""
    processes = [{"path": str(c[0]), "args": [str(a) for a in c[1:]], "start_time": f"{2 + 2 * n} s", "expected_final_state": "any",
                  "environment": env or {}} for n, c in enumerate(commands)]
    text = experiment({"asker": (0, processes), **(hosts or {})}, graph((0, 0, "10 ms")))
    text["belljar"] = {"dns": {"records": [*MANY, *records]}}
    text["events"] = list(events)
    done = run_experiment(text, pcap=True)
    return [f.read_text() for f in done.streams("asker")], done


def answers(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith(";")]


@pytest.mark.needs("dig")
def test_dig(run_experiment):
    dig = "/usr/bin/dig"
    said, _ = asked(
        run_experiment, (dig, "+dnssec", "asker"), (dig, "+tcp", "asker"), (dig, "many.site"), (dig, "+notcp", "+noedns", "+ignore", "many.site"),
        (dig, "nobody.site"), (dig, "-x", "11.0.0.1"), (dig, "TXT", "all.site"), (dig, "+tcp", "+keepopen", "asker", "A", "many.site", "A"),
        (dig, "CH", "TXT", "version.bind"), records=["all.site TXT \"two  spaces\" \"and \\\"quotes\\\"\""])
    plain, tcp, many, cut, nobody, reverse, text, twice, chaos = said
    for one in (plain, tcp):
        assert answers(one) == [["asker.", "3600", "IN", "A", "11.0.0.1"]] and "status: NOERROR" in one
        assert "udp: 1232" in one and "flags: qr aa rd ra;" in one
    # dig reads a coarse clock, which ticks every 4 ms.
    took = re.compile("Query time: (20|24) msec")
    assert "(TCP)" in tcp and took.search(tcp) and took.search(plain)
    assert len(answers(many)) == 150 and "(TCP)" in many, "cut over UDP, so it comes over TCP"
    assert "flags: qr aa tc rd ra;" in cut and "EDNS" not in cut
    assert "status: NXDOMAIN" in nobody and answers(nobody)[0][:4] == [".", "60", "IN", "SOA"]
    assert answers(reverse)[0][3:] == ["PTR", "asker."]
    assert '"two  spaces" "and \\"quotes\\""' in text
    assert len(answers(twice)) == 151 and took.search(twice.split("many.site.")[-1]), "one connection"
    assert "status: REFUSED" in chaos


@pytest.mark.needs("host")
def test_host(run_experiment):
    said, _ = asked(run_experiment, ("/usr/bin/host", "asker"), ("/usr/bin/host", "11.0.0.1"), ("/usr/bin/host", "-t", "MX", "all.site"),
                    ("/usr/bin/host", "nobody.site"), ("/usr/bin/host", "-T", "asker"), records=["all.site MX 5 asker"])
    assert said[0] == "asker has address 11.0.0.1\n"
    assert said[1] == "1.0.0.11.in-addr.arpa domain name pointer asker.\n"
    assert said[2] == "all.site mail is handled by 5 asker.\n"
    assert said[3] == "Host nobody.site not found: 3(NXDOMAIN)\n"
    assert said[4].endswith("asker has address 11.0.0.1\n")


UNBOUND = """
server:
    interface: 0.0.0.0
    access-control: 0.0.0.0/0 allow
    do-daemonize: no
    chroot: ""
    username: ""
    pidfile: ""
    directory: "."
    use-syslog: no
    module-config: "iterator"
    do-not-query-localhost: no
forward-zone:
    name: "."
    forward-addr: 192.0.2.53
remote-control:
    control-enable: no
"""


@pytest.mark.needs("dig", "unbound")
def test_unbound_forwards_and_keeps(run_experiment, workdir):
    (workdir / "unbound.conf").write_text(UNBOUND)
    unbound = {"path": "/usr/sbin/unbound", "args": ["-d", "-c", str(workdir / "unbound.conf")], "expected_final_state": "running"}
    dig = ("/usr/bin/dig", "@unbound")
    said, _ = asked(run_experiment, (*dig, "asker"), (*dig, "asker"), (*dig, "nobody.site"), (*dig, "nobody.site"), (*dig, "many.site"),
                    hosts={"unbound": (0, [unbound])})
    first, again, nobody, still, many = said
    # 20 ms to unbound, 20 ms more to the name server.
    assert "Query time: 40 msec" in first and "Query time: 20 msec" in again
    assert answers(first)[0][3:] == ["A", "11.0.0.1"] == answers(again)[0][3:]
    assert "NXDOMAIN" in nobody and "NXDOMAIN" in still and "Query time: 20 msec" in still, "nothing is kept, too"
    assert answers(nobody)[0][1] == "60" and answers(still)[0][1] == "58"
    assert len(answers(many)) == 150


DNSPYTHON = r"""
import dns.resolver, dns.reversename, time
r = dns.resolver.Resolver()
begin = time.monotonic()
print(r.resolve("asker", "A")[0], round(time.monotonic() - begin, 3))
print(len(r.resolve("many.site", "A")), r.resolve("asker", "A", tcp=True)[0])
print(r.resolve(dns.reversename.from_address("11.0.0.1"), "PTR")[0])
for name, kind in (("nobody.site", "A"), ("asker", "AAAA"), ("site", "A")):
    try:
        r.resolve(name, kind)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer) as error:
        print(type(error).__name__)
"""


def test_dnspython(run_experiment, workdir):
    folder = workdir / "packages"
    shutil.copytree(pathlib.Path(pytest.importorskip("dns").__file__).parent, folder / "dns")
    said, _ = asked(run_experiment, ("/usr/bin/python3", "-c", DNSPYTHON), env={"PYTHONPATH": str(folder)})
    assert said[0].splitlines() == ["11.0.0.1 0.02", "150 11.0.0.1", "asker.", "NXDOMAIN", "NoAnswer", "NoAnswer"], said


SILENT = r"""
import socket, struct, time
s = socket.create_connection(("192.0.2.53", 53))
query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\5asker\0" + struct.pack(">2H", 1, 1)
message = struct.pack(">H", len(query)) + query
for part in (message[:1], message[1:20], message[20:] + message + message[:5], message[5:]):
    s.sendall(part)
    time.sleep(0.5)
data = s.recv(4096)
print(len(data), data.count(bytes([11, 0, 0, 1])))
begin = time.monotonic()
print(s.recv(100), round(time.monotonic() - begin, 2))
try:
    socket.create_connection(("192.0.2.53", 80), timeout=5)
except ConnectionRefusedError:
    print("refused")
"""


def test_queries_in_pieces_and_silence(run_experiment):
    said, _ = asked(run_experiment, ("/usr/bin/python3", "-c", SILENT))
    lines = said[0].splitlines()
    # Two and a half queries: three answers; ten seconds after the last one the name server leaves.
    assert lines[0].endswith(" 3") and lines[1] == "b'' 9.52" and lines[2] == "refused", lines


@pytest.mark.needs("dig")
def test_the_name_server_falls_silent(run_experiment):
    dig = ("/usr/bin/dig", "+tries=1", "+timeout=1", "+short", "asker")
    events = [{"at": "3 s", "dns_down": "all", "for": "3 s"}]
    said, done = asked(run_experiment, dig, dig, (*dig, "+tcp"), dig, events=events)
    assert said[0] == said[3] == "11.0.0.1\n" and "timed out" in said[1] and "11.0.0.1" not in said[1], said


def test_the_files_of_names_are_as_long_as_they_say(exec_guest):
    """libevent, and so Tor, reads as many bytes as stat told it."""
    code = "import os\nfor f in ('hosts', 'resolv.conf', 'hostname', 'nsswitch.conf', 'machine-id'):\n" \
           "    print(os.stat('/etc/' + f).st_size == len(open('/etc/' + f, 'rb').read()) > 0, os.stat('/proc/uptime').st_size)"
    assert exec_guest(["python3", "-c", code]).out == "True 0\n" * 5
