"""Mininet's modules, the run of the script, and the record. Part of one program: it follows `network.py`."""


def sleep(seconds):
    step()
    clock[0] += float(seconds)


def module(name, **attributes):
    own = types.ModuleType(name)
    own.__dict__.update(attributes)
    own.__path__ = []
    sys.modules[name] = own
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, own)
    return own


def nothing(*args, **options):
    return None


def unknown(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return nothing


def kinds(base, *names):
    return {name: type(name, (base,), {}) for name in names}


def modules():
    log = {name: nothing for name in ("info", "debug", "output", "warn", "warning", "error", "setLogLevel", "critical")}
    log["lg"] = Quiet()
    log["MininetLogger"] = Quiet
    switches = kinds(Switch, "OVSSwitch", "OVSBridge", "OVSKernelSwitch", "UserSwitch", "IVSSwitch", "LinuxBridge")
    controllers = kinds(Controller, "NOX", "Ryu", "NullController", "OVSTestController")
    nodes = dict(switches, **controllers, Node=Node, Host=Host, CPULimitedHost=CPULimitedHost, Switch=Switch,
                 Controller=Controller, RemoteController=RemoteController, OVSController=OVSController,
                 DefaultController=Controller, findController=nothing, NAT=NAT)
    links = dict(Link=Link, TCLink=TCLink, Intf=Intf, TCIntf=TCIntf, OVSLink=Link, OVSIntf=Intf, TCULink=TCLink)
    topos = dict(Topo=Topo, SingleSwitchTopo=SingleSwitchTopo, SingleSwitchReversedTopo=SingleSwitchReversedTopo,
                 MinimalTopo=MinimalTopo, LinearTopo=LinearTopo)

    def ip_add(number, prefixLen=8, ipBaseNum=0x0A000000):
        return str(ipaddress.ip_address((ipBaseNum | number) & 0xFFFFFFFF))

    def local_ip(number):
        return str(ipaddress.ip_address(number))

    util = dict(dumpNodeConnections=nothing, dumpNetConnections=nothing, dumpPorts=nothing, quietRun=lambda *a, **o: "",
                errRun=lambda *a, **o: ("", "", 0), errFail=lambda *a, **o: ("", "", 0), irange=lambda a, b: range(a, b + 1),
                custom=functools.partial, customClass=nothing,
                pmonitor=lambda *a, **o: iter(()), waitListening=lambda *a, **o: True, ensureRoot=nothing, fixLimits=nothing,
                ipAdd=ip_add, ipStr=local_ip, macColonHex=lambda n: ":".join(f"{n:012x}"[i:i + 2] for i in range(0, 12, 2)),
                ipParse=lambda ip: int(ipaddress.ip_address(ip)), naturalSeq=lambda text: text, natural=lambda text: text,
                numCores=lambda: 1, moveIntf=nothing, isShellBuiltin=lambda text: False, specialClass=nothing,
                makeIntfPair=nothing, retry=nothing, run=nothing, decode=lambda text: text, encode=lambda text: text,
                netParse=lambda text: (0, 8), checkRun=nothing, Python3=True, BaseString=str)
    # Scripts of tools built upon Mininet import more, which a network does not depend on.
    util["__getattr__"] = unknown
    module("mininet", __version__="2.3.0")
    module("mininet.topo", **topos)
    module("mininet.topolib", TreeTopo=TreeTopo, TorusTopo=TorusTopo,
           TreeNet=lambda depth=1, fanout=2, **options: Mininet(TreeTopo(depth, fanout), **options))
    module("mininet.net", Mininet=Mininet, MininetWithControlNet=MininetWithControlNet, VERSION="2.3.0")
    # Scripts of Mininet's own examples name each other so.
    module("mininet.examples").__path__ = [os.path.dirname(SCRIPT)]
    module("mininet.node", **nodes)
    module("mininet.nodelib", LinuxBridge=switches["LinuxBridge"], NAT=NAT)
    module("mininet.link", **links)
    module("mininet.cli", CLI=CLI)
    module("mininet.log", **log)
    module("mininet.util", **util)
    module("mininet.clean", cleanup=nothing, Cleanup=Quiet(), sh=lambda *a, **o: "")
    module("mininet.moduledeps", pathCheck=nothing, moduleDeps=nothing)
    module("mininet.term", makeTerm=lambda *a, **o: [], makeTerms=lambda *a, **o: [], cleanUpScreens=nothing, runX11=nothing)


def topologies(names):
    """Makes the network of a script that leaves that to `mn --custom`."""
    topos = names.get("topos")
    if isinstance(topos, dict) and topos:
        name, make = next(iter(topos.items()))
        if len(topos) > 1:
            others = ", ".join(str(other) for other in topos if other != name)
            record["notes"].append({"line": 0, "text": f"topology '{name}' is imported, not {others}"})
        return make()
    made = [own for own in names.values() if isinstance(own, Topo)]
    if made:
        return made[-1]
    own = [value for value in names.values()
           if isinstance(value, type) and issubclass(value, Topo) and value.__module__ == "__main__"]
    return own[-1]() if own else None


def options(link):
    """Properties of a link: those of an interface apply to what it sends, so both directions have them."""
    def own(intf):
        given = {key: value for key, value in intf.params.items() if value is not None}
        return {key: value if isinstance(value, (str, int, float, bool)) else str(value) for key, value in given.items()}

    return own(link.intf1), own(link.intf2)


def describe(net):
    numbers = {id(own): number for number, own in enumerate(net.links)}
    for node in net.hosts + net.switches:
        if node.kind == "host" and not node.is_configured:
            node.unread.update({key: value for key, value in node.params.items() if key != "defaultRoute"})
        for key in sorted(key for key, value in node.unread.items() if value is not None and key not in NEUTRAL):
            note(f"option '{key}' of '{node.name}' is not taken over", node.line)
        if node.kind != "switch" and node.interfaces and not node.interfaces[0].ip and node.params.get("ip"):
            node.interfaces[0].setIP(node.params["ip"])
        if isinstance(node, NAT) and len(node.interfaces) < 2:
            note(f"NAT '{node.name}' translates addresses and has no outer link: add one to a host, or to one of 'gateways' for this machine's networks",
                 node.line)
        record["nodes"].append({
            "name": node.name, "kind": node.kind, "line": node.line, "commands": node.commands, "routes": node.routes,
            "interfaces": [{"name": own.name, "ip": f"{own.ip}/{own.prefixLen}" if own.ip else "", "mac": own.mac or ""}
                           for own in node.interfaces]})
    for own in net.links:
        first, second = options(own)
        record["links"].append({"line": own.line, "first": [own.intf1.node.name, own.intf1.name],
                                "second": [own.intf2.node.name, own.intf2.name], "there": first, "back": second})
    assert len(numbers) == len(net.links)


def main():
    modules()
    time.sleep = sleep
    output, sys.stdout = sys.stdout, sys.stderr
    names, failure = run_script()
    if not networks and not failure:
        try:
            topo = topologies(names)
        except BaseException as error:
            failure = {"line": 0, "text": f"the topology cannot be made: {type(error).__name__}: {error}"}
        else:
            if topo is not None:
                Mininet(topo=topo)
    if failure:
        record["failure"] = failure
    if networks:
        try:
            networks[-1].build()
        except BaseException as error:
            record.setdefault("failure", {"line": 0, "text": f"the network cannot be built: {type(error).__name__}: {error}"})
        if len(networks) > 1:
            record["notes"].append({"line": 0, "text": f"the script makes {len(networks)} networks: the last is imported"})
        describe(networks[-1])
    print(json.dumps(record), file=output)


main()
