//! Kinds of events. Each has one file, which reads the kind from a section of `events`, writes it again, lists the sets of
//! hosts that are drawn at each occurrence, and says what ends the event after its time.
//!
//! The effect of an action is planned in the crate `plan`.

mod bandwidth;
mod calls;
mod clock;
mod cpu;
mod crash;
mod disk;
mod dns_answers;
mod kind;
mod link;
mod memory;
mod movement;
mod name_server;
mod p4;
mod partition;
mod programs;
mod reset;
mod restart;
mod upgrade;

pub(crate) use calls::results as call_results;
pub(crate) use cpu::{period as cpu_period, share as cpu_share};
pub(crate) use crash::check as check_disks;
pub(crate) use dns_answers::{answer as dns_answer, answer_text as dns_answer_text, names as dns_names};
pub(crate) use kind::Kind;
pub(crate) use p4::check as check_p4;
pub(crate) use partition::check_heal;
pub(crate) use programs::check_process_name;

use crate::events::{Action, HostSet};

/// Kinds that replace programs.
pub(crate) const UPGRADES: &[&dyn Kind] = &[&upgrade::Upgrade, &restart::Restart];

/// All kinds, in the order in which messages list them.
pub(crate) const KINDS: &[&dyn Kind] = &[
    &link::Down,
    &link::Up,
    &link::Change,
    &link::Reset,
    &partition::Partition,
    &partition::Heal,
    &bandwidth::Bandwidth,
    &crash::Crash,
    &restart::Restart,
    &crash::Pause,
    &crash::Resume,
    &disk::Fault,
    &disk::Heal,
    &reset::Reset,
    &calls::Calls,
    &memory::Memory,
    &cpu::Cpu,
    &name_server::NameServer { down: true },
    &name_server::NameServer { down: false },
    &dns_answers::DnsAnswers,
    &programs::Start,
    &programs::Stop,
    &programs::Signal,
    &programs::Kill,
    &upgrade::Upgrade,
    &clock::Clock,
    &p4::P4,
    &movement::Move,
];

impl Action {
    /// The kind of the action.
    pub(crate) fn kind(&self) -> &'static dyn Kind {
        match self {
            Action::LinkDown(_) => &link::Down,
            Action::LinkUp(_) => &link::Up,
            Action::Change(..) => &link::Change,
            Action::Reset(_) => &link::Reset,
            Action::Partition(_) => &partition::Partition,
            Action::Heal(_) => &partition::Heal,
            Action::Bandwidth { .. } => &bandwidth::Bandwidth,
            Action::Crash { .. } => &crash::Crash,
            Action::Restart { .. } => &restart::Restart,
            Action::Pause(_) | Action::PauseProcess(..) => &crash::Pause,
            Action::Resume(_) | Action::ResumeProcess(..) => &crash::Resume,
            Action::Cpu { .. } => &cpu::Cpu,
            Action::DiskFault { .. } => &disk::Fault,
            Action::DiskHeal(_) => &disk::Heal,
            Action::ConnectionReset { .. } => &reset::Reset,
            Action::CallFault { .. } => &calls::Calls,
            Action::Memory { .. } => &memory::Memory,
            Action::NameServer { down: true, .. } => &name_server::NameServer { down: true },
            Action::NameServer { down: false, .. } => &name_server::NameServer { down: false },
            Action::DnsAnswers { .. } => &dns_answers::DnsAnswers,
            Action::Start(..) => &programs::Start,
            Action::Stop(..) => &programs::Stop,
            Action::Signal(..) => &programs::Signal,
            Action::Kill(..) => &programs::Kill,
            Action::Upgrade { .. } => &upgrade::Upgrade,
            Action::Clock { .. } => &clock::Clock,
            Action::P4 { .. } => &p4::P4,
            Action::Move { .. } => &movement::Move,
        }
    }

    /// Sets of hosts from which hosts may be drawn at each occurrence.
    pub fn hosts_mut(&mut self) -> Vec<&mut HostSet> {
        self.kind().hosts(self)
    }

    /// Action that ends this one after the event's duration. Partitions, bandwidths and clocks are ended by the same
    /// action.
    pub fn ending(&self) -> Action {
        self.kind().ending(self)
    }
}
