//! Section `nics`, and the keys `devices` of hosts and simulators: the PCI connections between them.

use super::ends::{Draft, End, check_interface};
use super::{Kind, Station};
use crate::error::Problem;
use crate::topology::{Line, NEAR, Nic, PCI_PORT, PciConnection, PciDriver};
use crate::yaml::{Node, Section, section};
use belljar_base::{Set, SimDuration};
use belljar_net::suggest::nearest;

/// Keys of a controller of ours.
pub(super) const NIC_KEYS: &[&str] = &["mac", "fetch", "write_back", "register"];
const CONNECTION_KEYS: &[&str] =
    &["pci", "driver", "interface", "latency", "mtu", "interrupts", "interrupt_interval", "ring"];
const HOST_ONLY: [&str; 5] = ["driver", "mtu", "interrupts", "interrupt_interval", "ring"];
const EXAMPLE: &str = "devices: [ { pci: nic0, driver: e1000 } ]";
/// SimBricks' own.
const LATENCY: SimDuration = SimDuration::from_nanos(500);
/// The longest time between interrupts that ITR holds: 65535 times 256 ns.
const MOST_INTERVAL: SimDuration = SimDuration::from_nanos(0xffff * 256);
const RING: u32 = 256;

/// The names that a host's section has under `devices`, and the devices', as far as they can be read.
pub(super) fn named(file: &Section) -> Set<String> {
    let mut names = Set::new();
    for of in ["hosts", "simulators"] {
        let Some(node) = file.get(of) else { continue };
        for entry in section::mapping(node, of).unwrap_or_default() {
            let Ok(settings) = section::mapping(&entry.value, of) else { continue };
            let Some(devices) = settings.iter().find(|entry| entry.key == "devices") else { continue };
            for device in section::list(&devices.value, "devices").unwrap_or_default() {
                let keys = section::mapping(device, "a device").unwrap_or_default();
                let pci = keys.iter().find(|entry| entry.key == "pci");
                if let Some(name) = pci.and_then(|pci| section::string(&pci.value, "pci").ok()) {
                    names.extend([entry.key.clone(), name.to_owned()]);
                }
            }
        }
    }
    names
}

/// Adds the PCI connections to the links.
pub(super) fn read(stations: &[Station], drafts: &mut Vec<Draft>) -> Result<(), Problem> {
    for (host, station) in stations.iter().enumerate() {
        let Some(list) = station.section.as_ref().and_then(|section| section.get("devices")) else {
            continue;
        };
        for item in section::list(list, "devices")? {
            let draft = connection(item, host, stations, drafts)?;
            drafts.push(draft);
        }
    }
    Ok(())
}

fn connection(item: &Node, host: usize, stations: &[Station], drafts: &[Draft]) -> Result<Draft, Problem> {
    let s = Section::new(item, "a device", CONNECTION_KEYS, false)?;
    let node = s.required("pci", EXAMPLE)?;
    let name = section::string(node, "pci")?;
    let found = stations.iter().position(|station| station.name == name);
    let Some(device) = found.filter(|n| matches!(stations[*n].kind, Kind::Nic | Kind::Simulator)) else {
        let devices = stations.iter().filter(|station| matches!(station.kind, Kind::Nic | Kind::Simulator));
        let help = match nearest(name, devices.map(|station| station.name.as_str())) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "add it to nics or simulators".to_owned(),
        };
        return Err(node
            .problem(format!("there is no device '{name}' among nics and simulators"))
            .help(help));
    };
    let is_ours = matches!(stations[host].kind, Kind::Host { .. });
    if let Some(entry) = HOST_ONLY.iter().find_map(|key| s.entry(key)).filter(|_| !is_ours) {
        let message = format!(
            "'{}' is not valid for a device of a simulator, which has a driver of its own",
            entry.key
        );
        return Err(Problem::at(entry.key_span, message).help("leave it out"));
    }
    let latency = s.read("latency", section::duration)?.unwrap_or(LATENCY);
    if latency <= NEAR {
        let span = s.get("latency").map_or(s.span, |node| node.span);
        return Err(Problem::at(span, "the latency of a PCI connection must be more than 1 ns")
            .help("leave it out: it is 500 ns then"));
    }
    let driver = if is_ours { Some(driver(&s)?) } else { None };
    let interface = match s.get("interface") {
        Some(node) => {
            let name = section::string(node, "interface")?;
            check_interface(node.span, &stations[host], name)?;
            name.to_owned()
        }
        None => {
            let stem = if is_ours { "eth" } else { "pci" };
            let first = if stations[host].kind == (Kind::Host { on_graph: true }) { 1 } else { 0 };
            let taken = |name: &String| {
                let ends = drafts.iter().flat_map(|draft| &draft.ends);
                ends.into_iter().any(|end| end.station == host && end.interface == *name)
            };
            let name = if is_ours { None } else { Some(name.to_owned()) };
            let numbered = (first..).map(|n: u32| format!("{stem}{n}"));
            name.into_iter().chain(numbered).find(|name| !taken(name)).unwrap_or_default()
        }
    };
    let mtu = s.read("mtu", |node, key| match section::whole(node, key, 9_000)? {
        mtu if mtu < 68 => Err(node.problem(format!("'mtu' must be at least 68, not {mtu}"))),
        mtu => Ok(mtu as usize),
    })?;
    // A simulator's end of it is a channel, which takes the rest of the time.
    let both_foreign = !is_ours && stations[device].kind == Kind::Simulator;
    let one_foreign = !is_ours || stations[device].kind == Kind::Simulator;
    let line = match both_foreign {
        true => Line { latency, ..Line::default() },
        false => Line { latency: if one_foreign { NEAR } else { latency }, rate: None, ..Line::default() },
    };
    let end = |station: usize, interface: String| End { station, interface, span: s.span };
    Ok(Draft {
        name: format!("{}:{interface}-{name}:{PCI_PORT}", stations[host].name),
        ends: [end(host, interface), end(device, PCI_PORT.to_owned())],
        lines: [line.clone(), line],
        queues: [None; 2],
        buckets: [None; 2],
        mtu: mtu.unwrap_or(1_500),
        cost: 1,
        pci: Some(PciConnection { latency, driver }),
    })
}

fn driver(s: &Section) -> Result<PciDriver, Problem> {
    s.required("driver", EXAMPLE)?;
    s.read("driver", |node, key| section::choice(node, key, &[("e1000", ())]))?;
    let msi =
        s.read("interrupts", |node, key| section::choice(node, key, &[("msi", true), ("intx", false)]))?;
    let ring = s.read("ring", |node, key| match section::whole(node, key, 4_096)? {
        ring if ring < 8 || ring % 8 != 0 => {
            Err(node.problem(format!("'ring' must be a multiple of 8 of at least 8, not {ring}")))
        }
        ring => Ok(ring as u32),
    })?;
    let interrupt_interval =
        s.read("interrupt_interval", |node, key| match section::duration(node, key)? {
            interval if interval > MOST_INTERVAL => Err(node
                .problem("'interrupt_interval' must be at most 16.776 ms")
                .help("the controller's register holds no more")),
            interval => Ok(interval),
        })?;
    Ok(PciDriver {
        msi: msi.unwrap_or(true),
        interrupt_interval: interrupt_interval.unwrap_or(SimDuration::ZERO),
        ring: ring.unwrap_or(RING),
    })
}

/// Reads a controller of ours.
pub(super) fn nic(station: &Station) -> Result<Nic, Problem> {
    let usual = SimDuration::from_nanos(20);
    let mut nic = Nic { mac: None, fetch: usual, write_back: usual, register: SimDuration::ZERO };
    let Some(s) = &station.section else { return Ok(nic) };
    nic.mac = s.read("mac", super::values::mac)?;
    nic.fetch = s.read("fetch", section::duration)?.unwrap_or(nic.fetch);
    nic.write_back = s.read("write_back", section::duration)?.unwrap_or(nic.write_back);
    nic.register = s.read("register", section::duration)?.unwrap_or(nic.register);
    Ok(nic)
}

/// A controller has one host and one link.
pub(super) fn check(stations: &[Station], drafts: &[Draft]) -> Result<(), Problem> {
    for (n, station) in stations.iter().enumerate().filter(|(_, station)| station.kind == Kind::Nic) {
        let ends = |pci: bool| {
            let own = drafts.iter().filter(|draft| draft.ends.iter().any(|end| end.station == n));
            own.filter(|draft| draft.pci.is_some() == pci).count()
        };
        let name = &station.name;
        let message = match (ends(true), ends(false)) {
            (0, _) => format!("nic '{name}' is the device of no host"),
            (1, 1) => continue,
            (1, links) => format!("nic '{name}' is at the ends of {links} links: it has one port"),
            (hosts, _) => format!("nic '{name}' is the device of {hosts} hosts"),
        };
        return Err(Problem::at(station.span, message).help(format!(
            "it has one host, devices: [ {{ pci: {name}, driver: e1000 }} ], and one link, between: [{name}, ...]"
        )));
    }
    Ok(())
}
