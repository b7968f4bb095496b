"""Sessions: shells and their scripts, terminals and job control, other users, sshd with keys made by the hosts."""

import re

import pytest
from conftest import EXAMPLES

SHELL = r"""
trap 'echo exit trap' EXIT
trap 'echo term trap' TERM
(echo sub; exit 3); echo "status $?"
cat <<X | tr a-z A-Z
here document $((1 + 2))
X
for i in 1 2 3; do (sleep 0.$i; echo background $i) & done; wait; echo waited
kill -TERM $$; echo after
a=$(echo one | sed s/o/0/ | cat); echo "$a"
sh -c 'exit 5' & wait $!; echo "status $?"
sleep 100 & p=$!; sleep 0.1; kill $p; wait $p; echo "status $?"
echo a >f; echo b >>f; while read -r line; do echo "line $line"; done <f
"""
SHELL_SAYS = """sub
status 3
HERE DOCUMENT 3
background 1
background 2
background 3
waited
term trap
after
0ne
status 5
status 143
line a
line b
exit trap
"""
BASH = r"""
coproc cat; echo to >&${COPROC[1]}; read -ru ${COPROC[0]} line; echo "from $line"; kill %1; wait %1 2>/dev/null
diff <(echo a) <(echo b); echo "status $?"
set -o pipefail; false | true; echo "status $?"
timeout 1 sleep 10; echo "status $?"
read -rt 0.5 x < <(sleep 2); echo "status $?"
"""
BASH_SAYS = "from to\n1c1\n< a\n---\n> b\nstatus 1\nstatus 1\nstatus 124\nstatus 142\n"


@pytest.mark.parametrize("shell", [["bash"], ["dash"], ["busybox", "sh"]], ids=lambda shell: shell[0])
def test_shell_scripts(shell, exec_guest):
    run = exec_guest([*shell, "-c", SHELL])
    assert (run.out, run.status) == (SHELL_SAYS, 0), str(run)


def test_bash_extensions(exec_guest):
    run = exec_guest(["bash", "-c", BASH])
    assert run.out == BASH_SAYS, str(run)


@pytest.mark.needs("script")
def test_a_terminal_for_a_command(exec_guest):
    run = exec_guest(["script", "-qc", "tty; test -t 0 && test -t 1 && echo terminal", "/dev/null"])
    assert run.out.split() == ["/dev/pts/0", "terminal"], str(run)


@pytest.mark.needs("script")
def test_an_interactive_shell(exec_guest, workdir):
    """Job control typed at a prompt: a job in the background, brought back, and one stopped by ^Z and continued."""
    (workdir / "typed").write_text("PS1='> '\nsleep 3 &\njobs\nfg\necho now $((40 + 2))\nexit\n")
    with open(workdir / "typed") as stdin:
        run = exec_guest(["script", "-qc", "bash --norc -i", "/dev/null"], stdin=stdin)
    assert re.search(r"\[1\] \d+\r\n", run.out), str(run)
    assert "Running" in run.out and "sleep 3\r\n" in run.out and "now 42\r\n" in run.out, str(run)


@pytest.mark.needs("su", "runuser", "setpriv")
def test_other_users(exec_guest):
    script = "su nobody -s /bin/sh -c 'id -un; cd /'; runuser -u nobody -- id -u; setpriv --reuid=1000 --regid=1000 --clear-groups id -u"
    run = exec_guest(["sh", "-c", script])
    assert run.out.split() == ["nobody", "65534", "1000"], str(run)


@pytest.mark.needs("start-stop-daemon")
def test_a_daemon_is_started_and_stopped(exec_guest):
    script = """
        start-stop-daemon --start --background --make-pidfile --pidfile /run/d.pid --exec /bin/sleep -- 1000
        sleep 1; kill -0 $(cat /run/d.pid) && echo runs
        start-stop-daemon --stop --retry 5 --pidfile /run/d.pid && echo stopped
        kill -0 $(cat /run/d.pid) 2>/dev/null || echo gone"""
    run = exec_guest(["sh", "-c", script])
    assert run.out.split() == ["runs", "stopped", "gone"], str(run)


@pytest.mark.needs("sshd", "ssh", "rsync", "git", "curl")
def test_ssh_rsync_and_git(run_experiment):
    results = run_experiment(EXAMPLES / "ssh.yaml")
    # The file may have been made in the second of the copy or in the one before.
    said = results.text("client", "bash").replace("<f.st", "<f.s.").splitlines()
    assert said == [
        "server", "root", "SOME INPUT", "status 7", "/dev/pts/0",
        "<f.s....... sub/f2", "sub/f1: OK", "sub/f2: OK", "sub/f3: OK", "first",
    ]
