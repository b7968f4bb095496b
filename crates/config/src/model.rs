//! Data model of an experiment with all settings of its file resolved.

use crate::Signal;
use crate::events::{ClockSettings, Event, ProcessRef};
use crate::exploration::Exploration;
use crate::properties::Property;
use crate::scheduling::Scheduling;
use crate::topology::{Interface, Routing, Topology};
use belljar_base::choices::Choices;
use belljar_base::{HostId, Map, Seed, SimDuration, SimTime};
use belljar_net::dns::Zone;
use belljar_net::{Addresses, Graph, NodeIndex, Prefix, QueueConfig};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An experiment with all names resolved, ready to be built and run.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Section `general`.
    pub general: General,
    /// Section `network`.
    pub network: Network,
    /// Hosts, sorted by name: the index of a host is its [`HostId`].
    pub hosts: Vec<Host>,
    /// Sections `switches`, `routers` and `links`.
    pub topology: Topology,
    /// The supported settings of section `experimental`.
    pub experimental: Experimental,
    /// Section `belljar`.
    pub belljar: Extensions,
    /// Section `events`, in the order of the file.
    pub events: Vec<Event>,
    /// Section `properties`, in the order of the file.
    pub properties: Vec<Property>,
    /// Section `explore`, which `belljar explore` alone reads.
    pub explore: Option<Exploration>,
    /// Choices that a run records or forces; not part of the file.
    pub choices: Choices,
    /// Notes for the user about the interpretation of the file, one sentence each.
    pub notes: Vec<String>,
}

impl Experiment {
    /// Random seed of a run, with its recorded or forced choices.
    pub fn seed(&self) -> Seed {
        Seed(self.general.seed).observed(self.choices)
    }

    /// The zone of the network's name server.
    pub fn zone(&self) -> Zone {
        let mut zone = Zone::new(self.belljar.dns_address, self.names());
        zone.add_ipv6(self.names6());
        for line in &self.belljar.dns_records {
            zone.add(line).expect("loading has checked the records");
        }
        zone
    }

    /// Names and addresses of all hosts, and of the devices that have an address.
    pub fn names(&self) -> impl Iterator<Item = (&str, Ipv4Addr)> {
        let hosts = self.hosts.iter().map(|host| (host.name.as_str(), host.address));
        let devices = self.topology.devices.iter().filter_map(|device| {
            let own = device.interfaces.iter().find_map(|interface| interface.addresses.first())?;
            Some((device.name.as_str(), own.ip))
        });
        hosts.chain(devices)
    }

    /// Names and IPv6 addresses of the hosts and devices that have one.
    pub fn names6(&self) -> impl Iterator<Item = (&str, Ipv6Addr)> {
        let hosts = self.hosts.iter().filter_map(|host| Some((host.name.as_str(), host.address6?)));
        let devices = self.topology.devices.iter().filter_map(|device| {
            let own = device.interfaces.iter().find_map(|interface| interface.addresses6.first())?;
            Some((device.name.as_str(), own.ip))
        });
        hosts.chain(devices)
    }

    /// All addresses of a host or device: that on the graph, and those of its interfaces.
    pub fn addresses_of(&self, name: &str) -> Vec<IpAddr> {
        let own = |interfaces: &[Interface]| -> Vec<IpAddr> {
            let v4 = interfaces.iter().flat_map(|i| &i.addresses).map(|own| IpAddr::V4(own.ip));
            let v6 = interfaces.iter().flat_map(|i| &i.addresses6).map(|own| IpAddr::V6(own.ip));
            v4.chain(v6).collect()
        };
        if let Some(host) = self.host_by_name(name).map(|id| &self.hosts[id.index()]) {
            let graph = host.node.is_some() || host.interfaces.is_empty();
            let known = [Some(IpAddr::V4(host.address)), host.address6.map(IpAddr::V6)];
            let known = known.into_iter().flatten().filter(|_| graph);
            return known.chain(own(&host.interfaces)).collect();
        }
        let device = self.topology.devices.iter().find(|device| device.name == name);
        device.map(|device| own(&device.interfaces)).unwrap_or_default()
    }

    /// The addresses and names of all hosts.
    pub fn addresses(&self) -> Addresses {
        Addresses::assign(self.hosts.iter().map(|h| (h.name.as_str(), Some(h.address))))
            .expect("loading has checked names and addresses")
    }

    /// The host with this name.
    pub fn host_by_name(&self, name: &str) -> Option<HostId> {
        self.hosts.binary_search_by(|h| h.name.as_str().cmp(name)).ok().map(|i| HostId(i as u32))
    }
}

/// Settings of the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct General {
    /// End of the simulation, at which running processes are killed.
    pub stop_time: SimTime,
    /// Random seed of the whole run.
    pub seed: u64,
    /// Number of worker threads; 0 for automatic.
    pub parallelism: u32,
    /// End of the initial period with unlimited bandwidth and without packet loss.
    pub bootstrap_end_time: SimTime,
    /// Log level of hosts without their own.
    pub log_level: LogLevel,
    /// Interval of progress messages in the log, in simulated time.
    pub heartbeat_interval: Option<SimDuration>,
    /// Results folder; `None` if neither the file nor an option names one.
    pub data_directory: Option<PathBuf>,
    /// Folder whose content is copied to the results folder at the start.
    pub template_directory: Option<PathBuf>,
    /// True to show progress on standard error.
    pub progress: bool,
    /// True if system calls that do not block take simulated time.
    pub model_unblocked_syscall_latency: bool,
}

impl General {
    /// Path of the results folder.
    pub fn results(&self) -> &Path {
        self.data_directory.as_deref().unwrap_or(Path::new("experiment.data"))
    }
}

/// Level of the least severe messages that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warning,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub(crate) const NAMES: &'static [(&'static str, LogLevel)] = &[
        ("error", LogLevel::Error),
        ("warning", LogLevel::Warning),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];

    /// The name in an experiment file.
    pub fn name(self) -> &'static str {
        name_in(Self::NAMES, self)
    }
}

/// The network between hosts.
#[derive(Clone, Debug)]
pub struct Network {
    /// Source of the graph.
    pub source: GraphSource,
    /// True if packets follow shortest paths, false if only single edges.
    pub use_shortest_path: bool,
    /// The graph itself.
    pub graph: Arc<Graph>,
}

/// Networks are equal if they were built from the same text with the same setting.
impl PartialEq for Network {
    fn eq(&self, other: &Network) -> bool {
        (&self.source, self.use_shortest_path) == (&other.source, other.use_shortest_path)
    }
}

/// Source of a graph. The text of a file is included, so that the resolved experiment is self-contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphSource {
    /// The built-in `1_gbit_switch`.
    OneGbitSwitch,
    /// GML text.
    Gml(Arc<str>),
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Unique name, valid as a host name.
    pub name: String,
    /// Node of the graph to which the host is attached, if any.
    pub node: Option<NodeIndex>,
    /// Main IPv4 address, specified or assigned: that on the graph if the host is attached to it.
    pub address: Ipv4Addr,
    /// True if IPv6 is enabled.
    pub ipv6: bool,
    /// Main IPv6 address, specified or assigned, if any.
    pub address6: Option<Ipv6Addr>,
    /// Upstream bandwidth in bits per second; `None` for unlimited.
    pub bandwidth_up: Option<u64>,
    /// Downstream bandwidth in bits per second; `None` for unlimited.
    pub bandwidth_down: Option<u64>,
    /// Options, merged with the defaults of all hosts.
    pub options: HostOptions,
    /// Offset and drift of its clock.
    pub clock: ClockSettings,
    /// Simulated time that its work takes; `None` for no time.
    pub cpu: Option<CpuSettings>,
    /// Number of processors that programs see, one if `None`; one thread runs at a time.
    pub cpu_count: Option<u32>,
    /// Memory in bytes; `None` for no limit.
    pub memory: Option<u64>,
    /// Processes in the order of the file.
    pub processes: Vec<Process>,
    /// Traffic models in the order of the file, where they are listed among the processes.
    pub models: Vec<Model>,
    /// Interfaces at the ends of links, sorted by name.
    pub interfaces: Vec<Interface>,
    /// Routes over links.
    pub routing: Routing,
    /// True if it forwards packets.
    pub forwarding: bool,
    /// Root file system; `None` for the machine's files.
    pub root: Option<Root>,
    /// The whole machine that replaces the host's processes: QEMU is then its only process.
    pub machine: Option<WholeMachine>,
}

/// A whole machine in QEMU, with a Linux kernel of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeMachine {
    /// Path of QEMU.
    pub qemu: PathBuf,
    /// Additional arguments of QEMU.
    pub args: Vec<String>,
    /// Path of the kernel image.
    pub kernel: PathBuf,
    /// Folder of the kernel's modules.
    pub modules: PathBuf,
    /// Additional arguments of the kernel.
    pub kernel_args: Vec<String>,
    /// Path of a statically linked busybox.
    pub busybox: PathBuf,
    /// Size of the memory in bytes.
    pub memory: u64,
    /// Model of its network controllers.
    pub nic: MachineNic,
    /// An instruction takes 2 to the power of this number of nanoseconds.
    pub shift: u8,
    /// Virtual time between two synchronisations while it computes.
    pub quantum: SimDuration,
    /// Files and folders of this machine to be copied in addition to its programs.
    pub files: Vec<PathBuf>,
    /// Processes that run in it, in the order of the file.
    pub programs: Vec<Process>,
}

impl WholeMachine {
    /// Exit status of QEMU after all programs have ended as expected; no other end has this status.
    pub const DONE: i32 = 85;
}

/// A network controller of a whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineNic {
    /// Intel's 82540EM.
    E1000,
    /// The paravirtual controller (virtio-net).
    VirtioNet,
}

impl MachineNic {
    /// The name in an experiment file.
    pub fn name(self) -> &'static str {
        match self {
            MachineNic::E1000 => "e1000",
            MachineNic::VirtioNet => "virtio-net",
        }
    }
}

/// A root file system of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The directory or image in the experiment, as an absolute path.
    pub source: PathBuf,
    /// Directory that contains its files.
    pub directory: PathBuf,
    /// Initial working directory of programs, a path in the root; `None` for the host's folder in the
    /// results.
    pub working_directory: Option<PathBuf>,
}

/// Simulated time that work takes on a host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSettings {
    /// Time of a system call, and of its continuation after a wait.
    pub syscall: SimDuration,
    /// Time of a packet, sent or received.
    pub packet: SimDuration,
    /// Time of each byte of a packet.
    pub byte: SimDuration,
    /// Time of an interrupt for a packet.
    pub interrupt: SimDuration,
    /// Largest number of packets waiting to be received.
    pub backlog: u32,
}

impl Default for CpuSettings {
    /// No work takes time; the backlog is Linux's `net.core.netdev_max_backlog`.
    fn default() -> CpuSettings {
        let free = SimDuration::ZERO;
        CpuSettings { syscall: free, packet: free, byte: free, interrupt: free, backlog: 1_000 }
    }
}

impl Host {
    /// Indices of the processes that an event refers to.
    pub fn processes_like(&self, wanted: &ProcessRef) -> impl Iterator<Item = usize> {
        self.processes
            .iter()
            .enumerate()
            .filter(move |(number, process)| match wanted {
                ProcessRef::Number(n) => n == number,
                ProcessRef::Program(name) => process.program_name() == *name,
            })
            .map(|(number, _)| number)
    }

    /// Indices of the models with this name.
    pub fn models_called(&self, name: &str) -> impl Iterator<Item = usize> {
        self.models
            .iter()
            .enumerate()
            .filter(move |(_, model)| model.spec.name == name)
            .map(|(number, _)| number)
    }
}

/// Options of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostOptions {
    /// Log level of the host; `None` for [`General::log_level`].
    pub log_level: Option<LogLevel>,
    /// True to capture its packets.
    pub pcap_enabled: bool,
    /// Number of bytes captured of each packet.
    pub pcap_capture_size: u64,
    /// Filter of the captured packets.
    pub pcap_filter: CaptureFilter,
    /// Directories of the machine that its processes access directly, shared with other hosts.
    pub shared: Vec<PathBuf>,
    /// Kernel settings by their names for sysctl(8), with their values.
    pub sysctls: Map<String, String>,
    /// Queue at its attachment to the graph.
    pub queue: QueueConfig,
    /// Order of its threads.
    pub scheduling: Scheduling,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions {
            log_level: None,
            pcap_enabled: false,
            pcap_capture_size: 65_535,
            pcap_filter: CaptureFilter::All,
            shared: Vec::new(),
            sysctls: Map::new(),
            queue: QueueConfig::default(),
            scheduling: Scheduling::default(),
        }
    }
}

/// Capture filter in tcpdump's syntax, checked by loading it with [`belljar_net::Filter`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CaptureFilter {
    /// All packets.
    #[default]
    All,
    /// Packets that match this filter, on every interface.
    Packets(String),
    /// Filters by interface, `None` for no packets; all packets on interfaces without an entry.
    ByInterface(Map<String, Option<String>>),
}

impl CaptureFilter {
    /// Capture filter of an interface; an empty string for all packets, `None` for no packets.
    pub fn of(&self, interface: &str) -> Option<&str> {
        match self {
            CaptureFilter::All => Some(""),
            CaptureFilter::Packets(packets) => Some(packets),
            CaptureFilter::ByInterface(own) => own.get(interface).map_or(Some(""), Option::as_deref),
        }
    }
}

/// Traffic model of a host, which generates traffic without a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Type and parameters of the model.
    pub spec: Arc<belljar_models::Spec>,
    /// Start time; [`SimTime::MAX`] if only an event starts it.
    pub start_time: SimTime,
    /// Stop time.
    pub shutdown_time: Option<SimTime>,
}

/// A program that a host runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Absolute path of the program on this machine. Symbolic links are not resolved.
    pub path: PathBuf,
    /// `argv[0]`: the path as written in the experiment, with `~/` expanded.
    pub arg0: String,
    /// Arguments from `argv[1]` on.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub environment: Map<String, String>,
    /// Name or number of the user; root if `None`.
    pub user: Option<String>,
    /// Start time; [`SimTime::MAX`] if only an event starts it.
    pub start_time: SimTime,
    /// Time at which it receives [`shutdown_signal`](Self::shutdown_signal).
    pub shutdown_time: Option<SimTime>,
    /// Signal sent at [`shutdown_time`](Self::shutdown_time).
    pub shutdown_signal: Signal,
    /// Expected final state.
    pub expected_final_state: FinalState,
    /// True if the process does not end as expected although it never starts: the experiment writes its final state, and
    /// starts it after the end of the run.
    pub must_start: bool,
    /// Placement of its code.
    pub placement: PlacementSetting,
    /// True for the process of the host's `setup`: the others start once it has exited with status 0.
    pub is_setup: bool,
    /// What the experiment says of a program in a root, from which its path and more follow; `None` for a program of this machine.
    pub written: Option<Box<WrittenProgram>>,
}

/// Keys of a process in a root; what is not given is that of the root's image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenProgram {
    /// Path in the root, or name in PATH.
    pub path: Option<String>,
    /// `argv[0]`.
    pub arg0: Option<String>,
    /// Arguments.
    pub args: Option<Vec<String>>,
    /// Additional environment variables.
    pub environment: Map<String, String>,
    /// User.
    pub user: Option<String>,
}

/// Program of a process in another root than the one that its host has at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Path in the root.
    pub path: PathBuf,
    /// `argv[0]`.
    pub arg0: String,
    /// Arguments from `argv[1]` on.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub environment: Map<String, String>,
    /// Name or number of the user; root if `None`.
    pub user: Option<String>,
}

/// True if something that is to start does so only after the end of the run.
pub(crate) fn starts_late(start: SimTime, stop: SimTime) -> bool {
    start >= stop && start != SimTime::MAX
}

impl Process {
    /// The file name of its program, or `setup`.
    pub fn program_name(&self) -> String {
        if self.is_setup {
            return "setup".to_owned();
        }
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// Final state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalState {
    /// The process exits with this status.
    Exited(i32),
    /// The process is killed by this signal.
    Signaled(Signal),
    /// The process is running at the end of the simulation.
    Running,
    /// Any final state.
    Any,
}

/// Placement of a process's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementSetting {
    /// In the simulator's own address space.
    Near,
    /// In a native process of its own.
    Far,
    /// In a native process of its own, with Linux's address space layout.
    Linux,
    /// Near if the program's image allows it.
    #[default]
    Auto,
}

impl PlacementSetting {
    pub(crate) const NAMES: &'static [(&'static str, PlacementSetting)] =
        &[("near", Self::Near), ("far", Self::Far), ("linux", Self::Linux), ("auto", Self::Auto)];

    /// The name in an experiment file.
    pub fn name(self) -> &'static str {
        name_in(Self::NAMES, self)
    }
}

/// Format of the log of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StraceMode {
    /// No log.
    Off,
    /// All details.
    Standard,
    /// Without details that differ between runs of Shadow, such as addresses.
    Deterministic,
}

impl StraceMode {
    pub(crate) const NAMES: &'static [(&'static str, StraceMode)] = &[
        ("off", StraceMode::Off),
        ("standard", StraceMode::Standard),
        ("deterministic", StraceMode::Deterministic),
    ];

    /// The name in an experiment file.
    pub fn name(self) -> &'static str {
        name_in(Self::NAMES, self)
    }
}

fn name_in<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, v)| *v == value).map_or("", |(name, _)| name)
}

/// The supported options of section `experimental`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experimental {
    /// Format of the log of system calls in `.strace` files.
    pub strace_logging_mode: StraceMode,
    /// Initial send buffer of TCP sockets in bytes; `None` for Linux's.
    pub socket_send_buffer: Option<u32>,
    /// True if the send buffer grows with the flow.
    pub socket_send_autotune: bool,
    /// Initial receive buffer of TCP sockets in bytes; `None` for Linux's.
    pub socket_recv_buffer: Option<u32>,
    /// True if the receive buffer grows with the flow.
    pub socket_recv_autotune: bool,
    /// Time of a system call that does not block, with [`General::model_unblocked_syscall_latency`].
    pub unblocked_syscall_latency: SimDuration,
    /// Time of a clock read through the vDSO, with the same setting.
    pub unblocked_vdso_latency: SimDuration,
    /// Largest time that accumulates before a host's clock advances.
    pub max_unapplied_cpu_latency: SimDuration,
    /// True to pin each worker to a CPU of its own, false not to pin; `None` to pin if it is beneficial.
    pub use_cpu_pinning: Option<bool>,
    /// Simulated time added when a guest that computes for long without a system call is interrupted.
    pub native_preemption_sim_interval: SimDuration,
}

impl Default for Experimental {
    fn default() -> Experimental {
        Experimental {
            strace_logging_mode: StraceMode::Off,
            socket_send_buffer: None,
            socket_send_autotune: true,
            socket_recv_buffer: None,
            socket_recv_autotune: true,
            unblocked_syscall_latency: SimDuration::from_micros(1),
            unblocked_vdso_latency: SimDuration::from_nanos(10),
            max_unapplied_cpu_latency: SimDuration::from_micros(1),
            use_cpu_pinning: None,
            native_preemption_sim_interval: SimDuration::from_millis(10),
        }
    }
}

/// Belljar's extensions of Shadow's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// Hosts' wall clock at simulated time 0, in seconds since 1970.
    pub start_date: u64,
    /// Default placement of processes.
    pub placement: PlacementSetting,
    /// Address of the name server.
    pub dns_address: Ipv4Addr,
    /// Additional records of the name server, as lines of a zone file.
    pub dns_records: Vec<String>,
    /// Interval of time series, in simulated time; `None` to disable them.
    pub metrics_interval: Option<SimDuration>,
    /// True to enable IPv6 on hosts and routers.
    pub ipv6: bool,
    /// True to log the changes of hosts' routes.
    pub route_log: bool,
    /// Network of the addresses that hosts on the graph are assigned; `None` for Shadow's, 11.0.0.0/8.
    pub address_pool: Option<Prefix>,
}

impl Default for Extensions {
    fn default() -> Extensions {
        // 2000-01-01 00:00:00 UTC, as in Shadow.
        Extensions {
            start_date: 946_684_800,
            placement: PlacementSetting::Auto,
            dns_address: belljar_net::dns::DEFAULT_ADDRESS,
            dns_records: Vec::new(),
            metrics_interval: None,
            ipv6: false,
            route_log: false,
            address_pool: None,
        }
    }
}
