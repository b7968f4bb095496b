"""Programs that make namespaces and run others in them: on this machine and under Belljar, near and far, with the same output."""

import os
import shutil

import pytest
from conftest import best, execute

SCRIPTS = {
    # A shell as root in namespaces of users, processes and mounts, with /proc of its own.
    "unshare": ("unshare", """
        unshare -Urpfmu --mount-proc sh -c 'hostname inside; echo $$ $(id -u) $(hostname); set -- /proc/[0-9]*; echo $#; cat /proc/self/uid_map | tr -s " "'
    """),
    # The same from outside: nsenter finds what was made, and lsns lists it.
    "nsenter": ("unshare nsenter lsns", """
        mkfifo go ready
        unshare -Urpfmu --mount-proc sh -c 'hostname inside; echo > ready; read line < go' &
        read line < ready
        inner=$(lsns -t pid -n -o PID -p $(pgrep -P $!) | tr -d " ")
        nsenter -t $inner -U -p -m -u --preserve-credentials sh -c 'echo $(hostname) $(cat /proc/1/comm) $(id -u)'
        lsns -t uts -n -o NPROCS,TYPE -p $inner | tr -s " "
        echo > go
        wait
    """),
    # A sandbox: everything read-only, of its own, and without a network.
    "bwrap": ("bwrap", """
        bwrap --ro-bind / / --unshare-all --hostname inside --uid 7 --gid 8 --proc /proc --dev /dev --tmpfs /tmp --die-with-parent \\
            sh -c 'echo $$ $(id -u) $(id -g) $(hostname); set -- /proc/[0-9]*; echo $#; : > /dev/null; ls /dev/null /dev/ptmx; : > /tmp/x && ls /tmp;
                   touch /etc/x 2>&1 | grep -o "Read-only"; cut -d: -f1 /proc/net/dev | tail -1 | tr -d " "'
    """),
    # The same as somebody who has no rights.
    "bwrap-user": ("bwrap setpriv", """
        chmod 755 .
        setpriv --reuid 4711 --regid 4711 --clear-groups bwrap --ro-bind / / --unshare-all --proc /proc --dev /dev --tmpfs /tmp sh -c 'echo $$ $(id -u) $(id -g); stat -c "%u %g" / /tmp'
    """),
    # Networks by name, and a link between two of them.
    "netns": ("ip ping", """
        mount -t tmpfs tmpfs /run
        ip netns add one
        ip netns add two
        ip link add left netns one type veth peer name right netns two
        ip -n one addr add 10.9.0.1/24 dev left
        ip -n two addr add 10.9.0.2/24 dev right
        ip -n one link set left up
        ip -n two link set right up
        ip -n one link set lo up
        ip netns exec one ping -c 2 -q 10.9.0.2 | grep -o '2 received'
        ip netns exec one ping -c 1 -q 10.9.0.1 | grep -o '1 received'
        ip netns exec two ping -c 1 -q 10.9.0.9 2>&1 | grep -o '0 received'
        ip -n two neigh show 10.9.0.1 | cut -d' ' -f1-3
        ip -n one route | cut -d' ' -f1-9
        ip -n one -br addr show left | tr -s ' ' | cut -d' ' -f2,3
        ls /run/netns
        ip netns del two
        for turn in $(seq 100); do ip -n one link show left > /dev/null 2>&1 || break; sleep 0.1; done
        ip -n one -br link show left 2>&1 | cut -c1-24
        ip link add here type veth peer name there
        ip link set there netns one
        ip addr add 10.8.0.1/24 dev here
        ip link set here up
        ip -n one addr add 10.8.0.2/24 dev there
        ip -n one link set there up
        ping -c 1 -q 10.8.0.2 | grep -o '1 received'
        ip netns exec one ping -c 1 -q 10.8.0.1 | grep -o '1 received'
        ip -n one link del there
        ip link show here 2>&1 | grep -o 'does not exist'
    """),
    # Connections from the first network into another and back, over a pair whose ends have names that the first has too.
    "netns-tcp": ("ip python3", """
        mount -t tmpfs tmpfs /run
        ip netns add inner
        ip link add lo2 type veth peer name lo3
        ip link add outside type veth peer name lo2 netns inner
        ip -n inner link set lo2 name inside
        ip addr add 10.7.0.1/24 dev outside
        ip link set outside up
        ip -n inner addr add 10.7.0.2/24 dev inside
        ip -n inner link set inside up
        cat > serve.py <<'END'
import socket, sys
listener = socket.create_server((sys.argv[1], 80))
open(sys.argv[2], "w").close()
connection, peer = listener.accept()
length = sum(iter(lambda: len(connection.recv(65536)), 0))
connection.sendall(f"{length} bytes from {peer[0]}".encode())
END
        cat > ask.py <<'END'
import socket, sys
connection = socket.create_connection((sys.argv[1], 80))
connection.sendall(b"x" * 300000)
connection.shutdown(socket.SHUT_WR)
print(connection.recv(100).decode())
END
        ip netns exec inner python3 serve.py 10.7.0.2 in &
        while ! test -e in; do sleep 0.1; done
        python3 ask.py 10.7.0.2
        python3 serve.py 10.7.0.1 out &
        while ! test -e out; do sleep 0.1; done
        ip netns exec inner python3 ask.py 10.7.0.1
        ip link add more type veth peer name inside netns inner 2>&1 | grep -o 'File exists'
        ip link set lo2 netns inner && ip -n inner -br link | cut -d' ' -f1 | cut -d@ -f1 | sort
        wait
    """),
}


@pytest.mark.parametrize("placement", ["near", "far"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_as_on_this_machine(name, placement, exec_guest, workdir):
    needs, script = SCRIPTS[name]
    missing = [program for program in needs.split() if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if os.getuid() != 0:
        pytest.skip("only the superuser's namespaces are compared")
    folder = workdir / "native"
    folder.mkdir()
    native = best(lambda: execute(["unshare", "-mn", "sh", "-c", f"cd {folder}\n{script}"]), lambda run: run.status == 0 and run.out)
    if native.status != 0 or not native.out:
        pytest.skip(f"this machine does not do it:\n{native}")
    ours = exec_guest(["sh", "-c", script], env={**os.environ, "BELLJAR_PLACEMENT": placement})
    assert ours.out == native.out, f"natively:\n{native.out}\nunder Belljar:\n{ours}"
