//! P4 switches of an emulation: each is a process of this program in the switch's namespace, which reads a
//! [`SwitchPlan`] and then runs as `belljar p4 serve` does.

pub use crate::account::{INTERFACE_DOWN, MISSED, of_ports};
use crate::dilation::Dilation;
use crate::error::{Doing, Error, Result};
use crate::freeze;
use crate::nodes::Node;
use crate::world::SCRATCH;
use belljar_base::{Map, PacketAccount, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{Device, DeviceKind, P4Management, P4Setup, P4Switch};
use belljar_packetio::{Namespace, slot_len};
use belljar_plan::{DeviceChange, Schedule};
use belljar_results::{LocationAccount, ResultsFolder};
use belljar_wire::ethernet::HEADER_LEN;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Hidden subcommand that becomes an emulated P4 switch; its argument is the file of the [`SwitchPlan`].
pub const SWITCH_COMMAND: &str = "emulate-switch";
/// Folder of the plans within the scratch folder. No host's name begins with a dot.
const PLANS: &str = ".switches";
/// Prefix of the line that a switch logs when it starts to forward packets.
const READY: &str = "P4Runtime: ";
/// Prefix of the line with the account of a switch's packets, which it logs at its end.
const ACCOUNT: &str = "account: ";
/// Prefix of the line that a switch logs when it refuses an event.
pub const EVENT_REFUSED: &str = "event refused: ";
/// Total bytes of the receive rings of all switches, and bounds of the ring of one interface.
const RINGS: usize = 256 << 20;
const RING: [usize; 2] = [512 << 10, 8 << 20];
/// Minimum number of frames of MTU size for which a ring has room.
const FRAMES: usize = 256;
/// Number of checks of a switch's log before its start fails, and the interval between them.
const LOOKS: u32 = 1_500;
const NAP: Duration = Duration::from_millis(20);
/// Number of such intervals in which switches must end.
const END_LOOKS: u32 = 250;

/// Plan of a switch for its process: compiled program, setup and interfaces.
#[derive(Debug, Serialize, Deserialize)]
pub struct SwitchPlan {
    /// Name of the switch.
    pub name: String,
    /// Program in BMv2's JSON format; `None` if a controller installs one.
    pub json: Option<String>,
    /// P4Info of the program, in text or binary format.
    pub p4info: Option<Vec<u8>>,
    /// Setup before packets are forwarded, in order.
    pub setup: Vec<P4Setup>,
    /// P4 ports with the names of their interfaces.
    pub interfaces: Vec<(u16, String)>,
    /// P4 port for packets to and from controllers.
    pub cpu_port: Option<u16>,
    /// True if timestamps are nanoseconds instead of microseconds.
    pub nanoseconds: bool,
    /// Size in bytes of each interface's receive ring.
    pub ring_bytes: usize,
    /// Servers for controllers; `None` if the switch has no management interface.
    pub management: Option<ManagementPlan>,
    /// Events of the switch, with their times in seconds.
    pub events: Vec<(f64, Vec<P4Setup>)>,
    /// Named pipe from which the switch reads the number of each event at its time, in a line each; `None`
    /// without events.
    pub orders: Option<PathBuf>,
}

/// Servers of a switch for its controllers.
#[derive(Debug, Serialize, Deserialize)]
pub struct ManagementPlan {
    /// Addresses of the P4Runtime server.
    pub p4runtime: Vec<SocketAddr>,
    /// Address of the Thrift server.
    pub thrift: SocketAddr,
    /// P4Runtime device id.
    pub device_id: u64,
    /// Duration of each update of a write, and of each Thrift call that changes state, in nanoseconds.
    pub write_ns: u64,
}

impl ManagementPlan {
    fn new(management: &P4Management, ipv6: bool) -> ManagementPlan {
        // A socket of `::` accepts connections over IPv4 too.
        let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        ManagementPlan {
            p4runtime: management.ports.iter().map(|port| SocketAddr::new(any, *port)).collect(),
            thrift: SocketAddr::new(any, management.thrift_port),
            device_id: management.device_id,
            write_ns: management.control_latency.as_nanos(),
        }
    }
}

impl SwitchPlan {
    /// Creates the plan of a switch.
    fn new(
        device: &Device,
        switch: &P4Switch,
        ring_bytes: usize,
        ipv6: bool,
        changes: &[(SimTime, DeviceChange)],
    ) -> SwitchPlan {
        let events = changes.iter().filter_map(|(at, change)| match change {
            DeviceChange::P4(setup) => Some((at.as_secs_f64(), setup.to_vec())),
            DeviceChange::Link(_) => None,
        });
        let loaded = switch.source.as_ref().map(|source| &source.loaded);
        let ports = switch.ports(&device.interfaces).into_iter().zip(&device.interfaces);
        SwitchPlan {
            name: device.name.clone(),
            json: loaded.map(|loaded| loaded.program.json().to_owned()),
            p4info: loaded.and_then(|loaded| loaded.p4info.clone()),
            setup: switch.setup.clone(),
            interfaces: ports.filter_map(|(port, own)| Some((port?, own.name.clone()))).collect(),
            cpu_port: switch.config.cpu_port,
            nanoseconds: switch.config.nanoseconds,
            ring_bytes,
            management: switch.management.as_ref().map(|own| ManagementPlan::new(own, ipv6)),
            events: events.collect(),
            orders: None,
        }
    }

    /// Reads a plan that [`start`] has written.
    pub fn read(file: &Path) -> Result<SwitchPlan> {
        let reading = || format!("reading '{}'", file.display());
        let bytes = fs::read(file).doing(reading())?;
        serde_json::from_slice(&bytes).doing(reading())
    }

    /// Writes the plan to a file.
    fn write(&self, file: &Path) -> Result<()> {
        let writing = || format!("writing '{}'", file.display());
        let bytes = serde_json::to_vec(self).doing(writing())?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).doing(writing())?;
        }
        fs::write(file, bytes).doing(writing())
    }
}

/// P4 switch that forwards packets.
pub struct Served {
    /// Name of the switch.
    pub name: String,
    /// Process of the switch.
    pub child: Child,
    /// Index of the node.
    pub node: usize,
    /// File to which the process writes its log.
    log: PathBuf,
    /// Pipe by which the switch is ordered to apply its events, if it has any.
    orders: Option<File>,
}

/// Frames at the ports of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames received by the switch's program.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames lost at the ports: the switch was too slow to receive them, or an interface did not take them.
    pub missed: u64,
}

/// Packets of a switch, as its process has logged them at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Frames at all ports.
    pub ports: PortCounters,
    /// Account of all packets from the kernel to the switch and back; `None` if the log has none.
    pub account: Option<LocationAccount>,
}

/// Line that a switch logs at its end: the account of its packets.
pub fn account_line(account: &PacketAccount) -> String {
    let account = serde_json::to_string(&LocationAccount::from(account)).expect("counts by name");
    format!("{ACCOUNT}{account}")
}

/// Names of the experiment's P4 switches.
pub fn names(experiment: &Experiment) -> Vec<&str> {
    let devices = experiment.topology.devices.iter();
    let switches = devices.filter(|device| matches!(device.kind, DeviceKind::P4(_)));
    switches.map(|device| &*device.name).collect()
}

/// Starts the experiment's P4 switches, and waits until they forward packets. `members` returns the
/// membership file of a node's control group, if it has one.
pub fn start(
    (experiment, schedule): (&Experiment, &Schedule),
    folder: &ResultsFolder,
    nodes: &[Node],
    dilation: Option<&Dilation>,
    members: impl Fn(usize) -> Option<PathBuf>,
) -> Result<Vec<Served>> {
    let devices = experiment.topology.devices.iter().zip(&nodes[experiment.hosts.len()..]);
    let is_switch = |device: &&Device| matches!(device.kind, DeviceKind::P4(_));
    let switches = experiment.topology.devices.iter().filter(is_switch);
    let ports: usize = switches.map(|device| device.interfaces.len()).sum();
    let mut started = Vec::new();
    for (device, node) in devices {
        if let DeviceKind::P4(switch) = &device.kind {
            let place = Path::new("switches").join(&device.name).join("p4-serve.log");
            let index = node.id.index();
            let mtu =
                device.interfaces.iter().map(|interface| experiment.topology.links[interface.link].mtu).max();
            let ring_bytes = ring_bytes(ports, mtu.unwrap_or(0));
            let changes = &schedule.devices[index - experiment.hosts.len()];
            let mut plan = SwitchPlan::new(device, switch, ring_bytes, experiment.belljar.ipv6, changes);
            let file = folder.path().join(SCRATCH).join(PLANS).join(format!("{}.json", device.name));
            let mut orders = None;
            if !plan.events.is_empty() {
                let pipe = file.with_extension("orders");
                orders = Some(make_pipe(&pipe)?);
                plan.orders = Some(pipe);
            }
            plan.write(&file)?;
            let child =
                serve(&file, &device.name, node, folder.create_file(&place)?, dilation, members(index))?;
            started.push((child, folder.path().join(place), &device.name, index, orders));
        }
    }
    let mut served = Vec::new();
    for (mut child, log, name, node, orders) in started {
        wait_until_ready(&mut child, &log, name)?;
        served.push(Served { name: name.clone(), child, node, log, orders });
    }
    Ok(served)
}

/// Makes a named pipe and opens it. It is open for reading too, so that opening does not wait for a reader.
fn make_pipe(path: &Path) -> Result<File> {
    let failed = || format!("making '{}'", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).doing(failed())?;
    }
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(std::io::Error::from).doing(failed())?;
    File::options().read(true).write(true).open(path).doing(failed())
}

/// Takes the pipes by which switches with events are ordered to apply them, by node.
pub fn take_orders(served: &mut [Served]) -> Map<usize, File> {
    served.iter_mut().filter_map(|switch| Some((switch.node, switch.orders.take()?))).collect()
}

/// Events that switches refused, as their logs say.
pub fn refused_events(served: &[Served]) -> Vec<String> {
    let refused = |switch: &Served| {
        let log = fs::read_to_string(&switch.log).unwrap_or_default();
        let failures = log.lines().filter_map(|line| line.strip_prefix(EVENT_REFUSED));
        failures.map(|failure| format!("switch '{}' {failure}", switch.name)).collect::<Vec<_>>()
    };
    served.iter().flat_map(refused).collect()
}

/// Size in bytes of each receive ring, where all switches have `ports` interfaces together.
fn ring_bytes(ports: usize, mtu: usize) -> usize {
    (RINGS / ports.max(1)).clamp(RING[0], RING[1]).max(FRAMES * slot_len(mtu + HEADER_LEN))
}

/// Returns the name of a switch whose process has ended.
pub fn ended(served: &mut [Served]) -> Option<&str> {
    served.iter_mut().find_map(|s| (!matches!(s.child.try_wait(), Ok(None))).then_some(&*s.name))
}

/// Ends the switches in order, and returns what they log of their packets then. A switch that does not end in
/// time has no report.
pub fn finish(served: &mut [Served]) -> Map<String, Report> {
    for switch in served.iter() {
        // A process that has ended is not waited for yet, so that its id is still its own.
        let _ = kill(Pid::from_raw(switch.child.id() as i32), Signal::SIGTERM);
    }
    for _ in 0..END_LOOKS {
        if served.iter_mut().all(|switch| !matches!(switch.child.try_wait(), Ok(None))) {
            break;
        }
        std::thread::sleep(NAP);
    }
    let ended = served.iter_mut().filter_map(|switch| {
        let has_ended = matches!(switch.child.try_wait(), Ok(Some(_)));
        let log = fs::read_to_string(&switch.log).ok().filter(|_| has_ended)?;
        Some((switch.name.clone(), report(&log)))
    });
    ended.collect()
}

fn report(log: &str) -> Report {
    let account = log.lines().find_map(|line| serde_json::from_str(line.strip_prefix(ACCOUNT)?).ok());
    Report { ports: port_counters(log), account }
}

/// Sum of the counters of all ports in a switch's log: `port 1 (eth1): 5 frames in, 4 out, 3 dropped`.
fn port_counters(log: &str) -> PortCounters {
    let mut sum = PortCounters::default();
    for line in log.lines().filter(|line| line.starts_with("port ")) {
        let Some((_, counts)) = line.split_once("): ") else { continue };
        let count = |what: &str| -> u64 {
            let of = counts.split(", ").find_map(|count| count.strip_suffix(what));
            of.and_then(|count| count.parse().ok()).unwrap_or_default()
        };
        sum.received += count(" frames in");
        sum.sent += count(" out");
        sum.missed += count(" dropped");
    }
    sum
}

/// Starts the process of a switch, which reads its plan from a file.
fn serve(
    plan: &Path,
    name: &str,
    node: &Node,
    errors: File,
    dilation: Option<&Dilation>,
    members: Option<PathBuf>,
) -> Result<Child> {
    let program = std::env::current_exe().doing("finding this program")?;
    let mut input = Stdio::null();
    let mut command = match dilation {
        None => Command::new(program),
        Some(dilation) => {
            // The switch's rates, meters and timestamps use its dilated clock.
            let shim = dilation.of_switch(name);
            let mut command = match members {
                None => Command::new(shim),
                Some(members) => {
                    let failed = || format!("opening '{}'", members.display());
                    input = File::options().write(true).open(&members).doing(failed())?.into();
                    let mut command = Command::new(&program);
                    command.arg(freeze::JOIN_COMMAND).arg("--").arg(shim);
                    command
                }
            };
            command.arg(&program).arg(&program);
            command
        }
    };
    command.arg(SWITCH_COMMAND).arg(plan).stdin(input).stdout(Stdio::null()).stderr(errors);
    // The switch reads `/sys` for its interfaces, which shows those of the namespace in which it was
    // mounted.
    let mut spawn = || -> std::io::Result<Child> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::MS_RDONLY, None::<&str>)?;
        command.spawn()
    };
    let spawned = Namespace::Fd(node.fd()).run(|| Ok(spawn()))?;
    spawned.doing(format!("starting the P4 switch '{name}'"))
}

fn wait_until_ready(child: &mut Child, log: &Path, name: &str) -> Result<()> {
    for _ in 0..LOOKS {
        let written = fs::read_to_string(log).unwrap_or_default();
        if written.contains(READY) {
            return Ok(());
        }
        if !matches!(child.try_wait(), Ok(None)) {
            return Err(Error::new(format!("switch '{name}': {}", written.trim())));
        }
        std::thread::sleep(NAP);
    }
    Err(Error::new(format!("switch '{name}' does not pass packets: the machine is too slow")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_a_switch_logs_them() {
        let log = "P4Runtime: device 0 on 127.0.0.1:9559\nport 1 (eth1): 5 frames in, 4 out, 3 dropped\n\
                   warning: port 2 has no interface any more: gone\nport 2 (eth2): 10 frames in, 20 out, 0 dropped\n";
        assert_eq!(port_counters(log), PortCounters { received: 15, sent: 24, missed: 3 });
        let mut account = PacketAccount { received: 15, sent: 13, held: 1, ..PacketAccount::default() };
        account.drop_for(MISSED, 1);
        let report = report(&format!("{log}{}\n", account_line(&account)));
        assert_eq!((report.ports.sent, report.account), (24, Some(LocationAccount::from(&account))));
    }

    #[test]
    fn a_ring_has_room_for_many_frames_however_long() {
        assert_eq!(ring_bytes(2, 1_500), 8 << 20);
        assert_eq!(ring_bytes(100_000, 1_500), 512 << 10);
        assert_eq!(ring_bytes(100_000, 9_000), 256 * (16 << 10));
    }
}
