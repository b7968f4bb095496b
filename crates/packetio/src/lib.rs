//! Frame I/O on real network interfaces.
//!
//! A [`Port`] receives batches of Ethernet frames without allocating, and sends frames in batches. All ports
//! implement one contract, so switches, gateways and delay lines run over any of them:
//!
//! | port | attachment | needs | system calls |
//! |---|---|---|---|
//! | [`Tap`] | a TAP interface of its own, whose far side is the kernel's stack | `CAP_NET_ADMIN`, `/dev/net/tun` | one per frame |
//! | [`PacketRing`] | an existing interface, by an `AF_PACKET` socket | `CAP_NET_RAW` | none per received frame, one per batch sent |
//! | [`Xdp`] | one queue of an existing interface, by an `AF_XDP` socket; the kernel's stack does not see its frames | root | none per received frame, one per about 32 frames sent |
//! | [`UnixPort`] | a UNIX socket whose messages are frames | nothing | one per batch |
//!
//! [`TcForwarder`] is not a port: it forwards IPv4 packets between interfaces in the kernel, by a BPF
//! program.
//!
//! Frames are as on the wire, without preamble and frame check sequence: checksums that the sending stack
//! left to the hardware are filled in, segments that it left to the hardware are cut, and a VLAN tag that the
//! kernel stores separately is inserted into the frame ([`Xdp`] states its limits).
//!
//! Layers, bottom-up: [`Error`]; [`Namespace`], which opens descriptors inside a network namespace; name,
//! index and MTU of an interface (`interface`); checksums and segments (`offload`); the ports. The crate
//! interprets no other contents of frames, reads no clock and starts no thread that outlives a call.
//!
//! Not supported: AF_XDP zero copy and multi-buffer frames, `PACKET_TX_RING`, segmentation of tunnelled
//! packets (those frames are dropped and counted), hardware timestamps on ports other than [`PacketRing`].

mod attachment;
mod bpf;
mod error;
mod filter;
mod forward;
mod interface;
mod namespace;
mod offload;
mod outgoing;
mod packet;
mod port;
mod sys;
mod tap;
mod unix;
mod xdp;

pub use attachment::Attachment;
pub use error::{Error, Result};
pub use filter::Filter;
pub use forward::{Flow, TcForwarder};
pub use namespace::Namespace;
pub use packet::{Fanout, FanoutMode, PacketOptions, PacketRing, RingKind, slot_len};
pub use port::{
    Count, Counters, Frame, Port, Remainder, Sent, TimeSource, Timestamp, Timestamps, wait_readable,
};
pub use tap::{Tap, TapOptions};
pub use unix::{UnixListener, UnixOptions, UnixPort};
pub use xdp::{Xdp, XdpMode, XdpOptions};

/// Length of an Ethernet header, the minimum length of a frame.
pub const MIN_FRAME: usize = belljar_wire::ethernet::HEADER_LEN;
