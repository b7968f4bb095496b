//! `/dev/net/tun`: interfaces whose peer is a program. A TUN interface carries IP packets, a TAP interface
//! Ethernet frames.
//!
//! Each open file is unattached until `TUNSETIFF` names an interface, which is created if it does not exist.
//! The interface is removed when the file is closed, unless `TUNSETPERSIST` is set.

mod ioctl;

use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, WaitQueueId};
use crate::outcome::{Block, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::offload;
use belljar_netstack::interface::Attachment;
use belljar_netstack::readiness::WRITABLE;
use belljar_netstack::tun::flag;
use belljar_netstack::virtual_links::random_mac;
use belljar_wire::ethernet;

/// Length of `struct tun_pi` in bytes.
const PI_LEN: usize = 4;
/// `TUN_PKT_STRIP`.
const STRIPPED: u16 = 1;

impl Host {
    /// Last reference to the file is closed: removes its interface, or unplugs it if it is persistent.
    pub(crate) fn close_tun(&mut self, n: usize) {
        let network = self.network_of_tun(n);
        let net = self.stack_mut(network);
        let tun = net.tuns.remove(n);
        if let Some(interface) = tun.interface.filter(|_| tun.persistent) {
            let entry = &mut net.interfaces[interface];
            (entry.attachment, entry.carrier) = (Attachment::Unplugged { tap: tun.is_tap() }, false);
        }
        self.waits.destroy(WaitQueueId::Tun(n as u32));
        let Some(interface) = tun.interface else { return };
        if tun.persistent {
            return self.administer(network, |admin| admin.link_changed(interface));
        }
        self.administer(network, |admin| admin.remove_interface(interface));
        self.stack_mut(network).flush_network();
    }

    /// `TUNSETIFF`: creates an interface, or attaches to an unplugged persistent one.
    fn attach_tun(&mut self, n: usize, name: &str, flags: u16) -> Result<(), Errno> {
        let wants_tap = flags & flag::TAP != 0;
        let attachment = if wants_tap { Attachment::Tap(n) } else { Attachment::Tun(n) };
        let network = self.network_of_tun(n);
        let net = self.stack_mut(network);
        let there = net.interfaces.by_name(name.as_bytes());
        if there.is_some() && flags & flag::TUN_EXCL != 0 {
            return Err(Errno::EBUSY);
        }
        let interface = match there.map(|there| (there, net.interfaces[there].attachment)) {
            Some((there, Attachment::Unplugged { tap })) if tap == wants_tap => there,
            Some((_, Attachment::Tun(_))) if !wants_tap => return Err(Errno::EBUSY),
            Some((_, Attachment::Tap(_))) if wants_tap => return Err(Errno::EBUSY),
            Some(_) => return Err(Errno::EINVAL),
            None => {
                let mac = if wants_tap { random_mac(&mut net.tun_addresses) } else { [0; 6] };
                net.add_virtual(name, attachment, Some(mac), None)
            }
        };
        let entry = &mut net.interfaces[interface];
        (entry.attachment, entry.carrier) = (attachment, true);
        let tun = &mut net.tuns[n];
        (tun.interface, tun.flags) = (Some(interface), flags & !flag::TUN_EXCL);
        // A persistent interface remains persistent under its new file until `TUNSETPERSIST` clears the flag.
        tun.persistent = there.is_some();
        self.administer(network, |admin| admin.link_changed(interface));
        self.notify_events(WaitQueueId::Tun(n as u32), WRITABLE);
        Ok(())
    }
}

impl Call<'_> {
    /// `read(2)`: one packet, truncated to the buffer.
    pub(crate) fn read_tun(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let network = self.host.network_of_tun(n);
        let tun = &mut self.host.stack_mut(network).tuns[n];
        if tun.interface.is_none() {
            return Err(Errno::EBADFD);
        }
        let room = total_len(buffers) as usize;
        let header_len = if tun.flags & flag::VNET_HDR != 0 { tun.header_len } else { 0 };
        if !tun.packets.is_empty() && room < header_len {
            return Err(Errno::EINVAL);
        }
        let Some(bytes) = tun.packets.pop_front() else {
            return if nonblocking {
                Err(Errno::EAGAIN)
            } else {
                Block::on(WaitQueueId::Tun(n as u32)).into()
            };
        };
        let mut whole = Vec::new();
        if tun.flags & flag::NO_PI == 0 {
            let protocol: u16 = match bytes.first().map(|first| first >> 4) {
                _ if tun.is_tap() => u16::from_be_bytes([bytes[12], bytes[13]]),
                Some(6) => 0x86dd,
                _ => 0x0800,
            };
            let cut = if PI_LEN + bytes.len() > room { STRIPPED } else { 0 };
            whole.extend_from_slice(&cut.to_ne_bytes());
            whole.extend_from_slice(&protocol.to_be_bytes());
        }
        // `struct virtio_net_hdr` is all zero: no segmentation is left to the program, and checksums are
        // complete.
        whole.resize(whole.len() + header_len, 0);
        whole.extend_from_slice(&bytes);
        whole.truncate(room);
        self.scatter(buffers, &whole)?;
        done(whole.len() as u64)
    }

    /// `write(2)`: one packet, or with `IFF_VNET_HDR` a frame that segmentation offload may cut into several.
    pub(crate) fn write_tun(&mut self, n: usize, buffers: &GuestBuffers) -> SysResult {
        let len = total_len(buffers) as usize;
        let network = self.host.network_of_tun(n);
        let net = self.host.stack(network);
        let tun = &net.tuns[n];
        let interface = tun.interface.ok_or(Errno::EBADFD)?;
        let (flags, header_len) = (tun.flags, tun.header_len);
        if !net.interfaces[interface].up {
            return Err(Errno::EIO);
        }
        let bytes = self.gather(buffers, 0, len)?;
        let mut rest = &bytes[..];
        if flags & flag::NO_PI == 0 {
            rest = rest.get(PI_LEN..).ok_or(Errno::EINVAL)?;
        }
        let mut offload = None;
        if flags & flag::VNET_HDR != 0 {
            offload = Some(offload::VirtioNetHeader::parse(rest)?);
            rest = rest.get(header_len..).ok_or(Errno::EINVAL)?;
        }
        if flags & flag::TAP == 0 && !matches!(rest.first().map(|first| first >> 4), Some(4 | 6)) {
            return Err(Errno::EINVAL);
        }
        let link = if flags & flag::TAP != 0 { ethernet::HEADER_LEN } else { 0 };
        let packets = match offload {
            None => vec![rest.to_vec()],
            Some(header) => header.packets(rest, link)?,
        };
        let net = self.host.stack_mut(network);
        for packet in packets {
            net.tun_input(n, packet)?;
        }
        net.flush_network();
        done(len as u64)
    }
}

/// Flags returned by `TUNGETFEATURES`.
pub(super) const FEATURES: u16 = flag::TUN | flag::TAP | flag::NO_PI | flag::ONE_QUEUE | flag::VNET_HDR;
/// Maximum length of an interface name in bytes.
pub(super) const NAME_MAX: usize = c::IFNAMSIZ - 1;
