//! Requests to `NETLINK_NETFILTER` sockets, which [`belljar_netfilter`] answers.

use crate::{Admin, Multicast};
use belljar_linux_abi::c;
pub use belljar_netfilter::NetfilterSender;
use belljar_netstack::ip::filtering;

impl Admin<'_> {
    /// Answers the requests sent to a `NETLINK_NETFILTER` socket; returns the datagrams.
    pub fn answer_netfilter(&mut self, requests: &[u8], requester: &NetfilterSender) -> Vec<Vec<u8>> {
        let answers = filtering::answer(self.net, requests, requester);
        for (group, message) in answers.announcements {
            self.announce_netfilter(group, &message);
        }
        answers.warnings.into_iter().for_each(|warning| self.warn(warning));
        answers.replies
    }
    /// Sets the multicast groups of `NETLINK_NETFILTER` that sockets have joined, a bit each.
    pub fn listen_to_netfilter(&mut self, groups: u32) {
        filtering::listen(self.net, groups);
    }
    /// Multicasts a message to a group of `NETLINK_NETFILTER`.
    pub fn announce_netfilter(&mut self, group: u32, message: &[u8]) {
        self.listeners.announce(self.net, Multicast { protocol: c::NETLINK_NETFILTER, group }, message);
    }
}
