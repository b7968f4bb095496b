//! Current state of the interfaces given on the command line.

use crate::error::{Doing, Error};
use crate::netlink::{Link, Netlink, links};
use std::net::Ipv4Addr;

/// The given interfaces.
pub struct Interfaces {
    netlink: Netlink,
    names: Vec<String>,
    /// In the order of the names; `None` for an interface that was removed.
    pub now: Vec<Option<Link>>,
}

impl Interfaces {
    /// Finds the interfaces, all of which must exist with an address.
    pub fn find(names: &[String]) -> Result<Interfaces, Error> {
        for (n, name) in names.iter().enumerate() {
            if names[..n].contains(name) {
                return Err(Error::Twice(name.clone()));
            }
        }
        let netlink = Netlink::open().doing("ask the kernel by netlink")?;
        let mut interfaces = Interfaces { netlink, names: names.to_vec(), now: Vec::new() };
        interfaces.look()?;
        for (name, link) in interfaces.names.iter().zip(&interfaces.now) {
            let link = link.as_ref().ok_or_else(|| Error::NoInterface(name.clone()))?;
            link.address.ok_or_else(|| Error::NoAddress(name.clone()))?;
        }
        Ok(interfaces)
    }

    /// Updates the state of the interfaces.
    pub fn look(&mut self) -> Result<(), Error> {
        let all = links(&mut self.netlink).doing("read the list of interfaces")?;
        let find = |name: &String| all.iter().find(|link| link.name == *name).cloned();
        self.now = self.names.iter().map(find).collect();
        Ok(())
    }

    /// The main address: the given one, which must belong to an interface, or that of the first interface.
    pub fn main_address(&self, given: Option<Ipv4Addr>) -> Result<Ipv4Addr, Error> {
        let mut addresses = self.now.iter().flatten().filter_map(|link| link.address);
        match given {
            Some(given) if !addresses.any(|address| address == given) => Err(Error::NotOwn(given)),
            Some(given) => Ok(given),
            None => addresses.next().ok_or_else(|| Error::NoAddress(self.names[0].clone())),
        }
    }

    /// The name of an interface.
    pub fn name(&self, index: u32) -> &str {
        self.now.iter().flatten().find(|link| link.index == index).map_or("?", |link| &link.name)
    }
}
