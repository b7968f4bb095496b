"""EVPN (RFC 8365) of FRRouting: bgpd and zebra distribute the stations behind VXLAN interfaces, which do not learn."""

import json
import re

import pytest

LEAF = """
own={own}
ip link add br0 type bridge; ip link set br0 up
ip link add vx10 type vxlan id 10 dstport 4789 local $own nolearning
ip link set vx10 mtu 1500 master br0 up
bridge link set dev vx10 learning off
ip link set eth1 master br0
mkdir -p /run/frr /etc/frr
cat > /etc/frr/frr.conf <<'END'
hostname leaf
ip nht resolve-via-default
router bgp 65001
 bgp router-id {own}
 no bgp default ipv4-unicast
 neighbor {peer} remote-as 65001
 neighbor {peer} timers connect 3
 address-family l2vpn evpn
  neighbor {peer} activate
  advertise-all-vni
 exit-address-family
END
chown -R frr:frr /run/frr /etc/frr
PATH=$PATH:/usr/lib/frr
zebra -d -f /etc/frr/frr.conf
bgpd -d -f /etc/frr/frr.conf
"""


def fabric():
    owns = {"leaf1": "10.0.1.2", "leaf2": "10.0.2.2"}
    shows = [{"path": "bash", "args": ["-c", command], "start_time": "55 s"} for command in (
        "bridge fdb show dev vx10", "vtysh -c 'show evpn mac vni 10'", "vtysh -c 'show bgp l2vpn evpn summary'", "ip -s -d link show vx10")]
    hosts = {
        "spine": {"forwarding": True, "interfaces": {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24"}},
        "red1": {"interfaces": {"eth0": "192.168.0.1/24"},
                 "processes": [{"path": "ping", "args": ["-c", "3", "192.168.0.2"], "start_time": "50 s"}]},
        "red2": {"interfaces": {"eth0": "192.168.0.2/24"}},
    }
    for leaf, own in owns.items():
        peer = next(ip for other, ip in owns.items() if other != leaf)
        script = LEAF.format(own=own, peer=peer)
        hosts[leaf] = {"interfaces": {"eth0": f"{own}/24", "eth1": []}, "processes": [{"path": "bash", "args": ["-c", script]}, *shows]}
    return {
        "general": {"stop_time": "60 s"},
        "hosts": hosts,
        "links": [{"between": ["spine:eth0", "leaf1:eth0"], "mtu": 1600}, {"between": ["spine:eth1", "leaf2:eth0"], "mtu": 1600},
                  {"between": ["leaf1:eth1", "red1:eth0"]}, {"between": ["leaf2:eth1", "red2:eth0"]}],
    }


@pytest.mark.needs("vtysh", "ip", "bridge", "ping")
def test_evpn(run_experiment):
    done = run_experiment(fabric())
    shown = "".join(stream.read_text() for stream in done.streams("leaf1", "bash"))
    # The receiver of flooded frames and the far station, both by bgpd.
    assert re.search(r"00:00:00:00:00:00 dst 10\.0\.2\.2 self", shown), shown
    assert re.search(r"[0-9a-f:]{17} dst 10\.0\.2\.2 self extern_learn", shown), shown
    assert re.search(r"[0-9a-f:]{17} +remote +10\.0\.2\.2", shown), shown
    assert ", 0% packet loss" in "".join(stream.read_text() for stream in done.streams("red1", "ping"))
    assert json.loads((done.path / "sim-stats.json").read_text())
