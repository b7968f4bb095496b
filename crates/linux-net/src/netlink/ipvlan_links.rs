//! ipvlan interfaces in rtnetlink: `IFLA_IPVLAN_*`.

use super::message::{Request, attribute, put};
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, refusal};
use belljar_linux_abi::Errno;
use belljar_netstack::devices::ipvlan_state::{Ipvlan, IpvlanMode, IpvlanPort, PRIVATE, VEPA};
use belljar_netstack::devices::{self, ipvlan};
use belljar_netstack::interface::{Attachment, DeviceKind};
use belljar_netstack::{LO, Stack};
use std::net::IpAddr;

/// Length of `struct ifinfomsg` in bytes.
const IFINFOMSG: usize = 16;
const IFLA_LINK: u16 = 5;
const MODE: u16 = 1;
const FLAGS: u16 = 2;

/// `IFLA_INFO_DATA` of an ipvlan (`ipvlan_nl_fillinfo`).
pub(super) fn ipvlan_data(port: &IpvlanPort) -> Vec<u8> {
    let mut data = Vec::new();
    put(&mut data, MODE, &(port.mode as u16).to_ne_bytes());
    put(&mut data, FLAGS, &port.flags.to_ne_bytes());
    data
}

/// Mode and flags in the `IFLA_INFO_DATA` of an ipvlan (`ipvlan_nl_validate`).
pub(super) fn ipvlan_wanted(
    request: &Request<'_>,
    data: Option<&[u8]>,
) -> Result<(Option<IpvlanMode>, Option<u16>), Refusal> {
    let Some(data) = data else { return Ok((None, None)) };
    policies::IPVLAN.validate(request, data, request.offset_of(data), LIBERAL)?;
    let two = |kind| attribute(data, kind).and_then(|value| value.first_chunk().copied());
    let flags = two(FLAGS).map(u16::from_ne_bytes);
    if flags.is_some_and(|flags| flags & !(PRIVATE | VEPA) != 0 || flags == PRIVATE | VEPA) {
        return Err(Errno::EINVAL.into());
    }
    let mode = two(MODE).map(u16::from_ne_bytes);
    Ok((mode.map(|mode| IpvlanMode::of(mode).ok_or(Errno::EINVAL)).transpose()?, flags))
}

/// Creates the state of a new ipvlan (`ipvlan_link_new`). `mtu_given` is true for an MTU in the request. Returns the others
/// that have changed.
pub(super) fn make_ipvlan(
    net: &mut Stack,
    request: &Request<'_>,
    number: usize,
    data: Option<&[u8]>,
    mtu_given: bool,
) -> Result<Vec<usize>, Refusal> {
    let (mode, flags) = ipvlan_wanted(request, data)?;
    let index = request.number(IFINFOMSG, IFLA_LINK)?.ok_or(Errno::EINVAL)?;
    let found = net.interfaces.by_index(index).filter(|below| *below != number);
    let mut below = found.ok_or(Errno::ENODEV)?;
    // On an ipvlan, the new one is on the same interface.
    if let Some(other) = devices::of(net).ipvlans.get(&below) {
        below = other.below;
    }
    let lower = &net.interfaces[below];
    if below == LO || !lower.is_link() || lower.hardware_type() != 1 {
        return Err(Errno::EINVAL.into());
    }
    if devices::handler(net, below).is_some_and(|handler| handler != DeviceKind::Ipvlan) {
        return Err(Errno::EBUSY.into());
    }
    let (mac, mtu, carrier) = (lower.mac, lower.mtu, lower.has_lower_up());
    let interface = &mut net.interfaces[number];
    interface.mac = mac;
    if !mtu_given {
        interface.mtu = mtu;
    }
    interface.carrier = carrier;
    let port = devices::of(net).ipvlan_ports.entry(below).or_default();
    let id = port.next_id;
    port.next_id = id.checked_add(1).unwrap_or(1);
    // The settings are those of all ipvlans on the interface.
    port.flags = flags.unwrap_or(port.flags);
    let changed = ipvlan::set_mode(net, below, mode.unwrap_or(IpvlanMode::L3));
    devices::of(net).ipvlans.insert(number, Ipvlan { below, id });
    Ok(changed)
}

/// Changes the mode and flags of an ipvlan, and of the others on its interface (`ipvlan_nl_changelink`). Returns those that have
/// changed.
pub(super) fn change_ipvlan(
    net: &mut Stack,
    request: &Request<'_>,
    number: usize,
    data: &[u8],
) -> Result<Vec<usize>, Refusal> {
    let (mode, flags) = ipvlan_wanted(request, Some(data))?;
    let Some(below) = ipvlan::below(net, number) else { return Ok(Vec::new()) };
    let changed = mode.map_or(Vec::new(), |mode| ipvlan::set_mode(net, below, mode));
    if let (Some(flags), Some(port)) = (flags, devices::of(net).ipvlan_ports.get_mut(&below)) {
        port.flags = flags;
    }
    Ok(changed)
}

/// Checks a new IP address of an ipvlan: no other one on the same interface may have it (`ipvlan_addr_busy`).
pub(crate) fn check_ipvlan_ip(net: &Stack, number: usize, ip: IpAddr) -> Result<(), Refusal> {
    match ipvlan::with_address(net, number, ip) {
        Some(_) => Err(refusal(Errno::EADDRINUSE, "Address already assigned to an ipvlan device")),
        None => Ok(()),
    }
}

/// Gives the ipvlans on an interface its MTU. Returns those that have changed.
pub(crate) fn adapt_ipvlans(net: &mut Stack, below: usize) -> Vec<usize> {
    let mtu = net.interfaces[below].mtu;
    let uppers = ipvlan::on(net, below).into_iter();
    let changed: Vec<usize> = uppers.filter(|upper| net.interfaces[*upper].mtu != mtu).collect();
    for upper in &changed {
        net.interfaces[*upper].mtu = mtu;
    }
    changed
}

/// True for an interface that stays in the network namespace of the one that it lies on, unlike in Linux.
pub(super) fn stays_with_lower(attachment: Attachment) -> bool {
    matches!(attachment, Attachment::Made(DeviceKind::Macvlan | DeviceKind::Ipvlan))
}
