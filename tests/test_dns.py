"""The simulated network's name server, asked by resolvers of several kinds."""

import os
import subprocess

import pytest
from conftest import EXAMPLES, experiment, graph


@pytest.mark.needs("busybox", "curl")
def test_dns(run_experiment):
    done = run_experiment(EXAMPLES / "dns.yaml", timeout=60)
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
    env = {**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(workdir / "cache"), "GO111MODULE": "off"}
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
