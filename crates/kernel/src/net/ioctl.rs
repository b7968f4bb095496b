//! `ioctl(2)` on sockets: how much can be read or is unsent, and what interfaces there are,
//! netdevice(7).

use super::interface::{NAMES, mtu};
use super::{ETH0, LO, interface_index};
use crate::call::{Call, SysResult, done};
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use std::net::Ipv4Addr;

/// The length of the netmask of `eth0` as programs see it. Routing does not depend on it: every host
/// is on the link.
pub const NETMASK_BITS: u32 = 24;
/// `sizeof(struct ifreq)`.
const IFREQ_LEN: usize = 40;
/// `IFNAMSIZ`.
const NAME_LEN: usize = 16;

const SIOCINQ: u64 = c::FIONREAD;
const SIOCOUTQ: u64 = c::TIOCOUTQ;
const SIOCATMARK: u64 = 0x8905;
const SIOCGSTAMP: u64 = 0x8906;
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
pub fn interface_flags(interface: usize) -> u32 {
    const LOWER_UP: i32 = 0x10000;
    let common = c::IFF_UP | c::IFF_RUNNING | LOWER_UP;
    let own = match interface {
        LO => c::IFF_LOOPBACK,
        _ => c::IFF_BROADCAST | c::IFF_MULTICAST,
    };
    (common | own) as u32
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
        SIOCATMARK => call.write(arg, &0i32)?,
        SIOCGSTAMP => return Err(Errno::ENOENT),
        SIOCGIFCONF => list_interfaces(call, arg)?,
        SIOCGIFNAME => interface_name(call, arg)?,
        SIOCGIFFLAGS | SIOCGIFADDR | SIOCGIFDSTADDR | SIOCGIFBRDADDR | SIOCGIFNETMASK | SIOCGIFMETRIC
        | SIOCGIFMTU | SIOCGIFHWADDR | SIOCGIFINDEX | SIOCGIFTXQLEN => ask_interface(call, request, arg)?,
        SIOCETHTOOL => return Err(Errno::EOPNOTSUPP),
        // Other requests about interfaces would change them.
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
    let addresses = [Ipv4Addr::LOCALHOST, call.host.config.address];
    let mut list = Vec::new();
    for (name, address) in NAMES.iter().zip(addresses) {
        let mut entry = ifreq(name);
        put_address(&mut entry, address);
        list.extend_from_slice(&entry);
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
    let interface =
        [LO, ETH0].into_iter().find(|n| interface_index(*n) as i32 == index).ok_or(Errno::ENODEV)?;
    let name = ifreq(NAMES[interface]);
    call.write_bytes(arg, &name[..NAME_LEN])
}

fn ask_interface(call: &mut Call<'_>, request: u64, arg: u64) -> Result<(), Errno> {
    let mut entry = [0; IFREQ_LEN];
    call.read_bytes(arg, &mut entry)?;
    let end = entry[..NAME_LEN].iter().position(|b| *b == 0).unwrap_or(NAME_LEN);
    let interface = NAMES.iter().position(|name| name.as_bytes() == &entry[..end]).ok_or(Errno::ENODEV)?;
    entry[NAME_LEN..].fill(0);
    let own = if interface == LO { Ipv4Addr::LOCALHOST } else { call.host.config.address };
    let bits = if interface == LO { 8 } else { NETMASK_BITS };
    let host_part = u32::MAX >> bits;
    let mut put = |value: &[u8]| entry[NAME_LEN..NAME_LEN + value.len()].copy_from_slice(value);
    match request {
        SIOCGIFFLAGS => put(&(interface_flags(interface) as u16).to_ne_bytes()),
        SIOCGIFADDR | SIOCGIFDSTADDR => put_address(&mut entry, own),
        SIOCGIFBRDADDR if interface == LO => put_address(&mut entry, Ipv4Addr::UNSPECIFIED),
        SIOCGIFBRDADDR => put_address(&mut entry, Ipv4Addr::from(u32::from(own) | host_part)),
        SIOCGIFNETMASK => put_address(&mut entry, Ipv4Addr::from(!host_part)),
        SIOCGIFMTU => put(&(mtu(interface) as i32).to_ne_bytes()),
        SIOCGIFINDEX => put(&interface_index(interface).to_ne_bytes()),
        SIOCGIFTXQLEN => put(&1_000i32.to_ne_bytes()),
        SIOCGIFHWADDR => {
            let kind: u16 = if interface == LO { 772 } else { 1 };
            let mac = if interface == LO { [0; 6] } else { call.host.net.mac };
            put(&[&kind.to_ne_bytes()[..], &mac].concat());
        }
        // SIOCGIFMETRIC: 0, which the kernel takes for 1.
        _ => {}
    }
    call.write_bytes(arg, &entry)
}
