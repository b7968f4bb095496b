"""SimBricks' modules, the run of the script, and the record. Part of one program: it follows `earlier.py`."""

# Simulators whose part a host, a controller or the network of the experiment takes.
HOSTS = re.compile(r"^(Qemu|Gem5)")
NICS = re.compile(r"^(I40e|E1000|CorundumBM|CorundumBehavioral)")
NETWORKS = re.compile(r"^(SwitchNet|WireNet|NetSwitch|EthSwitch|NS3Net|NS3BridgeNet|Wire|Switch)")

LATER = {name: value for name, value in globals().items()
         if (isinstance(value, type) and issubclass(value, (Recorded, Time))) or isinstance(value, types.FunctionType)}
EARLIER = dict(LATER, NodeConfig=NodeConfig, AppConfig=AppConfig)
for name in ("Sleep", "PingClient", "NetperfServer", "NetperfClient", "IperfTCPServer", "IperfUDPServer", "IperfTCPClient", "IperfUDPClient"):
    EARLIER[name] = of_later(LATER[name])
EARLIER["PingClient"].__init__ = lambda self, server_ip="192.168.64.1": setattr(self, "server_ip", server_ip)


def made(name, *bases, **attributes):
    return type(name, bases, dict(attributes, is_named=True))


def class_of(module, name):
    """The class that a module of SimBricks has under a name that is not known: what it is shows in both."""
    if "nodeconfig" in module:
        if name.endswith("Node") or name.endswith("Config"):
            kind = DctcpNode if "DCTCP" in name else TcpCongNode if "TcpCong" in name else NodeConfig
            is_plain = re.fullmatch(r"(I40e|Corundum|E1000)?(Linux|DCTCP|TcpCong)?Node", name)
            return made(name, kind, needs=None if is_plain else name)
        return made(name, AppConfig)
    if "simulators" in module:
        return made(name, EarlierSimulator)
    if ".simulation" in module:
        return made(name, Simulator)
    if "DiskImage" in name or "ConfigFile" in name:
        return made(name, Disk)
    if name.endswith("Host"):
        return made(name, LinuxHost)
    if re.search("nic$", name, re.I):
        return made(name, EthSimpleNIC)
    if name.endswith(("Application", "Client", "Server", "App")):
        return made(name, BaseLinuxApplication)
    if name.endswith("Channel"):
        return made(name, Channel)
    if name.endswith("Interface"):
        return made(name, Interface)
    return made(name, PCIeSimpleDevice)


class Module(types.ModuleType):
    def __call__(self, *args, **options):
        raise NameError(f"'{self.__name__}' is not known here")

    def __getattr__(self, name):
        is_earlier = any(part in self.__name__ for part in ("nodeconfig", "simulators", "simulator_utils", "experiments"))
        known = (EARLIER if is_earlier else LATER).get(name)
        if known is None and name[:1].isupper():
            known = class_of(self.__name__, name)
        if known is None:
            raise AttributeError(f"module '{self.__name__}' has no '{name}' here")
        setattr(self, name, known)
        return known


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes every module of the package `simbricks`."""

    def find_spec(self, name, path=None, target=None):
        is_own = name == "simbricks" or name.startswith("simbricks.")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_own else None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass


def name_of(own, kind):
    """The name of a component, which need not have one: its kind and a number."""
    if id(own) not in names:
        numbered = (f"{kind}{number}" for number in itertools.count())
        names[id(own)] = str(own.name) if own.name else next(name for name in numbered if name not in given_names)
        given_names.add(names[id(own)])
    return names[id(own)]


names = {}
# Names of the script's, and those that components without one have got.
given_names = set()


def words(value):
    return [str(word) for word in value or []]


def commands(own, *arguments):
    """Commands of a host or an application: those before a checkpoint, after it, and the run's."""
    all = []
    for method in ("prepare_pre_cp", "prepare_post_cp", "run_cmds"):
        function, given = getattr(own, method), arguments
        try:
            inspect.signature(function).bind(*given)
        except TypeError:
            given = ()
        all += words(function(*given))
    return all


def of_application(application, *arguments):
    kind = type(application)
    if getattr(kind, "run_cmds", None) is None or (application.parameters if isinstance(application, Application) else {}).get("type_id"):
        missing(f"the commands of application '{kind.__name__}' are not known", application.line)
        return []
    if getattr(application, "start_delay", None) or getattr(application, "end_delay", None):
        note("'start_delay' and 'end_delay' are not taken over", application.line)
    try:
        return commands(application, *arguments)
    except Exception as error:
        missing(f"the commands of application '{kind.__name__}' cannot be asked for: {type(error).__name__}: {error}", application.line)
        return []


def check_simulator(simulator, what, kinds, at):
    # A class of the script stands for what it is derived from.
    if not is_like(simulator, kinds):
        missing(f"simulator '{type(simulator).__name__}' of {what} has no counterpart", at)


def nic(own, ends):
    name = name_of(own, "nic")
    record["nics"].append({"name": name, "line": own.line})
    ends[id(own)] = name
    return name


def describe(simulation):
    system = simulation.system
    ends = {}
    given_names.update(str(own.name) for own in system.components if own.name)
    for own in system.components:
        where = own.simulator
        at = where.line if where else own.line
        if isinstance(own, Host):
            name = name_of(own, "host")
            kinds, what = HOSTS, f"host '{name}'"
            if not isinstance(own, FullSystemHost):
                missing(f"{what} is part of a network simulator: make it a host of its own", own.line)
                continue
        elif isinstance(own, EthSimpleNIC):
            kinds, what = NICS, f"controller '{name_of(own, 'nic')}'"
            if isinstance(own, VirtIONic):
                kinds = HOSTS
        elif isinstance(own, (EthSwitch, EthWire)):
            kinds, what = NETWORKS, f"network '{name_of(own, 'switch' if isinstance(own, EthSwitch) else 'wire')}'"
        else:
            missing(f"component '{type(own).__name__}' has no counterpart", own.line)
            continue
        if where is None:
            missing(f"{what} has no simulator", own.line)
        else:
            check_simulator(where, what, kinds, at)
    for own in system.components:
        if isinstance(own, EthSwitch):
            ends[id(own)] = name_of(own, "switch")
            record["switches"].append({"name": ends[id(own)], "line": own.line})
    for own in system.components:
        if not isinstance(own, FullSystemHost):
            continue
        interfaces = []
        for channel in own.channels():
            device = (channel.b if channel.a.component is own else channel.a).component
            if not isinstance(device, EthSimpleNIC):
                continue
            interface = f"eth{len(interfaces)}"
            is_device = not isinstance(device, VirtIONic)
            interfaces.append({"name": interface, "nic": nic(device, ends) if is_device else "", "address": f"{device._ip}/24" if device._ip else "",
                               "latency": channel.latency})
            if not is_device:
                ends[id(device)] = f"{name_of(own, 'host')}:{interface}"
        lines = commands(own, None)
        for application in own.applications:
            lines += of_application(application, None)
        record["hosts"].append({"name": name_of(own, "host"), "line": own.line, "interfaces": interfaces, "commands": lines,
                                "waits": any(application.wait for application in own.applications)})
    joined = set()
    for channel in system.channels:
        sides = [channel.a.component, channel.b.component]
        if isinstance(channel, PCIeChannel):
            continue
        if any(isinstance(side, FullSystemHost) for side in sides):
            missing("a host has this channel without a controller", channel.line)
            continue
        latency = channel.latency
        # A wire is a link between its two ends.
        for number, side in enumerate(sides):
            if isinstance(side, EthWire):
                other = next((own.channel for own in side.ifs if own.channel and own.channel is not channel), None)
                if other is None:
                    missing("this channel ends at a wire that has no other end", channel.line)
                if other is None or id(side) in joined:
                    sides = []
                    break
                joined.add(id(side))
                sides[number] = (other.b if other.a.component is side else other.a).component
                latency += other.latency
        if not sides:
            continue
        if not all(id(side) in ends for side in sides):
            missing("this channel has an end that is not imported", channel.line)
        else:
            record["links"].append({"line": channel.line, "first": ends[id(sides[0])], "second": ends[id(sides[1])], "latency": latency})


def is_like(own, kinds):
    return any(kinds.match(base.__name__) for base in type(own).__mro__)


def describe_earlier(experiment):
    ends = {}
    given_names.update(str(own.name) for own in [*experiment.hosts, *experiment.networks, *experiment.others] if own.name)
    # Some scripts add every simulator by the same method.
    experiment.networks += [own for own in experiment.others if is_like(own, NETWORKS)]
    experiment.others = [own for own in experiment.others if not is_like(own, NETWORKS) and not is_like(own, NICS)]
    for host in experiment.hosts:
        host.nics += [own for own in host.others if is_like(own, NICS)]
        host.others = [own for own in host.others if not is_like(own, NICS)]
    for own in experiment.networks:
        check_simulator(own, f"network '{name_of(own, 'switch')}'", NETWORKS, own.line)
        ends[id(own)] = name_of(own, "switch")
        record["switches"].append({"name": ends[id(own)], "line": own.line})
    for own in experiment.others:
        missing(f"device '{type(own).__name__}' has no counterpart", own.line)
    for own in experiment.hosts:
        name = name_of(own, "host")
        check_simulator(own, f"host '{name}'", HOSTS, own.line)
        config, interfaces = own.node_config, []
        for device in own.others:
            missing(f"device '{type(device).__name__}' has no counterpart", device.line)
        for device in own.nics:
            check_simulator(device, f"a controller of host '{name}'", NICS, device.line)
            interfaces.append({"name": f"eth{len(interfaces)}", "nic": nic(device, ends), "latency": device.pci_latency,
                               "address": f"{config.ip}/{config.prefix}" if config and not interfaces else ""})
            if device.network is not None and id(device.network) in ends:
                record["links"].append({"line": device.line, "first": ends[id(device)], "second": ends[id(device.network)], "latency": device.eth_latency})
        for network in own.direct:
            interface = f"eth{len(interfaces)}"
            interfaces.append({"name": interface, "nic": "", "latency": LATENCY, "address": f"{config.ip}/{config.prefix}" if config and not interfaces else ""})
            if id(network) in ends:
                record["links"].append({"line": own.line, "first": f"{name}:{interface}", "second": ends[id(network)], "latency": network.eth_latency})
        if getattr(type(config), "needs", None):
            missing(f"node '{config.needs}' needs a disk image of SimBricks", config.line)
        if config is not None and config.disk_image != "base":
            note(f"disk image '{config.disk_image}' is not taken over: programs are this machine's, or those of a 'root' of the hosts", config.line)
        lines = []
        if config is not None:
            app, config.app = config.app, None
            lines = commands(config)
            config.app = app
            if app is not None:
                lines += of_application(app, config)
        record["hosts"].append({"name": name, "line": own.line, "interfaces": interfaces, "commands": lines, "waits": own.wait})
    for own in experiment.networks:
        for other in own.networks:
            if id(other) in ends:
                record["links"].append({"line": own.line, "first": ends[id(own)], "second": ends[id(other)], "latency": own.eth_latency})


def main():
    sys.meta_path.insert(0, Finder())
    output, sys.stdout = sys.stdout, sys.stderr
    found, failure = run_script()
    if failure:
        record["failure"] = failure
    all = found.get("instantiations") or instantiations or simulations
    earlier = found.get("experiments") or experiments_made
    try:
        if all:
            first = all[0]
            describe(first.simulation if isinstance(first, Instantiation) else first)
        elif earlier:
            describe_earlier(earlier[0])
    except Exception as error:
        record.setdefault("failure", {"line": 0, "text": f"the experiment cannot be described: {type(error).__name__}: {error}"})
    count = len(all or earlier)
    if count > 1:
        record["notes"].append({"line": 0, "text": f"the script makes {count} experiments: the first is imported"})
    print(json.dumps(record), file=output)


main()
