//! Requests to `NETLINK_NETFILTER` sockets (`nfnetlink.c`, `nf_tables_api.c` of Linux): queries, and batches
//! of changes, which are made together or not at all.

mod chains;
mod draft;
mod elements;
mod message;
mod objects;
mod queries;
mod rules;
mod sets;
mod tables;
#[cfg(test)]
mod tests;

use crate::attributes::NetfilterError;
use crate::engine::Netfilter;
use crate::environment::Environment;
use belljar_base::SimTime;
use belljar_conntrack::EventGroups;
use belljar_conntrack::ctnetlink::{self, CtRequest};
use belljar_linux_abi::Errno;
use draft::{Draft, Event};
pub(crate) use message::Message;
pub use message::NetfilterSender;
use message::{GENERIC, HEADER, Reply, acknowledge, done, flag, subsystem};
use queries::Query;
use std::sync::Arc;

/// `NFT_MSG_*`.
mod number {
    pub(super) const NEWTABLE: u8 = 0;
    pub(super) const GETTABLE: u8 = 1;
    pub(super) const DELTABLE: u8 = 2;
    pub(super) const NEWCHAIN: u8 = 3;
    pub(super) const GETCHAIN: u8 = 4;
    pub(super) const DELCHAIN: u8 = 5;
    pub(super) const NEWRULE: u8 = 6;
    pub(super) const GETRULE: u8 = 7;
    pub(super) const DELRULE: u8 = 8;
    pub(super) const NEWSET: u8 = 9;
    pub(super) const GETSET: u8 = 10;
    pub(super) const DELSET: u8 = 11;
    pub(super) const NEWSETELEM: u8 = 12;
    pub(super) const GETSETELEM: u8 = 13;
    pub(super) const DELSETELEM: u8 = 14;
    pub(super) const NEWGEN: u8 = 15;
    pub(super) const GETGEN: u8 = 16;
    pub(super) const NEWOBJ: u8 = 18;
    pub(super) const GETOBJ: u8 = 19;
    pub(super) const DELOBJ: u8 = 20;
    pub(super) const GETOBJ_RESET: u8 = 21;
    pub(super) const NEWFLOWTABLE: u8 = 22;
    pub(super) const GETFLOWTABLE: u8 = 23;
    pub(super) const DELFLOWTABLE: u8 = 24;
    pub(super) const GETRULE_RESET: u8 = 25;
    pub(super) const DESTROYTABLE: u8 = 26;
    pub(super) const DESTROYCHAIN: u8 = 27;
    pub(super) const DESTROYRULE: u8 = 28;
    pub(super) const DESTROYSET: u8 = 29;
    pub(super) const DESTROYSETELEM: u8 = 30;
    pub(super) const DESTROYOBJ: u8 = 31;
    pub(super) const DESTROYFLOWTABLE: u8 = 32;
    pub(super) const GETSETELEM_RESET: u8 = 33;
}

/// `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// `NFNL_BATCH_GENID`.
const BATCH_GENID: u16 = 1;
/// First type of a message that is not about control, `NLMSG_MIN_TYPE`.
const MIN_TYPE: u16 = 16;
/// `NFNLGRP_NFTABLES`.
const GROUP: u32 = 7;
/// Length in bytes at which a datagram of a dump ends.
const DATAGRAM_LEN: usize = 4_096;

/// `NFTA_GEN_*`.
mod generation {
    pub(super) const ID: u16 = 1;
    pub(super) const PROC_PID: u16 = 2;
    pub(super) const PROC_NAME: u16 = 3;
}

/// Answers to what a program has sent.
#[derive(Debug, Default)]
pub struct Answers {
    /// Datagrams for the socket.
    pub replies: Vec<Vec<u8>>,
    /// Messages for multicast groups, by the numbers of the groups.
    pub announcements: Vec<(u32, Vec<u8>)>,
    /// Features that were refused.
    pub warnings: Vec<String>,
}

impl Netfilter {
    /// Answers the messages that a program has sent to a socket.
    pub fn answer(
        &mut self,
        bytes: &[u8],
        requester: &NetfilterSender,
        environment: &mut dyn Environment,
    ) -> Answers {
        let mut answers = Answers::default();
        let Some((first, rest)) = Message::split(bytes) else { return answers };
        if !requester.may_change {
            answers.replies.push(acknowledge(&first, requester, Err(Errno::EPERM.into())));
            return answers;
        }
        if first.kind == BATCH_BEGIN {
            if first.is_whole() {
                self.batch(&first, rest, requester, environment, &mut answers);
            }
            return answers;
        }
        let mut bytes = bytes;
        while let Some((message, rest)) = Message::split(bytes) {
            bytes = rest;
            if !message.has(flag::REQUEST) || message.kind < MIN_TYPE {
                if message.has(flag::ACK) {
                    answers.replies.push(acknowledge(&message, requester, Ok(())));
                }
                continue;
            }
            self.answer_one(message, requester, environment.now(), &mut answers);
        }
        answers.announcements.extend(self.take_events());
        answers
    }

    /// Answers a message outside a batch.
    fn answer_one(
        &mut self,
        message: Message<'_>,
        requester: &NetfilterSender,
        now: SimTime,
        answers: &mut Answers,
    ) {
        let result = if !message.is_whole() {
            // Linux ignores messages without the header of a family.
            Ok(Vec::new())
        } else {
            match message.subsystem() {
                subsystem::NFTABLES => {
                    let resets = [number::GETOBJ_RESET, number::GETRULE_RESET, number::GETSETELEM_RESET]
                        .contains(&message.number());
                    Query { netfilter: self, message, requester, now, resets }.answer()
                }
                subsystem::CTNETLINK | subsystem::CTNETLINK_EXP => {
                    self.answer_conntrack(&message, requester, now)
                }
                subsystem::NFT_COMPAT => answer_compat(&message, requester),
                other => {
                    let warning = format!("nfnetlink: subsystem {other} is not supported");
                    answers.warnings.push(warning);
                    Err(Errno::EINVAL.into())
                }
            }
        };
        match result {
            Ok(messages) if message.has(flag::DUMP) => {
                answers.replies.extend(datagrams(messages));
                answers.replies.push(done(&message, requester));
            }
            Ok(messages) => {
                answers.replies.extend(messages);
                if message.has(flag::ACK) {
                    answers.replies.push(acknowledge(&message, requester, Ok(())));
                }
            }
            Err(failure) => answers.replies.push(acknowledge(&message, requester, Err(failure))),
        }
    }

    /// Answers a message about connections or expectations.
    fn answer_conntrack(
        &mut self,
        message: &Message<'_>,
        requester: &NetfilterSender,
        now: SimTime,
    ) -> Result<Vec<Vec<u8>>, NetfilterError> {
        let [_, version] = *message.whole[HEADER..].first_chunk().unwrap_or(&[0; 2]);
        let request = CtRequest {
            kind: message.number(),
            flags: message.flags,
            sequence: message.sequence,
            port: requester.port,
            family: message.family(),
            version,
            attributes: &message.whole[HEADER + GENERIC..],
        };
        let subsystem = match message.subsystem() {
            subsystem::CTNETLINK => ctnetlink::CONNECTIONS,
            _ => ctnetlink::EXPECTATIONS,
        };
        Ok(ctnetlink::answer(&mut self.tracking.conntrack, subsystem, &request, now)?)
    }

    /// Sets the multicast groups that sockets have joined, a bit each.
    pub fn listen(&mut self, groups: u32) {
        self.listening = EventGroups::from_bits_truncate(groups);
        self.tracking.conntrack.listen(self.listening);
    }
    /// True while a socket listens to connection tracking.
    pub fn is_listening(&self) -> bool {
        !self.listening.is_empty()
    }
    /// Removes connections that have ended; the messages about them with their multicast groups.
    pub fn expire(&mut self, now: SimTime) -> Vec<(u32, Vec<u8>)> {
        self.tracking.conntrack.expire(now);
        self.take_events()
    }
    /// Takes the pending events of connection tracking.
    pub(crate) fn take_events(&mut self) -> Vec<(u32, Vec<u8>)> {
        if self.listening.is_empty() {
            return Vec::new();
        }
        let events = self.tracking.conntrack.take_events();
        events.into_iter().map(|event| (event.group.number(), event.message)).collect()
    }

    /// Carries out a batch (`nfnetlink_rcv_batch`).
    fn batch(
        &mut self,
        begin: &Message<'_>,
        bytes: &[u8],
        requester: &NetfilterSender,
        environment: &mut dyn Environment,
        answers: &mut Answers,
    ) {
        let resource = begin.resource();
        let nftables = subsystem::NFTABLES;
        // Old versions of nft use the byte order of the host.
        if u16::from_be_bytes(resource) != nftables && u16::from_ne_bytes(resource) != nftables {
            answers.replies.push(acknowledge(begin, requester, Err(Errno::EOPNOTSUPP.into())));
            return;
        }
        if let Ok(Some(wanted)) = begin.attributes().u32(BATCH_GENID)
            && wanted != self.generation
        {
            answers.replies.push(acknowledge(begin, requester, Err(ERESTART.into())));
            return;
        }
        let outcome = self.try_batch(begin, bytes, requester, environment, false, answers);
        // A table that is not valid: once more, to find the rule to blame.
        if outcome == BatchOutcome::Invalid {
            self.try_batch(begin, bytes, requester, environment, true, answers);
        }
    }

    fn try_batch(
        &mut self,
        begin: &Message<'_>,
        mut bytes: &[u8],
        requester: &NetfilterSender,
        environment: &mut dyn Environment,
        careful: bool,
        answers: &mut Answers,
    ) -> BatchOutcome {
        let mut acknowledgments = Vec::new();
        if begin.has(flag::ACK) {
            acknowledgments.push(acknowledge(begin, requester, Ok(())));
        }
        let mut warnings = Vec::new();
        let mut draft = Draft::of(self, environment, requester, &mut warnings);
        draft.careful = careful;
        let (mut failed, mut complete) = (false, false);
        while let Some((message, rest)) = Message::split(bytes) {
            bytes = rest;
            let result = match message.kind {
                BATCH_BEGIN => {
                    failed = true;
                    break;
                }
                BATCH_END => {
                    complete = true;
                    if message.has(flag::ACK) {
                        acknowledgments.push(acknowledge(&message, requester, Ok(())));
                    }
                    break;
                }
                kind if kind < MIN_TYPE => Err(Errno::EINVAL.into()),
                _ if !message.has(flag::REQUEST) => Err(Errno::EINVAL.into()),
                _ if message.subsystem() != subsystem::NFTABLES || !message.is_whole() => {
                    Err(Errno::EINVAL.into())
                }
                _ => change(&mut draft, &message),
            };
            if message.has(flag::ACK) || result.is_err() {
                failed |= result.is_err();
                acknowledgments.push(acknowledge(&message, requester, result));
            }
        }
        let touched = std::mem::take(&mut draft.touched);
        let invalid = |draft: &Draft<'_>| {
            let tables = draft.tables.iter().filter(|table| touched.contains(&table.handle));
            tables.into_iter().any(|table| crate::validate::validate(table, draft.contents).is_err())
        };
        if !failed && complete && invalid(&draft) {
            abort(draft);
            if careful {
                answers.replies.push(acknowledge(begin, requester, Err(Errno::EINVAL.into())));
            }
            return BatchOutcome::Invalid;
        }
        answers.replies.append(&mut acknowledgments);
        if failed || !complete {
            let handles = abort(draft);
            self.keep_handles(&handles);
            answers.warnings.append(&mut warnings);
            return BatchOutcome::Aborted;
        }
        let Draft { tables, counters, dropped_sets, events, .. } = draft;
        answers.warnings.append(&mut warnings);
        dropped_sets.into_iter().for_each(|set| self.contents.drop_set(set));
        self.tables = tables;
        self.last_table = counters.table;
        self.last_set = counters.set;
        self.last_base = counters.base;
        self.last_binding = counters.binding;
        self.generation = self.generation.wrapping_add(1).max(1);
        self.list_functions();
        self.announce(events, begin.sequence, requester, answers);
        BatchOutcome::Committed
    }

    /// Continues the handles of tables after those of a batch that failed.
    fn keep_handles(&mut self, handles: &[(u64, u64)]) {
        for table in &mut self.tables {
            let last = handles.iter().find(|(handle, _)| *handle == table.handle).map(|(_, last)| *last);
            if let Some(last) = last.filter(|last| *last > table.last_handle) {
                Arc::make_mut(table).last_handle = last;
            }
        }
    }

    /// Writes the notifications of a commit.
    fn announce(
        &self,
        events: Vec<Event>,
        sequence: u32,
        requester: &NetfilterSender,
        answers: &mut Answers,
    ) {
        let generation = self.generation as u16;
        let reply = |flags, sequence| Reply { flags, sequence, port: requester.port, generation };
        for event in events {
            let content = event.content;
            let message =
                reply(event.flags, event.sequence)
                    .message(event.number, Some(event.family), |out| out.0.extend_from_slice(&content));
            answers.announcements.push((GROUP, message));
        }
        let last = self.generation_message(reply(0, sequence), requester);
        answers.announcements.push((GROUP, last));
    }

    /// `NFT_MSG_NEWGEN`.
    fn generation_message(&self, reply: Reply, requester: &NetfilterSender) -> Vec<u8> {
        reply.message(number::NEWGEN, None, |out| {
            out.u32(generation::ID, self.generation);
            out.u32(generation::PROC_PID, requester.process);
            out.text(generation::PROC_NAME, &requester.command);
        })
    }
}

/// Result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchOutcome {
    Committed,
    Aborted,
    /// The rules are not valid; nothing was changed or answered.
    Invalid,
}

/// Error of a batch for another generation.
const ERESTART: Errno = Errno(85);

/// Undoes the changes of elements of a batch that fails. Returns the last handle of each table.
fn abort(draft: Draft<'_>) -> Vec<(u64, u64)> {
    let Draft { contents, undo, made_sets, tables, .. } = draft;
    undo.into_iter().rev().for_each(|change| contents.undo(change));
    made_sets.into_iter().for_each(|set| contents.drop_set(set));
    tables.iter().map(|table| (table.handle, table.last_handle)).collect()
}

/// Carries out one change of a batch.
fn change(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let unless_missing = |result: Result<(), NetfilterError>| match result {
        Err(NetfilterError { errno: Errno::ENOENT, .. }) => Ok(()),
        other => other,
    };
    match message.number() {
        number::NEWTABLE => tables::add(draft, message),
        number::DELTABLE => tables::remove(draft, message),
        number::NEWCHAIN => chains::add(draft, message),
        number::DELCHAIN => chains::remove(draft, message),
        number::NEWRULE => rules::add(draft, message),
        number::DELRULE => rules::remove(draft, message),
        number::NEWSET => sets::add(draft, message),
        number::DELSET => sets::remove(draft, message),
        number::NEWSETELEM => elements::add(draft, message),
        number::DELSETELEM => elements::remove(draft, message),
        number::NEWOBJ => objects::add(draft, message),
        number::DELOBJ => objects::remove(draft, message),
        number::DESTROYTABLE => unless_missing(tables::remove(draft, message)),
        number::DESTROYCHAIN => unless_missing(chains::remove(draft, message)),
        number::DESTROYRULE => unless_missing(rules::remove(draft, message)),
        number::DESTROYSET => unless_missing(sets::remove(draft, message)),
        number::DESTROYSETELEM => unless_missing(elements::remove(draft, message)),
        number::DESTROYOBJ => unless_missing(objects::remove(draft, message)),
        number::NEWFLOWTABLE | number::DELFLOWTABLE => {
            draft.warnings.push("nf_tables: flowtables are not supported".into());
            Err(Errno::ENOENT.into())
        }
        number::DESTROYFLOWTABLE => Ok(()),
        // Queries are not part of batches.
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Answers `NFNL_MSG_COMPAT_GET`: whether a revision of an extension of iptables is supported.
fn answer_compat(message: &Message<'_>, requester: &NetfilterSender) -> Result<Vec<Vec<u8>>, NetfilterError> {
    const NAME: u16 = 1;
    const REVISION: u16 = 2;
    const TYPE: u16 = 3;
    let attributes = message.attributes();
    let name = attributes.need(NAME)?.text()?;
    let revision = attributes.need(REVISION)?.u32()?;
    let kind = attributes.need(TYPE)?.u32()?;
    if message.number() != 0 {
        return Err(Errno::EINVAL.into());
    }
    crate::compat::find(name, revision, kind == 1, message.family() == 10)?;
    let reply = Reply { flags: 0, sequence: message.sequence, port: requester.port, generation: 0 };
    Ok(vec![reply.of_subsystem(subsystem::NFT_COMPAT << 8, message.family(), |out| {
        out.text(NAME, name);
        out.u32(REVISION, revision);
        out.u32(TYPE, kind);
    })])
}

/// Packs the messages of a dump into datagrams.
fn datagrams(messages: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut packed: Vec<Vec<u8>> = Vec::new();
    for message in messages {
        match packed.last_mut() {
            Some(last) if last.len() + message.len() <= DATAGRAM_LEN => last.extend(message),
            _ => packed.push(message),
        }
    }
    packed
}
