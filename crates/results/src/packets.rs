//! Accounts of packets in the results, over which the totals of dropped packets are sums.

use crate::{Statistics, add_counts};
use belljar_base::{Map, PacketAccount};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Phrase of the warning about an account that does not balance.
pub(crate) const UNBALANCED: &str = "its account does not balance";

/// Account of the packets at one location of the network, such as an interface, a link or a switch: packets
/// received or originated there were sent on, consumed or dropped there, or are still there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationAccount {
    /// Packets received from other locations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received: u64,
    /// Packets that originated at the location, by origin: `udp`, `duplicates`, `fragments`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub originated: Map<String, u64>,
    /// Packets sent to other locations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent: u64,
    /// Packets that reached a receiver at the location, by receiver: `tcp`, `arp`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub consumed: Map<String, u64>,
    /// Packets dropped, by reason.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub drops: Map<String, u64>,
    /// Packets at the location at the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Packets dropped at one location for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<'a> {
    /// Name of the location.
    pub location: &'a str,
    /// Reason.
    pub reason: &'a str,
    /// Number of packets.
    pub packets: u64,
}

impl From<&PacketAccount> for LocationAccount {
    fn from(account: &PacketAccount) -> LocationAccount {
        let named = |counts: &Map<&'static str, u64>| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        LocationAccount {
            received: account.received,
            originated: named(&account.originated),
            sent: account.sent,
            consumed: named(&account.consumed),
            drops: named(&account.dropped),
            held: account.held,
        }
    }
}

/// Counts as "NAME COUNT, NAME COUNT".
pub fn counts_text(counts: &Map<String, u64>) -> String {
    let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    each.join(", ")
}

/// Both sides of the sum.
impl fmt::Display for LocationAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |counts: &Map<String, u64>| {
            let sum = counts.values().sum::<u64>();
            if counts.is_empty() { sum.to_string() } else { format!("{sum} ({})", counts_text(counts)) }
        };
        let (originated, consumed, drops) =
            (named(&self.originated), named(&self.consumed), named(&self.drops));
        write!(
            f,
            "received {}, originated {originated}; sent {}, consumed {consumed}, dropped {drops}, held {}",
            self.received, self.sent, self.held
        )
    }
}

impl LocationAccount {
    /// Adds the part of the account that another cell has counted.
    pub fn add(&mut self, other: &LocationAccount) {
        self.received += other.received;
        self.sent += other.sent;
        self.held += other.held;
        add_counts(&mut self.originated, &other.originated);
        add_counts(&mut self.consumed, &other.consumed);
        add_counts(&mut self.drops, &other.drops);
    }

    /// Number of packets that entered the location, minus those whose end is known: see
    /// [`PacketAccount::imbalance`].
    pub fn imbalance(&self) -> i64 {
        let entered = self.received + self.originated.values().sum::<u64>();
        let ended = self.consumed.values().chain(self.drops.values()).sum::<u64>();
        entered as i64 - (self.sent + ended + self.held) as i64
    }
}

impl Statistics {
    /// Adds the account of a location, or a part of it. A location without packets has no account.
    pub fn add_account(&mut self, location: &str, account: &PacketAccount) {
        if *account != PacketAccount::default() {
            self.packets.entry(location.to_owned()).or_default().add(&account.into());
        }
    }

    /// Packets dropped, by location and reason, largest number first.
    pub fn all_drops(&self) -> Vec<Dropped<'_>> {
        let mut all: Vec<Dropped<'_>> = self
            .packets
            .iter()
            .flat_map(|(location, account)| {
                let drops = account.drops.iter();
                drops.map(move |(reason, packets)| Dropped { location, reason, packets: *packets })
            })
            .collect();
        all.sort_by_key(|dropped| std::cmp::Reverse(dropped.packets));
        all
    }

    /// Number of packets dropped anywhere. In results of earlier versions, which have no accounts, those that
    /// hosts have counted.
    pub fn dropped(&self) -> u64 {
        match self.packets.is_empty() {
            true => self.hosts.values().flat_map(|host| host.drops.values()).sum(),
            false => self.packets.values().flat_map(|account| account.drops.values()).sum(),
        }
    }

    /// Adds a warning for each account that does not balance: packets disappeared at the location, or
    /// appeared there.
    pub fn check_accounts(&mut self) {
        for (location, account) in &self.packets {
            let imbalance = account.imbalance();
            if imbalance != 0 {
                let what = if imbalance > 0 { "disappeared" } else { "appeared" };
                let warning = format!("packets {what} uncounted at {location}: {UNBALANCED}: {account}");
                *self.warnings.entry(warning).or_default() += imbalance.unsigned_abs();
            }
        }
    }
}
