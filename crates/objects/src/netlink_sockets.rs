//! State of netlink sockets, netlink(7).

use std::collections::VecDeque;

/// State of a netlink socket.
#[derive(Debug, Default)]
pub struct NetlinkSocket {
    /// Port id; 0 before the socket is bound.
    pub port: u32,
    /// Multicast group memberships, a bit each (`RTMGRP_*`).
    pub groups: u32,
    /// `NETLINK_EXT_ACK`: error acknowledgements include a message text.
    pub extended: bool,
    /// `NETLINK_CAP_ACK`: error acknowledgements omit the request's payload.
    pub capped: bool,
    /// `NETLINK_GET_STRICT_CHK`: queries are checked strictly.
    pub strict: bool,
    /// Unread datagrams from the kernel.
    pub queue: VecDeque<Vec<u8>>,
}
