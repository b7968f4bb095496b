//! `ioctl(2)` on sockets: how much can be read or is unsent, and what interfaces there are,
//! netdevice(7).

use super::interface::{Attachment, Interface};
use super::{LO, interface_index, ioctl_set};
use crate::call::{Call, SysResult, done};
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use std::net::Ipv4Addr;

/// `sizeof(struct ifreq)`.
const IFREQ_LEN: usize = 40;
/// `IFNAMSIZ`.
const NAME_LEN: usize = 16;

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
/// The same by the numbers that programs with 64 bits of time on 32-bit machines use.
const SIOCGSTAMP_NEW: u64 = 0x8010_8906;
const SIOCGSTAMPNS_NEW: u64 = 0x8010_8907;
const SIOCGIFNAME: u64 = 0x8910;
const SIOCGIFCONF: u64 = 0x8912;
const SIOCGIFFLAGS: u64 = 0x8913;
const SIOCGIFADDR: u64 = 0x8915;
const SIOCGIFDSTADDR: u64 = 0x8917;
const SIOCGIFBRDADDR: u64 = 0x8919;
const SIOCGIFNETMASK: u64 = 0x891b;
const SIOCGIFMETRIC: u64 = 0x891d;
const SIOCGIFMTU: u64 = 0x8921;
const SIOCGIFHWADDR: u64 = 0x8927;
const SIOCGIFINDEX: u64 = 0x8933;
const SIOCGIFTXQLEN: u64 = 0x8942;
const SIOCETHTOOL: u64 = 0x8946;

/// `IFF_*` of an interface.
pub fn interface_flags(interface: &Interface) -> u32 {
    const LOWER_UP: i32 = 0x10000;
    let up = if interface.up { c::IFF_UP } else { 0 };
    let carrier = if interface.is_running() { c::IFF_RUNNING | LOWER_UP } else { 0 };
    let own = match interface.attachment {
        Attachment::Loopback => c::IFF_LOOPBACK,
        Attachment::Tun(_) => c::IFF_POINTOPOINT | c::IFF_NOARP | c::IFF_MULTICAST,
        _ => c::IFF_BROADCAST | c::IFF_MULTICAST,
    };
    (up | carrier | own) as u32
}

/// `ioctl` on a socket. `FIONBIO`, `FIOASYNC` and the like belong to the open file and are not
/// handled here.
pub fn socket_ioctl(call: &mut Call<'_>, key: SocketKey, request: u64, arg: u64) -> SysResult {
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
            let n = crate::net::tcp::never_sent_bytes(&mut call.host.net, key)?;
            call.write(arg, &(n as i32))?;
        }
        SIOCATMARK if call.host.net.socket(key).type_ != c::SOCK_STREAM => {
            let unix = call.host.net.socket(key).domain == c::AF_UNIX;
            return Err(if unix { Errno::EOPNOTSUPP } else { Errno::ENOTTY });
        }
        SIOCATMARK => {
            let at_mark = crate::net::tcp::is_at_mark(&mut call.host.net, key);
            call.write(arg, &i32::from(at_mark))?;
        }
        FIOSETOWN | SIOCSPGRP => {
            let owner = call.read::<i32>(arg)?;
            let file = call.host.file_of(call.process, call.int(0))?;
            call.host.set_file_owner(call.process, file, owner, false)?;
        }
        FIOGETOWN | SIOCGPGRP => {
            let owner = call.host.net.socket(key).options.owner;
            call.write(arg, &owner)?;
        }
        SIOCGSTAMP | SIOCGSTAMPNS | SIOCGSTAMP_NEW | SIOCGSTAMPNS_NEW => {
            let socket = call.host.net.socket(key);
            if !matches!(socket.domain, c::AF_INET | c::AF_INET6 | c::AF_PACKET) {
                return Err(Errno::ENOTTY);
            }
            let arrived = socket.options.last_arrival.ok_or(Errno::ENOENT)?;
            let ago = call.now().since(arrived).as_nanos();
            let ns = call.host.net.clock.realtime_ns() - ago;
            let unit = if matches!(request, SIOCGSTAMP | SIOCGSTAMP_NEW) { 1_000 } else { 1 };
            call.write(arg, &[ns / 1_000_000_000, ns % 1_000_000_000 / unit])?;
        }
        SIOCGIFCONF => list_interfaces(call, arg)?,
        SIOCGIFNAME => interface_name(call, arg)?,
        SIOCGIFFLAGS | SIOCGIFADDR | SIOCGIFDSTADDR | SIOCGIFBRDADDR | SIOCGIFNETMASK | SIOCGIFMETRIC
        | SIOCGIFMTU | SIOCGIFHWADDR | SIOCGIFINDEX | SIOCGIFTXQLEN => ask_interface(call, request, arg)?,
        SIOCETHTOOL => return Err(Errno::EOPNOTSUPP),
        number if ioctl_set::is_change(number) => ioctl_set::change(call, number, arg)?,
        0x8900..=0x89ff => {
            call.host.warn(format!("socket ioctl {request:#x} is not supported"));
            return Err(if request < 0x8950 { Errno::EPERM } else { Errno::EINVAL });
        }
        _ => return Err(Errno::ENOTTY),
    }
    done(0)
}

fn ifreq(name: &str) -> [u8; IFREQ_LEN] {
    let mut bytes = [0; IFREQ_LEN];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn put_address(ifreq: &mut [u8; IFREQ_LEN], address: Ipv4Addr) {
    ifreq[NAME_LEN..NAME_LEN + 2].copy_from_slice(&(c::AF_INET as u16).to_ne_bytes());
    ifreq[NAME_LEN + 4..NAME_LEN + 8].copy_from_slice(&address.octets());
}

/// `SIOCGIFCONF`: the interfaces with their IPv4 addresses, as many as there is room for; with no
/// buffer the room that all need.
fn list_interfaces(call: &mut Call<'_>, arg: u64) -> Result<(), Errno> {
    let room: i32 = call.read(arg)?;
    let buffer: u64 = call.read(arg + 8)?;
    let mut list = Vec::new();
    for interface in &call.host.net.interfaces {
        for own in &interface.addresses {
            let mut entry = ifreq(&interface.name);
            put_address(&mut entry, own.ip);
            list.extend_from_slice(&entry);
        }
    }
    if buffer != 0 {
        let fit = (room.max(0) as usize / IFREQ_LEN * IFREQ_LEN).min(list.len());
        list.truncate(fit);
        call.write_bytes(buffer, &list)?;
    }
    call.write(arg, &(list.len() as i32))
}

/// `SIOCGIFNAME`: from index to name.
fn interface_name(call: &mut Call<'_>, arg: u64) -> Result<(), Errno> {
    let index: i32 = call.read(arg + NAME_LEN as u64)?;
    let interface = call.host.net.interface_by_index(index as u32).ok_or(Errno::ENODEV)?;
    let name = ifreq(&call.host.net.interfaces[interface].name);
    call.write_bytes(arg, &name[..NAME_LEN])
}

fn ask_interface(call: &mut Call<'_>, request: u64, arg: u64) -> Result<(), Errno> {
    let mut entry = [0; IFREQ_LEN];
    call.read_bytes(arg, &mut entry)?;
    let end = entry[..NAME_LEN].iter().position(|b| *b == 0).unwrap_or(NAME_LEN);
    let number = call.host.net.interface_by_name(&entry[..end]).ok_or(Errno::ENODEV)?;
    let flags = interface_flags(&call.host.net.interfaces[number]) | call.host.membership_flags(number);
    let interface = &call.host.net.interfaces[number];
    entry[NAME_LEN..].fill(0);
    let own = || interface.addresses.first().ok_or(Errno::EADDRNOTAVAIL);
    let mut put = |value: &[u8]| entry[NAME_LEN..NAME_LEN + value.len()].copy_from_slice(value);
    match request {
        SIOCGIFFLAGS => put(&(flags as u16).to_ne_bytes()),
        SIOCGIFADDR | SIOCGIFDSTADDR => put_address(&mut entry, own()?.ip),
        SIOCGIFBRDADDR if number == LO => put_address(&mut entry, Ipv4Addr::UNSPECIFIED),
        SIOCGIFBRDADDR => {
            let broadcast = own()?.network().broadcast().unwrap_or(Ipv4Addr::UNSPECIFIED);
            put_address(&mut entry, broadcast);
        }
        SIOCGIFNETMASK => put_address(&mut entry, own()?.network().netmask()),
        SIOCGIFMTU => put(&(interface.mtu as i32).to_ne_bytes()),
        SIOCGIFINDEX => put(&interface_index(number).to_ne_bytes()),
        SIOCGIFTXQLEN => put(&1_000i32.to_ne_bytes()),
        SIOCGIFHWADDR => {
            put(&[&interface.hardware_type().to_ne_bytes()[..], &interface.mac].concat());
        }
        // SIOCGIFMETRIC: 0, which the kernel takes for 1.
        _ => {}
    }
    call.write_bytes(arg, &entry)
}
