"""The orchestration framework of SimBricks before its version 0.3: experiments, node configurations and simulators that are joined to
each other. Part of one program: it follows `system.py`.
"""

experiments_made = []


class Experiment(Recorded):
    def __init__(self, name="experiment"):
        self.name, self.hosts, self.networks, self.others, self.nics = name, [], [], [], []
        self.checkpoint = False
        experiments_made.append(self)

    def add_host(self, host):
        self.hosts.append(host)

    def add_network(self, network):
        self.networks.append(network)

    def add_nic(self, nic):
        self.nics.append(nic)

    def add_pcidev(self, device):
        self.others.append(device)

    add_memdev = add_netmem = add_pcidev


class DistributedExperiment(Experiment):
    def __init__(self, name="experiment", num_hosts=1):
        super().__init__(name)


class NodeConfig(Recorded):
    def __init__(self):
        self.ip, self.prefix, self.app, self.cores, self.threads, self.memory = "10.0.0.1", 24, None, 1, 1, 512
        self.disk_image, self.mtu, self.nockp, self.kcmd_append, self.drivers = "base", 1500, 0, "", []
        self.tcp_congestion_control, self.force_mac_addr, self.ifname = None, None, "eth0"

    def prepare_pre_cp(self, *args):
        return []

    prepare_post_cp = cleanup_cmds = prepare_pre_cp

    def run_cmds(self, *args):
        return self.app.run_cmds(self) if self.app else []


class DctcpNode(NodeConfig):
    def prepare_pre_cp(self, *args):
        return super().prepare_pre_cp() + ["sysctl -w net.ipv4.tcp_congestion_control=dctcp", "sysctl -w net.ipv4.tcp_ecn=1"]


class TcpCongNode(NodeConfig):
    def prepare_pre_cp(self, *args):
        own = self.tcp_congestion_control
        return super().prepare_pre_cp() + ([f"sysctl -w net.ipv4.tcp_congestion_control={own}"] if own else [])


class AppConfig(Recorded):
    # Applications of the framework have these, whatever they are.
    server_ip, procs, rate, is_last, duration_tp, duration_lat = "10.0.0.1", 1, "150m", False, 10, 10

    def prepare_pre_cp(self, *args):
        return []

    prepare_post_cp = cleanup_cmds = prepare_pre_cp


def of_later(later, **fixed):
    """An application of the earlier framework with the commands of the same one of the later."""

    def run_cmds(self, node=None):
        return later.run_cmds(self)

    return type(later.__name__, (AppConfig,), {"run_cmds": run_cmds, **fixed})


class IdleHost(AppConfig):
    def run_cmds(self, node=None):
        return ["sleep infinity"]


class DctcpClient(AppConfig):
    def run_cmds(self, node=None):
        return [f"iperf -w 1M -c {self.server_ip} -Z dctcp -i 1"]


class DctcpServer(AppConfig):
    def run_cmds(self, node=None):
        return ["iperf -s -w 1M -Z dctcp"]


class EarlierSimulator(Recorded):
    """A simulator of the earlier framework, which is the component as well."""

    def __init__(self, config=None, *args, **options):
        self.name, self.node_config, self.wait, self.nics, self.others, self.networks = None, config, False, [], [], []
        self.direct = []
        self.network, self.mac, self.sync = None, None, False
        self.eth_latency = self.pci_latency = LATENCY

    def add_nic(self, nic):
        self.nics.append(nic)

    def add_pcidev(self, device):
        self.others.append(device)

    add_memdev = add_pcidev

    def add_netdirect(self, network):
        self.direct.append(network)

    def set_network(self, network):
        self.network = network

    def connect_network(self, network):
        self.networks.append(network)


def create_basic_hosts(e, num, name_prefix, net, nic_class, host_class, nc_class, app_class, ip_start=1, ip_prefix=24):
    hosts = []
    for number in range(ip_start, ip_start + num):
        nic, config = nic_class(), nc_class()
        nic.set_network(net)
        config.ip, config.prefix, config.app = f"10.0.{number // 256}.{number % 256}", ip_prefix, app_class()
        host = host_class(config)
        host.name = f"{name_prefix}.{number - ip_start}"
        host.add_nic(nic)
        e.add_nic(nic)
        e.add_host(host)
        hosts.append(host)
    return hosts
