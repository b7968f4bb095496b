//! Interface settings in rtnetlink: `RTM_NEWNETCONF`.

use super::message::Message;
use crate::Admin;
use belljar_linux_abi::c;
use belljar_netstack::interface_index;

const NEWNETCONF: u16 = 80;
/// `NETCONFA_*`.
const IFINDEX: u16 = 1;
const FORWARDING: u16 = 2;
const RP_FILTER: u16 = 3;
const MC_FORWARDING: u16 = 4;
const PROXY_NEIGH: u16 = 5;
const IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
/// `NETCONFA_IFINDEX_ALL`, `NETCONFA_IFINDEX_DEFAULT`.
const ALL: i32 = -1;
const DEFAULT: i32 = -2;

impl Admin<'_> {
    /// Settings of each interface, and those of `all` and `default`.
    pub(crate) fn netconf(&self, family: i32, sequence: u32, flags: u16, port: u32) -> Vec<Vec<u8>> {
        if family != c::AF_INET && family != c::AF_UNSPEC {
            return Vec::new();
        }
        let interfaces = (0..self.net.interfaces.len())
            .filter(|number| self.net.interfaces[*number].exists())
            .map(|number| interface_index(number) as i32);
        let forwarding = u32::from(self.net.sysctls.forwarding);
        let message = |index: i32| {
            let message = Message::new(NEWNETCONF, flags, sequence, port)
                .put(&[c::AF_INET as u8, 0, 0, 0])
                .attribute(IFINDEX, &index.to_ne_bytes())
                .attribute(FORWARDING, &forwarding.to_ne_bytes());
            let off = [RP_FILTER, MC_FORWARDING, PROXY_NEIGH, IGNORE_ROUTES_WITH_LINKDOWN];
            off.iter().fold(message, |message, kind| message.attribute(*kind, &[0; 4])).finish()
        };
        interfaces.chain([ALL, DEFAULT]).map(message).collect()
    }
}
