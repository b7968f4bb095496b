//! Structures of socket calls, socket(7), ip(7), cmsg(3), tcp(7).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct msghdr`, recvmsg(2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct MsgHdr {
    pub name: u64,
    pub namelen: i32,
    pub pad1: u32,
    pub iov: u64,
    pub iovlen: u64,
    pub control: u64,
    pub controllen: u64,
    pub flags: i32,
    pub pad2: u32,
}

impl MsgHdr {
    /// Offset of `msg_namelen`.
    pub const NAMELEN: u64 = 8;
    /// Offset of `msg_controllen`.
    pub const CONTROLLEN: u64 = 40;
    /// Offset of `msg_flags`.
    pub const FLAGS: u64 = 48;
}

/// Length of `struct mmsghdr` in bytes, a [`MsgHdr`] with `msg_len` at [`MMSG_LEN`].
pub const MMSGHDR_SIZE: u64 = 64;
/// Offset of `msg_len` in `struct mmsghdr`.
pub const MMSG_LEN: u64 = 56;

/// `struct cmsghdr`, cmsg(3).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct CmsgHdr {
    pub len: u64,
    pub level: i32,
    pub type_: i32,
}

/// `struct sockaddr_in`, ip(7). Port and address are in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct SockaddrIn {
    pub family: u16,
    pub port: [u8; 2],
    pub addr: [u8; 4],
    pub zero: [u8; 8],
}

/// `struct sockaddr_in6`, ipv6(7). Port and address are in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct SockaddrIn6 {
    pub family: u16,
    pub port: [u8; 2],
    pub flowinfo: u32,
    pub addr: [u8; 16],
    pub scope_id: u32,
}

/// `struct in_pktinfo`, ip(7).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct InPktinfo {
    pub ifindex: i32,
    pub spec_dst: [u8; 4],
    pub addr: [u8; 4],
}

/// `struct in6_pktinfo`, ipv6(7).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct In6Pktinfo {
    pub addr: [u8; 16],
    pub ifindex: i32,
}

/// `struct ip_mreqn`, ip(7).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct IpMreqn {
    pub multiaddr: [u8; 4],
    pub address: [u8; 4],
    pub ifindex: i32,
}

/// `struct linger`, socket(7).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Linger {
    pub onoff: i32,
    pub linger: i32,
}

/// `struct ucred`, unix(7).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Ucred {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

/// Pair of 64-bit words: `struct timeval` and `struct timespec` of x86-64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TimePair {
    /// Whole seconds.
    pub secs: i64,
    /// Microseconds or nanoseconds.
    pub fraction: i64,
}

/// `struct tcp_info` of Linux 6.6, tcp(7).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    /// `tcpi_snd_wscale` in the low, `tcpi_rcv_wscale` in the high four bits.
    pub wscale: u8,
    /// `tcpi_delivery_rate_app_limited` and `tcpi_fastopen_client_fail`.
    pub bits: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rehash: u32,
}
