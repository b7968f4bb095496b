"""The nodes of Mininet as far as scripts use them, without a network: nodes, links and commands are recorded. Part of one program: it
follows `script.py`.
"""

# Seconds between two commands of the script, so that commands of different hosts start in their order.
STEP = 0.1
record.update(nodes=[], links=[], events=[])
clock = [0.0]
#: Number of commands and waits of the script.
steps = [0]
networks = []


def note_late(what):
    """Notes a change of an address or a route after commands that it should not precede."""
    if networks and networks[-1].started and any(node.commands for node in networks[-1].hosts):
        note(f"{what} is there from the start: commands before this line see it too")


def step():
    """Ends a loop that waits for what a command prints: commands print nothing before the run."""
    steps[0] += 1
    if steps[0] > 100_000:
        raise RuntimeError("after 100,000 commands and waits it still runs: commands print nothing before the run, so do not wait for their output")


class Intf:
    def __init__(self, name, node=None, port=None, link=None, mac=None, ip=None, **options):
        self.name, self.node, self.port, self.link, self.mac = name, node, port, link, mac
        self.ip, self.prefixLen = None, None
        self.params = options
        if node is not None:
            node.interfaces.append(self)
        if ip:
            self.setIP(ip)

    def setIP(self, ip, prefixLen=None):
        if prefixLen is None and "/" in str(ip):
            ip, prefixLen = str(ip).split("/")
        if str(ip) != self.ip:
            note_late(f"address {ip} of {self.name}")
        self.ip, self.prefixLen = str(ip), prefixLen or self.prefixLen or 8

    def setMAC(self, mac):
        if mac != self.mac:
            note_late(f"hardware address {mac} of {self.name}")
        self.mac = mac

    def IP(self):
        return self.ip

    def MAC(self):
        return self.mac

    def rename(self, name):
        self.name = name

    def config(self, mac=None, ip=None, **options):
        if mac:
            self.setMAC(mac)
        if ip:
            self.setIP(ip)
        if not (networks and networks[-1].started):
            self.params.update(options)
        elif options and self.link in networks[-1].links:
            given = {key: value for key, value in options.items() if isinstance(value, (str, int, float))}
            record["events"].append({"line": line(), "at": round(clock[0], 3), "status": "change", "options": given,
                                     "link": networks[-1].links.index(self.link), "from": self.node.name})

    def ifconfig(self, *words):
        self.node.cmd("ifconfig", self.name, *words)

    def isUp(self, setUp=False):
        return True

    def delete(self):
        note(f"interface {self.name} is not deleted: write a link_down event")

    def __str__(self):
        return self.name


class TCIntf(Intf):
    pass


class Process(Quiet):
    """A process that Mininet would have started with popen."""

    pid, returncode = 1, 0

    def __init__(self):
        self.stdout, self.stderr, self.stdin = io.StringIO(""), io.StringIO(""), io.StringIO("")

    def communicate(self, *args, **options):
        return "", ""

    def poll(self):
        return 0

    def wait(self, *args, **options):
        return 0


# Options of nodes without an effect on what packets see.
NEUTRAL = {"dpid", "isSwitch", "ip", "mac"}


class Node:
    kind = "host"

    def __init__(self, name, inNamespace=True, **params):
        self.name, self.params, self.interfaces, self.commands = name, params, [], []
        self.line, self.waiting, self.shell, self.pid = line(), False, True, 1
        self.lastCmd, self.inNamespace, self.is_configured = None, inNamespace, False
        self.routes = []
        # Options that nothing has read: hosts have theirs read by `config`.
        self.unread = dict(params) if self.kind == "switch" else {}
        if self.kind == "host" and not inNamespace:
            self.unread["inNamespace"] = inNamespace

    @classmethod
    def setup(cls):
        pass

    def config(self, mac=None, ip=None, defaultRoute=None, lo="up", **params):
        self.unread.update(params if lo == "up" else dict(params, lo=lo))
        if mac:
            self.setMAC(mac)
        if ip:
            self.setIP(ip)
        if defaultRoute:
            self.setDefaultRoute(defaultRoute)
        return {}

    def configDefault(self, **more):
        self.params.update(more)
        self.config(**self.params)

    def add_command(self, words):
        if len(words) == 1 and isinstance(words[0], (list, tuple)):
            words = words[0]
        text = " ".join(str(word) for word in words)
        step()
        if self.kind == "switch":
            note(f"'{self.name}' does not run '{text}': it is no host")
        else:
            self.commands.append({"line": line(), "at": round(clock[0], 3), "text": text})
        if networks and networks[-1].started:
            clock[0] += STEP

    def cmd(self, *words, **options):
        self.add_command(words)
        return ""

    cmdPrint = cmd

    def sendCmd(self, *words, **options):
        self.add_command(words)

    def pexec(self, *words, **options):
        self.add_command(words)
        return "", "", 0

    def popen(self, *words, **options):
        for key in sorted(set(options) - {"stdin", "stdout", "stderr", "shell", "universal_newlines", "text", "bufsize"}):
            note(f"option '{key}' of popen is not taken over")
        if len(words) == 1 and isinstance(words[0], (list, tuple)):
            words = words[0]
        self.add_command([*words, "&"])
        return Process()

    def waitOutput(self, *args, **options):
        return ""

    def monitor(self, *args, **options):
        return ""

    def read(self, *args):
        return ""

    readline = read

    def write(self, *args):
        pass

    def sendInt(self, *args):
        note("a signal to the last command is not sent")

    def intf(self, which=None):
        if isinstance(which, Intf):
            return which
        if which is None:
            return self.interfaces[0] if self.interfaces else None
        return next((own for own in self.interfaces if own.name == str(which)), None)

    def defaultIntf(self):
        return self.intf()

    def intfNames(self):
        return [own.name for own in self.interfaces]

    def intfList(self):
        return list(self.interfaces)

    @property
    def intfs(self):
        return dict(enumerate(self.interfaces))

    @property
    def nameToIntf(self):
        return {own.name: own for own in self.interfaces}

    @property
    def ports(self):
        return {own: own.port for own in self.interfaces}

    stdout = stderr = stdin = property(lambda self: io.StringIO(""))

    def newPort(self):
        return len(self.interfaces) + (1 if self.kind == "switch" else 0)

    def addIntf(self, intf, port=None, **options):
        note(f"interface {intf} of '{self.name}' is left out: it leads out of the network")

    def connectionsTo(self, node):
        links = (own.link for own in self.interfaces if own.link)
        return [(l.intf1, l.intf2) if l.intf1.node is self else (l.intf2, l.intf1)
                for l in links if node in (l.intf1.node, l.intf2.node)]

    def IP(self, intf=None):
        own = self.intf(intf)
        if own is not None and own.ip:
            return own.ip
        return str(self.params.get("ip") or "").split("/")[0] or None

    def MAC(self, intf=None):
        own = self.intf(intf)
        return own.mac if own is not None else self.params.get("mac")

    def setIP(self, ip, prefixLen=None, intf=None, **options):
        own = self.intf(intf)
        if own is not None:
            own.setIP(ip, prefixLen)
        else:
            self.params["ip"] = f"{ip}/{prefixLen}" if prefixLen else ip

    def setMAC(self, mac, intf=None):
        own = self.intf(intf)
        if own is not None:
            own.setMAC(mac)
        else:
            self.params["mac"] = mac

    def setDefaultRoute(self, route=None):
        note_late(f"the default route of '{self.name}'")
        self.routes.append({"line": line(), "to": str(route)})

    def setHostRoute(self, ip, intf):
        self.cmd(f"ip route add {ip}/32 dev {intf}")

    def setARP(self, ip, mac):
        note(f"the ARP entry of '{self.name}' for {ip} is not taken over: hosts ask for the address")

    def setParam(self, results, method, **params):
        for value in params.values():
            if value is not None:
                getattr(self, method)(value)

    def terminate(self):
        if networks and networks[-1].started:
            note(f"'{self.name}' is not stopped: write a crash event")

    def stop(self, deleteIntfs=False):
        self.terminate()

    def cleanup(self):
        pass

    def __str__(self):
        return self.name

    def __repr__(self):
        return self.name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        note(f"{type(self).__name__}.{name} of '{self.__dict__.get('name')}' has no effect")
        return lambda *args, **options: None


class Host(Node):
    pass


class CPULimitedHost(Host):
    def setCPUFrac(self, *args, **options):
        note("a share of the processor is not taken over: computation takes no simulated time")

    setCPUs = setCPUFrac


class Switch(Node):
    kind = "switch"
    dpid = "0"

    def start(self, controllers):
        pass

    def dpctl(self, *words):
        note(f"'{self.name}' learns addresses: the flow entry '{' '.join(map(str, words))}' is not taken over")
        return ""

    def attach(self, intf):
        self.addIntf(intf)

    detach = attach

    def connected(self):
        return True


class Controller(Node):
    kind = "controller"

    def start(self):
        pass

    def checkListening(self):
        pass


class RemoteController(Controller):
    pass


class OVSController(Controller):
    pass


class NAT(Node):
    """A host that translates the addresses of a subnet to its own on all but one of its interfaces."""

    def __init__(self, name, subnet="10.0.0.0/8", localIntf=None, inetIntf=None, flush=False, **params):
        super().__init__(name, **params)
        self.subnet, self.localIntf, self.translates = ("10.0.0.0/8" if subnet == "10.0/8" else subnet), localIntf, False

    def config(self, **params):
        super().config(**params)
        if self.translates:
            return
        self.translates = True
        inner = self.localIntf or (self.interfaces[0].name if self.interfaces else f"{self.name}-eth0")
        self.cmd("sysctl net.ipv4.ip_forward=1")
        self.cmd(f"iptables -A FORWARD -i {inner} -d {self.subnet} -j DROP")
        self.cmd(f"iptables -A FORWARD -i {inner} -s {self.subnet} -j ACCEPT")
        self.cmd(f"iptables -A FORWARD -o {inner} -d {self.subnet} -j ACCEPT")
        self.cmd(f"iptables -t nat -A POSTROUTING -s {self.subnet} ! -d {self.subnet} -j MASQUERADE")


class Link:
    def __init__(self, node1, node2, port1=None, port2=None, intfName1=None, intfName2=None, addr1=None, addr2=None,
                 intf=Intf, cls1=None, cls2=None, params1=None, params2=None, fast=True, **params):
        self.line = line()
        params1, params2 = dict(params, **(params1 or {})), dict(params, **(params2 or {}))

        def end(node, port, name, mac, options):
            port = node.newPort() if port is None else port
            options = {key: value for key, value in options.items() if key not in ("mac", "ip", "cls")}
            return Intf(name or f"{node.name}-eth{port}", node, port, self, mac, None, **options)

        self.intf1 = end(node1, port1, intfName1, addr1 or params1.get("mac"), params1)
        self.intf2 = end(node2, port2, intfName2, addr2 or params2.get("mac"), params2)
        for own, options in ((self.intf1, params1), (self.intf2, params2)):
            if options.get("ip"):
                own.setIP(options["ip"])
        networks[-1].links.append(self) if networks else None

    def delete(self):
        note("a link is not deleted: write a link_down event")

    def stop(self):
        pass

    def status(self):
        return "OK"

    def __str__(self):
        return f"{self.intf1}<->{self.intf2}"


class TCLink(Link):
    pass
