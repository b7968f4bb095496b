//! Interface of the namespace in which it was opened: name, index, addresses, state.

use crate::{Error, MIN_FRAME, Result, sys};
use belljar_wire::ethernet::Address;
use rustix::net::netdevice;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const VLAN_TAG: usize = 4;

/// Interface with a control socket in its namespace.
#[derive(Debug)]
pub(crate) struct Interface {
    name: String,
    index: u32,
    mac: Address,
    control: OwnedFd,
    /// MTU as last read.
    mtu: usize,
}

impl Interface {
    /// Opens the interface `name` in the namespace of the calling thread.
    pub fn open(name: &str) -> Result<Interface> {
        check_name(name)?;
        let control = control()?;
        let index = netdevice::name_to_index(&control, name)
            .map_err(|_| Error::NoInterface { name: name.to_string() })?;
        let mut interface =
            Interface { name: name.to_string(), index, mac: Address::default(), control, mtu: 0 };
        let request = interface.get(libc::SIOCGIFHWADDR)?;
        // SAFETY: the kernel filled in this member of the union of integers.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER && address.sa_family != libc::ARPHRD_LOOPBACK {
            let what = format!("carries no Ethernet frames (its hardware type is {})", address.sa_family);
            return Err(Error::Unsupported { name: name.to_string(), what });
        }
        for (to, from) in interface.mac.0.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        interface.mtu = interface.read_mtu()?;
        Ok(interface)
    }

    pub fn name(&self) -> &str {
        &self.name
    }
    pub fn index(&self) -> u32 {
        self.index
    }
    pub fn mac(&self) -> Address {
        self.mac
    }

    /// Current MTU, or the last known one.
    pub fn mtu(&self) -> usize {
        self.read_mtu().unwrap_or(self.mtu)
    }

    /// Length of the longest frame without a VLAN tag, by the MTU as last read.
    pub fn max_frame(&self) -> usize {
        self.mtu + MIN_FRAME
    }

    /// Checks that `frame` may be sent, by the current MTU.
    #[inline]
    pub fn check_frame(&mut self, frame: &[u8]) -> Result<()> {
        if (MIN_FRAME..=self.mtu + MIN_FRAME).contains(&frame.len()) {
            return Ok(());
        }
        self.check_long_frame(frame)
    }

    #[cold]
    fn check_long_frame(&mut self, frame: &[u8]) -> Result<()> {
        if frame.len() > self.max_frame() {
            self.mtu = self.read_mtu()?;
        }
        check_frame(&self.name, frame, self.mtu)
    }

    /// Returns an error if the interface is down.
    pub fn check_up(&self) -> Result<()> {
        if self.is_up()? { Ok(()) } else { Err(Error::Down { name: self.name.clone() }) }
    }

    /// Error for a system call that failed with `source` on this interface: down, gone, or `source`.
    pub fn failed(&self, doing: &str, source: std::io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EIO | libc::EBADFD) => {
                match self.is_up() {
                    Err(gone) => gone,
                    Ok(false) => Error::Down { name: self.name.clone() },
                    Ok(true) => Error::system(format!("{doing} on '{}'", self.name), source),
                }
            }
            _ => Error::system(format!("{doing} on '{}'", self.name), source),
        }
    }

    /// True if the interface is up; an error if it is gone.
    pub fn is_up(&self) -> Result<bool> {
        let request = self.get(libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel filled in this member of the union of integers.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        Ok(i32::from(flags) & libc::IFF_UP != 0)
    }

    /// True if the interface has a carrier: the peer of a veth is up. True also if the driver does not know.
    pub fn has_carrier(&self) -> bool {
        /// `ETHTOOL_GLINK`, whose answer precedes the flag `IFF_RUNNING` by up to a second.
        const GET_LINK: u32 = 0x0a;
        let mut request = [GET_LINK, 1];
        self.driver_request(libc::SIOCETHTOOL, &mut request).is_err() || request[1] != 0
    }

    /// Puts the interface into promiscuous mode as long as the packet socket `fd` is open.
    pub fn enter_promiscuous_mode(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: self.index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, membership)
            .map_err(|e| self.failed("entering promiscuous mode", e))
    }

    /// Sets the interface up.
    pub fn set_up(&self) -> Result<()> {
        let mut request = self.get(libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel filled in this member of the union of integers.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
        self.set(libc::SIOCSIFFLAGS, request, "bringing up")
    }

    /// Sets the MTU.
    pub fn set_mtu(&mut self, mtu: usize) -> Result<()> {
        let mut request = sys::interface_request(&self.name);
        request.ifr_ifru.ifru_mtu = i32::try_from(mtu).unwrap_or(i32::MAX);
        self.set(libc::SIOCSIFMTU, request, &format!("setting the MTU to {mtu}"))?;
        self.mtu = mtu;
        Ok(())
    }

    /// Sets the IPv4 address and its prefix length, at most 32.
    pub fn set_address(&self, address: Ipv4Addr, prefix: u8) -> Result<()> {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
        for (number, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask.into())] {
            let mut request = sys::interface_request(&self.name);
            let mut data = [0; 14];
            // A sockaddr_in: port, address, padding.
            for (to, from) in data[2..6].iter_mut().zip(value.octets()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_addr =
                libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data };
            self.set(number, request, &format!("setting the address to {address}/{prefix}"))?;
        }
        Ok(())
    }

    /// Sets the hardware address.
    pub fn set_mac(&mut self, mac: Address) -> Result<()> {
        let mut request = sys::interface_request(&self.name);
        let mut data = [0; 14];
        for (to, from) in data.iter_mut().zip(mac.0) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data };
        self.set(libc::SIOCSIFHWADDR, request, &format!("setting the address to {mac}"))?;
        self.mac = mac;
        Ok(())
    }

    /// Queries the driver for `data` by an ethtool or timestamping request.
    pub fn driver_request<T: sys::Plain>(&self, number: libc::c_ulong, data: &mut T) -> std::io::Result<()> {
        sys::interface_ioctl_data(self.control.as_fd(), number, &self.name, data)
    }

    fn read_mtu(&self) -> Result<usize> {
        let request = self.get(libc::SIOCGIFMTU)?;
        // SAFETY: the kernel filled in this member of the union of integers.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(usize::try_from(mtu).unwrap_or(0))
    }

    /// Executes a read request. The current name is used, since the interface may have been renamed.
    fn get(&self, number: libc::c_ulong) -> Result<libc::ifreq> {
        let gone = || Error::Gone { name: self.name.clone() };
        let name = netdevice::index_to_name(&self.control, self.index).map_err(|_| gone())?;
        let mut request = sys::interface_request(&name);
        match sys::interface_ioctl(self.control.as_fd(), number, &mut request) {
            Ok(()) => Ok(request),
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Err(gone()),
            Err(e) => Err(Error::system(format!("asking about interface '{name}'"), e)),
        }
    }

    fn set(&self, number: libc::c_ulong, mut request: libc::ifreq, doing: &str) -> Result<()> {
        sys::interface_ioctl(self.control.as_fd(), number, &mut request).map_err(|e| {
            Error::privileged(format!("{doing} of interface '{}'", self.name), "CAP_NET_ADMIN", ROOT, e)
        })
    }
}

/// Remedy for a missing capability on interfaces.
pub(crate) const ROOT: &str = "run as root, or in a user and network namespace of your own (`unshare -rn`)";

/// Checks that `frame` may be sent by a port of this name and MTU.
pub(crate) fn check_frame(name: &str, frame: &[u8], mtu: usize) -> Result<()> {
    let tagged = frame.len() >= MIN_FRAME && matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xa8]);
    let max = mtu + MIN_FRAME + if tagged { VLAN_TAG } else { 0 };
    if (MIN_FRAME..=max).contains(&frame.len()) {
        return Ok(());
    }
    Err(Error::FrameSize { name: name.to_string(), len: frame.len(), min: MIN_FRAME, max })
}

/// True if an interface of this name exists in the namespace of the calling thread.
pub(crate) fn exists(name: &str) -> Result<bool> {
    Ok(netdevice::name_to_index(control()?, name).is_ok())
}

/// Validates a name by the kernel's rules (`dev_valid_name`; '%' makes it a pattern).
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = |c: char| c == '/' || c == ':' || c == '%' || c == '\0' || c.is_whitespace();
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name == "." || name == ".." || name.contains(bad) {
        return Err(Error::BadName { name: name.to_string() });
    }
    Ok(())
}

fn control() -> Result<OwnedFd> {
    sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
        .map_err(|e| Error::system("opening a socket to ask about interfaces", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_by_the_kernel() {
        for name in ["", ".", "..", "a/b", "a b", "a:b", "eth%d", "sixteen-bytes-xx"] {
            assert!(matches!(check_name(name), Err(Error::BadName { .. })), "{name}");
        }
        for name in ["lo", "fifteen-bytes-x", "x.1"] {
            check_name(name).unwrap();
        }
    }

    #[test]
    fn a_missing_interface_is_named() {
        let error = Interface::open("bj-missing").unwrap_err();
        assert!(matches!(error, Error::NoInterface { .. }), "{error}");
        assert!(error.to_string().contains("'bj-missing'"), "{error}");
    }

    #[test]
    fn a_tagged_frame_may_be_longer() {
        let mut frame = vec![0; 1518];
        assert!(check_frame("x", &frame, 1500).is_err());
        frame[12] = 0x81;
        check_frame("x", &frame, 1500).unwrap();
        assert!(check_frame("x", &frame[..13], 1500).is_err());
        assert!(check_frame("x", &[], 1500).is_err());
    }
}
