#!/usr/bin/env python3
"""Fills in what a stack answers: a script without `>` lines and with `= ?` for results goes in, the whole script comes
out, with times relative to the line before. What this machine's kernel says decides; a simulated host's times are exact.

    unshare --net tests/packets/record.py DRAFT...            # the kernel's answers, as root
    tests/packets/record.py --host belljar-packet-host DRAFT... # Belljar's
"""

import argparse
import dataclasses
import errno
import os
import re
import sys

import wire
from backends import Linux, Simulated
from language import Assertions, Call, Setting, parse
from runner import Run

BURST = 4_000_000  # nanoseconds: packets closer than this are one burst


class Recorder(Run):
    def __init__(self, backend, windows):
        super().__init__(backend)
        self.lines, self.at, self.windows = [], 0, windows

    def emit(self, at, text):
        gap = round((at - self.at) / 1e6)
        self.lines.append(f"+{gap / 1000:.3f}".rstrip("0").rstrip(".").replace("+0.", "+.") + " " + text if gap > 3 else f"+0 {text}")
        self.at = at

    def collect(self, until):
        """Writes down what comes until then."""
        burst = None
        while (got := self.backend.packet(until)) is not None:
            at, packet = got
            seen = wire.read(packet)
            if seen is None:
                self.emit(at, f"// a packet of protocol {packet[9]}: {packet[20:40].hex()}")
                continue
            if "S" in seen.flags:
                self.local_isn = seen.seq
                self.local_port, self.remote_port = seen.sport, seen.dport
            start = (seen.seq - (self.local_isn or 0)) & 0xFFFFFFFF
            if burst and (seen.length and burst[1].length and start == burst[2] + burst[1].length and at - burst[3] < BURST
                          and not set(burst[1].flags) & set("SFRP") and burst[1].options == seen.options):
                joined = dataclasses.replace(seen, length=burst[1].length + seen.length)
                burst = (burst[0], joined, burst[2], at)
                continue
            self.flush(burst)
            burst = (at, seen, start, at)
        self.flush(burst)

    def flush(self, burst):
        if burst is None:
            return
        at, seen, start, _ = burst
        options = []
        for option in seen.options:
            if option[0] == "TS":
                if self.first_stamp is None:
                    self.first_stamp = (100, option[1])
                option = ("TS", option[1] - self.first_stamp[1] + self.first_stamp[0], option[2])
            options.append(option)
        text = wire.show(seen, start, seen.ack, options)
        if not self.windows and "S" not in seen.flags and seen.window:
            text = re.sub(r" win \d+", "", text)
        ecn = f"[{['noecn', 'ect1', 'ect0', 'ce'][seen.ecn]}] " if seen.ecn else ""
        self.emit(at, f"> {ecn}{text}")

    def record(self, text):
        now = 0
        for event in parse(text):
            now = now + event.start if event.relative else event.start
            self.collect(now)
            self.backend.wait(now)
            original = event.text.split(None, 1)[1]
            action = event.action
            if isinstance(action, Call):
                call, (_, translate) = self.call(action), (None, None)
                done = self.backend.done(call[0], self.backend.now())
                if done is None:
                    self.emit(now, re.sub(r"= \?$", "= ? (waits)", original))
                    continue
                result = done.result
                if action.name in ("socket", "accept") and result >= 0:
                    self.fds[action.result] = result
                    self.connected = action.result if action.name == "accept" else self.connected
                    result = action.result
                shown = f"{result}" if result >= 0 else f"-1 {errno.errorcode[-result]}"
                self.emit(now, re.sub(r"= (\?|\.\.\.|-?\d+.*)$", f"= {shown}", original))
                if action.name == "getsockopt" and done.out:
                    self.lines[-1] += f"  // {int.from_bytes(done.out[0][:4], sys.byteorder)}"
            elif isinstance(action, Setting):
                self.set(action)
                self.emit(now, original)
            elif isinstance(action, Assertions):
                try:
                    self.check(action.code)
                    self.emit(now, original)
                except Exception as error:
                    self.emit(now, f"{original} // {error}")
            else:
                self.backend.inject(self.inbound(action) if not hasattr(action, "code") else self.error(action))
                self.emit(now, original)
        return self.lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", help="the program around Belljar's stack")
    parser.add_argument("--windows", action="store_true", help="write down windows, too")
    parser.add_argument("drafts", nargs="+")
    a = parser.parse_args()
    for path in a.drafts:
        with open(path) as file:
            text = file.read()
        backend = Simulated(a.host) if a.host else Linux()
        if not a.host:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
            backend.begin()
        comments = [line for line in text.split("\n") if line.startswith("//")]
        recorder = Recorder(backend, a.windows)
        # A result that is to be found out.
        print("\n".join([*comments, *recorder.record(re.sub(r"= \?\s*$", "= 0", text, flags=re.M))]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
