//! `ioctl(2)` on sockets: readable and unsent byte counts, ownership, and interface requests, netdevice(7).

use crate::call::Call;
use crate::credentials::capability;
use crate::ids::SocketKey;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::ethtool;
use belljar_linux_net::ioctl::{
    self as requests, ARPREQ_LEN, IFREQ_LEN, NAME_LEN, RTENTRY_LEN, VLAN_LEN, request,
};
use belljar_netstack::ptp::StampConfig;
use belljar_netstack::stamping;
use belljar_objects::namespaces::NamespaceKind;

const SIOCINQ: u64 = c::FIONREAD;
const SIOCOUTQ: u64 = c::TIOCOUTQ;
const SIOCOUTQNSD: u64 = 0x894b;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const FIOGETOWN: u64 = 0x8903;
const SIOCGPGRP: u64 = 0x8904;
const SIOCATMARK: u64 = 0x8905;
const SIOCGSTAMP: u64 = 0x8906;
const SIOCGSTAMPNS: u64 = 0x8907;
/// Request numbers with a 64-bit time, used by 32-bit programs.
const SIOCGSTAMP_NEW: u64 = 0x8010_8906;
const SIOCGSTAMPNS_NEW: u64 = 0x8010_8907;
const SIOCGIFNAME: u64 = 0x8910;
const SIOCGIFCONF: u64 = 0x8912;
const SIOCETHTOOL: u64 = 0x8946;
const SIOCGIFVLAN: u64 = 0x8982;
const SIOCSHWTSTAMP: u64 = 0x89b0;
const SIOCGHWTSTAMP: u64 = 0x89b1;

/// `ioctl(2)` on a socket. Requests on the open file, such as `FIONBIO` and `FIOASYNC`, are handled by the
/// caller.
pub fn socket_ioctl(call: &mut Call<'_>, key: SocketKey, request: u64, arg: u64) -> SysResult {
    let network = call.host.socket(key).network;
    match request {
        SIOCINQ => {
            let n = call.host.socket_readable_bytes(key)?;
            call.write(arg, &(n as i32))?;
        }
        SIOCOUTQ => {
            let n = call.host.socket_unsent_bytes(key)?;
            call.write(arg, &(n as i32))?;
        }
        SIOCOUTQNSD => {
            let n = crate::net::tcp::never_sent_bytes(call.host.stack_of_mut(key), key)?;
            call.write(arg, &(n as i32))?;
        }
        SIOCATMARK if call.host.socket(key).type_ != c::SOCK_STREAM => {
            let unix = call.host.socket(key).domain == c::AF_UNIX;
            return Err(if unix { Errno::EOPNOTSUPP } else { Errno::ENOTTY });
        }
        SIOCATMARK => {
            let at_mark = crate::net::tcp::is_at_mark(call.host.stack_of_mut(key), key);
            call.write(arg, &i32::from(at_mark))?;
        }
        FIOSETOWN | SIOCSPGRP => {
            let owner = call.read::<i32>(arg)?;
            let owner = call.host.processes.meant_pid(call.process, owner);
            let file = call.host.file_of(call.process, call.int(0))?;
            call.host.set_file_owner(call.process, file, owner, false)?;
        }
        FIOGETOWN | SIOCGPGRP => {
            let owner = call.host.socket(key).options.owner;
            call.write(arg, &call.host.processes.shown_owner(call.process, owner))?;
        }
        SIOCGSTAMP | SIOCGSTAMPNS | SIOCGSTAMP_NEW | SIOCGSTAMPNS_NEW => {
            let socket = call.host.socket(key);
            if !matches!(socket.domain, c::AF_INET | c::AF_INET6 | c::AF_PACKET) {
                return Err(Errno::ENOTTY);
            }
            let arrived = socket.options.last_arrival.ok_or(Errno::ENOENT)?;
            let ago = call.now().since(arrived).as_nanos();
            let ns = call.host.net.clock.realtime_ns() - ago;
            let unit = if matches!(request, SIOCGSTAMP | SIOCGSTAMP_NEW) { 1_000 } else { 1 };
            call.write(arg, &[ns / 1_000_000_000, ns % 1_000_000_000 / unit])?;
        }
        SIOCGIFCONF => list_interfaces(call, network, arg)?,
        SIOCGIFNAME => interface_name(call, network, arg)?,
        number if requests::is_question(number) => ask_interface(call, network, number, arg)?,
        SIOCSHWTSTAMP | SIOCGHWTSTAMP => stamp_config(call, network, request == SIOCSHWTSTAMP, arg)?,
        SIOCETHTOOL => return done(ask_driver(call, network, arg)?),
        SIOCGIFVLAN => {
            let mut entry = [0; VLAN_LEN];
            call.read_bytes(arg, &mut entry)?;
            requests::ask_vlan(call.host.stack(network), &mut entry)?;
            call.write_bytes(arg, &entry)?;
        }
        number if requests::is_change(number) => change(call, network, number, arg)?,
        0x8900..=0x89ff => {
            call.host.warn(format!("socket ioctl {request:#x} is not supported"));
            return Err(if request < 0x8950 { Errno::EPERM } else { Errno::EINVAL });
        }
        _ => return Err(Errno::ENOTTY),
    }
    done(0)
}

/// `SIOCGIFCONF`: stores the interfaces with IPv4 addresses that fit into the buffer; without a buffer,
/// stores the length in bytes needed for all.
fn list_interfaces(call: &mut Call<'_>, network: u32, arg: u64) -> Result<(), Errno> {
    let room: i32 = call.read(arg)?;
    let buffer: u64 = call.read(arg + 8)?;
    let mut list = requests::list_interfaces(call.host.stack(network));
    if buffer != 0 {
        let fit = (room.max(0) as usize / IFREQ_LEN * IFREQ_LEN).min(list.len());
        list.truncate(fit);
        call.write_bytes(buffer, &list)?;
    }
    call.write(arg, &(list.len() as i32))
}

/// `SIOCGIFNAME`: translates an interface index to a name.
fn interface_name(call: &mut Call<'_>, network: u32, arg: u64) -> Result<(), Errno> {
    let index: i32 = call.read(arg + NAME_LEN as u64)?;
    let name = requests::interface_name(call.host.stack(network), index as u32)?;
    call.write_bytes(arg, &name)
}

/// Reads one attribute of an interface.
fn ask_interface(call: &mut Call<'_>, network: u32, number: u64, arg: u64) -> Result<(), Errno> {
    let mut entry = [0; IFREQ_LEN];
    call.read_bytes(arg, &mut entry)?;
    call.host.administer(network, |admin| requests::ask_interface(admin, number, &mut entry))?;
    call.write_bytes(arg, &entry)
}

/// `SIOCETHTOOL`: queries the driver of an interface.
fn ask_driver(call: &mut Call<'_>, network: u32, arg: u64) -> Result<u64, Errno> {
    let mut entry = [0; IFREQ_LEN];
    call.read_bytes(arg, &mut entry)?;
    let name = entry[..NAME_LEN].split(|byte| *byte == 0).next().unwrap_or_default();
    let number = call.host.stack(network).interfaces.by_name(name).ok_or(Errno::ENODEV)?;
    let at: u64 = call.read(arg + NAME_LEN as u64)?;
    let request: u32 = call.read(at)?;
    if ethtool::is_change(request) {
        call.host.processes.require_for(call.process, NamespaceKind::Net, capability::NET_ADMIN)?;
    }
    let mut head = vec![0; ethtool::head_len(request)];
    call.read_bytes(at, &mut head)?;
    let net = call.host.stack(network);
    let (answer, result) = ethtool::answer(net, &net.interfaces[number], &head)?;
    call.write_bytes(at, &answer)?;
    Ok(result)
}

/// `SIOCSHWTSTAMP`, `SIOCGHWTSTAMP`: which packets the adapter of an interface stamps by its hardware clock.
fn stamp_config(call: &mut Call<'_>, network: u32, sets: bool, arg: u64) -> Result<(), Errno> {
    if sets {
        call.host.processes.require_for(call.process, NamespaceKind::Net, capability::NET_ADMIN)?;
    }
    let mut entry = [0; NAME_LEN];
    call.read_bytes(arg, &mut entry)?;
    let name = entry.split(|byte| *byte == 0).next().unwrap_or_default();
    let number = call.host.stack(network).interfaces.by_name(name).ok_or(Errno::ENODEV)?;
    let at: u64 = call.read(arg + NAME_LEN as u64)?;
    let config = if sets {
        let [flags, tx_type, rx_filter] = call.read(at)?;
        let asked = StampConfig { flags, tx_type, rx_filter };
        asked.check()?;
        stamping::configurable(call.host.stack_mut(network), number)?.configure(asked)?
    } else {
        stamping::configurable(call.host.stack_mut(network), number)?.config()
    };
    call.write(at, &[config.flags, config.tx_type, config.rx_filter])
}

/// Carries out a modifying request. `EPERM` without `CAP_NET_ADMIN`, except for `SIOCGARP`.
fn change(call: &mut Call<'_>, network: u32, number: u64, arg: u64) -> Result<(), Errno> {
    if number != request::GARP {
        call.host.processes.require_for(call.process, NamespaceKind::Net, capability::NET_ADMIN)?;
    }
    match number {
        request::ADDRT | request::DELRT => {
            let mut entry = [0; RTENTRY_LEN];
            call.read_bytes(arg, &mut entry)?;
            let add = number == request::ADDRT;
            let device = requests::device_name_at(&entry).map(|at| call.read_vec(at, NAME_LEN - 1));
            call.host.administer(network, |admin| requests::change_route(admin, add, &entry, device))?;
        }
        request::SARP | request::DARP | request::GARP => {
            let mut entry = [0; ARPREQ_LEN];
            call.read_bytes(arg, &mut entry)?;
            requests::neighbour(call.host.stack_mut(network), number, &mut entry)?;
            if number == request::GARP {
                call.write_bytes(arg, &entry)?;
            }
        }
        _ => {
            let mut entry = [0; IFREQ_LEN];
            call.read_bytes(arg, &mut entry)?;
            call.host.administer(network, |admin| requests::change_interface(admin, number, &entry))?;
        }
    }
    call.host.stack_mut(network).flush_network();
    Ok(())
}
