"""Where a suite runs: on this machine itself, or on a simulated host with its programs near or far."""

import os
import signal
import subprocess
import time

import yaml

WHERE = ("native", "near", "far")
# What a simulated program finds in its environment.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TZ": "UTC",
}
# A run that reports nothing for so long hangs; natively there are tests that wait for minutes.
STALLED = {"native": 400, "near": 150, "far": 150}
LONGEST = 2400
# The date of the simulated clock: after the machine's files, and within the validity of the suites' certificates.
START_DATE = "2026-06-01"


# A session's leader is killed when a terminal that it opened hangs up: some tests reckon without that.
NO_LEADER = ["/bin/sh", "-c", '"$@"; exit $?', "sh"]


def start(command, where, work, belljar):
    """The process that runs `command`, with its output in work/output. `work` is seen by it under its own name."""
    command = NO_LEADER + command

    def default_signals():
        # What a shell starts in the background ignores it, and so would the tests.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    options = {"stdin": subprocess.DEVNULL, "stdout": open(work / "output", "wb"), "stderr": subprocess.STDOUT,
               "start_new_session": True, "preexec_fn": default_signals}
    if where == "native":
        home = {"HOME": os.path.expanduser("~")}
        return subprocess.Popen(command, cwd=work, env=ENVIRONMENT | home, **options)
    # What the command writes is collected in `work` as well: the results folder may not exist before the run.
    path, *args = command
    host = {
        "network_node_id": 0, "host_options": {"shared": [str(work)]},
        "processes": [{"path": path, "args": args, "expected_final_state": "any"}],
    }
    experiment = {
        "general": {"stop_time": "720 h"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {"suite": host},
        "belljar": {"start_date": START_DATE},
    }
    (work / "suite.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    run = [belljar, "run", work / "suite.yaml", "-o", work / "data", "--placement", where]
    return subprocess.Popen(list(map(str, run)), cwd=work, **options)


def run(command, where, work, belljar, progress):
    """Runs `command` to its end; true if it came to one. Given up when `progress()` has not changed for long."""
    process = start(command, where, work, belljar)
    begun = changed = time.monotonic()
    seen = progress()
    while True:
        try:
            process.wait(timeout=1)
            return True
        except subprocess.TimeoutExpired:
            pass
        now, found = time.monotonic(), progress()
        if found != seen:
            seen, changed = found, now
        if now - changed > STALLED[where] or now - begun > LONGEST:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
