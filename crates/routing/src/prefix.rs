//! IPv4 networks.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use thiserror::Error;

/// An IPv4 network: an address whose host bits are zero, and the number of its network bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: Ipv4Addr,
    len: u8,
}

/// Reason why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// The text is not of the form `address/bits`.
    #[error("'{0}' is not a network: write ADDRESS/BITS, for example 10.1.0.0/16")]
    Form(String),
    /// The prefix length exceeds 32.
    #[error("'{0}' has more than 32 network bits")]
    Length(String),
    /// Host bits are set.
    #[error("'{given}' has host bits set: the network is {network}")]
    HostBits {
        /// The invalid text.
        given: String,
        /// The network that contains the address.
        network: Prefix,
    },
}

impl Prefix {
    /// The network of `len` bits (at most 32) that contains `address`.
    pub fn new(address: Ipv4Addr, len: u8) -> Prefix {
        let len = len.min(32);
        Prefix { address: Ipv4Addr::from(u32::from(address) & mask(len)), len }
    }
    /// The network that contains `address` alone.
    pub fn host(address: Ipv4Addr) -> Prefix {
        Prefix { address, len: 32 }
    }
    /// The network with this netmask; `None` if the mask is not contiguous.
    pub fn from_netmask(address: Ipv4Addr, netmask: Ipv4Addr) -> Option<Prefix> {
        let bits = u32::from(netmask);
        (bits.leading_ones() + bits.trailing_zeros() >= 32)
            .then(|| Prefix::new(address, bits.leading_ones() as u8))
    }
    /// First address of the network.
    pub fn address(self) -> Ipv4Addr {
        self.address
    }
    /// Number of network bits.
    pub fn bits(self) -> u8 {
        self.len
    }
    /// True for the network of all addresses.
    pub fn is_default(self) -> bool {
        self.len == 0
    }
    /// The netmask.
    pub fn netmask(self) -> Ipv4Addr {
        Ipv4Addr::from(mask(self.len))
    }
    /// True if `address` belongs to the network.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & mask(self.len) == u32::from(self.address)
    }
}

/// The netmask of `len` network bits.
fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let form = || PrefixError::Form(text.to_owned());
        let (address, len) = text.split_once('/').ok_or_else(form)?;
        let address: Ipv4Addr = address.parse().map_err(|_| form())?;
        let len: u8 = len.parse().map_err(|_| form())?;
        if len > 32 {
            return Err(PrefixError::Length(text.to_owned()));
        }
        let network = Prefix::new(address, len);
        if network.address != address {
            return Err(PrefixError::HostBits { given: text.to_owned(), network });
        }
        Ok(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_masks() {
        let net: Prefix = "10.1.0.0/16".parse().unwrap();
        assert_eq!(
            (net.netmask(), net.to_string()),
            (Ipv4Addr::new(255, 255, 0, 0), "10.1.0.0/16".to_owned())
        );
        assert!(net.contains(Ipv4Addr::new(10, 1, 255, 1)) && !net.contains(Ipv4Addr::new(10, 2, 0, 0)));
        assert_eq!(Prefix::from_netmask(Ipv4Addr::new(10, 1, 2, 3), net.netmask()), Some(net));
        assert_eq!(Prefix::from_netmask(net.address(), Ipv4Addr::new(255, 0, 255, 0)), None);
        assert!(Prefix::from_netmask(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED).unwrap().is_default());
        let wrong = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
        assert!(wrong("10.1.0.0").contains("ADDRESS/BITS"));
        assert!(wrong("10.1.0.0/33").contains("more than 32"));
        assert!(wrong("10.1.0.1/16").contains("the network is 10.1.0.0/16"));
    }
}
