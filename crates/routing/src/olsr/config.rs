//! Parameters of OLSR with the defaults of RFC 3626, section 18.

use super::packet;
use crate::Prefix;
use belljar_base::Seed;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Parameters of one node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Main address: one of the node's interface addresses, which identifies the node.
    pub main_address: Ipv4Addr,
    /// `HELLO_INTERVAL`.
    pub hello_interval: Duration,
    /// `TC_INTERVAL`.
    pub tc_interval: Duration,
    /// `MID_INTERVAL`.
    pub mid_interval: Duration,
    /// `HNA_INTERVAL`.
    pub hna_interval: Duration,
    /// `NEIGHB_HOLD_TIME`: validity time of HELLO messages.
    pub neighbor_hold: Duration,
    /// `TOP_HOLD_TIME`: validity time of TC messages.
    pub topology_hold: Duration,
    /// `MID_HOLD_TIME`.
    pub mid_hold: Duration,
    /// `HNA_HOLD_TIME`.
    pub hna_hold: Duration,
    /// `DUP_HOLD_TIME`: lifetime of duplicate tuples.
    pub duplicate_hold: Duration,
    /// `MAXJITTER`: upper bound of the random time by which messages are sent earlier, or forwarded later.
    pub max_jitter: Duration,
    /// Willingness to forward traffic of other nodes, 0 (never) to 7 (always).
    pub willingness: u8,
    /// `TC_REDUNDANCY` (section 15): 0 advertises MPR selectors, 1 also the MPRs, 2 all symmetric neighbours.
    pub tc_redundancy: u8,
    /// Link hysteresis (section 14); without it a single HELLO establishes a link.
    pub hysteresis: Option<Hysteresis>,
    /// Triggered messages: a change of links or MPRs triggers a HELLO, a change of the advertised set a TC,
    /// at most one per `max_jitter`.
    pub triggered: bool,
    /// Networks outside of OLSR for which this node is a gateway (HNA).
    pub networks: Vec<Prefix>,
    /// Random seed of the node's jitter.
    pub seed: Seed,
}

/// Parameters of link hysteresis (section 14.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hysteresis {
    /// `HYST_THRESHOLD_HIGH`: a quality above it establishes a link.
    pub high: f64,
    /// `HYST_THRESHOLD_LOW`: a quality below it makes a link pending.
    pub low: f64,
    /// `HYST_SCALING`: weight of one packet.
    pub scaling: f64,
}

impl Default for Hysteresis {
    fn default() -> Hysteresis {
        Hysteresis { high: 0.8, low: 0.3, scaling: 0.5 }
    }
}

impl Config {
    /// The RFC's parameters for a node with this main address.
    pub fn new(main_address: Ipv4Addr, seed: Seed) -> Config {
        let seconds = Duration::from_secs;
        Config {
            main_address,
            hello_interval: seconds(2),
            tc_interval: seconds(5),
            mid_interval: seconds(5),
            hna_interval: seconds(5),
            neighbor_hold: seconds(6),
            topology_hold: seconds(15),
            mid_hold: seconds(15),
            hna_hold: seconds(15),
            duplicate_hold: seconds(30),
            max_jitter: Duration::from_millis(500),
            willingness: 3,
            tc_redundancy: 0,
            hysteresis: None,
            triggered: true,
            networks: Vec::new(),
            seed,
        }
    }
    /// Sets the HELLO interval, and the `NEIGHB_HOLD_TIME` and `MAXJITTER` that section 18 derives from it.
    pub fn with_hello_interval(mut self, interval: Duration) -> Config {
        (self.hello_interval, self.neighbor_hold, self.max_jitter) = (interval, interval * 3, interval / 4);
        self
    }
    /// Sets the intervals of TC, MID and HNA, and the three hold times derived from them.
    pub fn with_tc_interval(mut self, interval: Duration) -> Config {
        (self.tc_interval, self.mid_interval, self.hna_interval) = (interval, interval, interval);
        (self.topology_hold, self.mid_hold, self.hna_hold) = (interval * 3, interval * 3, interval * 3);
        self
    }
    /// The willingness, at most `WILL_ALWAYS`.
    pub(super) fn willingness(&self) -> u8 {
        self.willingness.min(packet::WILL_ALWAYS)
    }
}
