"""What a script runs against: a simulated host in virtual time, or this machine's kernel behind a TUN device."""

import ctypes
import dataclasses
import mmap
import os
import queue
import signal
import socket
import struct
import subprocess
import threading
import time

LOCAL, REMOTE = "11.0.0.1", "11.0.0.2"
LOCAL6, REMOTE6 = "2001:db8::b00:1", "2001:db8::b00:2"
SYSTEM_CALLS = {
    "read": 0, "write": 1, "open": 2, "close": 3, "poll": 7, "ioctl": 16, "socket": 41, "connect": 42, "accept": 43, "sendto": 44,
    "recvfrom": 45, "shutdown": 48, "bind": 49, "listen": 50, "getsockname": 51, "setsockopt": 54, "getsockopt": 55,
    "fcntl": 72,
}


@dataclasses.dataclass
class In:
    """The address of these bytes."""
    data: bytes


@dataclasses.dataclass
class Out:
    """The address of these bytes, which come back as the call has left them."""
    data: bytes


@dataclasses.dataclass
class Done:
    at: int
    result: int
    out: list


class Simulated:
    """Belljar's stack. Time passes only in `wait` and `packet`."""

    timer_slack = None

    def __init__(self, program, v6=False):
        self.process = subprocess.Popen([program, *["--ipv6"] * v6], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.packets, self.ended, self.time, self.calls = [], {}, 0, 0

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def command(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        happened = False
        while True:
            match self.process.stdout.readline().split():
                case ["ok", now]:
                    self.time = int(now)
                    return happened
                case ["packet", at, data]:
                    self.packets.append((int(at), bytes.fromhex(data)))
                case ["done", name, at, result, *out]:
                    self.ended[name] = Done(int(at), int(result), [bytes.fromhex(o) for o in out])
                case other:
                    raise RuntimeError(f"the simulated host has ended: {other}")
            happened = True

    def now(self):
        return self.time

    def start(self, name, args):
        self.calls += 1
        words = [f"in:{a.data.hex()}" if isinstance(a, In) else f"inout:{a.data.hex()}" if isinstance(a, Out) else a for a in args]
        self.command("call", f"c{self.calls}", SYSTEM_CALLS[name], *words)
        return f"c{self.calls}"

    def done(self, call, deadline):
        while call not in self.ended and self.time < deadline:
            self.command("until", deadline)
        return self.ended.get(call)

    def inject(self, packet):
        self.command("inject", packet.hex())

    def wait(self, until):
        while self.time < until:
            self.command("until", until)

    def packet(self, deadline):
        while not self.packets and self.time < deadline:
            self.command("until", deadline)
        return self.packets.pop(0) if self.packets else None


class Watch:
    """How late this machine runs what is ready to run, and its timers go off: a process on each processor sleeps shortly and notes its
    longest delay. Every other time it waits for a packet that does not come: such a wait ends by a timer of the kernel's wheel, as delayed
    ACKs do, which may be late where sleepers are not.

    They have ordinary priority, as the kernel's own threads have that its timers fall back on."""

    NAP = 4_000_000  # nanoseconds
    TICKS = 8_000_000  # by which the wheel may be late: it counts in whole ones of 4 ms, beginning with the next

    def __init__(self):
        self.cpus = sorted(os.sched_getaffinity(0))
        self.delays = mmap.mmap(-1, 8 * len(self.cpus))
        self.watchers = [self.start(8 * index, cpu) for index, cpu in enumerate(self.cpus)]

    def start(self, offset, cpu):
        parent = os.getpid()
        if pid := os.fork():
            return pid
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with the one who asks
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, [cpu])
        silent, other = socket.socketpair()
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", 0, self.NAP // 1000))
        on_wheel = False
        while os.getppid() == parent:
            before = time.monotonic_ns()
            if on_wheel:
                try:
                    silent.recv(1)
                except BlockingIOError:
                    pass
            else:
                time.sleep(self.NAP / 1e9)
            delay = time.monotonic_ns() - before - self.NAP - self.TICKS * on_wheel
            on_wheel = not on_wheel
            if delay > struct.unpack_from("=q", self.delays, offset)[0]:
                struct.pack_into("=q", self.delays, offset, delay)
        os._exit(0)

    def reset(self):
        self.delays[:] = bytes(len(self.delays))

    def worst(self):
        return max(struct.unpack(f"={len(self.cpus)}q", self.delays[:]))

    def stop(self):
        for pid in self.watchers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Linux:
    """The kernel of this machine, in a network namespace that the caller has made for this process."""

    # Its wheel of timers lets one that is set far ahead go off late by up to an eighth of its time.
    timer_slack = 8

    def __init__(self):
        self.watch = Watch()
        self.late = 0  # by how much the latest step of the script came after its time
        self.started = False  # whether packets have been sent: until then, time can wait for the script
        up = subprocess.run("ip -o link show up".split(), check=True, capture_output=True, text=True).stdout
        if [line for line in up.splitlines() if line.split()[1] != "lo:"]:
            raise SystemExit("this changes settings of the network: run it in a namespace of its own, `unshare --net`")
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.tun = os.open("/dev/net/tun", os.O_RDWR)
        import fcntl

        fcntl.ioctl(self.tun, 0x400454CA, struct.pack("16sH22x", b"tun0", 0x1001))  # TUNSETIFF: TUN, no extra header
        settings = {"net.ipv6.conf.all.disable_ipv6": 1, "net.ipv4.tcp_rmem": "4096 131072 6291456",
                    "net.ipv4.tcp_wmem": "4096 16384 4194304", "net.ipv4.tcp_no_metrics_save": 1}
        for name, value in settings.items():
            with open(f"/proc/sys/{name.replace('.', '/')}", "w") as file:
                file.write(str(value))
        for command in ("ip link set lo up", f"ip addr add {LOCAL}/24 dev tun0", "ip link set tun0 up",
                        "ip route replace 11.0.0.0/24 dev tun0 congctl cubic"):
            subprocess.run(command.split(), check=True)
        self.queue = queue.Queue()
        self.epoch = time.monotonic_ns()
        self.calls, self.ended = 0, {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            packet = os.read(self.tun, 65536)
            self.queue.put((time.monotonic_ns() - self.epoch, packet))

    def add_v6(self):
        """Gives the device its IPv6 address, whose routers nobody asks for."""
        for name, value in (("all.disable_ipv6", 0), ("tun0.router_solicitations", 0), ("tun0.disable_ipv6", 0), ("tun0.accept_dad", 0)):
            with open(f"/proc/sys/net/ipv6/conf/{name.replace('.', '/')}", "w") as file:
                file.write(str(value))
        for command in (f"ip addr add {LOCAL6}/64 dev tun0 nodad", "ip -6 route replace 2001:db8::/64 dev tun0 congctl cubic"):
            subprocess.run(command.split(), check=True)

    def close(self):
        os.close(self.tun)
        self.watch.stop()

    def begin(self):
        """Preparations are over: time starts."""
        self.watch.reset()
        self.epoch = time.monotonic_ns()

    def now(self):
        return time.monotonic_ns() - self.epoch

    def delay(self):
        """The longest, in nanoseconds, by which this machine was late since `begin`."""
        return max(self.late, self.watch.worst())

    def start(self, name, args):
        done, buffers, values = threading.Event(), [], []
        for arg in args:
            if isinstance(arg, (In, Out)):
                buffer = ctypes.create_string_buffer(arg.data, max(len(arg.data), 1))
                if isinstance(arg, Out):
                    buffers.append((buffer, len(arg.data)))
                values.append(buffer)
            else:
                values.append(ctypes.c_long(arg if arg < 1 << 63 else arg - (1 << 64)))

        def run():
            result = self.libc.syscall(ctypes.c_long(SYSTEM_CALLS[name]), *values)
            if result == -1:
                result = -ctypes.get_errno()
            self.ended[done] = Done(self.now(), result, [bytes(b.raw[:n]) for b, n in buffers])
            done.set()

        self.calls += 1
        self.libc.syscall.restype = ctypes.c_long
        threading.Thread(target=run, daemon=True).start()
        return done

    def done(self, call, deadline):
        # A call that does not wait has ended as soon as its thread has had its turn.
        call.wait(max((deadline - self.now()) / 1e9, 0.02))
        return self.ended.get(call)

    def inject(self, packet):
        self.started = True
        os.write(self.tun, packet)

    def wait(self, until):
        while (left := until - self.now()) > 0:
            time.sleep(left / 1e9)
        if self.started or len(self.ended) < self.calls:
            self.late = max(self.late, -left)
        else:
            self.epoch -= left  # The calls that prepare a script take their time.

    def packet(self, deadline):
        self.started = True
        try:
            return self.queue.get(timeout=max((deadline - self.now()) / 1e9, 0))
        except queue.Empty:
            return None
