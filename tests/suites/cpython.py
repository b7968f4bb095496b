"""CPython's own regression tests, as Debian packages them (libpython3.*-testsuite)."""

import json
import pathlib
import shutil
import subprocess

from .places import run
from .results import Results

PYTHON = "/usr/bin/python3"
RECORDER = pathlib.Path(__file__).parent / "record_cpython.py"
MODULES = """
test_subprocess test_signal test_os test_posix test_fcntl test_mmap test_pty test_multiprocessing_fork
test_multiprocessing_spawn test_concurrent_futures test_shutil test_tempfile
test_socket test_ssl test_select test_selectors test_epoll test_poll test_asyncio test_threading test_socketserver
test_httpservers test_urllib2_localnet test_smtplib test_ftplib
""".split()
# A module in which so many tests had to be given up has no use for more.
ATTEMPTS = 12


def missing():
    """Why it cannot run here; `None` if it can."""
    found = subprocess.run([PYTHON, "-c", "import test.test_os"], capture_output=True)
    return None if found.returncode == 0 else f"{PYTHON} has no tests: install libpython3.*-testsuite"


def version():
    return subprocess.run([PYTHON, "--version"], capture_output=True, text=True).stdout.strip()


def run_module(module, where, work, belljar):
    """Runs it, and again without those that hung or crashed, until the rest has come to its end."""
    results = Results()
    for _ in range(ATTEMPTS):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        shutil.copy(RECORDER, work)
        events = work / "events"
        events.touch()
        (work / "done").write_text("\n".join(results.outcomes))
        command = [PYTHON, str(work / RECORDER.name), str(events), str(work / "done"), module]
        came_to_end = run(command, where, work, belljar, lambda: events.stat().st_size)
        for line in events.read_text().splitlines():
            event = json.loads(line)
            results.add(event["test"], event["outcome"], event["detail"])
        unfinished = results.unfinished()
        output = (work / "output").read_text(errors="replace")[-3000:]
        for test in unfinished:
            results.add(test, "crashed" if came_to_end else "hung", output)
        if not unfinished:
            if not came_to_end or not results.outcomes:
                results.add(module, "crashed" if came_to_end else "hung", output)
            break
    return results
