use super::port::QueueLimits;
use belljar_base::{Seed, SimDuration};

/// Switch configuration. The defaults are those of BMv2, where BMv2 has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Name of the switch; with the seed it determines the program's random numbers.
    pub name: String,
    /// Seed of the experiment.
    pub seed: Seed,
    /// Number of ports, which are numbered from 0.
    pub ports: u16,
    /// Rate of every port in bits per second; `None` is infinite. See
    /// [`Switch::set_port_rate`](crate::Switch::set_port_rate).
    pub rate: Option<u64>,
    /// Overhead of each packet on the wire in bytes.
    pub overhead: u64,
    /// Number of priorities, and therefore of queues, per port.
    pub queues: usize,
    /// Limits of each queue.
    pub limits: QueueLimits,
    /// Pipeline latency: time from ingress to the egress queue.
    pub latency: SimDuration,
    /// Ingress rate in packets per second; `None` is infinite.
    pub packets_per_second: Option<u64>,
    /// Ingress queue limit in packets; further packets are dropped.
    pub input_packets: usize,
    /// Port whose packets are sent to the control plane. Need not be one of the ports.
    pub cpu_port: Option<u16>,
    /// Unit of timestamps: nanoseconds if set, otherwise microseconds.
    pub nanoseconds: bool,
    /// Maximum number of passes of a packet and its copies; further passes drop them.
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

/// Reason for dropping a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drop {
    /// The program dropped it in ingress.
    Ingress,
    /// The program dropped it in egress.
    Egress,
    /// The egress queue was full.
    QueueFull,
    /// The ingress queue was full.
    InputFull,
    /// The program sent it to a port that does not exist.
    NoPort,
    /// The program gave it a priority that no queue has.
    NoQueue,
    /// The multicast group does not exist or is empty.
    NoGroup,
    /// The port has no carrier.
    LinkDown,
    /// The packet exceeded the maximum number of passes.
    TooManyPasses,
    /// An assertion of the program failed.
    Assertion,
    /// The program was replaced while the packet was queued.
    Replaced,
    /// The notification that contained it was dropped because the queue of notifications was full.
    NotificationsFull,
}

impl Drop {
    /// All reasons, in reporting order.
    pub const ALL: [Drop; 12] = [
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
        Drop::NotificationsFull,
    ];

    /// Name in statistics.
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
            Drop::NotificationsFull => "notifications_full",
        }
    }
}

/// Notification of the switch to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// List of digest samples.
    Digest {
        /// Name of the digest.
        name: String,
        /// List number, for the acknowledgement.
        list: u64,
        /// Samples.
        samples: Vec<super::Sample>,
    },
    /// Entries without a hit during their idle timeout.
    IdleTimeout {
        /// Table index.
        table: u32,
        /// Handles of the entries.
        entries: Vec<u32>,
    },
    /// A packet sent to the CPU port.
    PacketIn(Vec<u8>),
    /// Message of `log_msg`, or of a failed assertion.
    Log(String),
}
