//! Sections `nics` and `memories`, and the keys `devices` of hosts and simulators: the connections between
//! them.

use super::ends::{Draft, End, check_interface};
use super::{Kind, Station};
use crate::error::Problem;
use crate::topology::{Interface, Memory, NEAR, Nic, PCI_PORT, PciConnection, PciDriver, PciDriverKind};
use crate::yaml::{Entry, Node, Section, section};
use belljar_base::{Set, SimDuration};
use belljar_net::link::LinkProperties;
use belljar_net::suggest::nearest;

/// Keys of a built-in network controller.
pub(super) const NIC_KEYS: &[&str] = &["mac", "fetch", "write_back", "register"];
/// Keys of a built-in memory.
pub(super) const MEMORY_KEYS: &[&str] = &["size", "access"];
const CONNECTION_KEYS: &[&str] =
    &["pci", "memory", "driver", "interface", "latency", "mtu", "interrupts", "interrupt_interval", "ring"];
const HOST_ONLY: [&str; 5] = ["driver", "mtu", "interrupts", "interrupt_interval", "ring"];
const EXAMPLE: &str = "devices: [ { pci: nic0, driver: e1000 } ]";
/// SimBricks' default latency.
const LATENCY: SimDuration = SimDuration::from_nanos(500);
/// Longest interval between interrupts that ITR can hold: 65535 times 256 ns.
const MOST_INTERVAL: SimDuration = SimDuration::from_nanos(0xffff * 256);
const RING: u32 = 256;
/// Buffers of 2,048 bytes, less the Ethernet header.
const CORUNDUM_MTU: u64 = 2_034;

/// Names of hosts and simulators with `devices`, and of the devices, as far as the file can be parsed.
pub(super) fn named(file: &Section) -> Set<String> {
    let mut names = Set::new();
    for of in ["hosts", "simulators"] {
        let Some(node) = file.get(of) else { continue };
        for entry in section::mapping(node, of).unwrap_or_default() {
            let Ok(settings) = section::mapping(&entry.value, of) else { continue };
            let Some(devices) = settings.iter().find(|entry| entry.key == "devices") else { continue };
            for device in section::list(&devices.value, "devices").unwrap_or_default() {
                let keys = section::mapping(device, "a device").unwrap_or_default();
                let pci = keys.iter().find(|entry| ["pci", "memory"].contains(&entry.key.as_str()));
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
    if let Some(entry) = s.entry("memory") {
        return memory_connection(&s, entry, host, stations, drafts);
    }
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
            .relational()
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
    let latency = latency(&s)?;
    let driver = if is_ours { Some(driver(&s)?) } else { None };
    if let Some(driver) = driver.as_ref().filter(|_| stations[device].kind == Kind::Nic)
        && driver.kind != PciDriverKind::E1000
    {
        let span = s.get("driver").map_or(s.span, |node| node.span);
        let message =
            format!("driver '{}' does not drive '{name}': nics are of the e1000 family", driver.kind.name());
        return Err(Problem::at(span, message).help("write driver: e1000, or name a simulator"));
    }
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
    // A simulator's end is a channel, which accounts for the rest of the latency.
    let both_foreign = !is_ours && stations[device].kind == Kind::Simulator;
    let one_foreign = !is_ours || stations[device].kind == Kind::Simulator;
    let line = match both_foreign {
        true => LinkProperties { latency, ..LinkProperties::default() },
        false => LinkProperties {
            latency: if one_foreign { NEAR } else { latency },
            rate: None,
            ..LinkProperties::default()
        },
    };
    let end = |station: usize, interface: String| End { station, interface, span: s.span };
    Ok(Draft {
        name: format!("{}:{interface}-{name}:{PCI_PORT}", stations[host].name),
        ends: [end(host, interface), end(device, PCI_PORT.to_owned())],
        lines: [line.clone(), line],
        queues: [None; 2],
        beyond_channel: None,
        mtu_span: None,
        mtu: mtu.unwrap_or(1_500),
        cost: 1,
        pci: Some(PciConnection { latency, driver }),
    })
}

fn latency(s: &Section) -> Result<SimDuration, Problem> {
    let latency = s.read("latency", section::duration)?.unwrap_or(LATENCY);
    if latency > NEAR {
        return Ok(latency);
    }
    let span = s.get("latency").map_or(s.span, |node| node.span);
    Err(Problem::at(span, "'latency' must be more than 1 ns").help("leave it out: it is 500 ns then"))
}

/// Loads the connection of a simulator to a memory.
fn memory_connection(
    s: &Section,
    entry: &Entry,
    host: usize,
    stations: &[Station],
    drafts: &[Draft],
) -> Result<Draft, Problem> {
    let name = section::string(&entry.value, "memory")?;
    let memories = || stations.iter().filter(|station| station.kind == Kind::Memory);
    let Some(memory) =
        stations.iter().position(|station| station.kind == Kind::Memory && station.name == name)
    else {
        let help = match nearest(name, memories().map(|station| station.name.as_str())) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("add it: memories: {{ {name}: {{ size: 1 GiB }} }}"),
        };
        return Err(entry.value.problem(format!("there is no memory '{name}'")).help(help));
    };
    if stations[host].kind != Kind::Simulator {
        return Err(Problem::at(
            entry.key_span,
            "'memory' is not valid for a device of a host, whose memory is this machine's",
        )
        .help("leave it out: memories are for simulators"));
    }
    if let Some(entry) = HOST_ONLY.iter().chain(&["pci"]).find_map(|key| s.entry(key)) {
        let message = format!("'{}' is not valid beside 'memory'", entry.key);
        return Err(Problem::at(entry.key_span, message).help("leave it out"));
    }
    let latency = latency(s)?;
    let interface = s.read("interface", section::string)?.unwrap_or(name);
    check_interface(s.span, &stations[host], interface)?;
    let ends = drafts.iter().flat_map(|draft| &draft.ends);
    let port = format!("p{}", 1 + ends.filter(|end| end.station == memory).count());
    // The simulator's end is a channel, which accounts for the rest of the latency.
    let line = LinkProperties { latency: NEAR, rate: None, ..LinkProperties::default() };
    let end =
        |station: usize, interface: &str| End { station, interface: interface.to_owned(), span: s.span };
    Ok(Draft {
        name: format!("{}:{interface}-{name}:{port}", stations[host].name),
        ends: [end(host, interface), end(memory, &port)],
        lines: [line.clone(), line],
        queues: [None; 2],
        beyond_channel: None,
        mtu_span: None,
        mtu: 1_500,
        cost: 1,
        pci: Some(PciConnection { latency, driver: None }),
    })
}

fn driver(s: &Section) -> Result<PciDriver, Problem> {
    let node = s.required("driver", EXAMPLE)?;
    let kind = section::choice(node, "driver", &PciDriverKind::ALL)?;
    if kind == PciDriverKind::Corundum {
        check_corundum(s)?;
    }
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
        kind,
        msi: msi.unwrap_or(true),
        interrupt_interval: interrupt_interval.unwrap_or(SimDuration::ZERO),
        ring: ring.unwrap_or(RING),
    })
}

/// Refuses settings that Corundum does not support.
fn check_corundum(s: &Section) -> Result<(), Problem> {
    if let Some(entry) = ["interrupts", "interrupt_interval"].iter().find_map(|key| s.entry(key)) {
        let message = format!(
            "'{}' is not valid with driver 'corundum', whose device has MSI and no moderation",
            entry.key
        );
        return Err(Problem::at(entry.key_span, message).help("leave it out"));
    }
    s.read("mtu", |node, key| match section::whole(node, key, 9_000)? {
        mtu if mtu > CORUNDUM_MTU => {
            let message = format!("'mtu' must be at most {CORUNDUM_MTU} with driver 'corundum', not {mtu}");
            Err(node.problem(message).help("the device's buffers hold frames of 2048 bytes"))
        }
        _ => Ok(()),
    })?;
    s.read("ring", |node, key| match section::whole(node, key, 4_096)? {
        ring if !ring.is_power_of_two() => {
            let message = format!("'ring' must be a power of two with driver 'corundum', not {ring}");
            Err(node.problem(message).help(format!("write {}", ring.next_power_of_two().clamp(8, 4_096))))
        }
        _ => Ok(()),
    })?;
    Ok(())
}

/// Loads the settings of a built-in network controller.
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

/// Gives interfaces the hardware address of their controller, as Linux's driver does, unless the experiment gives
/// them another.
pub(super) fn read_eeproms(
    stations: &[Station],
    drafts: &[Draft],
    interfaces: &mut [Vec<Interface>],
) -> Result<(), Problem> {
    for draft in drafts {
        let [of_host, of_device] = &draft.ends;
        let is_ours = draft.pci.as_ref().is_some_and(|pci| pci.driver.is_some());
        if !is_ours || stations[of_device.station].kind != Kind::Nic {
            continue;
        }
        let mac = nic(&stations[of_device.station])?.mac;
        let own = interfaces[of_host.station].iter_mut().find(|own| own.name == of_host.interface);
        if let Some(own) = own {
            own.mac = own.mac.or(mac);
        }
    }
    Ok(())
}

/// Loads the settings of a built-in memory.
pub(super) fn memory(station: &Station) -> Result<Memory, Problem> {
    let example = "memories: { mem0: { size: 1 GiB } }";
    let Some(s) = &station.section else {
        return Err(Problem::at(station.span, format!("nothing is said of memory '{}'", station.name))
            .help(format!("say how large it is, {example}")));
    };
    let node = s.required("size", example)?;
    let size = section::bytes(node, "size")?;
    if size == 0 {
        return Err(node.problem("'size' must not be 0").help(format!("write {example}")));
    }
    Ok(Memory { size, access: s.read("access", section::duration)?.unwrap_or(SimDuration::ZERO) })
}

/// Checks that each controller has one host and one link, and each memory at least one host and no link.
pub(super) fn check(stations: &[Station], drafts: &[Draft]) -> Result<(), Problem> {
    for (n, station) in stations.iter().enumerate().filter(|(_, station)| station.kind == Kind::Memory) {
        let own = || drafts.iter().filter(|draft| draft.ends.iter().any(|end| end.station == n));
        let name = &station.name;
        let message = match own().find(|draft| draft.pci.is_none()) {
            Some(link) => {
                format!("link '{}' ends at memory '{name}', which is no part of a network", link.name)
            }
            None if own().next().is_none() => format!("memory '{name}' is the device of no simulator"),
            None => continue,
        };
        return Err(Problem::at(station.span, message)
            .help(format!("a simulator has it, devices: [ {{ memory: {name} }} ]")));
    }
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
