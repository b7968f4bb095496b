"""A command behind a pseudo-terminal, as a user has it: what it shows, what is typed, the size of the window."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from conftest import PATIENCE


class Terminal:
    """A command on a terminal of its own, whose controlling terminal that is."""

    def __init__(self, command, rows=24, columns=80, cwd=None, env=None):
        self.master, slave = pty.openpty()
        self.shown = ""
        self.resize(rows, columns)

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(list(map(str, command)), stdin=slave, stdout=slave, stderr=slave, preexec_fn=lead, cwd=cwd,
                                        env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", **(env or {})})
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if process := getattr(self, "process", None):
            process.send_signal(signal.SIGWINCH)

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, patience):
        """More of what is shown; False at the end."""
        if not select.select([self.master], [], [], patience)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, patience=PATIENCE):
        """What was shown up to the end of the pattern, which is taken."""
        until = time.monotonic() + patience
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < until and self.read(0.2), f"no {pattern!r} in {self.shown!r}"
        text, self.shown = self.shown[: found.end()], self.shown[found.end():]
        return text

    def end(self, patience=PATIENCE):
        """Exit status, once the command has ended."""
        until = time.monotonic() + patience
        while self.read(0.05) and self.process.poll() is None:
            assert time.monotonic() < until, f"it does not end: {self.shown!r}"
        status = self.process.wait(timeout=patience)
        while select.select([self.master], [], [], 0)[0] and self.read(0):
            pass
        return status

    def is_raw(self):
        return not termios.tcgetattr(self.master)[3] & termios.ICANON

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
