//! An experiment once everything in its file is resolved.

use crate::Signal;
use crate::events::{ClockSettings, Event, ProcessRef};
use crate::topology::{Interface, Routing, Topology};
use belljar_base::{HostId, Map, SimDuration, SimTime};
use belljar_net::dns::Zone;
use belljar_net::{Addresses, Graph, NodeIndex, QueueConfig};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

/// An experiment: ready to be built and run, nothing left to be looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Section `general`.
    pub general: General,
    /// Section `network`.
    pub network: Network,
    /// The hosts in the order of their names: a host's index is its [`HostId`].
    pub hosts: Vec<Host>,
    /// Sections `switches`, `routers` and `links`.
    pub topology: Topology,
    /// Section `experimental`: what of it has a meaning here.
    pub experimental: Experimental,
    /// Section `belljar`.
    pub belljar: Extensions,
    /// Section `events`, in the order of the file.
    pub events: Vec<Event>,
    /// Notes for the user on how the file was understood, one sentence each.
    pub notes: Vec<String>,
}

impl Experiment {
    /// The zone of the network's name server.
    pub fn zone(&self) -> Zone {
        let mut zone = Zone::new(self.belljar.dns_address, self.names());
        zone.add_ipv6(self.names6());
        for line in &self.belljar.dns_records {
            zone.add(line).expect("loading has checked the records");
        }
        zone
    }

    /// Names and addresses of all hosts, and of those devices that have one.
    pub fn names(&self) -> impl Iterator<Item = (&str, Ipv4Addr)> {
        let hosts = self.hosts.iter().map(|host| (host.name.as_str(), host.address));
        let devices = self.topology.devices.iter().filter_map(|device| {
            let own = device.interfaces.iter().find_map(|interface| interface.addresses.first())?;
            Some((device.name.as_str(), own.ip))
        });
        hosts.chain(devices)
    }

    /// Names and IPv6 addresses of those hosts and devices that have one.
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

/// Settings of the run as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct General {
    /// When the simulation ends and processes that still run are killed.
    pub stop_time: SimTime,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Worker threads; 0 chooses.
    pub parallelism: u32,
    /// Until when bandwidth is infinite and nothing is lost.
    pub bootstrap_end_time: SimTime,
    /// Level of messages that are logged unless a host has its own.
    pub log_level: LogLevel,
    /// Interval of log lines about the progress, in simulated time.
    pub heartbeat_interval: Option<SimDuration>,
    /// The results folder.
    pub data_directory: PathBuf,
    /// A folder whose content is copied to the results folder first.
    pub template_directory: Option<PathBuf>,
    /// True if progress is shown on standard error.
    pub progress: bool,
    /// True if calls that don't block take simulated time.
    pub model_unblocked_syscall_latency: bool,
}

/// The least severe messages that are logged.
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
    /// Where the graph came from.
    pub source: GraphSource,
    /// True if packets follow shortest paths or single edges only.
    pub use_shortest_path: bool,
    /// The graph itself.
    pub graph: Arc<Graph>,
}

/// Two networks are equal if they were made from the same text in the same way.
impl PartialEq for Network {
    fn eq(&self, other: &Network) -> bool {
        (&self.source, self.use_shortest_path) == (&other.source, other.use_shortest_path)
    }
}

/// Where a graph comes from. A file's text is kept, so that the resolved experiment stands alone.
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
    /// Its name: a valid host name, unique.
    pub name: String,
    /// The node of the graph that it is attached to, if it is.
    pub node: Option<NodeIndex>,
    /// The IPv4 address that others know it by, its own or assigned: that on the graph if it is there.
    pub address: Ipv4Addr,
    /// True if it has IPv6.
    pub ipv6: bool,
    /// The IPv6 address that others know it by, its own or assigned, if it has any.
    pub address6: Option<Ipv6Addr>,
    /// Bits per second that it can send; `None` is unlimited.
    pub bandwidth_up: Option<u64>,
    /// Bits per second that it can receive; `None` is unlimited.
    pub bandwidth_down: Option<u64>,
    /// Its options, the defaults of all hosts merged in.
    pub options: HostOptions,
    /// Offset and drift of its clock.
    pub clock: ClockSettings,
    /// Time that its work takes; `None`: none.
    pub cpu: Option<CpuSettings>,
    /// Its processes in the order of the file.
    pub processes: Vec<Process>,
    /// Its traffic models in the order of the file, where they stand among the processes.
    pub models: Vec<Model>,
    /// Its interfaces at the ends of links, in the order of their names.
    pub interfaces: Vec<Interface>,
    /// Where its routes over links come from.
    pub routing: Routing,
    /// True if it passes packets of others on.
    pub forwarding: bool,
    /// Its files instead of the machine's, if it has its own.
    pub root: Option<Root>,
    /// The whole machine that has its place: then its one process is QEMU.
    pub machine: Option<WholeMachine>,
}

/// A whole machine, in QEMU, with a Linux of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeMachine {
    /// QEMU.
    pub qemu: PathBuf,
    /// Arguments of QEMU beyond those that follow from the experiment.
    pub args: Vec<String>,
    /// The image of the kernel.
    pub kernel: PathBuf,
    /// The folder of its modules.
    pub modules: PathBuf,
    /// Arguments of the kernel beyond those that follow from the experiment.
    pub kernel_args: Vec<String>,
    /// A busybox that is linked statically.
    pub busybox: PathBuf,
    /// Bytes of memory.
    pub memory: u64,
    /// Its network controllers.
    pub nic: MachineNic,
    /// An instruction takes 2 to the power of this nanoseconds.
    pub shift: u8,
    /// Time that it computes before it looks at what has arrived.
    pub quantum: SimDuration,
    /// Files and folders of this machine that it has besides its programs.
    pub files: Vec<PathBuf>,
    /// The processes that run in it, in the order of the file.
    pub programs: Vec<Process>,
}

impl WholeMachine {
    /// The status that QEMU ends with when all programs have ended as they were to: no other end of QEMU's has it.
    pub const DONE: i32 = 85;
}

/// A network controller of a whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineNic {
    /// Intel's 82540EM.
    E1000,
    /// The paravirtual one.
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
    /// The directory or image that the experiment names, as an absolute path.
    pub source: PathBuf,
    /// The directory with its files.
    pub directory: PathBuf,
    /// The directory that programs start in, a path in the root; `None`: the host's folder in the results.
    pub working_directory: Option<PathBuf>,
}

/// Simulated time that work takes on a host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSettings {
    /// Time of a system call, and of going on with one after a wait.
    pub syscall: SimDuration,
    /// Time of a packet sent or received.
    pub packet: SimDuration,
    /// Time of each of its bytes.
    pub byte: SimDuration,
    /// Time of an interrupt for a packet.
    pub interrupt: SimDuration,
    /// Packets that can wait to be received.
    pub backlog: u32,
}

impl Default for CpuSettings {
    /// Nothing takes time; the backlog is Linux's `net.core.netdev_max_backlog`.
    fn default() -> CpuSettings {
        let free = SimDuration::ZERO;
        CpuSettings { syscall: free, packet: free, byte: free, interrupt: free, backlog: 1_000 }
    }
}

impl Host {
    /// The places in its list of the processes that an event is about.
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

    /// The places in its list of the models that have this name.
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
    /// This host's log level, if not that of [`General::log_level`].
    pub log_level: Option<LogLevel>,
    /// True if its packets are captured.
    pub pcap_enabled: bool,
    /// Bytes of each packet that a capture keeps.
    pub pcap_capture_size: u64,
    /// The packets to capture.
    pub pcap_filter: CaptureFilter,
    /// Directories of the machine that its processes see and write as they are, shared with other
    /// hosts.
    pub shared: Vec<PathBuf>,
    /// Settings of its kernel, as sysctl(8) names them, with their values.
    pub sysctls: Map<String, String>,
    /// The queue before its attachment to the graph.
    pub queue: QueueConfig,
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
        }
    }
}

/// A capture filter, in the words of tcpdump: loading has checked that [`belljar_net::Filter`] reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CaptureFilter {
    /// All.
    #[default]
    All,
    /// These, on every interface.
    Packets(String),
    /// These by interface, `None` being none at all; and all on interfaces that are not named.
    ByInterface(Map<String, Option<String>>),
}

impl CaptureFilter {
    /// Capture filter of an interface; empty is everything, `None` nothing.
    pub fn of(&self, interface: &str) -> Option<&str> {
        match self {
            CaptureFilter::All => Some(""),
            CaptureFilter::Packets(packets) => Some(packets),
            CaptureFilter::ByInterface(own) => own.get(interface).map_or(Some(""), Option::as_deref),
        }
    }
}

/// Traffic that a host makes without a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The model and its parameters.
    pub spec: Arc<belljar_models::Spec>,
    /// When it starts; [`SimTime::MAX`] if only an event starts it.
    pub start_time: SimTime,
    /// When it is stopped.
    pub shutdown_time: Option<SimTime>,
}

/// A program that a host runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The program, an absolute path on this machine. Links are not resolved.
    pub path: PathBuf,
    /// Its name for itself, `argv[0]`: the path as the experiment writes it, `~/` expanded.
    pub arg0: String,
    /// Its arguments, `argv[1]` and on.
    pub args: Vec<String>,
    /// Environment variables on top of the host's clean environment.
    pub environment: Map<String, String>,
    /// The user that it runs as, a name or a number; root without.
    pub user: Option<String>,
    /// When it starts; [`SimTime::MAX`] if only an event starts it.
    pub start_time: SimTime,
    /// When it is sent [`shutdown_signal`](Self::shutdown_signal).
    pub shutdown_time: Option<SimTime>,
    /// Signal that it gets at [`shutdown_time`](Self::shutdown_time).
    pub shutdown_signal: Signal,
    /// Final state that the run expects of it.
    pub expected_final_state: FinalState,
    /// Where its code runs.
    pub placement: PlacementSetting,
}

impl Process {
    /// The file name of its program.
    pub fn program_name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// Final state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalState {
    /// It exits with this status.
    Exited(i32),
    /// This signal kills it.
    Signaled(Signal),
    /// It still runs when the simulation ends.
    Running,
    /// Any of these.
    Any,
}

/// Where a process's code runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementSetting {
    /// In the simulator's own address space.
    Near,
    /// In a native process of its own.
    Far,
    /// In a native process of its own, with everything at the addresses where Linux has it.
    Linux,
    /// Near where the program's image allows it.
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

/// Format of the log of system calls, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StraceMode {
    /// Not at all.
    Off,
    /// With everything that is known.
    Standard,
    /// Without what differs between runs of Shadow, such as addresses.
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

/// The options of section `experimental` that have a meaning here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experimental {
    /// Logging of system calls to `.strace` files.
    pub strace_logging_mode: StraceMode,
    /// A TCP socket's first send buffer in bytes, if not Linux's.
    pub socket_send_buffer: Option<u32>,
    /// True if it grows with the flow.
    pub socket_send_autotune: bool,
    /// A TCP socket's first receive buffer in bytes, if not Linux's.
    pub socket_recv_buffer: Option<u32>,
    /// True if it grows with the flow.
    pub socket_recv_autotune: bool,
    /// Time of a call that does not block, under [`General::model_unblocked_syscall_latency`].
    pub unblocked_syscall_latency: SimDuration,
    /// Time of reading the clock through the vDSO then.
    pub unblocked_vdso_latency: SimDuration,
    /// Most time that may add up before a host's clock is moved.
    pub max_unapplied_cpu_latency: SimDuration,
    /// True: each worker stays on a CPU of its own; false: none does; `None`: where that is good.
    pub use_cpu_pinning: Option<bool>,
    /// Simulated time that passes when a guest that computes for long without a call is interrupted.
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

/// Belljar's own settings beyond Shadow's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// The hosts' wall clock at the start of the simulation, in seconds since 1970.
    pub start_date: u64,
    /// Where processes run that don't say so themselves.
    pub placement: PlacementSetting,
    /// Where the name server answers.
    pub dns_address: Ipv4Addr,
    /// Further records of the name server, as lines of a zone file.
    pub dns_records: Vec<String>,
    /// Interval of time series, in simulated time; `None`: none are sampled.
    pub metrics_interval: Option<SimDuration>,
    /// True if hosts and routers have IPv6 besides IPv4.
    pub ipv6: bool,
    /// True if the changes of hosts' routes are written down.
    pub route_log: bool,
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
        }
    }
}
