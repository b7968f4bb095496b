//! State of a bond: the choice among its ports, and the monitor of their carriers (`bond_main.c` of Linux).
//!
//! Every `miimon` milliseconds the monitor compares the carrier of each port with its link state
//! ([`check`](Bond::check)). A port that loses its carrier is failing for `downdelay` before it is down, and one that regains
//! it is coming back for `updelay` before it is up. In mode active-backup one port that is up carries the frames.

use belljar_base::{SimDuration, SimTime};

/// Mode of a bond, `BOND_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BondMode {
    /// Frames leave by the ports in turn.
    RoundRobin = 0,
    /// One port carries the frames, another takes over when it fails.
    ActiveBackup = 1,
    /// The addresses of a frame choose its port.
    Xor = 2,
    /// Frames leave by all ports.
    Broadcast = 3,
}

impl BondMode {
    /// The mode of a number.
    pub fn of(number: u8) -> Option<BondMode> {
        use BondMode::*;
        [RoundRobin, ActiveBackup, Xor, Broadcast].into_iter().find(|mode| *mode as u8 == number)
    }
    /// Name of the mode in `/proc/net/bonding`.
    pub fn title(self) -> &'static str {
        match self {
            BondMode::RoundRobin => "load balancing (round-robin)",
            BondMode::ActiveBackup => "fault-tolerance (active-backup)",
            BondMode::Xor => "load balancing (xor)",
            BondMode::Broadcast => "fault-tolerance (broadcast)",
        }
    }
}

/// Parts of a frame that choose its port, `BOND_XMIT_POLICY_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashPolicy {
    /// Hardware addresses and EtherType.
    Layer2 = 0,
    /// IP addresses and ports.
    Layer34 = 1,
    /// Hardware and IP addresses.
    Layer23 = 2,
}

impl HashPolicy {
    /// The policy of a number.
    pub fn of(number: u8) -> Option<HashPolicy> {
        use HashPolicy::*;
        [Layer2, Layer34, Layer23].into_iter().find(|policy| *policy as u8 == number)
    }
}

/// Event after which the primary port becomes active again, `BOND_PRI_RESELECT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reselect {
    /// It is up.
    Always = 0,
    /// It is up, and faster than the active one.
    Better = 1,
    /// The active one fails.
    Failure = 2,
}

impl Reselect {
    /// The choice of a number.
    pub fn of(number: u8) -> Option<Reselect> {
        use Reselect::*;
        [Always, Better, Failure].into_iter().find(|choice| *choice as u8 == number)
    }
}

/// Link state of a port, `BOND_LINK_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BondLink {
    /// In use.
    Up = 0,
    /// Without a carrier, before `downdelay` has passed.
    Fail = 1,
    /// Not in use.
    Down = 2,
    /// With a carrier, before `updelay` has passed.
    Back = 3,
}

/// A port of a bond.
#[derive(Clone, Debug)]
pub struct BondPort {
    /// Number of the interface.
    pub interface: usize,
    /// Link state.
    pub link: BondLink,
    /// Number of checks before a failing port is down, or one that is coming back is up.
    delay: u32,
    /// Number of times that the port went down.
    pub failures: u32,
    /// The hardware address and MTU that the interface has outside of the bond.
    pub own: ([u8; 6], usize),
    /// True if the port neither sends nor receives.
    pub is_backup: bool,
}

/// Settings of a bond.
#[derive(Clone, Debug)]
pub struct BondSettings {
    /// Mode.
    pub mode: BondMode,
    /// Interval of the monitor in milliseconds; 0 without one.
    pub miimon: u32,
    /// Number of intervals before a port with a carrier is up.
    pub updelay: u32,
    /// Number of intervals before a port without a carrier is down.
    pub downdelay: u32,
    /// The port that is active if it can be.
    pub primary: Option<usize>,
    /// When the primary port becomes active again.
    pub reselect: Reselect,
    /// Parts of a frame that choose its port.
    pub hash_policy: HashPolicy,
    /// Number of announcements of the host's addresses after a failover.
    pub notifications: u8,
}

impl BondSettings {
    /// `updelay` in milliseconds, as Linux shows it.
    pub fn updelay_ms(&self) -> u32 {
        self.updelay.wrapping_mul(self.miimon)
    }
    /// `downdelay` in milliseconds, as Linux shows it.
    pub fn downdelay_ms(&self) -> u32 {
        self.downdelay.wrapping_mul(self.miimon)
    }
}

impl Default for BondSettings {
    fn default() -> BondSettings {
        BondSettings {
            mode: BondMode::RoundRobin,
            miimon: 0,
            updelay: 0,
            downdelay: 0,
            primary: None,
            reselect: Reselect::Always,
            hash_policy: HashPolicy::Layer2,
            notifications: 1,
        }
    }
}

/// A bond.
#[derive(Clone, Debug, Default)]
pub struct Bond {
    /// Settings.
    pub settings: BondSettings,
    /// Ports in the order in which they were added.
    pub ports: Vec<BondPort>,
    /// Number of the active port, which alone carries frames in mode active-backup.
    pub active: Option<usize>,
    /// True if the hardware address was set by an administrator or taken over from a port.
    pub mac_is_set: bool,
    /// True while the interface is up.
    pub up: bool,
    /// Number of frames sent in mode round-robin.
    turns: u32,
    next_check: Option<SimTime>,
    announcements: u8,
}

impl Bond {
    /// The port of an interface.
    pub fn port(&self, interface: usize) -> Option<&BondPort> {
        self.ports.iter().find(|port| port.interface == interface)
    }

    /// Time of the next check of the carriers.
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.next_check
    }

    /// Adds a port, which takes over the bond's hardware address and MTU (`bond_enslave`).
    pub fn add(&mut self, interface: usize, own: ([u8; 6], usize), carrier: bool) {
        let BondSettings { miimon, updelay, .. } = self.settings;
        let link = match (miimon, carrier) {
            (0, _) => BondLink::Up,
            (_, true) if updelay > 0 => BondLink::Back,
            (_, true) => BondLink::Up,
            (_, false) => BondLink::Down,
        };
        let delay = updelay;
        let is_backup = self.settings.mode == BondMode::ActiveBackup;
        self.ports.push(BondPort { interface, link, delay, failures: 0, own, is_backup });
    }

    /// Removes a port (`__bond_release_one`).
    pub fn remove(&mut self, interface: usize) -> Option<BondPort> {
        let at = self.ports.iter().position(|port| port.interface == interface)?;
        if self.active == Some(interface) {
            self.active = None;
        }
        if self.settings.primary == Some(interface) {
            self.settings.primary = None;
        }
        Some(self.ports.remove(at))
    }

    /// Starts or stops the monitor (`bond_open`, `bond_close`).
    pub fn set_up(&mut self, now: SimTime, up: bool) {
        self.up = up;
        self.next_check = (up && self.settings.miimon > 0).then_some(now);
        self.announcements = 0;
    }

    /// Compares the carriers of the ports with their states, if that is due (`bond_mii_monitor`). Returns true if the active
    /// port is to be selected again.
    pub fn check(&mut self, now: SimTime, has_carrier: impl Fn(usize) -> bool) -> bool {
        if self.next_check.is_none_or(|at| at > now) {
            return false;
        }
        let BondSettings { miimon, updelay, downdelay, .. } = self.settings;
        self.next_check = Some(now + SimDuration::from_millis(u64::from(miimon))).filter(|_| miimon > 0);
        let mut ignore_updelay = self.active.is_none();
        let (active, primary, mode) = (self.active, self.settings.primary, self.settings.mode);
        let mut select = false;
        for port in &mut self.ports {
            let carrier = has_carrier(port.interface);
            let next = match (port.link, carrier) {
                (BondLink::Up, true) | (BondLink::Down, false) => continue,
                (BondLink::Fail, true) => BondLink::Up,
                (BondLink::Back, false) => BondLink::Down,
                (BondLink::Up | BondLink::Fail, false) => {
                    if port.link == BondLink::Up {
                        port.delay = downdelay;
                    }
                    if port.delay == 0 { BondLink::Down } else { BondLink::Fail }
                }
                (BondLink::Down | BondLink::Back, true) => {
                    if port.link == BondLink::Down {
                        port.delay = updelay;
                    }
                    if ignore_updelay {
                        port.delay = 0;
                    }
                    if port.delay == 0 { BondLink::Up } else { BondLink::Back }
                }
            };
            match next {
                BondLink::Up if port.link != BondLink::Fail => {
                    ignore_updelay = false;
                    port.is_backup &= mode == BondMode::ActiveBackup;
                    select |= active.is_none() || primary == Some(port.interface);
                }
                BondLink::Down => {
                    port.failures = port.failures.saturating_add(u32::from(port.link != BondLink::Back));
                    port.is_backup |= mode == BondMode::ActiveBackup;
                    select |= active == Some(port.interface);
                }
                _ => port.delay = port.delay.saturating_sub(1),
            }
            port.link = next;
        }
        select
    }

    /// Chooses the active port (`bond_find_best_slave`, `bond_change_active_slave`). Returns true if it has changed.
    pub fn select(&mut self) -> bool {
        let up = |interface: &usize| self.port(*interface).is_some_and(|port| port.link == BondLink::Up);
        let current = self.active.filter(up);
        let primary = self.settings.primary.filter(up);
        let first = self.ports.iter().find(|port| port.link == BondLink::Up).map(|port| port.interface);
        // One that is coming back is better than none.
        let coming = || {
            let back = self.ports.iter().filter(|port| port.link == BondLink::Back);
            back.min_by_key(|port| port.delay).map(|port| port.interface)
        };
        let keeps = current.filter(|_| primary.is_none() || self.settings.reselect != Reselect::Always);
        let best = keeps.or(primary).or(current).or(first).or_else(coming);
        if best == self.active {
            return false;
        }
        self.set_active(best);
        true
    }

    /// Makes a port the active one.
    pub fn set_active(&mut self, active: Option<usize>) {
        self.active = active;
        let fails_over = self.settings.mode == BondMode::ActiveBackup;
        for port in &mut self.ports {
            let is_active = Some(port.interface) == active;
            port.is_backup = fails_over && !is_active;
            if is_active {
                port.link = BondLink::Up;
            }
        }
        let announces = fails_over && active.is_some() && self.up;
        self.announcements = if announces { self.settings.notifications } else { 0 };
    }

    /// Takes one of the announcements that are due after a failover (`bond_should_notify_peers`).
    pub fn take_announcement(&mut self, carrier: bool) -> bool {
        let due = self.announcements > 0 && carrier && self.active.is_some();
        self.announcements -= u8::from(due);
        due
    }

    /// True if the bond has a carrier (`bond_set_carrier`).
    pub fn has_carrier(&self) -> bool {
        self.ports.iter().any(|port| port.link == BondLink::Up)
    }

    /// Interfaces by which a frame leaves. `usable` is true for those that are up.
    pub fn outputs(&mut self, frame: &[u8], usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let all = self.ports.iter().filter(|port| port.link == BondLink::Up && usable(port.interface));
        let mut all: Vec<usize> = all.map(|port| port.interface).collect();
        match self.settings.mode {
            BondMode::Broadcast => all,
            BondMode::ActiveBackup => self.active.filter(|active| usable(*active)).into_iter().collect(),
            _ if all.is_empty() => all,
            BondMode::RoundRobin => {
                self.turns = self.turns.wrapping_add(1);
                let at = self.turns as usize % self.ports.len();
                let turn = self.ports[at..].iter().chain(&self.ports[..at]).map(|port| port.interface);
                turn.filter(|interface| all.contains(interface)).take(1).collect()
            }
            BondMode::Xor => {
                let at = hash(frame, self.settings.hash_policy) as usize % all.len();
                vec![all.swap_remove(at)]
            }
        }
    }
}

/// Hash of a frame (`__bond_xmit_hash`).
pub fn hash(frame: &[u8], policy: HashPolicy) -> u32 {
    let at = |at: usize| u32::from(frame.get(at).copied().unwrap_or(0));
    let kind = at(12) << 8 | at(13);
    let layer2 = at(5) ^ at(11) ^ kind;
    let word = |from: usize| at(from) | at(from + 1) << 8 | at(from + 2) << 16 | at(from + 3) << 24;
    let (addresses, protocol, ports) = match kind {
        0x0800 if frame.len() >= 34 => {
            let is_first = at(20) & 0x1f == 0 && at(21) == 0;
            let ports = 14 + (at(14) as usize & 0xf) * 4;
            (word(26) ^ word(30), at(23), is_first.then_some(ports))
        }
        0x86dd if frame.len() >= 54 => {
            let fold = |from: usize| word(from) ^ word(from + 4) ^ word(from + 8) ^ word(from + 12);
            (fold(22) ^ fold(38), at(20), Some(54))
        }
        _ => return layer2,
    };
    let has_ports = [6, 17, 33, 132, 136].contains(&protocol);
    let first = match policy {
        HashPolicy::Layer2 => return layer2,
        HashPolicy::Layer23 => layer2,
        HashPolicy::Layer34 => ports.filter(|_| has_ports).map_or(0, word),
    };
    let mut hash = first ^ addresses;
    hash ^= hash >> 16;
    hash ^= hash >> 8;
    // The lowest bit is that of ports, which are often even.
    if policy == HashPolicy::Layer34 { hash >> 1 } else { hash }
}
