"""ip(8) against simulated interfaces: rules, tables and neighbours; each answer is that of this machine's kernel, asked the
same in a network namespace."""

import json
import os
import re
import subprocess

import pytest
from conftest import best
from test_links import python, world

COMMANDS = """
ip rule
ip -6 rule
ip rule add from 10.1.0.0/16 lookup 100 pref 1000
ip rule add fwmark 7/0xff table 101 pref 900
ip rule add to 10.9.0.0/24 iif eth0 prohibit pref 800
ip rule add not from 10.0.0.0/8 table 300
ip rule add table main suppress_prefixlength 0 pref 2000
ip rule add from 10.1.0.0/16 lookup 100 pref 1000
ip rule add pref 2100 goto 2500
ip rule add oif eth0 unreachable pref 2200
ip rule add ipproto tcp dport 80 table 100 pref 2300
ip rule add uidrange 5-9 table 101 pref 2301
ip rule add ipproto udp sport 53-60 blackhole pref 2302
ip -6 rule add ipproto udp dport 9 table 101 pref 2303
ip -6 rule add from 2001:db8:1::/48 table 100
ip -6 rule add fwmark 3 table 101
ip rule
ip -6 rule
ip route add 10.9.0.0/16 via 10.0.0.2 table 100
ip route add default via 10.0.0.3 table 101
ip route add throw 10.8.0.0/16 table 101
ip route add default via 10.0.0.4 metric 5
ip -6 route add 2001:db8:9::/48 via 2001:db8::2 table 100
ip -6 route add 2001:db8:8::/48 via 2001:db8::3 table 100
ip -6 route append 2001:db8:8::/48 via 2001:db8::4 table 100
ip -6 route show table 100
ip -6 route del 2001:db8:8::/48 via 2001:db8::3 table 100
ip -6 route show table 100
ip route show table 100
ip route show table 101
ip route
ip route show table local dev eth0
ip route add 10.12.0.0/16 via 10.0.0.2 mtu 1400 advmss 1300
ip route add 10.13.0.0/16 via 10.0.0.2 mtu lock 1200
ip route add 10.14.0.0/16 via 10.0.0.2 mtu 99999 advmss 99999
ip -6 route add 2001:db8:12::/48 via 2001:db8::2 mtu 1300 advmss 1200
ip route show 10.12.0.0/16
ip route show 10.13.0.0/16
ip route show 10.14.0.0/16
ip -6 route show 2001:db8:12::/48
ip route get 10.12.1.1
ip route get 10.13.1.1
ip route del 10.13.0.0/16 mtu 1100
ip route del 10.12.0.0/16 mtu 1400 advmss 1300
ip route replace 10.13.0.0/16 via 10.0.0.2 mtu 1150
ip route show 10.13.0.0/16
ip route del 10.13.0.0/16
ip route del 10.14.0.0/16
ip -6 route del 2001:db8:12::/48
ip route get 10.9.1.1
ip route get 10.9.1.1 from 10.1.0.1
ip route get 10.9.1.1 mark 7
ip route get 10.8.1.1 mark 7
ip route get 10.9.1.1 ipproto tcp dport 80 uid 5
ip route get 10.9.1.1 ipproto tcp dport 81 uid 4
ip route get 10.9.1.1 ipproto udp sport 59
ip route get 10.9.1.1 ipproto udp sport 61
ip rule del dport 81
ip rule del dport 80
ip rule del uidrange 5-9
ip rule del pref 800
ip rule del fwmark 7/0xff
ip rule del pref 4711
ip rule del table 300
ip rule
ip route flush table 101
ip route show table 101
ip route del 10.9.0.0/16 table 100 proto static
ip route del 10.9.0.0/16 table 100
ip rule flush
ip rule
ip route get 10.9.1.1
ip rule add pref 32766 table main
ip route get 10.9.1.1
ip -6 rule del table 101
ip -6 rule
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev eth0
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:0a dev eth0
ip neigh change 10.0.0.10 lladdr 02:00:00:00:00:0a dev eth0
ip neigh change 10.0.0.9 lladdr 02:00:00:00:00:0a dev eth0 nud stale
ip neigh replace 10.0.0.12 dev eth0 nud failed
ip neigh replace 10.0.0.13 lladdr 02:00:00:00:00:0b dev eth0 nud noarp
ip neigh get 10.0.0.9 dev eth0
ip neigh show 10.0.0.0/24 nud all
ip neigh del 10.0.0.9 dev eth0
ip neigh del 10.0.0.9 dev eth0
ip neigh show 10.0.0.0/24 nud all
ip -6 neigh add 2001:db8::9 lladdr 02:00:00:00:00:09 dev eth0
ip -6 neigh show 2001:db8::/64
ip route add 10.5.0.0/16 via 10.77.0.1 dev eth0 onlink
ip route add 10.6.0.0/16 nexthop via 10.77.0.1 dev eth0 onlink nexthop via 10.0.0.3 dev eth0
ip -6 route add 2001:db8:5::/48 via 2001:db8:77::1 dev eth0 onlink
ip route show 10.5.0.0/16
ip route show 10.6.0.0/16
ip -6 route show 2001:db8:5::/48
ip route add 10.15.0.0/16 via inet6 2001:db8::2
ip route add 10.16.0.0/16 via inet6 fe80::2 dev eth0
ip route add 10.17.0.0/16 nexthop via inet6 fe80::2 dev eth0 weight 3 nexthop via 10.0.0.3
ip route add 10.18.0.0/16 via inet6 fe80::2
ip route add 10.18.0.0/16 via inet6 2001:db8:77::1
ip route add 10.18.0.0/16 via inet6 2001:db8:77::1 dev eth0 onlink
ip route add 10.19.0.0/16 via inet6 2001:db8::1
ip -6 route add 2001:db8:19::/48 via inet 10.0.0.2
ip route show 10.15.0.0/16
ip route show 10.16.0.0/16
ip route show 10.17.0.0/16
ip route show 10.18.0.0/16
ip route get 10.15.1.1
ip route get 10.16.1.1
ip route del 10.15.0.0/16 via inet6 2001:db8::3
ip route del 10.15.0.0/16 via inet6 2001:db8::2
ip route del 10.16.0.0/16
ip route del 10.17.0.0/16
ip route del 10.18.0.0/16
ip route add 10.15.0.0/16 via 10.0.0.2
ip route add 10.15.0.0/16 tos 0x10 via 10.0.0.3
ip route add 10.15.0.0/16 tos 0x10 via 10.0.0.4
ip route add 10.15.0.0/16 tos 0x10 via 10.0.0.4 metric 3
ip route add 10.15.0.0/16 tos 0xb8 via 10.0.0.5
ip route add 10.15.0.0/16 tos 0x11 via 10.0.0.5
ip -6 route add 2001:db8:19::/48 tos 0x10 via 2001:db8::2
ip route show 10.15.0.0/16
ip route get 10.15.1.1
ip route get 10.15.1.1 tos 0x10
ip route get 10.15.1.1 tos 0x8
ip route del 10.15.0.0/16 tos 0x08
ip route del 10.15.0.0/16 tos 0x10
ip route show 10.15.0.0/16
ip route del 10.15.0.0/16
ip route flush 10.15.0.0/16
ip rule add tos 0x10 prohibit pref 40
ip route get 10.9.1.1 tos 0x10
ip rule del tos 0x10
ip rule add dport 0 table 1
ip rule add sport 65535 table 1
ip rule add uidrange 9-5 table 1
ip rule add goto 5 pref 10
ip route add 10.1.1.1/16 via 10.0.0.2
ip route add 10.7.0.0/16 via 10.44.0.1
ip route add 10.7.0.0/16 via 10.0.0.2 src 10.3.3.3
ip route add 10.7.0.0/16 via 10.0.0.2 dev lo
ip -6 route add 2001:db8:20::/48 via 2001:db8::1
ip -6 route add 2001:db8:20::/48 via 2001:db8:77::1
ip -6 route add 2001:db8:20::/48 via 2001:db8::2 src 2001:db8:3::3
ip route del 10.20.0.0/16 table 77
ip route del 10.20.0.0/16
ip addr add 10.0.0.1/24 dev eth0
ip addr del 10.0.0.77/24 dev eth0
ip -6 addr add 2001:db8::1/64 dev eth0
ip -6 addr del 2001:db8::77/64 dev eth0
ip link set eth0 mtu 67
ip link set eth0 mtu 70000
ip neigh add 10.0.0.98 dev eth0
"""
ASK = "import subprocess, sys\nfor line in sys.argv[1].strip().splitlines():\n    done = subprocess.run(line.split(), capture_output=True, text=True)\n    print('$', line, flush=True)\n    print(''.join(sorted(done.stdout.splitlines(True))) + done.stderr, end='', flush=True)"
# Duplicates are not asked for: the addresses can be used at once.
NATIVE = """
sysctl -qw net.ipv6.conf.default.accept_dad=0 && ip link set lo up && ip link add eth0 type veth peer name peer
ip link set eth0 up && ip link set peer up && for a in 10.0.0.1/24 10.1.0.1/24 2001:db8::1/64 2001:db8:1::1/64; do ip addr add $a dev eth0; done
sleep 1
ip -o monitor route rule neigh > "$2" & monitor=$!
# It hears once its socket is of groups, and has heard everything once that is empty.
until awk -v p=$monitor '$3 == p && $4 != "00000000" { found = 1 } END { exit !found }' /proc/net/netlink; do sleep 0.02; done
/usr/bin/python3 -c "$0" "$1"
until awk -v p=$monitor '$3 == p && $5 == 0 { found = 1 } END { exit !found }' /proc/net/netlink; do sleep 0.02; done
sleep 2
kill $monitor
wait $monitor
exit 0
"""


def normal(text):
    """What does not depend on the machine: without hardware addresses of one's own, users and kernels' words of errors."""
    text = re.sub(r" uid 0|^ *cache *\n", "", text, flags=re.M)
    return [line.rstrip() for line in text.splitlines()]


def in_a_namespace(script, *arguments, expected=""):
    """What a shell script says in a network namespace of this machine; the test is skipped where there is none, or not what the script needs."""
    user = [] if os.geteuid() == 0 else ["-r"]
    linux = subprocess.run(["unshare", *user, "-n", "sh", "-c", script, *arguments], capture_output=True, text=True, timeout=600)
    if linux.returncode != 0 or expected not in linux.stdout:
        pytest.skip(f"no network namespace to ask the kernel in: {linux.stderr.strip()}")
    return linux.stdout


def told_as_by_linux(done, script, commands, heard, shown, expected):
    """Holds that host `a` was answered and told what the commands are answered in a namespace of this machine, and `ip monitor` told by file
    `heard`, as far as it is `shown`. Gives what was told."""
    def on_linux():
        said = in_a_namespace(script, ASK, commands, heard, expected=expected)
        return shown(said, heard.read_text())

    ours = shown(done.text("a", "python3"), done.text("a", "ip"))
    said, told = best(on_linux, lambda theirs: theirs == ours)
    assert ours[0] == said
    assert ours[1] == told
    return told


@pytest.mark.needs("ip", "unshare")
def test_rules_tables_and_neighbours_are_linuxs(run_experiment, workdir):
    heard = workdir / "heard"
    user = [] if os.geteuid() == 0 else ["-r"]
    # An ordinary user's namespace has no users but root for rules to name.
    commands = "\n".join(line for line in COMMANDS.splitlines() if not (user and re.search(r"\buid(range)? [1-9]", line)))
    addresses = ["10.0.0.1/24", "10.1.0.1/24", "2001:db8::1/64", "2001:db8:1::1/64"]
    monitor = {"path": "ip", "args": ["-o", "monitor", "route", "rule", "neigh"], "start_time": "3 s", "expected_final_state": "running"}
    hosts = {"a": {"interfaces": {"eth0": addresses}, "routes": [], "processes": [monitor, python(ASK, commands, start="4 s")]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], **{"belljar": {"ipv6": True}}))

    def shown(said, heard):
        # The kernel tells of routes that are flushed, and of the next hops of one, in an order of its own.
        return normal(said), sorted(line for line in normal(heard) if "nexthop" not in line)

    told = told_as_by_linux(done, NATIVE, commands, heard, shown, "10.1.0.1")
    assert len(told) > 30


NEW_LINKS = """
ip link add dummy0 type dummy
ip link add dummy0 type dummy
ip addr add 10.66.0.1/24 dev dummy0
ip route show dev dummy0
ip link set dummy0 up
ip -4 -br addr show dev dummy0
ip route show dev dummy0
ip -o link show dev dummy0
ip link add link eth0 name eth0.10 type vlan id 10
ip link add link eth0 name eth0.11 type vlan id 10
ip link add link eth0 name eth0.12 type vlan id 4095
ip link add link eth0 name eth0.13 type vlan
ip link add name eth0.14 type vlan id 14
ip link add link eth0 name eth0.15 mtu 9000 type vlan id 15
ip link add bogus type bogus
ip link add aVeryLongNameOfALink type dummy
ip link set eth0.10 up
ip addr add 10.67.0.1/24 dev eth0.10
ip -o -d link show dev eth0.10
ip -4 -br addr show dev eth0.10
ip route show dev eth0.10
ip route get 10.67.0.2
ip link del dummy0
ip link del dummy0
ip route show dev dummy0
ip addr add 10.68.0.1/24 dev eth0 valid_lft forever preferred_lft forever
ip addr add 10.69.0.1/24 dev eth0 valid_lft 90000 preferred_lft 90001
ip addr add 10.69.0.1/24 dev eth0 valid_lft 90000 preferred_lft 0
ip -4 -o addr show dev eth0
ip link set eth0 down
ip -br link show dev eth0.10
"""


ADDRESSES = """
ip addr add 10.0.0.2/24 dev eth0
ip addr add 10.0.0.3/24 dev eth0
ip addr add 10.0.0.9/25 dev eth0
ip addr add 10.0.0.10/25 dev eth0
ip addr add 10.0.0.2/24 dev eth0
ip -4 -o addr show dev eth0
ip route
ip route show table local dev eth0
ip route add 10.5.0.0/16 via 10.0.0.200 src 10.0.0.2
ip route add 10.6.0.0/16 via 10.0.0.200
ip addr del 10.0.0.3/24 dev eth0
ip -4 -o addr show dev eth0
ip addr del 10.0.0.1/24 dev eth0
ip -4 -o addr show dev eth0
ip route
ip route show table local dev eth0
sysctl -w net.ipv4.conf.eth0.promote_secondaries=1
ip addr add 10.1.0.1/24 dev eth0
ip addr add 10.2.0.1/24 dev eth0
ip addr add 10.1.0.2/24 dev eth0
ip addr add 10.1.0.3/24 dev eth0
ip route add 10.7.0.0/16 via 10.1.0.200 src 10.1.0.1
ip route add 10.8.0.0/16 via 10.1.0.200
ip addr del 10.1.0.1/24 dev eth0
ip -4 -o addr show dev eth0
ip route
ip addr del 10.1.0.2/24 dev eth0
ip -4 -o addr show dev eth0
ip route
ip addr add 10.9.0.1 peer 10.9.0.2 dev eth0
ip addr add 10.9.1.1 peer 10.9.2.0/24 dev eth0
ip addr add 10.9.3.1/24 brd + dev eth0 label eth0:web noprefixroute
ip addr add 10.9.4.1/24 dev eth0 metric 77 scope link
ip addr add 10.9.4.2/24 dev eth0 scope host
ip addr add 10.9.5.1/33 dev eth0
ip addr add 10.255.0.1/32 dev lo
ip -4 -o addr show dev eth0
ip -4 -o addr show dev lo
ip route
ip route get 10.9.2.7
ip addr del 10.9.1.1/24 dev eth0
ip addr del 10.9.1.1 peer 10.9.2.0/24 dev eth0
ip addr del 10.9.3.1/24 dev eth0 label eth0
ip addr del 10.9.3.1/24 dev eth0 label eth0:web
ip addr change 10.9.4.1/24 dev eth0 scope link metric 77 valid_lft 90000 preferred_lft 90000
ip addr del 10.9.4.1/24 dev eth0
ip addr del 10.9.0.1 peer 10.9.0.2 dev eth0
ip addr del 10.0.0.9/25 dev eth0
ip addr del 10.0.0.10/25 dev eth0
ip addr del 10.1.0.3/24 dev eth0
ip route
ip addr del 10.2.0.1/24 dev eth0
ip -4 -o addr show dev eth0
ip route
ip addr add 10.8.0.1/24 dev eth0
ip addr add 10.8.0.1/32 dev lo
ip addr del 10.8.0.1/24 dev eth0
ip addr add 10.8.1.1/24 dev eth0 noprefixroute
ip addr add 10.8.1.2/24 dev eth0
ip -4 -o addr show dev eth0
ip route
"""


def addresses(text):
    """Lines about addresses and routes but for the kernel's own table, what is heard of which is not told here."""
    text = re.sub(r"\b\d+: (?=\w)|\b(8999\d|90000)sec|  +(?=\S)| uid 0|^ *cache *\n", " ", text, flags=re.M)
    return [line.strip() for line in text.splitlines() if "table local" not in line and "inet6" not in line and "fe80" not in line and line.strip()]


@pytest.mark.needs("ip", "unshare")
def test_secondary_addresses_are_linuxs(run_experiment, workdir):
    monitor = {"path": "ip", "args": ["-o", "monitor", "address", "route"], "expected_final_state": "running"}
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "routes": [], "processes": [monitor, python(ASK, ADDRESSES, start="1 s")]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}]))
    native = NATIVE.replace("monitor route rule neigh", "monitor address route")
    native = native.replace("10.0.0.1/24 10.1.0.1/24 2001:db8::1/64 2001:db8:1::1/64; do ip addr add $a", "10.0.0.1/24; do ip addr add $a brd +")

    def shown(said, heard):
        # Of routes that go with the address that they prefer nobody is told here, of those of the kernel alone.
        return addresses(said), [line for line in addresses(heard) if not line.startswith(("Deleted 10.5.0.0", "Deleted 10.7.0.0"))]

    told = told_as_by_linux(done, native, ADDRESSES, workdir / "heard", shown, "10.0.0.2")
    assert len(told) > 20


def plain(text):
    """The answers of `ip link` without what is a machine's own: hardware addresses, numbers, lifetimes to the second, and what a
    device is capable of."""
    text = re.sub(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", "MAC", text)
    text = re.sub(r"\b\d+: (?=\w)|@if\d+", "", text)
    text = re.sub(r"(promiscuity|allmulti|minmtu|maxmtu|numtxqueues|numrxqueues|gso_max_size|gso_max_segs|tso_max_size|tso_max_segs|gro_max_size|"
                  r"gso_ipv4_max_size|gro_ipv4_max_size) \d+ ?|addrgenmode eui64 |8999\dsec|\b90000sec", "", text)
    return [line.strip() for line in text.splitlines()]


@pytest.mark.needs("ip", "unshare")
def test_dummies_vlans_and_lifetimes_are_linuxs(run_experiment):
    setup = ("sysctl -qw net.ipv6.conf.default.accept_dad=0 && ip link set lo up && ip link add eth0 type veth peer name peer && ip link set eth0 up && "
             "ip link set peer up && ip addr add 10.0.0.1/24 dev eth0 && ip link add probe type dummy && ip link add link eth0 name probe.1 type vlan id 1 && "
             "ip link del probe && ip link del probe.1 && /usr/bin/python3 -c \"$0\" \"$1\"")
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "routes": [], "processes": [python(ASK, NEW_LINKS)]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], **{"belljar": {"ipv6": True}}))

    ours = plain(done.text("a", "python3"))
    assert ours == best(lambda: plain(in_a_namespace(setup, ASK, NEW_LINKS)), lambda theirs: theirs == ours)


@pytest.mark.needs("ip", "unshare")
def test_the_groups_of_an_interface_are_linuxs(run_experiment):
    """All of them, with the addresses of Ethernet that they have; what comes of the hardware's own address left out."""
    setup = ("sysctl -qw net.ipv6.conf.default.accept_dad=0 && ip link set lo up && ip link add eth0 type veth peer name peer && ip link set eth0 up && "
             "ip link set peer up && ip addr add 10.0.0.1/24 dev eth0 && ip addr add 2001:db8::1/64 dev eth0 && ")
    ask = "ip maddr show dev lo; ip maddr show dev eth0"
    hosts = {"a": {"interfaces": {"eth0": ["10.0.0.1/24", "2001:db8::1/64"]}, "processes": [{"path": "sh", "args": ["-c", ask], "start_time": "4 s"}]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], **{"belljar": {"ipv6": True}}))
    groups = lambda text: sorted(re.findall(r"(?:link|inet6?) +(?!\S*:ff(?!00:)\S+:\S+$)\S+", text, re.M))

    ours = groups(done.text("a", "sh"))
    assert ours == best(lambda: groups(in_a_namespace(setup + ask)), lambda theirs: theirs == ours) and len(ours) > 8


LISTINGS = """
ip route add default via 10.0.0.2; ip route add 10.3.0.0/16 via 10.0.0.2; ip route add 10.3.0.0/24 via 10.0.0.3; ip route add 9.0.0.0/8 via 10.0.0.2 metric 5
ip -4 route; cut -f2,8 /proc/net/route; ip neigh replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev eth0; ip neigh show proxy; echo
cd /sys/class/net/eth0; ls statistics; cat flags addr_len broadcast uevent statistics/rx_errors statistics/tx_dropped; cat ../lo/flags
tr -d 0-9 < /proc/net/sockstat; tr -d 0-9 < /proc/net/sockstat6
"""


@pytest.mark.needs("ip", "unshare")
def test_listings_of_routes_sockets_and_counters_are_linuxs(run_experiment):
    setup = ("ip link set lo up && ip link add eth0 type veth peer name peer && ip link set eth0 up && ip link set peer up && ip addr add 10.0.0.1/24 dev eth0 && "
             "exec unshare -m sh -c \"mount -t sysfs sysfs /sys && $0\"")
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "routes": [], "processes": [{"path": "sh", "args": ["-c", LISTINGS]}]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}]))
    lines = lambda text: [line.rstrip() for line in re.sub(r"IFINDEX=\d+", "", text).splitlines()]

    ours = lines(done.text("a", "sh"))
    assert ours == best(lambda: lines(in_a_namespace(setup, LISTINGS)), lambda theirs: theirs == ours)


@pytest.mark.needs("ip", "ping")
def test_counters_of_interfaces_are_those_of_ip(run_experiment):
    count = "ping -n -c 3 10.0.0.2 > /dev/null; ip -s -j link show eth0; cd /sys/class/net/eth0/statistics; echo; cat rx_bytes rx_packets tx_bytes tx_packets"
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [{"path": "sh", "args": ["-c", count]}]}, "b": {"interfaces": {"eth0": "10.0.0.2/24"}, "processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b:eth0"]}]))
    said, *numbers = done.text("a", "sh").splitlines()
    shown = json.loads(said)[0]["stats64"]
    assert [int(number) for number in numbers if number] == [shown[way][what] for way in ("rx", "tx") for what in ("bytes", "packets")]
    assert shown["rx"]["packets"] >= 3


POLICY = """
import os, socket, sys
def ask(own, mark, ports=(0, 80), uid=0):
    os.seteuid(uid)
    s = socket.socket()
    os.seteuid(0)
    if mark: s.setsockopt(socket.SOL_SOCKET, 36, mark)
    if own or ports[0]: s.bind((own or "", ports[0]))
    s.settimeout(2)
    try:
        s.connect(("10.9.0.1", ports[1]))
        return s.recv(9).decode() + " " + s.getsockname()[0]
    except OSError as e: return str(e.errno)
if len(sys.argv) > 1: print(ask(None, 0), ask(None, 0, (0, 81)), sep=", ")
else:
    print(ask(None, 0), ask("10.0.2.1", 0), ask(None, 5), ask(None, 9), sep=", ")
    print(ask(None, 0, (5000, 81)), ask(None, 0, (5002, 81)), ask(None, 0, (5001, 80)), ask(None, 0, uid=8), ask(None, 0, uid=9), sep=", ")
"""
SERVE = """import select, socket, sys
listening = [socket.create_server(("10.9.0.1", port)) for port in (80, 81)]
while True:
    for s in select.select(listening, [], [])[0]: s.accept()[0].sendall(sys.argv[1].encode())
"""


@pytest.mark.needs("ip")
def test_policy_routing_decides_by_source_mark_and_interface(run_experiment):
    """Two uplinks, the server of the same address behind each: who sends, and with which mark, decides which one answers; and
    a router that passes packets on does so by where they come from."""
    setup = """
        ip rule add from 10.0.2.0/24 table 2 && ip route add default via 10.0.2.9 table 2
        ip rule add fwmark 5 table 2 && ip rule add fwmark 9 prohibit
        ip rule add ipproto tcp dport 81 sport 5000-5001 table 2 && ip rule add uidrange 7-8 table 2"""
    forward = """ip rule add from 10.7.0.0/24 iif eth2 table 2 && ip route add default via 10.0.2.9 table 2
        ip route add default via 10.0.1.9 table 3 && ip rule add ipproto tcp dport 81 table 3"""
    server = lambda name, own: {"interfaces": {"eth0": own}, "routes": [{"to": "default", "via": own[0].replace("9/24", "8")}],
                                "processes": [{"path": "sh", "args": ["-c", "ip addr add 10.9.0.1/32 dev lo"]}, python(SERVE, name)]}
    hosts = {
        "a": {"interfaces": {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24"}, "routes": [{"to": "default", "via": "10.0.1.9"}],
              "processes": [{"path": "sh", "args": ["-c", setup]}, python(POLICY, start="2 s")]},
        "r": {"forwarding": True, "interfaces": {"eth0": "10.0.1.8/24", "eth1": "10.0.2.8/24", "eth2": "10.7.0.1/24"}, "routes": [{"to": "default", "via": "10.0.1.9"}],
              "processes": [{"path": "sh", "args": ["-c", forward]}]},
        "c": {"interfaces": {"eth0": "10.7.0.2/24"}, "routes": [{"to": "default", "via": "10.7.0.1"}], "processes": [python(POLICY, "once", start="3 s")]},
        "x": server("one", ["10.0.1.9/24"]), "y": server("two", ["10.0.2.9/24"]),
    }
    links = [{"between": [end, "s"]} for end in ("a:eth0", "r:eth0", "x:eth0")] + [{"between": [end, "t"]} for end in ("a:eth1", "r:eth1", "y:eth0")]
    done = run_experiment(world(hosts, [*links, {"between": ["r:eth2", "c:eth0"]}], switches=["s", "t"]))
    # The address was chosen before the rule about it was asked.
    by_ports_and_users = "two 10.0.2.1, one 10.0.1.1, one 10.0.1.1, two 10.0.2.1, one 10.0.1.1\n"
    assert done.text("a", "python3") == "one 10.0.1.1, two 10.0.2.1, two 10.0.2.1, 13\n" + by_ports_and_users
    assert done.text("c", "python3") == "two 10.7.0.2, one 10.7.0.2\n"
