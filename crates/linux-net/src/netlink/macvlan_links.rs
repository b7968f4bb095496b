//! macvlan interfaces in rtnetlink: `IFLA_MACVLAN_*`.

use super::message::{Request, attribute, put};
use super::refusal::{Refusal, refusal};
use belljar_linux_abi::Errno;
use belljar_netstack::devices::macvlan;
use belljar_netstack::devices::macvlan_state::{Macvlan, MacvlanMode};
use belljar_netstack::interface::{Attachment, DeviceKind};
use belljar_netstack::{Stack, devices};

/// Length of `struct ifinfomsg` in bytes.
const IFINFOMSG: usize = 16;
const IFLA_LINK: u16 = 5;
const MODE: u16 = 1;
const FLAGS: u16 = 2;
/// `MACVLAN_MODE_SOURCE`.
const SOURCE: u32 = 16;
/// `MACVLAN_DEFAULT_BC_QUEUE_LEN`.
const QUEUE: u32 = 1_000;

/// `IFLA_INFO_DATA` of a macvlan (`macvlan_fill_info`).
pub(super) fn macvlan_data(macvlan: &Macvlan) -> Vec<u8> {
    let mut data = Vec::new();
    put(&mut data, MODE, &(macvlan.mode as u32).to_ne_bytes());
    put(&mut data, FLAGS, &macvlan.flags.to_ne_bytes());
    for (kind, number) in [(6, 0), (7, QUEUE), (8, QUEUE)] {
        put(&mut data, kind, &number.to_ne_bytes());
    }
    data
}

/// Mode and flags in the `IFLA_INFO_DATA` of a macvlan (`macvlan_validate`). A mode that is not supported is passed to `warn`.
pub(super) fn macvlan_wanted(
    warn: &mut dyn FnMut(String),
    data: Option<&[u8]>,
) -> Result<(Option<MacvlanMode>, Option<u16>), Refusal> {
    let data = data.unwrap_or_default();
    let flags = match attribute(data, FLAGS) {
        Some(value) => Some(u16::from_ne_bytes(*value.first_chunk().ok_or(Errno::ERANGE)?)),
        None => None,
    };
    if flags.is_some_and(|flags| flags & !3 != 0) {
        return Err(Errno::EINVAL.into());
    }
    let mode = match attribute(data, MODE) {
        Some(value) => Some(u32::from_ne_bytes(*value.first_chunk().ok_or(Errno::ERANGE)?)),
        None => None,
    };
    if mode == Some(SOURCE) {
        warn("macvlan: mode 'source' is not supported and refused".to_owned());
        return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
    }
    Ok((mode.map(|mode| MacvlanMode::of(mode).ok_or(Errno::EINVAL)).transpose()?, flags))
}

/// Creates the state of a new macvlan (`macvlan_common_newlink`). `mtu_given` is true for an MTU in the request.
pub(super) fn make_macvlan(
    net: &mut Stack,
    request: &Request<'_>,
    number: usize,
    data: Option<&[u8]>,
    mtu_given: bool,
) -> Result<(), Refusal> {
    let (mode, flags) = macvlan_wanted(&mut |_| {}, data)?;
    let mode = mode.unwrap_or(MacvlanMode::Vepa);
    let index = request.number(IFINFOMSG, IFLA_LINK)?.ok_or(Errno::EINVAL)?;
    let found = net.interfaces.by_index(index).filter(|below| *below != number);
    let mut below = found.ok_or(Errno::ENODEV)?;
    // On a macvlan, the new one is on the same interface.
    if let Some(other) = devices::of(net).macvlans.get(&below) {
        below = other.below;
    }
    let lower = &net.interfaces[below];
    let is_ipvlan = lower.attachment == Attachment::Made(DeviceKind::Ipvlan);
    if !lower.is_link() || lower.hardware_type() != 1 || is_ipvlan {
        return Err(Errno::EINVAL.into());
    }
    let (mac, mtu, carrier) = (lower.mac, lower.mtu, lower.has_lower_up());
    let others = macvlan::on(net, below);
    if others.iter().any(|(_, mode)| *mode == MacvlanMode::Passthru)
        || mode == MacvlanMode::Passthru && !others.is_empty()
    {
        return Err(Errno::EINVAL.into());
    }
    if devices::handler(net, below).is_some_and(|handler| handler != DeviceKind::Macvlan) {
        return Err(Errno::EBUSY.into());
    }
    let interface = &mut net.interfaces[number];
    if mode == MacvlanMode::Passthru {
        interface.mac = mac;
    }
    if !mtu_given {
        interface.mtu = mtu;
    } else if interface.mtu > mtu {
        return Err(Errno::EINVAL.into());
    }
    interface.carrier = carrier;
    let made = Macvlan { below, mode, flags: flags.unwrap_or(0) };
    devices::of(net).macvlans.insert(number, made);
    Ok(())
}

/// Changes the mode of a macvlan (`macvlan_changelink`).
pub(super) fn change_macvlan(net: &mut Stack, number: usize, data: &[u8]) -> Result<(), Refusal> {
    let (mode, flags) = macvlan_wanted(&mut |_| {}, Some(data))?;
    let Some(macvlan) = devices::of(net).macvlans.get_mut(&number) else { return Ok(()) };
    let passes = |mode: MacvlanMode| mode == MacvlanMode::Passthru;
    if mode.is_some_and(|mode| passes(mode) != passes(macvlan.mode)) {
        return Err(Errno::EINVAL.into());
    }
    macvlan.mode = mode.unwrap_or(macvlan.mode);
    macvlan.flags = flags.unwrap_or(macvlan.flags);
    Ok(())
}

/// Largest MTU of a macvlan: that of the lower interface.
pub(crate) fn macvlan_mtu(net: &Stack, number: usize) -> Option<usize> {
    Some(net.interfaces[below(net, number)?].mtu)
}

/// Checks a new hardware address of a macvlan (`macvlan_addr_busy`).
pub(crate) fn check_macvlan_address(net: &Stack, number: usize, mac: [u8; 6]) -> Result<(), Errno> {
    let macvlans = net.devices.as_ref().map(|devices| &devices.macvlans);
    let Some(own) = macvlans.and_then(|macvlans| macvlans.get(&number)) else { return Ok(()) };
    let others = macvlan::on(net, own.below).into_iter().map(|(other, _)| other);
    let mut taken = others.filter(|other| *other != number).chain([own.below]);
    let busy = own.mode != MacvlanMode::Passthru && taken.any(|other| net.interfaces[other].mac == mac);
    if busy { Err(Errno::EADDRINUSE) } else { Ok(()) }
}

/// Gives the macvlans on an interface an MTU that is at most its own. Returns those that have changed.
pub(crate) fn adapt_macvlans(net: &mut Stack, below: usize) -> Vec<usize> {
    let mtu = net.interfaces[below].mtu;
    let uppers = macvlan::on(net, below).into_iter().map(|(upper, _)| upper);
    let changed: Vec<usize> = uppers.filter(|upper| net.interfaces[*upper].mtu > mtu).collect();
    for upper in &changed {
        net.interfaces[*upper].mtu = mtu;
    }
    changed
}

/// Number of the lower interface of a macvlan.
pub(super) fn below(net: &Stack, number: usize) -> Option<usize> {
    Some(net.devices.as_ref()?.macvlans.get(&number)?.below)
}
