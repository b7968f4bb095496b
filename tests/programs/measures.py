"""Programs that measure networks, and small servers with their clients."""

from .cases import GPL, LICENSES, answers, at, case, over_links, same_license, shell, stays, written


def client(server, command, second=3):
    """A server, and a shell's command on another host."""
    return {"server": (0, server), "client": (0, [shell(second, command)])}


def says(done, *expected):
    said = done.text("client")
    for text in expected:
        assert text in said, (text, said, str(done))


@case("sockperf", "sockperf", "sockperf", "sockperf --version", "ping-pong over UDP and TCP, and under load", stop="40 s")
def sockperf():
    def hosts(folder):
        tests = [f"sockperf {how} -i $(getent hosts server | cut -d' ' -f1) -t 2" for how in ("ping-pong", "ping-pong --tcp", "under-load --mps 500")]
        return client([stays("sockperf", "server -p 11111"), stays("sockperf", "server --tcp -p 11111")], "; ".join(tests))

    return hosts, lambda done: says(done, "dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0")


@case("nuttcp", "nuttcp", "nuttcp", "nuttcp -V", "TCP and UDP between two hosts", stop="40 s")
def nuttcp():
    def hosts(folder):
        return client([shell(0, "nuttcp -S; sleep 1000", expected_final_state="running")], "nuttcp -T 2 server; nuttcp -u -R 5M -T 2 server")

    return hosts, lambda done: says(done, "Mbps", "0.00 %loss")


@case("fping", "fping", "fping", "dpkg-query -W -f ${Version} fping", "three addresses, one of which nobody has")
def fping():
    def hosts(folder):
        return client([stays("sleep", "1000")], "fping -c 3 -q server client 10.9.9.9 2>&1; true")

    return hosts, lambda done: says(done, "server   : xmt/rcv/%loss = 3/3/0%", "10.9.9.9 : xmt/rcv/%loss = 3/0/100%")


@case("rsync", "rsync", "rsync", "rsync --version", "a folder from a daemon; a second time, when nothing is to be sent")
def rsync():
    def hosts(folder):
        written(folder, "rsyncd.conf", f"use chroot = no\nuid = root\ngid = root\n[files]\npath = {LICENSES}\n")
        server = [stays("rsync", f"--daemon --no-detach --config {folder}/rsyncd.conf --port 8873")]
        get = "rsync -aL --stats rsync://server:8873/files/ got"
        return client(server, f"{get} && {get} && cmp got/GPL-3 {GPL} && echo same")

    return hosts, lambda done: says(done, "Number of regular files transferred: 0", "same")


@case("tinyproxy", "tinyproxy curl python3", "tinyproxy-bin curl", "tinyproxy -v", "a page through the proxy")
def tinyproxy():
    def hosts(folder):
        written(folder, "tinyproxy.conf", "Port 8888\nAllow 0.0.0.0/0\nMaxClients 10\n")
        server = [stays("tinyproxy", f"-d -c {folder}/tinyproxy.conf"), stays("/usr/bin/python3", f"-m http.server -d {LICENSES} 80")]
        return client(server, "curl -sS -x http://server:8888 http://server/GPL-3")

    return hosts, lambda done: same_license(done.stdout("client"))


@case("siege", "siege python3", "siege", "siege --version", "five users with 20 requests each against python3 -m http.server", stop="60 s")
def siege():
    def hosts(folder):
        server = [stays("/usr/bin/python3", f"-m http.server -d {LICENSES} 80")]
        return client(server, "HOME=$PWD siege --no-parser -b -c 5 -r 20 http://server/GPL-3")

    return hosts, lambda done: says(done, '"successful_transactions":\t         100', '"failed_transactions":\t\t           0')


@case("wrk", "wrk nginx", "wrk nginx", "dpkg-query -W -f ${Version} wrk", "two threads with eight connections against nginx", stop="40 s")
def wrk():
    def hosts(folder):
        written(folder, "nginx.conf", f"daemon off; master_process off; user root; pid {folder}/pid; error_log stderr; events {{}}\n"
                f"http {{ access_log off; server {{ listen 80; root {LICENSES}; }} }}\n")
        return client([stays("nginx", f"-c {folder}/nginx.conf")], "wrk -t 2 -c 8 -d 1s http://server/GPL-3")

    def check(done):
        says(done, "Requests/sec:")
        assert "Socket errors" not in done.text("client") and "Non-2xx" not in done.text("client"), done.text("client")

    return hosts, check


@case("httping", "httping python3", "httping", "dpkg-query -W -f ${Version} httping", "five requests to python3 -m http.server")
def httping():
    def hosts(folder):
        server = [stays("/usr/bin/python3", f"-m http.server -d {LICENSES} 80")]
        return client(server, "httping -c 5 -g http://server/GPL-3")

    return hosts, lambda done: says(done, "5 connects, 5 ok, 0.00% failed")


@case("beanstalkd", "beanstalkd nc", "beanstalkd netcat-openbsd", "beanstalkd -v", "a job put on one connection and reserved on another")
def beanstalkd():
    def hosts(folder):
        put = r"printf 'put 1 0 60 5\r\nhello\r\nquit\r\n' | nc server 11300; printf 'reserve\r\ndelete 1\r\nquit\r\n' | nc server 11300"
        return client([stays("beanstalkd", "-l 0.0.0.0")], put)

    return hosts, lambda done: says(done, "INSERTED 1", "RESERVED 1 5", "hello", "DELETED")


@case("nsd", "nsd dig", "nsd bind9-dnsutils", "nsd -v", "a zone, dig with records of three types and a transfer")
def nsd():
    def hosts(folder):
        written(folder, "zone", "$ORIGIN test.\n$TTL 60\n@ SOA ns root 1 60 60 60 60\n@ NS ns\nns A 10.1.1.1\nwww AAAA fd00::1\nt TXT \"text\"\n")
        written(folder, "nsd.conf", f"server:\n  username: root\n  zonesdir: {folder}\n  database: \"\"\n  pidfile: {folder}/pid\n  xfrdfile: {folder}/xfrd\n"
                f"  xfrdir: {folder}\n  zonelistfile: {folder}/list\nremote-control:\n  control-enable: no\n"
                "zone:\n  name: test\n  zonefile: zone\n  provide-xfr: 0.0.0.0/0 NOKEY\n")
        dig = "dig +short @server ns.test; dig +short @server www.test AAAA; dig +short +tcp @server t.test TXT; dig +noall +answer @server test AXFR | wc -l"
        return client([stays("nsd", f"-d -c {folder}/nsd.conf")], dig, 5)

    return hosts, lambda done: answers(done, "10.1.1.1", "fd00::1", '"text"', "6")


@case("atftp", "atftp atftpd", "atftp atftpd", "atftp --version", "a file by TFTP with blocks of 1,024 bytes")
def atftp():
    def hosts(folder):
        server = [stays("atftpd", f"--daemon --no-fork --user root.root {LICENSES}")]
        return client(server, "atftp --option 'blksize 1024' --get -r GPL-3 -l got server && cat got")

    return hosts, lambda done: same_license(done.stdout("client"))


@case("snmpd", "snmpd snmpget", "snmpd snmp", "snmpd -v", "the system's description and the counters of an interface")
def snmpd():
    def hosts(folder):
        written(folder, "snmpd.conf", "rocommunity public\nsysName belljar\n")
        get = "snmpget -v 2c -c public server 1.3.6.1.2.1.1.5.0 1.3.6.1.2.1.2.2.1.2.1; snmpwalk -v 2c -c public server 1.3.6.1.2.1.2.2.1.2"
        return client([stays("snmpd", f"-f -Lo -C -c {folder}/snmpd.conf -u root -g root udp:161")], get, 5)

    return hosts, lambda done: says(done, "belljar", '"lo"', '"eth0"')


@case("udpcast", "udp-sender udp-receiver", "udpcast", "dpkg-query -W -f ${Version} udpcast", "a file to another host with forward error correction")
def udpcast():
    def hosts(folder):
        send = f"--file {GPL} --nokbd --min-receivers 1 --interface eth0 --fec 4x2/32"
        return over_links({"server": {"processes": [at(3, "udp-sender", send)]},
                           "client": {"processes": [shell(1, "udp-receiver --nokbd --interface eth0 --file got; cat got")]}}, ["server", "client"])

    return hosts, lambda done: same_license(done.stdout("client"))
