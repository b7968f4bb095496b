//! P4 switches of an emulation: each is `belljar p4 serve` in the switch's namespace.

use crate::dilation::Dilation;
use crate::error::{Doing, Error, Result};
use crate::freeze;
use crate::nodes::Node;
use belljar_config::Experiment;
use belljar_config::topology::{Device, DeviceKind, P4Setup, P4Switch};
use belljar_packetio::{Namespace, slot_len};
use belljar_results::ResultsFolder;
use belljar_wire::ethernet::HEADER_LEN;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The first words of the line that a switch writes once it passes packets.
const READY: &str = "P4Runtime: ";
/// Bytes of the receive rings of all switches, and bounds of those of one interface.
const RINGS: usize = 256 << 20;
const RING: [usize; 2] = [512 << 10, 8 << 20];
/// Frames for which such a ring has room at least, be they as long as the MTU lets them.
const FRAMES: usize = 256;
/// Looks at what a switch has written before it is given up, and the time between two.
const LOOKS: u32 = 1_500;
const NAP: Duration = Duration::from_millis(20);

/// The reason for which a switch cannot be served, if there is one.
pub fn refusal(switch: &P4Switch) -> Option<&'static str> {
    let of_kind = |wanted: fn(&P4Setup) -> bool| switch.setup.iter().filter(|setup| wanted(setup)).count();
    let runtimes = of_kind(|setup| matches!(setup, P4Setup::Runtime(..)));
    let commands = of_kind(|setup| matches!(setup, P4Setup::Commands(..)));
    if switch.management.is_some() || switch.trace {
        return Some("controllers and traces of P4 switches are for simulations: leave them out");
    }
    if switch.config.nanoseconds {
        return Some("in an emulation its timestamps are microseconds: leave 'timestamps' out");
    }
    let Some(source) = &switch.source else { return Some("in an emulation it needs a program: set 'p4'") };
    if !source.include.is_empty() || !source.define.is_empty() {
        return Some("in an emulation its program is compiled without 'include' and 'define'");
    }
    (runtimes > 1 || commands > 1)
        .then_some("in an emulation it has one file of 'runtime' and one of 'commands' at most")
}

/// A P4 switch that passes packets.
pub struct Served {
    /// Its name.
    pub name: String,
    /// Its process.
    pub child: Child,
    /// Its node's place among all.
    pub node: usize,
}

/// The names of the experiment's P4 switches.
pub fn names(experiment: &Experiment) -> Vec<&str> {
    let devices = experiment.topology.devices.iter();
    let switches = devices.filter(|device| matches!(device.kind, DeviceKind::P4(_)));
    switches.map(|device| &*device.name).collect()
}

/// Starts the experiment's P4 switches, and waits until they pass packets. `members` is the list of members of the control group of a
/// node, if it has one.
pub fn start(
    experiment: &Experiment,
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
            let child = serve((device, switch), folder, node, &place, ring_bytes, dilation, members(index))?;
            started.push((child, folder.path().join(place), &device.name, index));
        }
    }
    let mut served = Vec::new();
    for (mut child, log, name, node) in started {
        wait_until_ready(&mut child, &log, name)?;
        served.push(Served { name: name.clone(), child, node });
    }
    Ok(served)
}

/// Bytes of each receive ring of a switch, of which all have so many `ports`.
fn ring_bytes(ports: usize, mtu: usize) -> usize {
    (RINGS / ports.max(1)).clamp(RING[0], RING[1]).max(FRAMES * slot_len(mtu + HEADER_LEN))
}

/// The name of a switch that has ended although the emulation has not.
pub fn ended(served: &mut [Served]) -> Option<&str> {
    served.iter_mut().find_map(|s| (!matches!(s.child.try_wait(), Ok(None))).then_some(&*s.name))
}

fn serve(
    (device, switch): (&Device, &P4Switch),
    folder: &ResultsFolder,
    node: &Node,
    log: &Path,
    ring_bytes: usize,
    dilation: Option<&Dilation>,
    members: Option<PathBuf>,
) -> Result<Child> {
    let errors = folder.create_file(log)?;
    let mut arguments: Vec<OsString> = vec!["p4".into(), "serve".into()];
    arguments.extend(switch.source.iter().map(|source| source.path.clone().into()));
    for (number, setup) in switch.setup.iter().enumerate() {
        let option = if matches!(setup, P4Setup::Runtime(..)) { "--runtime" } else { "--commands" };
        let mut path = setup.path().to_owned();
        if path.as_os_str().is_empty() {
            // Its text stands in the experiment.
            path = folder.path().join(log.with_file_name(format!("setup-{number}")));
            fs::write(&path, setup.text()).doing(format!("writing '{}'", path.display()))?;
        }
        arguments.extend([option.into(), path.into()]);
    }
    if let Some(port) = switch.config.cpu_port {
        arguments.extend(["--cpu-port".into(), port.to_string().into()]);
    }
    for interface in &device.interfaces {
        if let Some(port) = P4Switch::port(&interface.name) {
            arguments.extend(["--interface".into(), format!("{port}@{}", interface.name).into()]);
        }
    }
    arguments.extend(["--name".into(), device.name.clone().into()]);
    arguments.extend(["--ring-bytes".into(), ring_bytes.to_string().into()]);
    let program = std::env::current_exe().doing("finding this program")?;
    let mut input = Stdio::null();
    let mut command = match dilation {
        None => Command::new(program),
        Some(dilation) => {
            // Its rates, meters and timestamps go by its clock.
            let shim = dilation.of_switch(&device.name);
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
    command.args(arguments).stdin(input).stdout(Stdio::null()).stderr(errors);
    // It asks /sys about its interfaces, which shows those of the namespace that it was mounted in.
    let mut spawn = || -> std::io::Result<Child> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::MS_RDONLY, None::<&str>)?;
        command.spawn()
    };
    let spawned = Namespace::Fd(node.fd()).run(|| Ok(spawn()))?;
    spawned.doing(format!("starting the P4 switch '{}'", device.name))
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
    fn a_ring_has_room_for_many_frames_however_long() {
        assert_eq!(ring_bytes(2, 1_500), 8 << 20);
        assert_eq!(ring_bytes(100_000, 1_500), 512 << 10);
        assert_eq!(ring_bytes(100_000, 9_000), 256 * (16 << 10));
    }
}
