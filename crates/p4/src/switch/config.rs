use super::port::QueueLimits;
use belljar_base::{Seed, SimDuration};

/// Construction of a switch. The defaults are BMv2's where it has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Name, from which with the seed the random numbers of its program follow.
    pub name: String,
    /// The experiment's seed.
    pub seed: Seed,
    /// Ports, numbered from 0.
    pub ports: u16,
    /// Bits per second of every port, `None` is infinite. See [`Switch::set_port_rate`](crate::Switch::set_port_rate).
    pub rate: Option<u64>,
    /// Bytes that a packet takes on the wire besides its own.
    pub overhead: u64,
    /// Priorities, and so queues, of each port.
    pub queues: usize,
    /// Limits of each queue.
    pub limits: QueueLimits,
    /// Time from a packet's arrival to its place in an egress queue.
    pub latency: SimDuration,
    /// Packets per second that ingress takes, `None` is infinite.
    pub packets_per_second: Option<u64>,
    /// Packets that wait for ingress before further ones are dropped.
    pub input_packets: usize,
    /// Port whose packets are told to the control plane instead of leaving. It need not be one of the ports.
    pub cpu_port: Option<u16>,
    /// Timestamps count nanoseconds, not microseconds.
    pub nanoseconds: bool,
    /// Times that a packet and its copies may go through the program before they are dropped.
    pub max_passes: u32,
}

impl Default for SwitchConfig {
    fn default() -> SwitchConfig {
        SwitchConfig {
            name: String::new(),
            seed: Seed(1),
            ports: 16,
            rate: None,
            overhead: 0,
            queues: 8,
            limits: QueueLimits { packets: 64, bytes: None, packets_per_second: None },
            latency: SimDuration::ZERO,
            packets_per_second: None,
            input_packets: 1_024,
            cpu_port: None,
            nanoseconds: false,
            max_passes: 256,
        }
    }
}

/// Reason for which a packet went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drop {
    /// The program dropped it in ingress.
    Ingress,
    /// The program dropped it in egress.
    Egress,
    /// Its egress queue was full.
    QueueFull,
    /// Too many packets waited for ingress.
    InputFull,
    /// The program sent it to a port that does not exist.
    NoPort,
    /// The program gave it a priority that no queue has.
    NoQueue,
    /// Its multicast group does not exist or is empty.
    NoGroup,
    /// Its port has no carrier.
    LinkDown,
    /// It went through the program too often.
    TooManyPasses,
    /// An assertion of the program failed.
    Assertion,
    /// It waited in the switch while another program took the place of its own.
    Replaced,
}

impl Drop {
    /// Every reason, in the order in which they are reported.
    pub const ALL: [Drop; 11] = [
        Drop::Ingress,
        Drop::Egress,
        Drop::QueueFull,
        Drop::InputFull,
        Drop::NoPort,
        Drop::NoQueue,
        Drop::NoGroup,
        Drop::LinkDown,
        Drop::TooManyPasses,
        Drop::Assertion,
        Drop::Replaced,
    ];

    /// The name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Drop::Ingress => "ingress",
            Drop::Egress => "egress",
            Drop::QueueFull => "queue_full",
            Drop::InputFull => "input_full",
            Drop::NoPort => "no_port",
            Drop::NoQueue => "no_queue",
            Drop::NoGroup => "no_group",
            Drop::LinkDown => "link_down",
            Drop::TooManyPasses => "too_many_passes",
            Drop::Assertion => "assertion",
            Drop::Replaced => "program_replaced",
        }
    }
}

/// Something that the switch tells the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Samples of a digest.
    Digest {
        /// Name of the digest.
        name: String,
        /// Number of the list, for its acknowledgement.
        list: u64,
        /// Samples.
        samples: Vec<super::Sample>,
    },
    /// Entries that no packet has hit for their timeout.
    IdleTimeout {
        /// Number of the table.
        table: u32,
        /// Handles of the entries.
        entries: Vec<u32>,
    },
    /// A packet that left by the CPU port.
    PacketIn(Vec<u8>),
    /// Text of `log_msg`, or of an assertion that failed.
    Log(String),
}
