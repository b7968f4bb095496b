"""Components, applications and simulators of SimBricks' orchestration framework, which record what is made. Part of one program: it
follows `script.py`.
"""

record.update(hosts=[], nics=[], switches=[], links=[], missing=[])
# Latency of a channel in nanoseconds, unless the script sets another.
LATENCY = 500
systems, simulations, instantiations = [], [], []


def missing(text, at):
    own = {"line": at, "text": text}
    if own not in record["missing"]:
        record["missing"].append(own)


class Nothing:
    """The value of everything that acts on nothing here: a function, a list and an object, all without effect."""

    def __call__(self, *args, **options):
        return self

    __getitem__ = __iadd__ = __add__ = __call__

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setitem__(self, key, value):
        pass

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0


class Recorded:
    """An object with the line that made it. Attributes that are not known act on nothing."""

    line = 0

    def __new__(cls, *args, **options):
        self = super().__new__(cls)
        self.line = line()
        return self

    def __init__(self, *args, **options):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


class Time:
    Picoseconds, Nanoseconds, Microseconds, Milliseconds, Seconds = 0.001, 1, 10**3, 10**6, 10**9


class System(Recorded):
    def __init__(self, name="system"):
        self.name, self.components, self.channels = name, [], []
        self._all_components = {}
        systems.append(self)

    def latencies(self, amount, ratio=1, channel_type=None):
        for channel in self.channels:
            if channel_type is None or isinstance(channel, channel_type):
                channel.set_latency(amount, ratio)

    @staticmethod
    def set_latencies(channels, amount, ratio=1):
        for channel in channels:
            channel.set_latency(amount, ratio)


class Component(Recorded):
    def __init__(self, system=None, *args, **options):
        self.name, self.ifs, self.parameters, self.simulator = None, [], {}, None
        self.system = system
        if isinstance(system, System):
            system.components.append(self)
            system._all_components[len(system._all_components)] = self

    def interfaces(self):
        return self.ifs

    def add_if(self, interface):
        self.ifs.append(interface)

    def channels(self):
        return [own.channel for own in self.ifs if own.channel]

    def connect_eth_peer_if(self, peer):
        own = EthInterface(self)
        self.ifs.append(own)
        return EthChannel(peer, own)


class Interface(Recorded):
    def __init__(self, component=None, **options):
        self.component, self.channel = component or options.get("c"), None

    def is_connected(self):
        return self.channel is not None

    def get_opposing_interface(self):
        return self.channel.b if self.channel.a is self else self.channel.a

    find_peer = get_opposing_interface


class EthInterface(Interface):
    pass


class PCIeHostInterface(Interface):
    pass


class PCIeDeviceInterface(Interface):
    pass


class Channel(Recorded):
    def __init__(self, a=None, b=None, **options):
        self.a, self.b = a or options.get("host"), b or options.get("dev")
        self.latency, self.parameters = LATENCY, {}
        self.a.channel = self.b.channel = self
        self.a.component.system.channels.append(self)

    def set_latency(self, amount, ratio=1):
        self.latency = amount * ratio

    def interfaces(self):
        return self.a, self.b


class EthChannel(Channel):
    pass


class PCIeChannel(Channel):
    pass


class EthSwitch(Component):
    pass


class EthWire(Component):
    pass


class PCIeSimpleDevice(Component):
    def __init__(self, system=None, *args, **options):
        super().__init__(system)
        self._pci_if = PCIeDeviceInterface(self)
        self.ifs.append(self._pci_if)


class EthSimpleNIC(PCIeSimpleDevice):
    def __init__(self, system=None, *args, **options):
        super().__init__(system)
        self._ip, self._eth_if = None, EthInterface(self)
        self.ifs.append(self._eth_if)

    def add_ipv4(self, ip):
        self._ip = ip

    def connect_eth_peer_if(self, peer):
        return EthChannel(peer, self._eth_if)


class VirtIONic(EthSimpleNIC):
    pass


class Host(Component):
    def __init__(self, system=None, *args, **options):
        super().__init__(system)
        self.applications, self.disks = [], []
        self.kcmd_append, self.load_modules, self.drivers, self.hostname = None, [], [], None

    def add_app(self, application=None, **options):
        self.applications.append(application or options.get("a"))

    def add_disk(self, disk):
        self.disks.append(disk)

    def connect_pcie_dev(self, device):
        own = PCIeHostInterface(self)
        self.ifs.append(own)
        return PCIeChannel(own, device._pci_if)


class FullSystemHost(Host):
    pass


class BaseLinuxHost(FullSystemHost):
    pass


class LinuxHost(BaseLinuxHost):
    # What the framework does at the start of a host is settings of the experiment.
    def prepare_pre_cp(self, inst=None):
        return []

    prepare_post_cp = run_cmds = cleanup_cmds = prepare_pre_cp


class Disk(Recorded):
    def __init__(self, system=None, name=None, *args, **options):
        if type(self).__name__ in ("DistroDiskImage", "ExternalDiskImage", "PackerDiskImage") and name not in (None, "base"):
            note(f"disk image '{name}' is not taken over: programs are this machine's, or those of a 'root' of the hosts")


class Application(Recorded):
    def __init__(self, host=None, *args, **options):
        self.host, self.wait, self.parameters = host or options.get("h"), False, {}
        self.start_delay = self.end_delay = None

    def prepare_pre_cp(self, inst=None):
        return []

    prepare_post_cp = cleanup_cmds = prepare_pre_cp


class BaseLinuxApplication(Application):
    pass


class GenericRawCommandApplication(BaseLinuxApplication):
    def __init__(self, host=None, commands=(), **options):
        super().__init__(host, **options)
        self.commands = list(commands)

    def run_cmds(self, inst=None):
        return self.commands


class Sleep(BaseLinuxApplication):
    def __init__(self, host=None, delay=10, infinite=False, **options):
        super().__init__(host, **options)
        self.delay, self.infinite = delay, infinite

    def run_cmds(self, inst=None):
        return ["sleep infinity" if self.infinite else f"sleep {self.delay}"]


class PingClient(BaseLinuxApplication):
    def __init__(self, host=None, server_ip="192.168.64.1", **options):
        super().__init__(host, **options)
        self.server_ip = server_ip

    def run_cmds(self, inst=None):
        return [f"ping -c 10 {self.server_ip}"]


class NetperfServer(BaseLinuxApplication):
    def run_cmds(self, inst=None):
        return ["netserver", "sleep infinity"]


class NetperfClient(PingClient):
    duration_tp = duration_lat = 10

    def run_cmds(self, inst=None):
        columns = "-o mean_latency,p50_latency,p90_latency,p99_latency"
        return ["netserver", "sleep 0.5", f"netperf -H {self.server_ip} -l {self.duration_tp}",
                f"netperf -H {self.server_ip} -l {self.duration_lat} -t TCP_RR -- {columns}"]


class IperfTCPServer(BaseLinuxApplication):
    def run_cmds(self, inst=None):
        return ["iperf -s -l 32M -w 32M"]


class IperfUDPServer(BaseLinuxApplication):
    def run_cmds(self, inst=None):
        return ["iperf -s -u"]


class IperfTCPClient(PingClient):
    def __init__(self, host=None, server_ip="10.0.0.1", procs=1, **options):
        super().__init__(host, server_ip, **options)
        self.procs = procs

    def run_cmds(self, inst=None):
        return [f"iperf -l 32M -w 32M -c {self.server_ip} -i 1 -P {self.procs}"]


class IperfUDPClient(PingClient):
    def __init__(self, host=None, server_ip="10.0.0.1", rate="150m", **options):
        super().__init__(host, server_ip, **options)
        self.rate = rate

    def run_cmds(self, inst=None):
        return [f"iperf -c {self.server_ip} -i 1 -u -b {self.rate}"]


class Simulation(Recorded):
    def __init__(self, name="simulation", system=None, **options):
        self.name, self.system, self.simulators = name, system, []
        simulations.append(self)

    def all_simulators(self):
        return list(self.simulators)

    def find_sim(self, component):
        return component.simulator


class Simulator(Recorded):
    """A simulator of components. Attributes that a script sets, such as of a program's command line, act on nothing."""

    def __init__(self, simulation=None, *args, **options):
        self.name, self.parts = None, []
        simulation = simulation or options.get("simulation")
        if isinstance(simulation, Simulation):
            simulation.simulators.append(self)

    def add(self, component=None, **options):
        component = component or options.get("comp")
        self.parts.append(component)
        component.simulator = self


class Instantiation(Recorded):
    def __init__(self, simulation=None, **options):
        self.simulation = simulation or options.get("sim")
        self.fragments = [Nothing()]
        instantiations.append(self)


def simple_simulation(system, sync=False, compmap={}):
    simulation = Simulation("simulation", system)
    for component in system.components:
        for kind, simulator in compmap.items():
            if isinstance(component, kind):
                made = simulator(simulation)
                made.add(component)
                made.name = component.name or made.name
    return simulation


def simple_instantiation(simulation):
    return Instantiation(simulation)


def connect_host_and_device(host, device):
    return host.connect_pcie_dev(device)


def connect_eth_devices(a, b):
    ends = [own._eth_if if isinstance(own, EthSimpleNIC) else EthInterface(own) for own in (a, b)]
    for own, end in zip((a, b), ends):
        if end not in own.ifs:
            own.ifs.append(end)
    return EthChannel(*ends)


def install_app(host, app_ty, **options):
    application = app_ty(host, **options)
    host.add_app(application)
    return application


def add_specs(simulator, *components):
    for component in components:
        simulator.add(component)


def enable_sync_simulation(*args, **options):
    pass


disalbe_sync_simulation = enable_sync_simulation
