//! UDP, udp(7), and UDP-Lite, udplite(7), whose header gives the checksum coverage of a datagram.

mod calls;
mod control;
mod coverage;
mod input;
mod ports;
mod send;
mod socket;
pub(crate) use send::Bytes;
pub use send::{NamedDestination, OutgoingDatagram};

pub use crate::send_charge::charge;
pub use calls::*;
pub use control::{CmsgContext, SendOptions};
pub use coverage::{Coverage, covered_bytes};
pub use ports::UdpPorts;
pub use socket::{
    Datagram, HEADER_LEN, Protocol, UDP_ENCAP_ESPINUDP, UDP_GRO, UDP_SEGMENT, UdpCounters, UdpSocket,
};
