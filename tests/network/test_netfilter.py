"""nf_tables and iptables: scripts of `nft`, `iptables` and `conntrack` give on a simulated host what they give in namespaces of this machine's
kernel, and their rules act on packets."""

import re

import pytest
from conftest import EXAMPLES, assert_same_hosts, execute, in_namespaces

RULES = """
table inet filter {
	set blocked { type ipv4_addr; flags interval; elements = { 10.9.0.0/16, 192.0.2.1 } }
	set seen { type ipv4_addr; flags dynamic,timeout; timeout 1m; size 100; }
	map ports { type inet_service : verdict; elements = { 22 : accept, 80 : jump web } }
	map names { type ipv4_addr . inet_service : mark; elements = { 10.0.0.1 . 22 : 0x1, 10.0.0.2 . 80 : 0x2 } }
	set ranges { type ipv4_addr . inet_service; flags interval; elements = { 10.0.0.0/8 . 1-1024, 192.0.2.0/24 . 80 } }
	counter c1 { }
	quota q1 { over 10 mbytes }
	limit l1 { rate 5/second }
	chain web { counter accept; }
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		iif lo accept
		ip saddr @blocked counter drop
		tcp dport vmap @ports
		ip protocol icmp icmp type { echo-request, echo-reply } limit rate 10/second burst 20 packets accept
		tcp dport 8000-8100 counter name c1 log prefix "web " level info accept
		ip saddr . tcp dport { 10.0.0.1 . 22, 10.0.0.2 . 80 } accept
		ip saddr . tcp dport @ranges accept
		meta mark set ip saddr . tcp dport map @names
		udp dport 53 add @seen { ip saddr counter } accept
		meta mark 0x10 ct mark set meta mark
		ip6 saddr fe80::/10 accept
		tcp flags & (fin|syn|rst|ack) == syn accept
		fib daddr type local accept
		ct count over 20 reject with tcp reset
		meta l4proto { tcp, udp } th dport 53 accept
		limit name l1 quota name q1 accept
		numgen inc mod 2 0 accept
		jhash ip saddr mod 4 seed 0x5 offset 1 vmap { 1 : drop, 2 : continue }
		reject with icmpx type port-unreachable
	}
	chain forward { type filter hook forward priority mangle; tcp flags syn tcp option maxseg size set rt mtu; }
	chain output { type route hook output priority -150; meta skuid 0 meta mark set 5; }
}
table ip nat {
	chain prerouting { type nat hook prerouting priority dstnat; tcp dport 8080 dnat to 10.0.0.2:80; udp dport 53 redirect to :5353; }
	chain postrouting { type nat hook postrouting priority srcnat; oifname "eth0" masquerade;
		ip saddr 10.1.0.0/16 meta l4proto tcp snat to 192.0.2.1-192.0.2.9:1000-2000 random,persistent; }
}
"""

IPTABLES = """
iptables -P INPUT DROP
iptables -A INPUT -i lo -j ACCEPT
iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
iptables -A INPUT -m state --state NEW -p tcp --dport 22 -j ACCEPT
iptables -A INPUT -p tcp -m multiport --dports 80,443,8000:8100 -m comment --comment web -j ACCEPT
iptables -A INPUT -p icmp --icmp-type echo-request -m limit --limit 5/s --limit-burst 10 -j ACCEPT
iptables -A INPUT -p udp --dport 53 -s 10.0.0.0/8 ! -d 10.1.0.0/16 -j REJECT
iptables -A INPUT -p tcp --syn -m connlimit --connlimit-above 10 -j REJECT --reject-with tcp-reset
iptables -A INPUT -m mark --mark 0x1/0xff -j RETURN
iptables -A INPUT -m addrtype --dst-type LOCAL -j ACCEPT
iptables -A INPUT -m iprange --src-range 10.0.0.1-10.0.0.9 -j ACCEPT
iptables -A INPUT -m pkttype --pkt-type broadcast -j DROP
iptables -A INPUT -m owner --uid-owner 0 -j ACCEPT
iptables -A OUTPUT -m owner --uid-owner 0 -j ACCEPT
iptables -A INPUT -m statistic --mode random --probability 0.5 -j DROP
iptables -A INPUT -m statistic --mode nth --every 3 --packet 0 -j DROP
iptables -A INPUT -m length --length 100:200 -j DROP
iptables -A INPUT -m ttl --ttl-lt 5 -j DROP
iptables -A INPUT -p tcp --tcp-flags SYN,ACK SYN -j LOG --log-prefix "syn "
iptables -A INPUT -m connmark --mark 5 -j ACCEPT
iptables -A INPUT -m dscp --dscp 10 -j ACCEPT
iptables -A INPUT -m tcpmss -p tcp --mss 1:500 -j ACCEPT
iptables -A INPUT -m quota --quota 1000 -j ACCEPT
iptables -N mine
iptables -A FORWARD -j mine
iptables -A FORWARD -g mine
iptables -X mine
iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE
iptables -t nat -A POSTROUTING -s 10.0.0.0/24 -j SNAT --to-source 1.2.3.4
iptables -t nat -A POSTROUTING -p tcp -s 10.0.0.0/24 -j SNAT --to-source 1.2.3.4-1.2.3.9:1000-2000 --random
iptables -t nat -A PREROUTING -p tcp --dport 80 -j DNAT --to-destination 10.0.0.2:8080
iptables -t nat -A PREROUTING -p tcp --dport 81 -j REDIRECT --to-ports 8081
iptables -t nat -A PREROUTING -d 1.0.0.0/24 -j NETMAP --to 2.0.0.0/24
iptables -t mangle -A PREROUTING -j MARK --set-mark 7
iptables -t mangle -A PREROUTING -j CONNMARK --save-mark
iptables -t mangle -A PREROUTING -j CONNMARK --restore-mark
iptables -t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
iptables -t mangle -A FORWARD -j TTL --ttl-set 64
iptables -t mangle -A FORWARD -j DSCP --set-dscp 10
iptables -t mangle -A PREROUTING -j TOS --set-tos 0x10
iptables -t raw -A PREROUTING -p udp -j CT --notrack
iptables -t raw -A PREROUTING -p tcp --dport 21 -j CT --helper ftp
iptables -A INPUT -j NFLOG --nflog-group 5
iptables -D INPUT 1
iptables -I INPUT 2 -i lo -j ACCEPT
iptables -S
iptables-save -c | grep -v '^#'
iptables -L -v -n
iptables-save > saved
iptables -F; iptables -t nat -F
iptables-restore < saved
iptables-save | grep -v '^#'
ip6tables -A INPUT -p ipv6-icmp -j ACCEPT
ip6tables -A INPUT -s 2001:db8::/32 -j REJECT --reject-with icmp6-adm-prohibited
ip6tables -S
nft list tables
"""

# A client, a router with rules, and a server, as network namespaces. The script of a test follows.
LAB = """
mount -t tmpfs tmpfs /run
for name in client router server; do ip netns add $name; ip -n $name link set lo up; done
ip link add c netns client type veth peer name in netns router
ip link add s netns server type veth peer name out netns router
ip -n client addr add 10.1.0.2/24 dev c; ip -n client link set c up
ip -n router addr add 10.1.0.1/24 dev in; ip -n router link set in up
ip -n router addr add 10.2.0.1/24 dev out; ip -n router link set out up
ip -n server addr add 10.2.0.2/24 dev s; ip -n server link set s up
ip -n client route add default via 10.1.0.1
ip netns exec router sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
client="ip netns exec client"; router="ip netns exec router"; server="ip netns exec server"
cat > echo.py <<'END'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[1])))
while True:
    data, sender = s.recvfrom(2000)
    s.sendto(("%s:%d" % sender).encode(), sender)
END
cat > ask.py <<'END'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[3])))
s.settimeout(1)
try:
    s.sendto(b"hello", (sys.argv[1], int(sys.argv[2])))
    data, sender = s.recvfrom(2000)
    print(data.decode(), "by", "%s:%d" % sender)
except OSError as e:
    print(type(e).__name__, e.errno)
END
"""

SCRIPTS = {
    "ruleset": ("nft", f"cat > rules.nft <<'END'\n{RULES}\nEND\nnft -f rules.nft; nft -a list ruleset; nft -f rules.nft 2>&1 | head -20; nft list table ip nat"),
    # Errors are Linux's, with the place in the rules.
    "errors": ("nft", """
        nft add table ip t; nft add chain ip t a; nft add chain ip t b
        nft add rule ip t a jump b; nft add rule ip t b jump a
        nft add chain ip t in '{ type filter hook input priority 0; }'
        nft add rule ip t in jump a
        nft add rule ip t in masquerade
        nft add rule ip t nowhere accept
        nft add rule ip nowhere a accept
        nft delete chain ip t b
        nft create table ip t
        nft delete rule ip t a handle 99
        nft add chain ip t wrong '{ type nat hook forward priority 0; }'
        nft add element ip t s '{ 1.2.3.4 }'
        nft 'add set ip t s { type ipv4_addr; }'
        nft 'add element ip t s { 1.2.3.4, 1.2.3.5 }'
        nft 'create element ip t s { 1.2.3.4 }'
        nft 'delete element ip t s { 1.2.3.6 }'
        nft 'add rule ip t a ip saddr @s drop'
        nft delete set ip t s
        nft list ruleset
        nft flush ruleset; nft list ruleset
    """),
    # Changes of a batch are made together or not at all, and handles continue.
    "batches": ("nft", """
        nft 'add table ip t; add chain ip t c; add rule ip t c counter; add rule ip t c drop'
        nft 'add rule ip t c accept; add rule ip t nowhere accept'
        nft 'insert rule ip t c ip ttl 5'
        nft 'add rule ip t c handle 3 ip ttl 6'
        nft 'replace rule ip t c handle 4 ip ttl 7'
        nft 'delete rule ip t c handle 3'
        nft 'rename chain ip t c d'
        nft -a list ruleset
        nft 'add map ip t m { type ipv4_addr : verdict; }; add element ip t m { 1.1.1.1 : drop, 2.2.2.2 : goto d }; add rule ip t d ip saddr vmap @m'
        nft -a list ruleset
    """),
    "monitor": ("nft", """
        nft monitor > seen & sleep 1
        nft 'add table ip t; add chain ip t c { type filter hook input priority 0; }; add rule ip t c counter drop'
        nft 'add set ip t s { type ipv4_addr; }; add element ip t s { 1.2.3.4 }'
        nft 'delete element ip t s { 1.2.3.4 }'
        nft flush ruleset
        sleep 1; kill $!; sed 's/by process .*//' seen
    """),
    "iptables": ("iptables", IPTABLES),
    "loopback": ("nft ping", """
        ip link set lo up
        nft 'add table ip t; add chain ip t i { type filter hook input priority 0; }; add chain ip t o { type filter hook output priority 0; }'
        nft 'add rule ip t i ip protocol icmp counter; add rule ip t o icmp type echo-request counter; add rule ip t i ip daddr 127.0.0.3 counter drop'
        nft 'add rule ip t o ip daddr 127.0.0.4 counter reject with icmp type host-prohibited'
        ping -c 3 -q 127.0.0.1 | grep -o '3 received'
        ping -c 1 -W 1 -q 127.0.0.3 | grep -o '0 received'
        ping -c 1 -W 1 -q 127.0.0.4 2>&1 | grep -oE '0 received|Operation not permitted' | sort -u
        nft list ruleset
    """),
    "masquerade": ("nft ip python3", LAB + """
        $router nft 'table ip nat { chain post { type nat hook postrouting priority srcnat; oifname "out" counter masquerade; }; }'
        $server python3 echo.py 9000 & sleep 1
        $client python3 ask.py 10.2.0.2 9000 4000
        $client python3 ask.py 10.2.0.2 9000 4000
        $router nft list ruleset
        kill $!
    """),
    "forwarded port": ("nft ip python3", LAB + """
        $router nft 'table ip nat { chain pre { type nat hook prerouting priority dstnat; iifname "in" udp dport 5000 counter dnat to 10.2.0.2:9000; }; }'
        ip -n server route add 10.1.0.0/24 via 10.2.0.1
        $server python3 echo.py 9000 & sleep 1
        $client python3 ask.py 10.1.0.1 5000 4000
        $client python3 ask.py 10.1.0.1 5001 4001
        $router nft list ruleset
        kill $!
    """),
    "firewall": ("nft ip python3", LAB + """
        ip -n server route add 10.1.0.0/24 via 10.2.0.1
        $router nft 'table inet fw { chain fw { type filter hook forward priority filter; policy drop; ct state established,related counter accept; iifname "in" ct state new counter accept; counter reject with icmpx admin-prohibited; }; }'
        $server python3 echo.py 9000 & first=$!
        $client python3 echo.py 9000 & sleep 1
        $client python3 ask.py 10.2.0.2 9000 4000
        $server python3 ask.py 10.1.0.2 9000 4000
        $router nft list ruleset
        kill $! $first
    """),
    "redirect and limits": ("nft ip python3", LAB + """
        ip -n server route add 10.1.0.0/24 via 10.2.0.1
        $router nft 'table ip nat { chain pre { type nat hook prerouting priority dstnat; udp dport 53 counter redirect to :5353; }; }'
        $router nft 'table ip f { set seen { type ipv4_addr . inet_service; flags dynamic; size 10; }; chain i { type filter hook input priority 0; udp dport 5353 add @seen { ip saddr . udp sport } counter; ct original proto-dst 53 counter; ip saddr 10.1.0.2 limit rate 2/hour burst 2 packets counter accept; udp dport 5353 counter drop; }; }'
        $router python3 echo.py 5353 & sleep 1
        for port in 4000 4001 4002; do $client python3 ask.py 10.2.0.2 53 $port; done
        $router nft list ruleset
        kill $!
    """),
    "iptables nat": ("iptables ip python3", LAB + """
        $router iptables -t nat -A POSTROUTING -o out -j MASQUERADE
        $router iptables -t nat -A PREROUTING -i in -p udp --dport 5000 -j DNAT --to-destination 10.2.0.2:9000
        $router iptables -P FORWARD DROP
        $router iptables -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
        $router iptables -A FORWARD -m conntrack --ctstate DNAT -j ACCEPT
        $router iptables -A FORWARD -i in -p udp -m multiport --dports 9000,9001 -m limit --limit 1/h --limit-burst 1 -j ACCEPT
        $router iptables -A FORWARD -j REJECT
        $server python3 echo.py 9000 & sleep 1
        $client python3 ask.py 10.2.0.2 9000 4000
        $client python3 ask.py 10.1.0.1 5000 4001
        $client python3 ask.py 10.2.0.2 9000 4002
        $router iptables-save -c | grep -v '^#'
        kill $!
    """),
    "conntrack": ("nft conntrack ip python3", LAB + """
        $router nft 'table ip nat { chain post { type nat hook postrouting priority srcnat; oifname "out" masquerade; }; }'
        $router nft 'table ip m { chain pre { type filter hook prerouting priority mangle; ct mark set 7; }; }'
        $server python3 echo.py 9000 & sleep 1
        $router conntrack -E > events & sleep 1
        $client python3 ask.py 10.2.0.2 9000 4000
        $router conntrack -L 2>&1 | sed 's/ [0-9]* src/ src/; s/udp  *17/udp/; s/ use=[0-9]*//; s/conntrack v.*: //'
        $router conntrack -D -p udp --orig-port-dst 9000 2>&1 | sed 's/ [0-9]* src/ src/; s/udp  *17/udp/; s/ use=[0-9]*//; s/conntrack v.*: //'
        $router cat /proc/sys/net/netfilter/nf_conntrack_count
        sleep 1; kill %1 %2; sed 's/ [0-9]* src/ src/; s/  *udp  *17/udp/; s/portid=.*//' events
    """),
}


@pytest.mark.needs("nft", "iptables", "conntrack", "ip", "unshare")
@pytest.mark.parametrize("name", SCRIPTS)
def test_as_on_linux(exec_guest, workdir, name):
    """The output of a script in namespaces of this machine and on a simulated host."""
    if execute(["unshare", "-nm", "nft", "list", "ruleset"]).status != 0:
        pytest.skip("this machine's kernel has no nf_tables, or namespaces are denied")
    script = SCRIPTS[name][1]
    ours = exec_guest(["bash", "-c", script])
    linux = in_namespaces(script, workdir / "real", lambda run: run.out == ours.out)
    assert linux.out.strip(), linux
    assert ours.out == linux.out, f"{linux}\n{ours}"
    errors = [re.sub(r"line \d+: .*|bash: .*", "", run.err) for run in (linux, ours)]
    assert errors[0] == errors[1], f"{linux}\n{ours}"


@pytest.mark.needs("nft", "conntrack", "curl")
def test_same_bytes(run_experiment):
    """A run with translation is the same far and near, and with more workers."""
    runs = [run_experiment(EXAMPLES / "nat.yaml", args=args, pcap=True, name=f"nat{n}")
            for n, args in enumerate((["--parallelism", "1"], ["--parallelism", "2"], ["--placement", "far"]))]
    assert_same_hosts(runs)
