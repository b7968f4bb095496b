"""Topologies and networks of Mininet, which record what is made. Part of one program: it follows `nodes.py`."""


class Topo:
    def __init__(self, *args, **params):
        self.own_nodes, self.own_links = {}, []
        self.hopts, self.sopts, self.lopts = params.pop("hopts", {}), params.pop("sopts", {}), params.pop("lopts", {})
        self.build(*args, **params)

    def build(self, *args, **params):
        pass

    def addNode(self, name, **options):
        self.own_nodes[name] = (line(), options)
        return name

    def addHost(self, name, **options):
        return self.addNode(name, **dict(self.hopts, **options))

    def addSwitch(self, name, **options):
        return self.addNode(name, **dict(self.sopts, isSwitch=True, **options))

    def addLink(self, node1, node2, port1=None, port2=None, key=None, **options):
        self.own_links.append((line(), node1, node2, dict(self.lopts, port1=port1, port2=port2, **options)))
        return len(self.own_links) - 1

    def addPort(self, *args, **options):
        pass

    def nodes(self, sort=True):
        return sorted(self.own_nodes) if sort else list(self.own_nodes)

    def isSwitch(self, name):
        return bool(self.own_nodes[name][1].get("isSwitch"))

    def hosts(self, sort=True):
        return [name for name in self.nodes(sort) if not self.isSwitch(name)]

    def switches(self, sort=True):
        return [name for name in self.nodes(sort) if self.isSwitch(name)]

    def links(self, sort=False, withKeys=False, withInfo=False):
        return [(a, b, options) if withInfo else (a, b) for _, a, b, options in self.own_links]

    def nodeInfo(self, name):
        return self.own_nodes[name][1]

    def linkInfo(self, a, b, key=None):
        return next(options for _, x, y, options in self.own_links if {x, y} == {a, b})


class SingleSwitchTopo(Topo):
    def build(self, k=2, **options):
        switch = self.addSwitch("s1")
        for number in range(k):
            self.addLink(self.addHost(f"h{number + 1}"), switch)


class SingleSwitchReversedTopo(SingleSwitchTopo):
    pass


class MinimalTopo(SingleSwitchTopo):
    def build(self):
        super().build(2)


class LinearTopo(Topo):
    def build(self, k=2, n=1, sopts=None, **options):
        last = None
        for i in range(1, k + 1):
            switch = self.addSwitch(f"s{i}", **(sopts or {}))
            for j in range(1, n + 1):
                self.addLink(self.addHost(f"h{i}" if n == 1 else f"h{j}s{i}"), switch)
            if last:
                self.addLink(switch, last)
            last = switch


class TreeTopo(Topo):
    def build(self, depth=1, fanout=2):
        self.counts = {"h": 0, "s": 0}
        self.subtree(depth, fanout)

    def subtree(self, depth, fanout):
        kind = "s" if depth > 0 else "h"
        self.counts[kind] += 1
        name = f"{kind}{self.counts[kind]}"
        node = self.addSwitch(name) if depth > 0 else self.addHost(name)
        for _ in range(fanout if depth > 0 else 0):
            self.addLink(node, self.subtree(depth - 1, fanout))
        return node


class TorusTopo(Topo):
    def build(self, x, y, n=1):
        names = {}
        for i in range(x):
            for j in range(y):
                at = f"{i + 1}x{j + 1}"
                names[i, j] = self.addSwitch(f"s{at}")
                for k in range(n):
                    self.addLink(self.addHost(f"h{at}" if n == 1 else f"h{at}x{k + 1}"), names[i, j])
        for (i, j), switch in names.items():
            self.addLink(switch, names[i, (j + 1) % y])
            self.addLink(switch, names[(i + 1) % x, j])


# Options of a network without an effect on what packets see.
NEUTRAL_OF_NETWORKS = {"xterms", "cleanup", "waitConnected", "listenPort", "topo", "build"}


class Mininet:
    def __init__(self, topo=None, switch=Switch, host=Host, controller=Controller, link=Link, intf=Intf, build=True,
                 ipBase="10.0.0.0/8", autoSetMacs=False, **options):
        self.topo, self.switch, self.host, self.controller, self.link = topo, switch, host, controller, link
        self.base = ipaddress.ip_network(ipBase, strict=False)
        self.next_address, self.autoSetMacs, self.started, self.built = 1, autoSetMacs, False, False
        self.hosts, self.switches, self.controllers, self.links = [], [], [], []
        self.nameToNode, self.options = {}, options
        networks.append(self)
        given = {key: value for key, value in options.items() if value not in (None, False) and key not in NEUTRAL_OF_NETWORKS}
        if intf not in (Intf, TCIntf, None):
            given["intf"] = intf
        for key in sorted(given):
            note(f"option '{key}' of Mininet is not taken over")
        if controller not in (Controller, None):
            note(f"controller '{getattr(controller, '__name__', controller)}' is left out: switches learn addresses by themselves")
        if topo and build:
            self.build()

    @classmethod
    def init(cls):
        pass

    def make(self, cls, default, name, options, plain=Host):
        made = cls or default
        try:
            node = made(name, **options)
        except TypeError:
            node = None
        if not isinstance(node, Node):
            # Constructors of other packages.
            node = (default if isinstance(default, type) else plain)(name, **options)
            note(f"'{name}' is a plain node: {made} cannot be made without Mininet")
        return node

    def addHost(self, name, cls=None, **params):
        number = self.next_address
        params.setdefault("ip", f"{self.base.network_address + number}/{self.base.prefixlen}")
        if self.autoSetMacs:
            params.setdefault("mac", ":".join(f"{number:012x}"[i:i + 2] for i in range(0, 12, 2)))
        self.next_address += 1
        node = self.make(cls, self.host, name, params)
        (self.switches if node.kind == "switch" else self.hosts).append(node)
        self.nameToNode[name] = node
        return node

    addNode = addHost

    def addSwitch(self, name, cls=None, **params):
        node = self.make(cls, self.switch if callable(self.switch) else Switch, name, params, Switch)
        if node.kind != "switch":
            node.kind = "switch"
        self.switches.append(node)
        self.nameToNode[name] = node
        return node

    def addController(self, name="c0", controller=None, **params):
        if not isinstance(name, str):
            name, controller = getattr(name, "name", "c0"), name
        node = Controller(name)
        node.remote = controller is not None and "Remote" in str(getattr(controller, "__name__", controller))
        self.controllers.append(node)
        self.nameToNode[name] = node
        note(f"controller '{name}' is left out: switches learn addresses by themselves")
        return node

    def addNAT(self, name="nat0", connect=True, inNamespace=False, **params):
        params.setdefault("subnet", str(self.base))
        nat = self.addHost(name, cls=NAT, **params)
        if connect:
            switch = self.switches[0] if connect is True else self.get(connect)
            self.addLink(nat, switch)
            for host in self.hosts:
                if host is not nat and not host.routes:
                    host.setDefaultRoute(f"via {nat.IP()}")
        return nat

    def addLink(self, node1, node2, port1=None, port2=None, cls=None, **params):
        node1, node2 = self.get(node1), self.get(node2)
        for node in (node1, node2):
            # A node that the script has made itself, such as one in the machine's own namespace.
            if isinstance(node, Node) and node not in self.hosts + self.switches + self.controllers:
                (self.switches if node.kind == "switch" else self.hosts).append(node)
        made = cls or self.link
        for key in ("port1", "port2"):
            params.pop(key, None)
        if isinstance(made, type) and issubclass(made, Link):
            return made(node1, node2, port1=port1, port2=port2, **params)
        if isinstance(made, types.FunctionType):
            link = made(node1, node2, port1=port1, port2=port2, **params)
            if isinstance(link, Link):
                return link
        return Link(node1, node2, port1=port1, port2=port2, **dict(getattr(made, "keywords", {}), **params))

    def build(self):
        if self.built:
            return
        self.built = True
        if self.topo:
            topo = self.topo
            if not getattr(topo, "own_nodes", None) and hasattr(topo, "create_topology"):
                topo.create_topology()
            for name in topo.hosts():
                where, options = topo.own_nodes[name]
                node = self.addHost(name, **{k: v for k, v in options.items() if k != "isSwitch"})
                node.line = where
            for name in topo.switches():
                where, options = topo.own_nodes[name]
                node = self.addSwitch(name, **{k: v for k, v in options.items() if k != "isSwitch"})
                node.line = where
            for where, a, b, options in topo.own_links:
                options = {key: value for key, value in options.items() if value is not None}
                self.addLink(a, b, **options).line = where
        self.configHosts()

    def configHosts(self):
        for host in self.hosts:
            if not host.is_configured:
                host.is_configured = True
                host.configDefault()

    def start(self):
        self.build()
        self.configHosts()
        self.started = True

    def stop(self):
        self.started = False

    def get(self, *names):
        found = [self.nameToNode[name] if isinstance(name, str) else name for name in names]
        return found[0] if len(found) == 1 else found

    getNodeByName = get
    __getitem__ = get

    def __contains__(self, name):
        return name in self.nameToNode

    def __iter__(self):
        return iter(self.nameToNode)

    def keys(self):
        return list(self.nameToNode)

    def values(self):
        return list(self.nameToNode.values())

    def items(self):
        return list(self.nameToNode.items())

    def linksBetween(self, a, b):
        return [own for own in self.links if {own.intf1.node, own.intf2.node} == {a, b}]

    def pingAll(self, timeout=None):
        return self.ping(self.hosts)

    pingAllFull = pingAll

    def ping(self, hosts=None, timeout=None):
        for host in hosts or self.hosts:
            for other in hosts or self.hosts:
                if host is not other:
                    host.cmd(f"ping -c 1 -W 1 {other.IP()}")
        return 0.0

    def pingPair(self):
        return self.ping(self.hosts[:2])

    pingFull = pingPairFull = ping

    def iperf(self, hosts=None, l4Type="TCP", udpBw="10M", fmt=None, seconds=5, port=5001):
        hosts = hosts or [self.hosts[0], self.hosts[-1]]
        client, server = hosts
        udp = " -u" if l4Type == "UDP" else ""
        server.cmd(f"iperf -s -p {port}{udp} &")
        client.cmd(f"iperf -c {server.IP()} -p {port} -t {seconds}{udp}" + (f" -b {udpBw}" if udp else ""))
        clock[0] += seconds
        return ["0 bits/sec", "0 bits/sec"]

    def runCpuLimitTest(self, *args, **options):
        note("tests of the processor's share are not taken over")
        return []

    def configLinkStatus(self, a, b, status):
        number = next((n for n, own in enumerate(self.links)
                       if {own.intf1.node.name, own.intf2.node.name} == {str(a), str(b)}), None)
        if number is None:
            note(f"there is no link between '{a}' and '{b}'")
            return
        record["events"].append({"line": line(), "at": round(clock[0], 3), "link": number, "status": status})

    def staticArp(self):
        note("static ARP entries are not taken over: hosts ask for addresses")

    def waitConnected(self, *args, **options):
        return True

    def startTerms(self):
        pass

    def run(self, test, *args, **params):
        self.start()
        result = test(*args, **params)
        self.stop()
        return result

    def delNode(self, node, *args):
        note(f"'{node}' is not removed")

    delHost = delSwitch = delLink = delNode

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        note(f"Mininet.{name} has no effect")
        return lambda *args, **options: None


class MininetWithControlNet(Mininet):
    pass


class CLI(Quiet):
    """The command line of Mininet, which ends at once."""

    def __init__(self, net=None, script=None, **options):
        if script:
            note(f"the commands for Mininet's command line in {script} are not taken over")

    @classmethod
    def do_custom(cls, *args):
        pass

    def run(self):
        pass
