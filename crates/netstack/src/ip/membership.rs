//! Memberships of sockets in IPv4 multicast groups, with their source filters.

use super::IpOptions;
use belljar_linux_abi::Errno;
use belljar_net::igmp::SourceFilter;
use std::net::{IpAddr, Ipv4Addr};

/// `igmp_max_memberships`.
const MAX_MEMBERSHIPS: usize = 20;
/// `igmp_max_msf`: maximum number of sources of a filter.
pub const MAX_SOURCES: usize = 10;

/// Membership of a socket in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: Ipv4Addr,
    /// The number of the interface.
    pub interface: usize,
    /// The source filter.
    pub filter: SourceFilter,
}

/// Change of one source in a membership's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// Include the source: `IP_ADD_SOURCE_MEMBERSHIP`.
    Join,
    /// No longer include the source: `IP_DROP_SOURCE_MEMBERSHIP`.
    Leave,
    /// Exclude the source: `IP_BLOCK_SOURCE`.
    Block,
    /// No longer exclude the source: `IP_UNBLOCK_SOURCE`.
    Unblock,
}

impl IpOptions {
    /// True if the socket accepts packets from `source` to `destination`: `ip_mc_sf_allow` of Linux. A socket
    /// that is not a member accepts all groups that the host receives, unless `IP_MULTICAST_ALL` is off.
    pub fn takes_group(&self, interface: usize, destination: IpAddr, source: IpAddr) -> bool {
        let (IpAddr::V4(group), IpAddr::V4(source)) = (destination, source) else { return true };
        if !group.is_multicast() {
            return true;
        }
        let member = self.groups.iter().find(|m| m.group == group && m.interface == interface);
        member.map_or(self.multicast_all, |member| member.filter.takes(source))
    }

    /// `IP_ADD_MEMBERSHIP`.
    pub fn join_group(&mut self, interface: usize, group: Ipv4Addr) -> Result<(), Errno> {
        if self.position(interface, group).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        if self.groups.len() >= MAX_MEMBERSHIPS {
            return Err(Errno::ENOBUFS);
        }
        self.groups.push(Membership { group, interface, filter: SourceFilter::everybody() });
        Ok(())
    }

    /// `IP_DROP_MEMBERSHIP`.
    pub fn leave_group(&mut self, interface: usize, group: Ipv4Addr) -> Result<(), Errno> {
        let at = self.position(interface, group).ok_or(Errno::EADDRNOTAVAIL)?;
        self.groups.remove(at);
        Ok(())
    }

    /// Changes one source of a membership's filter: `ip_mc_source` of Linux.
    pub fn change_group_source(
        &mut self,
        (interface, group): (usize, Ipv4Addr),
        source: Ipv4Addr,
        change: SourceChange,
    ) -> Result<(), Errno> {
        let include = matches!(change, SourceChange::Join | SourceChange::Leave);
        let known = self.position(interface, group);
        let groups = &mut self.groups;
        let at = match (known, change) {
            (Some(at), _) => at,
            (None, SourceChange::Join) if groups.len() >= MAX_MEMBERSHIPS => return Err(Errno::ENOBUFS),
            (None, SourceChange::Join) => {
                groups.push(Membership { group, interface, filter: SourceFilter::nobody() });
                groups.len() - 1
            }
            (None, _) => return Err(Errno::EINVAL),
        };
        let filter = &mut groups[at].filter;
        if filter.include != include {
            // An empty filter may change its mode.
            if !filter.sources.is_empty() {
                return Err(Errno::EINVAL);
            }
            filter.include = include;
        }
        let adds = matches!(change, SourceChange::Join | SourceChange::Block);
        if adds && filter.sources.len() >= MAX_SOURCES {
            return Err(Errno::ENOBUFS);
        }
        let changed = if adds { filter.sources.insert(source) } else { filter.sources.remove(&source) };
        if !changed {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if filter.is_nobody() {
            groups.remove(at);
        }
        Ok(())
    }

    /// `IP_MSFILTER`: sets the source filter of a membership.
    pub fn set_group_filter(
        &mut self,
        interface: usize,
        group: Ipv4Addr,
        filter: SourceFilter,
    ) -> Result<(), Errno> {
        let at = self.position(interface, group).ok_or(Errno::EINVAL)?;
        self.groups[at].filter = filter;
        Ok(())
    }

    fn position(&self, interface: usize, group: Ipv4Addr) -> Option<usize> {
        self.groups.iter().position(|m| m.group == group && m.interface == interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 8);

    fn takes(options: &IpOptions, source: Ipv4Addr) -> bool {
        options.takes_group(1, GROUP.into(), source.into())
    }

    #[test]
    fn memberships_are_few_and_each_is_joined_once() {
        let mut options = IpOptions { multicast_all: false, ..IpOptions::default() };
        assert!(!takes(&options, SOURCE));
        assert_eq!(options.leave_group(1, GROUP), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(options.join_group(1, GROUP), Ok(()));
        assert_eq!(options.join_group(1, GROUP), Err(Errno::EADDRINUSE));
        assert!(takes(&options, SOURCE) && !options.takes_group(2, GROUP.into(), SOURCE.into()));
        for interface in 2..=MAX_MEMBERSHIPS {
            assert_eq!(options.join_group(interface, GROUP), Ok(()));
        }
        assert_eq!(options.join_group(MAX_MEMBERSHIPS + 1, GROUP), Err(Errno::ENOBUFS));
        assert_eq!(options.leave_group(1, GROUP), Ok(()));
        assert!(!takes(&options, SOURCE));
    }

    #[test]
    fn sources_are_included_or_excluded() {
        let mut options = IpOptions { multicast_all: false, ..IpOptions::default() };
        let at = (1, GROUP);
        assert_eq!(options.change_group_source(at, SOURCE, SourceChange::Block), Err(Errno::EINVAL));
        assert_eq!(options.change_group_source(at, SOURCE, SourceChange::Join), Ok(()));
        assert!(takes(&options, SOURCE) && !takes(&options, OTHER));
        assert_eq!(options.change_group_source(at, OTHER, SourceChange::Block), Err(Errno::EINVAL));
        assert_eq!(options.change_group_source(at, SOURCE, SourceChange::Leave), Ok(()));
        assert_eq!(options.groups, []);
        assert_eq!(options.join_group(1, GROUP), Ok(()));
        assert_eq!(options.change_group_source(at, OTHER, SourceChange::Block), Ok(()));
        assert!(takes(&options, SOURCE) && !takes(&options, OTHER));
        let filter = SourceFilter::nobody();
        assert_eq!(options.set_group_filter(2, GROUP, filter.clone()), Err(Errno::EINVAL));
        assert_eq!(options.set_group_filter(1, GROUP, filter), Ok(()));
        assert!(!takes(&options, SOURCE));
    }
}
