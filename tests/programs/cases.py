"""What is run of each program, and how one sees that it works.

A case gets the folder for its configuration files and gives hosts as conftest.experiment takes them, or a whole experiment;
`check` gets the finished run.
"""

import dataclasses
import pathlib
import re
import typing

from . import tor

GPL = "/usr/share/common-licenses/GPL-3"
LICENSES = "/usr/share/common-licenses"


@dataclasses.dataclass
class Case:
    name: str
    needs: tuple  # programs that must be installed
    packages: str  # Debian's packages that have them
    version: typing.Any  # the command that says which version it is, or a function that gives what one said
    how: str  # what is run, for the table
    hosts: typing.Callable
    check: typing.Callable
    stop: str = "30 s"
    tolerates: tuple = ()  # unsupported calls that do it no harm, with the reason in `note`
    note: str = ""
    prepare: typing.Callable = lambda: None  # makes what no package has; raises made.Missing


CASES = []


def case(name, needs, packages, version, how, **options):
    def register(function):
        hosts, check = function()
        command = version.split() if isinstance(version, str) else version
        CASES.append(Case(name, tuple(needs.split()), packages, command, how, hosts, check, **options))
        return function
    return register


def at(second, path, args="", **more):
    return {"path": str(path), "args": args, "start_time": f"{second} s", **more}


def stays(path, args=""):
    return {"path": str(path), "args": args, "expected_final_state": "running"}


def over_ipv6(hosts, stop):
    """The same with IPv6 beside IPv4."""
    return {
        "general": {"stop_time": stop}, "network": {"graph": {"type": "1_gbit_switch"}}, "belljar": {"ipv6": True},
        "hosts": {name: {"network_node_id": 0, "processes": processes} for name, (_, processes) in hosts.items()},
    }


def shell(second, script, **more):
    return at(second, "sh", ["-c", script], **more)


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def same_license(data):
    assert data == pathlib.Path(GPL).read_bytes(), data[:300]


@case("caddy", "caddy curl", "caddy curl", "caddy version", "file-server, curl from another host")
def caddy():
    def hosts(folder):
        return {"server": (0, [stays("caddy", f"file-server --root {LICENSES} --listen :80")]),
                "client": (0, [at(5, "curl", "-sS http://server/GPL-3")])}

    return hosts, lambda done: same_license(done.stdout("client"))


@case("aria2", "aria2c python3", "aria2", "aria2c --version", "four connections at once to python3 -m http.server")
def aria2():
    def hosts(folder):
        return {"server": (0, [stays("/usr/bin/python3", f"-m http.server -d {LICENSES} 80")]),
                "client": (0, [at(3, "aria2c", "-x 4 -s 4 -k 1M --file-allocation=none -o got http://server/GPL-3")])}

    return hosts, lambda done: same_license((done.host("client") / "got").read_bytes())


def answers(done, *expected):
    said = done.text("client")
    for line in expected:
        assert line in said.split("\n"), (line, said, str(done))


@case("dnsmasq", "dnsmasq dig", "dnsmasq-base bind9-dnsutils", "dnsmasq --version", "local names, dig over UDP and TCP")
def dnsmasq():
    def hosts(folder):
        options = "-k -u root --no-resolv --address=/one.test/10.1.2.3 --txt-record=two.test,hello"
        dig = "dig +short @server one.test; dig +short +tcp @server two.test TXT"
        return {"server": (0, [stays("dnsmasq", options)]), "client": (0, [shell(3, dig)])}

    return hosts, lambda done: answers(done, "10.1.2.3", '"hello"')


UNBOUND = """
server:
  interface: 0.0.0.0
  access-control: 0.0.0.0/0 allow
  use-syslog: no
  chroot: ""
  local-zone: "test." static
  local-data: "one.test. IN A 10.1.2.3"
remote-control:
  control-enable: no
"""


@case("unbound", "unbound dig", "unbound bind9-dnsutils", "unbound -V", "as a daemon with a local zone, dig over UDP and TCP")
def unbound():
    def hosts(folder):
        conf = written(folder, "unbound.conf", UNBOUND)
        dig = "dig +short @server one.test; dig +tcp @server none.test | grep -o NXDOMAIN"
        return {"server": (0, [stays("unbound", f"-d -c {conf}")]), "client": (0, [shell(3, dig)])}

    return hosts, lambda done: answers(done, "10.1.2.3", "NXDOMAIN")


ZONE = """$TTL 60
@ IN SOA ns.test. root.test. (1 60 60 60 60)
@ IN NS ns
ns IN A 10.0.0.1
one IN A 10.1.2.3
one IN AAAA fd00::1
"""
NAMED = """
options { directory "/var/cache/bind"; recursion no; listen-on { any; }; };
zone "test" { type master; file "%s"; allow-transfer { any; }; };
"""


@case("bind9", "named dig", "bind9 bind9-dnsutils", "named -v", "named with a zone, dig with all records and a transfer")
def bind9():
    def hosts(folder):
        zone = written(folder, "test.zone", ZONE)
        conf = written(folder, "named.conf", NAMED % zone)
        dig = "dig +short @server one.test A; dig +short @server one.test AAAA; dig @server test AXFR | grep -c IN"
        return {"server": (0, [stays("named", f"-g -c {conf}")]), "client": (0, [shell(5, dig)])}

    return hosts, lambda done: answers(done, "10.1.2.3", "fd00::1", "6")


KNOT = """
server:
    rundir: "/run/knot"
    listen: [0.0.0.0@53]
database:
    storage: "/var/lib/knot"
zone:
  - domain: test
    file: "%s"
"""


@case("knot", "knotd kdig", "knot knot-dnsutils", "knotd --version", "knotd with a zone, kdig over UDP and TCP")
def knot():
    def hosts(folder):
        conf = written(folder, "knot.conf", KNOT % written(folder, "test.zone", ZONE))
        server = shell(0, f"mkdir -p /run/knot && exec knotd -c {conf}", expected_final_state="running")
        return {"server": (0, [server]),
                "client": (0, [shell(5, "kdig +short @server one.test; kdig +short +tcp @server one.test AAAA")])}

    return hosts, lambda done: answers(done, "10.1.2.3", "fd00::1")


@case("iperf3", "iperf3", "iperf3", "iperf3 --version", "TCP both ways and UDP between two hosts, 2 s each")
def iperf3():
    def hosts(folder):
        run = "for how in '' -R '-u -b 20M'; do iperf3 -c server -t 2 $how | grep receiver; done"
        return {"server": (0, [stays("iperf3", "-s")]), "client": (0, [shell(2, run)])}

    def check(done):
        lines = done.text("client").splitlines()
        assert len(lines) == 3 and "0/" in lines[2], (lines, str(done))

    return hosts, check


@case("ping", "ping", "iputils-ping", "ping -V", "three echoes and a time-out")
def ping():
    def hosts(folder):
        return {"server": (0, []), "client": (0, [shell(1, "ping -c 3 server; ping -c 1 -W 2 10.99.99.99")])}

    def check(done):
        assert "3 received, 0% packet loss" in done.text("client") and "100% packet loss" in done.text("client"), str(done)

    return hosts, check


@case("mtr", "mtr", "mtr-tiny", "mtr --version", "a report of the path to another host")
def mtr():
    def hosts(folder):
        return {"server": (0, []), "client": (0, [shell(1, "mtr -n -r -c 3 server")])}

    def check(done):
        assert re.search(r"1\.\|-- \S+ +0\.0% +3", done.text("client")), done.text("client") + str(done)

    return hosts, check


@case("tcpdump", "tcpdump ping", "tcpdump iputils-ping", "tcpdump --version", "live on eth0 and on lo, with filters")
def tcpdump():
    def hosts(folder):
        watch = lambda name, how: at(0, "tcpdump", f"-n -i {name} -c 2 {how}")
        return {"server": (0, []), "client": (0, [watch("eth0", "icmp"), watch("lo", "icmp[0]==8"),
                                                  shell(1, "ping -c 2 server; ping -c 2 127.0.0.1")])}

    def check(done):
        eth0, lo = (file.read_text() for file in done.streams("client", "tcpdump"))
        assert "ICMP echo request" in eth0 and "ICMP echo reply" in eth0 and lo.count("ICMP echo request") == 2, eth0 + lo

    return hosts, check


def over_links(hosts, names, stop="40 s"):
    """Each host at one switch."""
    return {"general": {"stop_time": stop}, "hosts": hosts, "switches": ["lan"],
            "links": [{"between": [name, "lan"], "latency": "1 ms"} for name in names]}


BIRD_CONF = """
router id 10.255.0.%d;
protocol device { }
protocol static { ipv4; route 10.77.%d.0/24 blackhole; }
protocol kernel { ipv4 { export all; }; }
protocol ospf v2 { ipv4 { import all; export where source = RTS_STATIC; }; area 0 { interface "eth0" { hello 1; dead 4; }; }; }
"""


@case("bird2", "bird birdc ip", "bird2 iproute2", "bird --version", "OSPF with another BIRD on a LAN; routes in the kernel")
def bird():
    def hosts(folder):
        made = {}
        for n in (1, 2):
            conf = written(folder, f"bird{n}.conf", BIRD_CONF % (n, n))
            daemon = shell(0, f"mkdir -p /run/bird && exec bird -f -c {conf}", expected_final_state="running")
            made[f"r{n}"] = {"processes": [daemon, at(30, "ip", "route")]}
        return over_links(made, made)

    return hosts, lambda done: [answers_route(done, f"r{n}", f"10.77.{3 - n}.0/24 via 10.0.0.{3 - n}") for n in (1, 2)]


def answers_route(done, host, expected):
    assert expected in done.text(host, "ip"), (done.text(host, "ip"), str(done))


@case("traceroute", "traceroute", "traceroute", "traceroute --version", "by UDP, ICMP and TCP to another host")
def traceroute():
    def hosts(folder):
        run = "for how in '' -I -T; do traceroute -n $how server; done"
        return over_links({"server": {"processes": [stays("/usr/bin/python3", "-m http.server 80")]}, "client": {"processes": [shell(1, run)]}},
                          ["server", "client"])

    def check(done):
        assert len(re.findall(r"^ 1  10\.0\.0\.1  [\d.]+ ms", done.text("client"), re.M)) == 3, done.text("client") + str(done)

    return hosts, check


@case("hping3", "hping3", "hping3", "hping3 --version", "SYN and ICMP probes of another host")
def hping3():
    def hosts(folder):
        run = "hping3 -S -p 80 -c 2 server; hping3 --icmp -c 2 server"
        return over_links({"server": {"processes": [stays("/usr/bin/python3", "-m http.server 80")]}, "client": {"processes": [shell(1, run)]}},
                          ["server", "client"])

    def check(done):
        said = done.text("client")
        assert said.count("flags=SA") == 2 and said.count("icmp_seq=") == 2, said + str(done)

    return hosts, check


@case("memcached", "memcached memcping", "memcached libmemcached-tools", "memcached -V", "as a daemon, memcping and python3")
def memcached():
    talk = ("import socket; s = socket.create_connection(('cache', 11211)); f = s.makefile('rwb')\n"
            "f.write(b'set k 0 0 5\\r\\nhello\\r\\nget k\\r\\nquit\\r\\n'); f.flush(); print(f.read().decode())")

    def hosts(folder):
        return {"cache": (0, [at(0, "memcached", "-u memcache -l 0.0.0.0 -d")]),
                "client": (0, [at(2, "/usr/bin/python3", ["-c", talk]), at(3, "memcping", "--servers=cache")])}

    def check(done):
        assert done.text("client", "python3").split("\r\n")[:3] == ["STORED", "VALUE k 0 5", "hello"]

    return hosts, check


@case("mosquitto", "mosquitto mosquitto_sub mosquitto_pub", "mosquitto mosquitto-clients", "mosquitto -h",
      "a broker, a subscriber and a publisher with QoS 2")
def mosquitto():
    def hosts(folder):
        conf = written(folder, "mosquitto.conf", "listener 1883\nallow_anonymous true\n")
        return {"broker": (0, [at(0, "mosquitto", f"-d -c {conf}")]),
                "client": (0, [at(2, "mosquitto_sub", "-h broker -q 2 -t a/# -C 2 -v")]),
                "other": (0, [shell(4, "for n in 1 2; do mosquitto_pub -h broker -q 2 -t a/$n -m m$n; done")])}

    return hosts, lambda done: answers(done, "a/1 m1", "a/2 m2")


@case("socat", "socat", "socat", "socat -V", "a server that forks and runs a program, a client, a relay between them")
def socat():
    def hosts(folder):
        return {"server": (0, [stays("socat", ["TCP-LISTEN:7000,fork,reuseaddr", "EXEC:tr a-z A-Z"])]),
                "relay": (0, [stays("socat", "TCP-LISTEN:7001,fork TCP:server:7000")]),
                "client": (0, [shell(2, "for w in one two; do echo $w | socat -t 5 - TCP:relay:7001; done")])}

    return hosts, lambda done: answers(done, "ONE", "TWO")


@case("MariaDB", "mariadbd mariadb-install-db mariadb", "mariadb-server", "mariadbd --version",
      "mariadb-install-db, the server as its user, queries with transactions from another host", stop="120 s",
      note="reserves 8 TiB of addresses")
def mariadb():
    sql = ("create table t (id int primary key, v varchar(20)) engine=InnoDB; begin; insert into t values (1, 'one'), (2, 'two');"
           "commit; begin; delete from t; rollback; select v from t order by id")

    def hosts(folder):
        setup = ("mkdir -p /run/mysqld && chown mysql /run/mysqld && mariadb-install-db --user=mysql --skip-test-db >/dev/null && "
                 "exec mariadbd --user=mysql --bind-address=0.0.0.0")
        grant = "create database d; create user u@'%' identified by 'p'; grant all on d.* to u@'%'"
        return {"db": (0, [shell(0, setup, expected_final_state="running"), at(40, "mariadb", ["-e", grant])]),
                "client": (0, [at(50, "mariadb", ["-h", "db", "-u", "u", "-pp", "-N", "d", "-e", sql])])}

    return hosts, lambda done: answers(done, "one", "two")


POSTFIX = ("postconf -e 'inet_protocols = ipv4' 'mydestination = mail, localhost' 'mynetworks = 0.0.0.0/0' 'home_mailbox = Maildir/' "
           "'maillog_file = /var/log/postfix.log' 'compatibility_level = 3.6' && useradd -m bob && newaliases && postfix start")
DOVECOT = ("mkdir -p /run/dovecot && cat > /etc/dovecot/local.conf <<'EOF'\nlisten = *\nssl = no\ndisable_plaintext_auth = no\n"
           "mail_location = maildir:~/Maildir\nlog_path = /var/log/dovecot.log\n"
           "passdb {\n  driver = static\n  args = password=secret\n}\nEOF\ndovecot")


@case("postfix", "postfix swaks", "postfix swaks", "postconf -h mail_version",
      "the whole mail system started, swaks from another host, delivery to a Maildir", stop="60 s")
def postfix():
    def hosts(folder):
        return {"mail": (0, [shell(0, POSTFIX), shell(40, "cat ~bob/Maildir/new/*; postfix stop")]),
                "client": (0, [at(20, "swaks", ["--server", "mail", "--to", "bob@mail", "--from", "alice@client", "--body", "hello bob"])])}

    def check(done):
        assert "hello bob" in done.streams("mail", "sh")[1].read_text(), str(done)

    return hosts, check


@case("dovecot", "dovecot curl", "dovecot-imapd curl", "dovecot --version", "IMAP with authentication: a mail stored and fetched",
      stop="60 s")
def dovecot():
    def hosts(folder):
        mail = written(folder, "mail", "Subject: hello\r\n\r\nhello bob\r\n")
        fetch = (f"curl -sS -u bob:secret -T {mail} imap://mail/INBOX; curl -sS -u bob:secret 'imap://mail/INBOX;UID=1'")
        return {"mail": (0, [shell(0, "useradd -m bob && " + DOVECOT)]), "client": (0, [shell(10, fetch)])}

    def check(done):
        assert "hello bob" in done.text("client"), str(done)

    return hosts, check


CASES.append(Case(
    "tor", ("tor", "tor-gencert", "curl", "python3"), "tor curl", ["tor", "--version"],
    "3 directory authorities, 8 relays, an onion service: a client bootstraps and fetches over an exit and from the onion service",
    tor.experiment, tor.check))
