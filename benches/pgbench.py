"""What a transaction of pgbench costs: PostgreSQL's server and pgbench itself, over a UNIX socket, under Belljar and
natively. The same cluster is made the same way in both; what that costs is in the short run and the long one."""

import pwd
import shutil
import subprocess
import sys
import tempfile

from common import BUILT, measure, remove, run_experiment

NEEDS = ["pg_createcluster", "pgbench"]

# A cluster in a directory of its own, used by its own user, who alone may: initdb refuses root.
SCRIPT = """set -e
bin=/usr/lib/postgresql/$(ls /usr/lib/postgresql | sort -n | tail -1)/bin
cd {folder}
$bin/initdb -D data -A trust --no-sync > initdb.log
$bin/pg_ctl -D data -w -s -l server.log -o "-c listen_addresses= -c unix_socket_directories={folder} -c shared_buffers=16MB" start
pgbench -h {folder} -i -s 1 -q postgres
pgbench -h {folder} -t {count} postgres
$bin/pg_ctl -D data -w -s -m fast stop
"""

EXPERIMENT = """
general: {{stop_time: {stop} s}}
network: {{graph: {{type: 1_gbit_switch}}}}
hosts:
  db:
    network_node_id: 0
    processes:
    - path: sh
      user: postgres
      placement: {placement}
      args:
      - -c
      - |
{script}
"""


def indented(text):
    return "".join(f"        {line}\n" for line in text.splitlines())


def simulated(count, placement="auto"):
    """CPU seconds of a cluster's life with `count` transactions, under Belljar."""
    script = "mkdir -p /tmp/pgbench\n" + SCRIPT.format(folder="/tmp/pgbench", count=count)
    # A transaction takes no simulated time but what its calls cost.
    text = EXPERIMENT.format(stop=600 + count // 10, placement=placement, script=indented(script))
    results, usage = run_experiment(text)
    said = "".join(f.read_text() for f in (results / "hosts" / "db").glob("sh*.stdout"))
    assert f"processed: {count}/{count}" in said, f"pgbench did not end:\n{said}"
    remove(results)
    return usage.cpu


def native(count):
    """The same natively."""
    BUILT.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="bench-pg-")
    user = pwd.getpwnam("postgres")
    try:
        subprocess.run(["chown", f"{user.pw_uid}:{user.pw_gid}", folder], check=True)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        # The server is no child that the shell waits for: what it costs is told by those who take it over.
        script = SCRIPT.format(folder=folder, count=count)
        said, usage = measure([sys.executable, "-c", WAIT, *as_user, "sh", "-c", script])
        assert f"processed: {count}/{count}" in said, f"pgbench did not end:\n{said}"
        return usage.cpu
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Becomes the parent of whatever loses its own, runs a command and waits for all.
WAIT = """
import ctypes, os, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
status = subprocess.run(sys.argv[1:]).returncode
try:
    while True:
        os.wait()
except ChildProcessError:
    sys.exit(status)
"""
