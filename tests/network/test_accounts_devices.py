"""Every packet is accounted for where hosts have devices of their own: random tunnels, bridges, filters and disciplines.

Programs send over tunnels, VLANs, bridges and network namespaces, while netfilter, tc and the links between hosts drop packets. `BELLJAR_ACCOUNTS_SEED=<seed>` draws one experiment
alone."""

import json
import os
import random

import pytest
import yaml
from conftest import execute

from test_accounts import draw_link

BATCH, QUICK, COUNT = 10, 20, 150
#: Commands that give a host the address 10.9.0.N/24 towards the others, by kind of device. `{n}` is its number, `{o}` that of the other host.
DEVICES = {
    "none": "ip addr add 10.9.0.{n}/24 dev eth0",
    "gre": "ip link add t0 type gre local 10.0.0.{n} remote 10.0.0.{o}; ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0",
    "gretap": "ip link add t0 type gretap local 10.0.0.{n} remote 10.0.0.{o} key 5; ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0",
    "ipip": "ip link add t0 type ipip local 10.0.0.{n} remote 10.0.0.{o}; ip link set t0 up mtu 900; ip addr add 10.9.0.{n}/24 dev t0",
    "vxlan": "ip link add t0 type vxlan id 7 dstport 4789 local 10.0.0.{n} remote 10.0.0.{o}; ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0",
    "wireguard": "ip link add t0 type wireguard; wg set t0 listen-port 51820 private-key {key} peer {peer} allowed-ips 10.9.0.0/24 endpoint 10.0.0.{o}:51820; "
                 "ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0",
    "vlan": "ip link add t0 link eth0 type vlan id 5; ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0",
    "macvlan": "ip link add t0 link eth0 type macvlan mode bridge; ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0",
    "ipvlan": "ip link add t0 link eth0 type ipvlan mode l2; ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0",
    "routed ipvlan": "ip link add t0 link eth0 type ipvlan mode l3s; ip link set t0 up; ip addr add 10.9.0.{n}/24 dev t0; ip route add 10.9.0.{o} via 10.0.0.{o} dev eth0",
    "bond": "ip link add b0 type bond mode active-backup miimon 50; ip addr flush dev eth0; ip link set eth0 down; ip link set eth0 master b0; ip link set b0 up; "
            "ip addr add 10.0.0.{n}/24 dev b0; ip addr add 10.9.0.{n}/24 dev b0",
    "broadcasting bond": "ip link add b0 type bond mode broadcast; ip link add v0 type veth peer name v1; ip link set v1 up; for p in eth0 v0; do ip addr flush dev $p; ip link set $p down; "
                         "ip link set $p master b0; done; ip link set b0 up; ip addr add 10.0.0.{n}/24 dev b0; ip addr add 10.9.0.{n}/24 dev b0",
    "bridge": "ip link add br0 type bridge; ip link set br0 up; ip link set eth0 master br0; ip addr del 10.0.0.{n}/24 dev eth0; ip addr add 10.0.0.{n}/24 dev br0; "
              "ip addr add 10.9.0.{n}/24 dev br0; ip link add v0 type veth peer name v1; ip link set v0 up master br0; ip link set v1 up",
    "namespace": "ip netns add n; ip link add v0 type veth peer name v1 netns n; ip link set v0 up; ip addr add 10.9.{n}.1/24 dev v0; sysctl -qw net.ipv4.ip_forward=1; "
                 "ip netns exec n sh -c 'ip link set lo up; ip link set v1 up; ip addr add 10.9.{n}.2/24 dev v1; ip route add default via 10.9.{n}.1; iptables -A OUTPUT -p icmp -m length --length 0:99 -j DROP'; "
                 "ip addr add 10.9.0.{n}/24 dev eth0; ip route add 10.9.{o}.0/24 via 10.0.0.{o}",
}
#: Commands that drop packets.
DROPS = [
    "iptables -A INPUT -p icmp -m statistic --mode nth --every 3 --packet 0 -j DROP", "iptables -A OUTPUT -p udp --dport 9 -j DROP", "iptables -A INPUT -p udp --dport 9 -j REJECT",
    "nft 'add table ip f; add chain ip f i {{ type filter hook prerouting priority 0; }}; add rule ip f i ip length > 1200 drop'",
    "nft 'add table ip g; add chain ip g o {{ type filter hook postrouting priority 0; }}; add rule ip g o ip length 300-600 drop'",
    "tc qdisc add dev eth0 root netem loss 20% duplicate 20% delay 3ms limit 4", "tc qdisc add dev eth0 root tbf rate 500kbit burst 3kb limit 4kb",
    "tc qdisc add dev eth0 root fq_codel limit 3 flows 4", "tc qdisc add dev eth0 ingress; tc filter add dev eth0 ingress protocol ip matchall action police rate 300kbit burst 3k drop",
    "tc qdisc add dev eth0 ingress; tc filter add dev eth0 ingress protocol ip u32 match u32 0 0 action drop",
    "ip link add ifb0 type ifb; ip link set ifb0 up; tc qdisc add dev ifb0 root tbf rate 400kbit burst 3kb limit 4kb; tc qdisc add dev eth0 ingress; "
    "tc filter add dev eth0 ingress protocol ip matchall action mirred egress redirect dev ifb0",
    "ip route add blackhole 10.8.0.0/16; ip rule add to 10.7.0.0/16 prohibit", "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.ip_forward=1", "ip neigh add 10.0.0.77 lladdr 02:00:00:00:00:77 dev eth0",
]


def sending(draw, other):
    """A shell command that sends packets, some of which nobody takes."""
    to = draw.choice([f"10.9.0.{other}", f"10.9.0.{other}", f"10.0.0.{other}", f"10.9.{other}.2", "10.8.0.1", "10.7.0.1", "10.0.0.77", "10.0.0.78", "10.9.0.255", "224.0.0.9"])
    return draw.choice([
        f"ping -b -c 25 -i 0.01 -W 0.3 -s {draw.choice([20, 400, 1400, 4000])} {to}",
        f"timeout 1 bash -c 'for n in $(seq 40); do head -c {draw.choice([10, 500, 1400])} /dev/zero > /dev/udp/{to}/{draw.choice([9, 53])}; done'",
        f"timeout 1 bash -c 'head -c 60000 /dev/zero > /dev/tcp/{to}/80'",
    ])


def draw_experiment(seed, devices=True):
    draw = random.Random(f"devices {seed}")
    hosts = {}
    kind = list(DEVICES)[seed % len(DEVICES)]
    for n, other in ((1, 2), (2, 1)):
        words = {"n": n, "o": other, "key": f"/tmp/key{n}", "peer": f"$(wg pubkey < /tmp/key{other})"}
        setup = "for n in 1 2; do printf '%041d%d0=\\n' 0 $n > /tmp/key$n; done; " if kind == "wireguard" else ""
        setup += DEVICES[kind]
        drops = draw.sample(DROPS, draw.randrange(3))
        if sum("qdisc add dev eth0 ingress" in drop for drop in drops) > 1 or sum("eth0 root" in drop for drop in drops) > 1:
            drops = drops[:1]
        hosts[f"h{n}"] = {
            "interfaces": {"eth0": f"10.0.0.{n}/24"},
            "processes": [{"path": "sh", "args": ["-c", sending(draw, other)], "start_time": f"{draw.randrange(100, 600)} ms", "expected_final_state": "any"} for _ in range(draw.randrange(1, 4))],
        }
        if devices:
            hosts[f"h{n}"]["setup"] = [part.format(**words) for part in (setup, *drops)]
    return {"general": {"stop_time": "3 s", "seed": seed}, "hosts": hosts, "links": [{"name": "l", "between": ["h1", "h2"], **draw_link(draw)}]}


def account_of(belljar, command, workdir, seed, experiment):
    (workdir / "experiment.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    data = workdir / f"{command}{seed}"
    done = execute([belljar, command, workdir / "experiment.yaml", "-o", data, "--no-progress"])
    assert done.status == 0, f"seed {seed}: {done}\n{yaml.safe_dump(experiment, sort_keys=False)}"
    said = json.loads((data / "sim-stats.json").read_text())
    wrong = [what for what in said["warnings"] if "account does not balance" in what]
    assert not wrong, f"seed {seed}: {wrong}\n{yaml.safe_dump(experiment, sort_keys=False)}"
    accounts = said.get("packets", {}).values()
    dropped = sum(sum(account.get("drops", {}).values()) for account in accounts)
    assert f" {dropped} dropped" in done.out, f"seed {seed}: {done}"
    return {reason for account in accounts for reason in account.get("drops", {})}


def seeds():
    if one := os.environ.get("BELLJAR_ACCOUNTS_SEED"):
        return [(int(one), int(one) + 1)]
    return [pytest.param(n, n + BATCH, marks=[pytest.mark.slow] if n >= QUICK else []) for n in range(0, COUNT, BATCH)]


@pytest.mark.needs("ip", "iptables", "nft", "tc", "wg", "ping")
@pytest.mark.parametrize("first, end", seeds())
def test_every_sum_holds_with_devices_of_hosts(belljar, workdir, first, end):
    reasons = set()
    for seed in range(first, end):
        reasons |= account_of(belljar, "run", workdir, seed, draw_experiment(seed))
    if end - first == BATCH:
        assert len(reasons) > 2, reasons


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user may lack the namespaces of an emulation")
@pytest.mark.needs("ping")
def test_every_sum_holds_in_emulations(belljar, workdir):
    """Links that lose, delay and queue; the machine's kernel may lack the devices."""
    for seed in range(2):
        experiment = draw_experiment(seed, devices=False)
        account_of(belljar, "emulate", workdir, seed, experiment)
