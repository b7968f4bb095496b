"""Programs that set up networks: clients of DHCP, routers' advertisements and routing of IPv6, names by multicast; and two
languages whose runtimes want low addresses."""

import re

from .cases import at, case, over_links, shell, stays, written

DNSMASQ = ("-k -u root --port=0 --log-facility=- --dhcp-range=10.0.0.50,10.0.0.60,2m --dhcp-option=3,10.0.0.1 "
           "--dhcp-leasefile=/tmp/leases --interface=eth0 --bind-interfaces")


def leases(name, program, packages, version, client):
    """A client of DHCP beside dnsmasq: its lease of two minutes is renewed after one, twice."""

    @case(name, f"{program} dnsmasq ip ping", packages, version,
          "an address from dnsmasq on a LAN, through two renewals; ping by the route that it set", stop="190 s")
    def lease():
        def hosts(folder):
            server = {"interfaces": {"eth0": ["10.0.0.1/24"]}, "processes": [stays("dnsmasq", DNSMASQ)]}
            look = "ip -4 -o addr show dev eth0; ip route; ping -n -c 2 10.0.0.1"
            client_host = {"interfaces": {"eth0": {"addresses": []}},
                           "processes": [shell(2, client, expected_final_state="running"), shell(170, look)]}
            return over_links({"server": server, "client": client_host}, ["server", "client"], stop="190 s")

        def check(done):
            said = "".join(file.read_text() for file in [*done.host("client").glob("sh.*.stdout")])
            log = "".join(file.read_text() for file in done.host("server").glob("dnsmasq.*"))
            address = re.search(r"inet (10\.0\.0\.5\d|10\.0\.0\.60)/24", said)
            assert address and "default via 10.0.0.1 dev eth0" in said and "2 received" in said, said + log + str(done)
            assert log.count(f"DHCPACK(eth0) {address[1]}") >= 3, log

        return hosts, check


leases("udhcpc", "udhcpc", "udhcpc dnsmasq-base iproute2 iputils-ping", ["dpkg-query", "-W", "-f", "${Version}", "udhcpc"],
       "exec udhcpc -f -i eth0")
leases("dhclient", "dhclient", "isc-dhcp-client dnsmasq-base iproute2 iputils-ping", "dhclient --version", "exec dhclient -d -4 eth0")
leases("dhcpcd", "dhcpcd", "dhcpcd-base dnsmasq-base iproute2 iputils-ping", "dhcpcd --version", "exec dhcpcd -B -4 eth0")


RADVD = """
interface eth0 {
    AdvSendAdvert on;
    MinRtrAdvInterval 3;
    MaxRtrAdvInterval 5;
    prefix 2001:db8:77::/64 { AdvOnLink on; AdvAutonomous on; };
};
"""


@case("radvd", "radvd ip ping", "radvd iproute2 iputils-ping", "radvd --version",
      "a prefix advertised to a host that makes itself a stable and a temporary address (RFC 8981); ping from the temporary one", stop="30 s")
def radvd():
    def hosts(folder):
        conf = written(folder, "radvd.conf", RADVD)
        run = f"sysctl -w net.ipv6.conf.all.forwarding=1; exec radvd -n -u root -m stderr -C {conf} -p /run/radvd.pid"
        router = {"interfaces": {"eth0": ["2001:db8:77::1/64"]}, "processes": [shell(0, run, expected_final_state="running")]}
        look = "ip -6 -o addr show dev eth0 scope global; ip -6 route; ping -6 -n -c 2 2001:db8:77::1"
        host = {"interfaces": {"eth0": ["slaac"]},
                "processes": [shell(0, "sysctl -w net.ipv6.conf.eth0.use_tempaddr=2"), shell(15, look), at(14, "tcpdump", "-n -i eth0 -c 2 icmp6 and ip6[40]==128")]}
        return over_links({"router": router, "host": host}, ["router", "host"], stop="30 s") | {"belljar": {"ipv6": True}}

    def check(done):
        said, watched = done.streams("host", "sh")[-1].read_text(), done.text("host", "tcpdump")
        temporary = re.search(r"inet6 (2001:db8:77:\S+)/64 scope global temporary", said)
        assert temporary and "mngtmpaddr" in said and "default via fe80::" in said and "2 received" in said, said + str(done)
        assert f"IP6 {temporary[1]} > 2001:db8:77::1" in watched, watched

    return hosts, check


BABEL = "exec babeld -S /tmp/babel -I /run/babeld.pid -h 1 -H 1 -C 'redistribute local ip 10.0.0.0/8' -C 'redistribute local deny' eth0"


@case("babeld", "babeld ip ping", "babeld iproute2 iputils-ping", "babeld -V",
      "IPv4 routes by IPv6 next hops (RFC 9229) between routers without IPv4 addresses on their link; ping", stop="40 s")
def babeld():
    def hosts(folder):
        made = {}
        for n in (1, 2):
            run = f"ip addr add 10.255.0.{n}/32 dev lo; {BABEL}"
            look = f"ip route; ping -n -c 3 -I 10.255.0.{n} 10.255.0.{3 - n}"
            made[f"r{n}"] = {"forwarding": True, "routes": [], "interfaces": {"eth0": []},
                             "processes": [shell(0, run, expected_final_state="running"), shell(30, look)]}
        return over_links(made, made) | {"belljar": {"ipv6": True}}

    def check(done):
        for n in (1, 2):
            said = "".join(file.read_text() for file in done.host(f"r{n}").glob("sh.*.stdout"))
            assert re.search(rf"10\.255\.0\.{3 - n} via inet6 fe80::\S+ dev eth0 proto babel", said) and "3 received" in said, said + str(done)

    return hosts, check


OSPF3 = """
router id 10.255.0.%d;
protocol device { }
protocol static { ipv6; route 2001:db8:7%d::/64 blackhole; }
protocol kernel { ipv6 { export all; }; }
protocol ospf v3 { ipv6 { import all; export where source = RTS_STATIC; }; area 0 { interface "eth0" { hello 1; dead 4; }; }; }
"""


@case("bird2, OSPFv3", "bird ip", "bird2 iproute2", "bird --version", "OSPFv3 with another BIRD on a LAN; routes in the kernel")
def ospf3():
    def hosts(folder):
        made = {}
        for n in (1, 2):
            conf = written(folder, f"bird{n}.conf", OSPF3 % (n, n))
            daemon = shell(0, f"mkdir -p /run/bird && exec bird -f -c {conf}", expected_final_state="running")
            made[f"r{n}"] = {"processes": [daemon, at(30, "ip", "-6 route")]}
        return over_links(made, made) | {"belljar": {"ipv6": True}}

    def check(done):
        for n in (1, 2):
            said = done.text(f"r{n}", "ip")
            assert re.search(rf"2001:db8:7{3 - n}::/64 via fe80::\S+ dev eth0 proto bird", said), said + str(done)

    return hosts, check


UNNUMBERED = """cat > /etc/frr/frr.conf <<END
hostname r{n}
interface lo
 ip address 10.255.0.{n}/32
interface eth0
 ipv6 nd ra-interval 3
 no ipv6 nd suppress-ra
interface eth1
 ipv6 nd ra-interval 3
 no ipv6 nd suppress-ra
router bgp 6500{n}
 bgp router-id 10.255.0.{n}
 no bgp ebgp-requires-policy
 neighbor eth0 interface remote-as external
 neighbor eth0 timers 3 9
 neighbor eth0 timers connect 2
 neighbor eth1 interface remote-as external
 neighbor eth1 timers 3 9
 neighbor eth1 timers connect 2
 address-family ipv4 unicast
  network 10.255.0.{n}/32
END
mkdir -p /run/frr && chown -R frr:frr /run/frr /etc/frr
PATH=$PATH:/usr/lib/frr
zebra -d -f /etc/frr/frr.conf && bgpd -d -f /etc/frr/frr.conf"""


def routed(routers, links, stop):
    return {"general": {"stop_time": stop}, "belljar": {"ipv6": True}, "hosts": routers,
            "links": [{"between": between, "latency": "1 ms"} for between in links]}


def asked(second):
    """The routes of the first router, and an answer from the other's own address."""
    return [at(second, "ip", "route"), at(second + 1, "ping", "-n -c 3 -I 10.255.0.1 10.255.0.2")]


def unnumbered_routers(more=()):
    """Two routers of FRR without IPv4 addresses on their two links."""
    def router(n):
        processes = [shell(0, UNNUMBERED.format(n=n)), *([*asked(40), *more] if n == 1 else [])]
        return {"forwarding": True, "routes": [], "interfaces": {"eth0": [], "eth1": []}, "processes": processes}

    return routed({"r1": router(1), "r2": router(2)}, [[f"r1:eth{n}", f"r2:eth{n}"] for n in (0, 1)], "50 s")


def unnumbered_ways(routes):
    """The interfaces by which the other router is reached. FRR names the router's IPv6 address, or 169.254.0.1 with a neighbour entry
    (`zebra --v6-rr-semantics` decides)."""
    found = re.search(r"^10\.255\.0\.2 .*proto bgp.*\n((?:\s+nexthop .*\n?)+)", routes, re.M)
    return set(re.findall(r"nexthop via (?:inet6 fe80::\S+|169\.254\.0\.1) dev (eth\d) weight 1", found[1] if found else ""))


@case("FRRouting, unnumbered", "vtysh ping ip", "frr iproute2 iputils-ping", "dpkg-query -W -f ${Version} frr",
      "BGP without IPv4 addresses on two links: routes with two IPv6 next hops (RFC 8950); ping", stop="50 s")
def unnumbered():
    def check(done):
        routes = done.text("r1", "ip")
        assert unnumbered_ways(routes) == {"eth0", "eth1"}, routes + str(done)
        assert "3 received" in done.text("r1", "ping"), str(done)

    return lambda folder: unnumbered_routers(), check


EXTENDED = """mkdir -p /run/bird
cat > /etc/bird/bird.conf <<END
log stderr all;
router id 10.255.0.{n};
protocol device {{ }}
protocol direct {{ ipv4; interface "lo"; }}
protocol kernel {{ ipv4 {{ export where source = RTS_BGP; }}; }}
protocol bgp peer {{
  local {own} as 6500{n};
  neighbor {other} as 6500{m};
  connect delay time 1;
  ipv4 {{ extended next hop on; import all; export all; }};
}}
END
ip addr add 10.255.0.{n}/32 dev lo
exec bird -f"""


def extended_routers():
    """Two routers of BIRD with a session over IPv6."""
    def router(n, m):
        own, other = f"2001:db8::{n}", f"2001:db8::{m}"
        processes = [shell(0, EXTENDED.format(n=n, m=m, own=own, other=other), expected_final_state="running"), *(asked(20) if n == 1 else [])]
        return {"forwarding": True, "routes": [], "interfaces": {"eth0": [f"{own}/64"]}, "processes": processes}

    return routed({"r1": router(1, 2), "r2": router(2, 1)}, [["r1:eth0", "r2:eth0"]], "30 s")


@case("bird2, extended next hops", "bird ping ip", "bird2 iproute2 iputils-ping", "bird --version",
      "BGP over IPv6 that brings IPv4 routes (`extended next hop`, RFC 8950); ping")
def extended():
    def check(done):
        routes = done.text("r1", "ip")
        assert re.search(r"10\.255\.0\.2 via inet6 \S+ dev eth0 proto bird", routes), routes + str(done)
        assert "3 received" in done.text("r1", "ping"), str(done)

    return lambda folder: extended_routers(), check


@case("avahi", "avahi-daemon avahi-publish avahi-browse dbus-daemon", "avahi-daemon avahi-utils dbus", "dpkg-query -W -f ${Version} avahi-daemon",
      "a service published on one host, found and resolved on another by multicast DNS", stop="40 s")
def avahi():
    def hosts(folder):
        start = "mkdir -p /run/dbus && dbus-daemon --system --fork && avahi-daemon -D && "
        publish = start + "sleep 3; exec avahi-publish -s 'Belljar test' _http._tcp 8080 path=/here"
        browse = start + "sleep 8; avahi-browse -rpt _http._tcp"
        return over_links({"server": {"processes": [shell(0, publish, expected_final_state="running")]},
                           "client": {"processes": [shell(0, browse)]}}, ["server", "client"])

    def check(done):
        said = done.text("client", "sh")
        assert re.search(r'^=;eth0;IPv4;Belljar\\032test;_?\S.*;server\.local;10\.0\.0\.\d+;8080;"path=/here"', said, re.M), said + str(done)

    return hosts, check


CSHARP = """
using System.Net;
class Server {
    static void Main() {
        var listener = new HttpListener();
        listener.Prefixes.Add("http://*:80/");
        listener.Start();
        for (;;) {
            var context = listener.GetContext();
            var bytes = System.Text.Encoding.UTF8.GetBytes("hello " + context.Request.RemoteEndPoint.Address + "\\n");
            context.Response.OutputStream.Write(bytes, 0, bytes.Length);
            context.Response.Close();
        }
    }
}
"""


@case("Mono", "mono mcs curl", "mono-runtime mono-mcs libmono-system4.0-cil curl", "mono --version",
      "a server of C# compiled and run on its host; curl from another", stop="60 s")
def mono():
    def hosts(folder):
        source = written(folder, "Server.cs", CSHARP)
        return {"server": (0, [shell(0, f"mcs -out:/tmp/server.exe {source} && exec mono /tmp/server.exe", expected_final_state="running")]),
                "client": (0, [at(40, "curl", "-sS http://server/ http://server/")])}

    def check(done):
        assert re.fullmatch(r"(hello 11\.0\.0\.\d+\n){2}", done.text("client")), done.text("client") + str(done)

    return hosts, check


LISP = """
(require :sb-bsd-sockets)
(let ((server (make-instance 'sb-bsd-sockets:inet-socket :type :stream :protocol :tcp)))
  (setf (sb-bsd-sockets:sockopt-reuse-address server) t)
  (sb-bsd-sockets:socket-bind server #(0 0 0 0) 7)
  (sb-bsd-sockets:socket-listen server 5)
  (loop
    (let* ((client (sb-bsd-sockets:socket-accept server))
           (stream (sb-bsd-sockets:socket-make-stream client :input t :output t :buffering :full))
           (line (read-line stream)))
      (sb-ext:gc :full t)
      (format stream "~a ~a~%" (reverse line) (loop for n from 1 to 1000 sum n))
      (finish-output stream)
      (close stream))))
"""


@case("SBCL", "sbcl python3", "sbcl python3", "sbcl --version", "a server of Common Lisp that collects garbage between requests, asked from another host")
def sbcl():
    def hosts(folder):
        script = written(folder, "server.lisp", LISP)
        ask = "import socket\nfor n in range(3):\n s = socket.create_connection(('server', 7)); s.sendall(b'drawer\\n'); print(s.makefile().read(), end='')"
        return {"server": (0, [stays("sbcl", f"--script {script}")]),
                "client": (0, [at(10, "/usr/bin/python3", ["-c", ask])])}

    def check(done):
        assert done.text("client") == "reward 500500\n" * 3, done.text("client") + str(done)

    return hosts, check
