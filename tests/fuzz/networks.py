"""Networks for sequences of rtnetlink requests: natively a network namespace, under Belljar a host with a link, which equal each other."""

import functools
import os
import subprocess

# The addresses of the interface: usable at once, and no router is looked for.
SETTINGS = """( cd /proc/sys/net/ipv6/conf
for name in default eth0; do [ ! -e $name ] || { echo 0 > $name/accept_dad; echo 0 > $name/router_solicitations; }; done )
"""
GIVE = """ip addr add 10.0.0.1/24 brd + dev eth0
[ $V6 = 0 ] || ip addr add 2001:db8::1/64 dev eth0
"""
# The far end is in a namespace of its own, where no host answers. The interface is made there, with the name and addresses of the host.
OUTER = 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; unshare -n sh -c "$0" "$@"; exit $?'
INNER = """
set -e
V6=$0
( cd /proc/sys/net/ipv6/conf/default; echo 0 > accept_dad; echo 0 > router_solicitations; echo $((1 - V6)) > disable_ipv6 )
ip link set lo up
ip link add name eth0 address 02:00:00:00:00:01 mtu 1500 type veth peer name far netns $PPID
nsenter -t $PPID -n ip link set far up
ip link set eth0 up
""" + GIVE + """exec "$@"
"""


def host_of(lines):
    """None for a sequence that needs no network; else whether its host has IPv6."""
    if not any(line.startswith("nl_") for line in lines):
        return None
    return "nl_host 0" not in lines


@functools.cache
def refusal():
    """Why this machine has no network namespaces for the sequences; None if it has."""
    done = subprocess.run(namespace(True) + ["true"], capture_output=True, text=True, timeout=60)
    return done.stderr.strip() or "unshare failed" if done.returncode else None


def namespace(v6):
    """The command that starts another one in a namespace with such an interface."""
    user = [] if os.geteuid() == 0 else ["-r"]
    return ["unshare", *user, "-n", "sh", "-c", OUTER, INNER, str(int(v6))]


def world(hosts):
    """The part of an experiment that gives these hosts (name -> whether it has IPv6) their interface: each has a switch of its own."""
    return {
        "switches": [f"{name}-far" for name in hosts],
        "links": [{"between": [f"{name}:eth0", f"{name}-far"]} for name in hosts],
    }


def host(v6):
    """The host's part of it. Hosts of an experiment have different addresses: the program gives the interface those of the sequence."""
    return {"ipv6": v6, "interfaces": {"eth0": {"addresses": [], "mac": "02:00:00:00:00:01"}}}


def settings(v6):
    """Commands of the host before the sequence."""
    return f"V6={int(v6)}\n{SETTINGS}{GIVE}"
