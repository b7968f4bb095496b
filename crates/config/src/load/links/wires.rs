//! Links between two simulators: direct channels between them.

use super::Station;
use super::ends::Draft;
use crate::error::Problem;
use crate::topology::{DeviceKind, NEAR, PciPort, PciRole, Simulator, SimulatorPort, Topology};
use belljar_base::{HostId, Map, Set};

/// Finds the links between two simulators and determines which end listens: the one that the file specifies,
/// or else the first one. `roles` are the specified roles of ports, by the index of the device.
pub(super) fn read(
    topology: &mut Topology,
    drafts: &[Draft],
    stations: &[Station],
    hosts: usize,
    roles: &Map<usize, Vec<Option<bool>>>,
) -> Result<(), Problem> {
    for (number, draft) in drafts.iter().enumerate() {
        let ends = topology.links[number].ends.each_ref().map(|end| (end.node.index(), end.port));
        let device =
            ends.map(|(node, _)| node.checked_sub(hosts).filter(|device| roles.contains_key(device)));
        let [Some(first), Some(second)] = device else { continue };
        let (span, name) = (draft.ends[1].span, &draft.name);
        if first == second {
            return Err(Problem::at(span, format!("link '{name}' joins a simulator to itself"))
                .help("a channel has two programs at its ends"));
        }
        if let Some((key, span)) = &draft.beyond_channel {
            let message = format!(
                "'{key}' is not valid for link '{name}', which joins two simulators: their channel has a latency and nothing else"
            );
            return Err(Problem::at(*span, message)
                .help("leave it out, or put a switch between them: its links have all properties"));
        }
        let ports = [(first, ends[0].1), (second, ends[1].1)];
        let listens = match ports.map(|(device, port)| roles[&device][port]) {
            [None, None] => [true, false],
            [Some(first), None] => [first, !first],
            [None, Some(second)] => [!second, second],
            [Some(first), Some(second)] if first != second => [first, second],
            [Some(both), _] => {
                let what = if both { "listen" } else { "connect" };
                return Err(Problem::at(span, format!("both ends of link '{name}' {what}"))
                    .help("give one of the two ports the other 'role'"));
            }
        };
        let sockets = ports.map(|(device, port)| simulator(topology, device).ports[port].socket.clone());
        if matches!(&sockets, [Some(first), Some(second)] if first != second) {
            return Err(Problem::at(span, format!("the two ends of link '{name}' have different sockets"))
                .help("give one of them no 'socket'"));
        }
        let [first_socket, second_socket] = sockets;
        let socket = first_socket.or(second_socket);
        for ((device, port), listens) in ports.into_iter().zip(listens) {
            let port: &mut SimulatorPort = &mut simulator(topology, device).ports[port];
            *port = SimulatorPort { listens, socket: socket.clone(), wired: true, pci: None };
        }
    }
    let ids = (hosts as u32..).map(HostId).zip(&topology.devices);
    let memories: Set<HostId> =
        ids.filter(|(_, device)| matches!(device.kind, DeviceKind::Memory(_))).map(|(id, _)| id).collect();
    for link in &topology.links {
        let Some(pci) = &link.pci else { continue };
        for (end, place) in link.ends.iter().enumerate() {
            let device = place.node.index().checked_sub(hosts).and_then(|n| topology.devices.get_mut(n));
            if let Some(DeviceKind::Simulator(simulator)) = device.map(|device| &mut device.kind)
                && !simulator.ports[place.port].wired
            {
                let latency = pci.latency.saturating_sub(NEAR);
                let role = match end {
                    1 => PciRole::Device,
                    _ if memories.contains(&link.ends[1].node) => PciRole::MemoryHost,
                    _ => PciRole::Host,
                };
                simulator.ports[place.port].pci = Some(PciPort { latency, role });
            }
        }
    }
    check_reached(topology, stations, hosts, roles)
}

/// Refuses a simulator that is connected only to others, none of which has a channel to the experiment: it
/// would run unsynchronised.
fn check_reached(
    topology: &mut Topology,
    stations: &[Station],
    hosts: usize,
    roles: &Map<usize, Vec<Option<bool>>>,
) -> Result<(), Problem> {
    let mut reached: Set<usize> = Set::new();
    for device in roles.keys() {
        reached.extend(simulator(topology, *device).ports.iter().any(|port| !port.wired).then_some(*device));
    }
    loop {
        let before = reached.len();
        for link in &topology.links {
            let ends = link.ends.each_ref().map(|end| end.node.index().checked_sub(hosts));
            if let [Some(first), Some(second)] = ends
                && ends.iter().flatten().all(|device| roles.contains_key(device))
                && (reached.contains(&first) || reached.contains(&second))
            {
                reached.extend([first, second]);
            }
        }
        if reached.len() == before {
            break;
        }
    }
    match roles.keys().find(|device| !reached.contains(device)) {
        None => Ok(()),
        Some(alone) => {
            let Station { name, span, .. } = &stations[hosts + alone];
            let message = format!(
                "no channel of the experiment's own reaches simulator '{name}': only others like it do"
            );
            Err(Problem::at(*span, message).help("link one of them to a host, a switch or a router"))
        }
    }
}

fn simulator(topology: &mut Topology, device: usize) -> &mut Simulator {
    match &mut topology.devices[device].kind {
        DeviceKind::Simulator(simulator) => simulator,
        // Only simulators have roles.
        _ => unreachable!(),
    }
}
