"""What is run over ssh and by supervisors: commands with keys, rsync, git, cron, runit, and a C project built by make."""

import shutil
import subprocess

import pytest
from conftest import experiment

SSH = "-o StrictHostKeyChecking=no -o BatchMode=yes -i id"


def at(second, command, user=None, state=0):
    process = {"path": "bash", "args": ["-ec", command], "start_time": f"{second} s",
               "expected_final_state": state if isinstance(state, str) else {"exited": state}}
    return process | ({"user": user} if user else {})


@pytest.fixture
def ssh_hosts(workdir):
    """An sshd that lets root in by a key of this test's, and the preparation of a client."""
    if not all(shutil.which(p) for p in ("ssh", "sshd", "ssh-keygen")):
        pytest.skip("openssh is not installed")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", workdir / "id"], check=True)
    server = at(0, f"mkdir -p /run/sshd ~/.ssh; chmod 700 ~ ~/.ssh; cp {workdir}/id.pub ~/.ssh/authorized_keys; "
                   "chmod 600 ~/.ssh/authorized_keys; rm -f /etc/ssh/ssh_host_*; ssh-keygen -A > keys; exec /usr/sbin/sshd",
                state="running")
    return server, f"cp {workdir}/id id; chmod 600 id; "


def test_ssh_runs_commands(run_experiment, ssh_hosts):
    server, prepare = ssh_hosts
    client = at(3, prepare + f"""
        ssh {SSH} root@server 'hostname; echo $SSH_CLIENT; cat | wc -c' < <(head -c 1000000 /dev/zero)
        ssh {SSH} root@server 'exit 7' || echo $?
        ssh {SSH} -tt root@server 'tty' < /dev/null | tr -d '\\r'
        ssh {SSH} root@server 'echo to-stderr >&2'
        ssh -o StrictHostKeyChecking=no -o BatchMode=yes -i /nothing root@server true || echo refused""")
    done = run_experiment(experiment({"client": (0, [client]), "server": (0, [server])}, stop="60 s"))
    said = done.text("client").splitlines()
    assert said[0] == "server" and said[1].startswith("11.0.0.1 ") and said[2:4] == ["1000000", "7"], said
    assert said[4].startswith("/dev/pts/") and said[-1] == "refused", said
    assert "to-stderr" in done.streams("client", kind="stderr")[0].read_text()


@pytest.mark.needs("rsync", "git")
def test_rsync_and_git_over_ssh(run_experiment, ssh_hosts):
    server, prepare = ssh_hosts
    client = at(3, prepare + f"""
        export GIT_SSH_COMMAND='ssh {SSH}' GIT_CONFIG_GLOBAL=$PWD/config
        mkdir tree; cp -r /usr/share/common-licenses/GPL-3 tree/; seq 100000 > tree/numbers; ln -s numbers tree/link
        rsync -az -e 'ssh {SSH}' tree/ root@server:/srv/tree/
        echo 100001 >> tree/numbers; rsync -az --stats -e 'ssh {SSH}' tree/ root@server:/srv/tree/ | grep 'files transferred'
        git config --global user.name x; git config --global user.email x@x; git config --global init.defaultBranch main
        ssh {SSH} root@server 'git init -q --bare /srv/it.git -b main'
        git init -q it; cd it; cp ../tree/numbers .; git add .; git commit -qm first; cp ../id ..; export GIT_SSH_COMMAND='ssh {SSH.replace("id", "../id")}'
        git push -q root@server:/srv/it.git main; cd ..
        export GIT_SSH_COMMAND='ssh {SSH}'; git clone -q root@server:/srv/it.git again; git -C again log --format=%s; cmp again/numbers tree/numbers && echo same""".replace("cp ../id ..;", ""))
    done = run_experiment(experiment({"client": (0, [client]), "server": (0, [server])}, stop="100 s"))
    assert done.text("client").splitlines() == ["Number of regular files transferred: 1", "first", "same"]
    received = done.host("server") / "fs/srv/tree"
    assert (received / "numbers").read_text() == "".join(f"{n}\n" for n in range(1, 100002))
    assert (received / "link").is_symlink()


@pytest.mark.needs("cron")
def test_cron(run_experiment):
    start = at(0, "mkdir -p /var/spool/cron/crontabs; echo '* * * * * date +\\%T >> /tmp/ticks' > /var/spool/cron/crontabs/root; "
                  "chmod 600 /var/spool/cron/crontabs/root; cron")
    done = run_experiment(experiment({"host": (0, [start, at(200, "cat /tmp/ticks")])}, stop="210 s"))
    assert done.streams("host", "bash")[-1].read_text() == "00:01:01\n00:02:01\n00:03:01\n"


@pytest.mark.needs("runsvdir", "sv")
def test_runit_restarts_what_ends(run_experiment):
    start = at(0, """mkdir -p /srv/one; printf '#!/bin/sh\\necho start >> /tmp/starts; exec sleep 10\\n' > /srv/one/run
        chmod +x /srv/one/run; exec runsvdir /srv""", state="running")
    look = at(35, "cat /tmp/starts | wc -l; sv status /srv/one | cut -d' ' -f1; sv down /srv/one; sleep 1; sv status /srv/one | cut -d: -f1")
    done = run_experiment(experiment({"host": (0, [start, look])}, stop="60 s"))
    assert done.streams("host", "bash")[-1].read_text().splitlines() == ["4", "run:", "down"]


@pytest.mark.needs("make", "gcc")
def test_make_builds_a_project(run_experiment):
    build = at(0, r"""
        for n in 1 2 3 4 5 6; do echo "int f$n(void) { return $n; }" > f$n.c; done
        echo 'int f1(void), f6(void); int main(void) { return f1() + f6() - 7; }' > main.c
        printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o f6.o\n\tgcc -o $@ $^\n' > Makefile
        make -sj4; ./prog && echo works; make -s -q && echo up to date; touch f3.c; make -q || echo outdated""")
    for placement in ("auto", "far"):
        done = run_experiment(experiment({"host": (0, [build])}), args=["--placement", placement])
        assert done.text("host").splitlines() == ["works", "up to date", "outdated"]
