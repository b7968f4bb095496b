"""Programs that run others in namespaces of their own."""

from .cases import answers, case, shell

INSIDE = "echo $$ $(id -u) $(hostname) $(readlink /proc/self/ns/pid | cut -d: -f1); ls /proc | grep -c '^[0-9]'; touch /etc/x 2>&1 | grep -o Read-only; echo /dev/null > /dev/null"


@case("bubblewrap", "bwrap", "bubblewrap", "bwrap --version",
      "a shell in namespaces of all kinds, as root and as another user",
      tolerates=())
def bubblewrap():
    def hosts(folder):
        command = ("bwrap --ro-bind / / --unshare-all --hostname inside --uid 7 --gid 8 "
                   f"--proc /proc --dev /dev --tmpfs /tmp sh -c {quoted(INSIDE)}")
        return {"client": (0, [shell(1, command)]), "other": (0, [{**shell(1, command), "user": "nobody"}])}

    def check(done):
        answers(done, "2 7 inside pid", "Read-only")
        assert done.text("other") == done.text("client")

    return hosts, check


@case("util-linux, unshare", "unshare nsenter lsns", "util-linux", "unshare --version",
      "namespaces of users, processes, mounts, names and time, entered by nsenter and listed by lsns")
def unshare():
    def hosts(folder):
        script = """unshare -Urpfmu --mount-proc sh -c 'hostname inside; echo $$ $(id -u) $(hostname); sleep 5' &
sleep 1
inner=$(pgrep -x sleep)
nsenter -t $inner -U -p -m -u sh -c 'echo $(hostname) $(cat /proc/1/comm)'
lsns -t pid -n -o NPROCS,COMMAND | sort
"""
        return {"client": (0, [shell(1, script)])}

    return hosts, lambda done: answers(done, "1 0 inside", "inside sh")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"
