//! Bonds in rtnetlink: `IFLA_BOND_*` and `IFLA_BOND_SLAVE_*`.

use super::message::{Request, attribute, attributes, put};
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, refusal};
use belljar_linux_abi::Errno;
use belljar_netstack::devices::bond;
use belljar_netstack::devices::bond_state::{Bond, BondMode, BondPort, HashPolicy, Reselect};
use belljar_netstack::{Stack, interface_index};

/// `IFLA_BOND_*`.
mod kind {
    pub const MODE: u16 = 1;
    pub const ACTIVE_SLAVE: u16 = 2;
    pub const MIIMON: u16 = 3;
    pub const UPDELAY: u16 = 4;
    pub const DOWNDELAY: u16 = 5;
    pub const PRIMARY: u16 = 11;
    pub const PRIMARY_RESELECT: u16 = 12;
    pub const XMIT_HASH_POLICY: u16 = 14;
    pub const NUM_PEER_NOTIF: u16 = 16;
}

/// Attributes with the single value that is supported, by type and length, in the order in which they are shown.
const FIXED: [(u16, usize, u32); 17] = [
    (28, 4, 0),
    (6, 1, 1),
    (7, 4, 0),
    (9, 4, 0),
    (10, 4, 0),
    (13, 1, 0),
    (15, 4, 1),
    (17, 1, 0),
    (18, 4, 0),
    (19, 4, 1),
    (20, 4, 1),
    (29, 1, 1),
    (21, 1, 0),
    (22, 1, 0),
    (27, 1, 1),
    (30, 1, 2),
    (32, 1, 1),
];
/// `IFLA_BOND_ARP_IP_TARGET`, `IFLA_BOND_AD_*` and `IFLA_BOND_NS_IP6_TARGET`.
const REFUSED: [u16; 6] = [8, 23, 24, 25, 26, 31];
const MODES: [&str; 3] = ["802.3ad", "balance-tlb", "balance-alb"];

fn number(value: &[u8]) -> u32 {
    value.iter().take(4).rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// `IFLA_INFO_DATA` of a bond (`bond_fill_info`).
pub(super) fn bond_data(bond: &Bond) -> Vec<u8> {
    let own = &bond.settings;
    let mut data = Vec::new();
    put(&mut data, kind::MODE, &[own.mode as u8]);
    if let Some(active) = bond.active.filter(|_| own.mode == BondMode::ActiveBackup) {
        put(&mut data, kind::ACTIVE_SLAVE, &interface_index(active).to_ne_bytes());
    }
    put(&mut data, kind::MIIMON, &own.miimon.to_ne_bytes());
    put(&mut data, kind::UPDELAY, &own.updelay_ms().to_ne_bytes());
    put(&mut data, kind::DOWNDELAY, &own.downdelay_ms().to_ne_bytes());
    if let Some(primary) = own.primary {
        put(&mut data, kind::PRIMARY, &interface_index(primary).to_ne_bytes());
    }
    put(&mut data, kind::PRIMARY_RESELECT, &[own.reselect as u8]);
    put(&mut data, kind::XMIT_HASH_POLICY, &[own.hash_policy as u8]);
    put(&mut data, kind::NUM_PEER_NOTIF, &[own.notifications]);
    for (kind, len, value) in FIXED {
        put(&mut data, kind, &value.to_le_bytes()[..len]);
    }
    data
}

/// `IFLA_INFO_SLAVE_DATA` of a port (`bond_fill_slave_info`).
pub(super) fn bond_port_data(port: &BondPort) -> Vec<u8> {
    let mut data = Vec::new();
    put(&mut data, 1, &[u8::from(port.is_backup)]);
    put(&mut data, 2, &[port.link as u8]);
    put(&mut data, 3, &port.failures.to_ne_bytes());
    put(&mut data, 4, &port.own.0);
    put(&mut data, 5, &0u16.to_ne_bytes());
    put(&mut data, 9, &0i32.to_ne_bytes());
    data
}

/// Checks the `IFLA_INFO_DATA` of a bond: what is not supported is passed to `warn`, and refused.
pub(super) fn check_bond_data(
    warn: &mut dyn FnMut(String),
    request: &Request<'_>,
    data: &[u8],
) -> Result<(), Refusal> {
    policies::BOND.validate(request, data, request.offset_of(data), LIBERAL)?;
    let unsupported = refusal(Errno::EOPNOTSUPP, "attribute not supported");
    if let Some(mode) = attribute(data, kind::MODE)
        && let Some(name) = MODES.get(usize::from(mode[0]).wrapping_sub(4))
    {
        warn(format!("bond: mode '{name}' is not supported and refused"));
        return Err(unsupported);
    }
    for (kind, value) in attributes(data) {
        let other = FIXED.iter().any(|(fixed, len, only)| *fixed == kind && number(&value[..*len]) != *only);
        if other || REFUSED.contains(&kind) {
            warn(format!(
                "bond: attribute {kind} (IFLA_BOND_*) with another value than its default is refused"
            ));
            return Err(unsupported);
        }
    }
    Ok(())
}

/// Changes the settings of a bond (`bond_changelink`).
pub(super) fn change_bond(
    net: &mut Stack,
    request: &Request<'_>,
    device: usize,
    data: &[u8],
) -> Result<(), Refusal> {
    check_bond_data(&mut |_| {}, request, data)?;
    // Each option in turn, in the order of Linux.
    for kind in [
        kind::MODE,
        kind::ACTIVE_SLAVE,
        kind::MIIMON,
        kind::UPDELAY,
        kind::DOWNDELAY,
        kind::PRIMARY,
        kind::PRIMARY_RESELECT,
        kind::XMIT_HASH_POLICY,
        kind::NUM_PEER_NOTIF,
    ] {
        if let Some(value) = attribute(data, kind) {
            change_option(net, device, kind, number(value))?;
        }
    }
    bond::settle(net, device, true);
    Ok(())
}

fn change_option(net: &mut Stack, device: usize, kind: u16, value: u32) -> Result<(), Refusal> {
    let invalid = refusal(Errno::EINVAL, "invalid option value");
    let (now, up) = (net.clock.now(), net.interfaces[device].up);
    let named = net.interfaces.by_index(value);
    let usable = named.is_some_and(|port| net.interfaces[port].has_lower_up());
    let Some(bond) = bond::bond_mut(net, device) else { return Ok(()) };
    let settings = &mut bond.settings;
    let uses_primary = settings.mode == BondMode::ActiveBackup;
    match kind {
        kind::MODE => {
            if !bond.ports.is_empty() {
                let words = "unable to set option because the bond device has slaves";
                return Err(refusal(Errno::ENOTEMPTY, words));
            }
            if up {
                return Err(refusal(Errno::EBUSY, "unable to set option because the bond device is up"));
            }
            settings.mode = BondMode::of(value as u8).ok_or(invalid)?;
        }
        kind::ACTIVE_SLAVE | kind::PRIMARY if !uses_primary => {
            return Err(refusal(Errno::EACCES, "option not supported in mode"));
        }
        kind::ACTIVE_SLAVE if value == 0 => {
            bond.active = None;
            bond.select();
        }
        kind::ACTIVE_SLAVE => {
            let port = named.ok_or(Errno::ENODEV)?;
            let is_up = bond.port(port).is_some_and(|port| port.link as u8 == 0) && usable;
            if bond.active != Some(port) {
                if !is_up {
                    return Err(invalid);
                }
                bond.set_active(Some(port));
            }
        }
        kind::MIIMON => {
            settings.miimon = i32::try_from(value).map_err(|_| invalid)? as u32;
            bond.set_up(now, up);
        }
        kind::UPDELAY | kind::DOWNDELAY => {
            if settings.miimon == 0 {
                return Err(Errno::EPERM.into());
            }
            let intervals = value / settings.miimon;
            *(if kind == kind::UPDELAY { &mut settings.updelay } else { &mut settings.downdelay }) =
                intervals;
        }
        kind::PRIMARY => settings.primary = named,
        kind::PRIMARY_RESELECT => settings.reselect = Reselect::of(value as u8).ok_or(invalid)?,
        kind::XMIT_HASH_POLICY => settings.hash_policy = HashPolicy::of(value as u8).ok_or(invalid)?,
        _ => settings.notifications = value as u8,
    }
    Ok(())
}

/// Interfaces that take over the hardware address and the MTU of a bond.
pub(crate) fn ports_of_bond(net: &Stack, number: usize) -> Vec<usize> {
    let ports = bond::bond(net, number).map_or(&[][..], |bond| &bond.ports);
    ports.iter().map(|port| port.interface).collect()
}
