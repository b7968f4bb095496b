//! Expectations: connections that a helper has read of in the payload of another one
//! (`nf_conntrack_expect.c`). The first packet that matches begins a connection that is *related* to the
//! other one, its master.

use crate::conn::{ConnKey, CtStatus, CtZone, Jiffies, Template, seconds};
use crate::conntrack::Conntrack;
use crate::ctnetlink;
use crate::event::{CtEvent, EventGroups, Reporter};
use crate::helper::Helper;
use crate::nat::{Manip, NatRange};
use crate::tuple::{Tuple, TupleDirection};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// Tuple that is expected. Source address and port count only where they are given; the destination counts
/// always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Tuple; what does not count is zero.
    pub tuple: Tuple,
    /// True if the source address counts.
    pub has_source: bool,
    /// True if the source port counts.
    pub has_source_port: bool,
    /// Zone of the master.
    pub zone: CtZone,
    /// Connection whose helper expects.
    pub master: ConnKey,
    /// Helper that expects.
    pub helper: Helper,
    /// True if further connections may match until the timeout (`NF_CT_EXPECT_PERMANENT`).
    pub permanent: bool,
    /// Direction of the expected connection relative to its master.
    pub direction: TupleDirection,
    /// Port to which NAT directs the expected connection, where the master is translated.
    pub saved_port: Option<u16>,
    /// Identifier in listings.
    pub id: u32,
    /// Time in ticks at which the expectation is over.
    pub(crate) timeout: Jiffies,
}

impl Expectation {
    fn matches(&self, zone: CtZone, tuple: &Tuple) -> bool {
        let own = &self.tuple;
        own.l3 == tuple.l3
            && own.protocol == tuple.protocol
            && own.destination == tuple.destination
            && own.destination_port == tuple.destination_port
            && (!self.has_source || own.source == tuple.source)
            && (!self.has_source_port || own.source_port == tuple.source_port)
            && self.zone == zone
    }

    /// Seconds until the expectation is over.
    pub fn seconds_left(&self, now: SimTime) -> u64 {
        self.timeout.saturating_sub(now.jiffies()) / belljar_base::HZ
    }
}

/// Expectations of a network namespace, in order of creation.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    list: Vec<Expectation>,
}

impl Expectations {
    pub fn next_deadline(&self) -> Option<Jiffies> {
        self.list.iter().map(|expectation| expectation.timeout).min()
    }
}

impl Conntrack {
    /// Expectations, in order of creation.
    pub fn expectations(&self) -> impl Iterator<Item = &Expectation> {
        self.expectations.list.iter()
    }

    /// Adds an expectation (`nf_ct_expect_related`). `EBUSY` if another one matches some of the same packets,
    /// `EMFILE` if there are too many.
    pub(crate) fn expect(&mut self, mut expectation: Expectation, now: SimTime) -> Result<(), Errno> {
        let (limit, lasts) = expectation.helper.policy();
        expectation.timeout = now.jiffies() + seconds(lasts);
        let own = expectation.tuple;
        let clashing = self.expectations.list.iter().position(|other| {
            other.tuple.destination == own.destination
                && other.tuple.destination_port == own.destination_port
                && other.tuple.protocol == own.protocol
                && (!other.has_source || !expectation.has_source || other.tuple.source == own.source)
                && other.zone == expectation.zone
        });
        if let Some(at) = clashing {
            // The same expectation again replaces the earlier one.
            let other = &self.expectations.list[at];
            let same = other.tuple == own
                && other.has_source == expectation.has_source
                && other.master == expectation.master;
            if !same {
                return Err(Errno::EBUSY);
            }
            self.remove_expectation_at(at, now);
        }
        let of_master = |other: &Expectation| other.master == expectation.master;
        if self.expectations.list.iter().filter(|other| of_master(other)).count() >= limit
            && let Some(oldest) = self.expectations.list.iter().position(of_master)
        {
            self.remove_expectation_at(oldest, now);
        }
        if self.expectations.list.len() >= self.settings.expect_max as usize {
            return Err(Errno::EMFILE);
        }
        expectation.id = self.stream.next_u32();
        self.statistics.expect_create += 1;
        self.expectations.list.push(expectation);
        self.send_expectation(&expectation, EventGroups::EXPECT_NEW, now);
        Ok(())
    }

    fn send_expectation(&mut self, expectation: &Expectation, group: EventGroups, now: SimTime) {
        let reporter = Reporter::default();
        if self.listens(group, reporter) {
            let message = ctnetlink::expectation_event(self, expectation, group, now);
            self.push_event(CtEvent { group, message, reporter });
        }
    }

    fn remove_expectation_at(&mut self, at: usize, now: SimTime) {
        let expectation = self.expectations.list.remove(at);
        self.statistics.expect_delete += 1;
        self.send_expectation(&expectation, EventGroups::EXPECT_DESTROY, now);
    }

    /// Removes the expectations that `matches` is true for, and returns their number.
    pub(crate) fn remove_expectations_that(
        &mut self,
        now: SimTime,
        matches: impl Fn(&Expectation) -> bool,
    ) -> usize {
        let mut removed = 0;
        while let Some(at) = self.expectations.list.iter().position(&matches) {
            self.remove_expectation_at(at, now);
            removed += 1;
        }
        removed
    }

    /// Removes the expectations of a connection that ends, which is not reported.
    pub(crate) fn remove_expectations(&mut self, master: ConnKey) {
        let before = self.expectations.list.len();
        self.expectations.list.retain(|expectation| expectation.master != master);
        self.statistics.expect_delete += (before - self.expectations.list.len()) as u64;
    }

    pub(crate) fn expire_expectations(&mut self, now: SimTime) {
        if !self.expectations.list.is_empty() {
            self.remove_expectations_that(now, |expectation| expectation.timeout <= now.jiffies());
        }
    }

    /// Looks for an expectation of a new connection, and makes the connection related to its master. False if
    /// there is none.
    pub(crate) fn fulfil_expectation(
        &mut self,
        key: ConnKey,
        tuple: &Tuple,
        template: &Template,
        now: SimTime,
    ) -> bool {
        let found = |expectation: &Expectation| {
            let alive = self.table.get(expectation.master);
            let alive =
                alive.is_some_and(|master| master.is(CtStatus::CONFIRMED) && !master.is(CtStatus::DYING));
            alive && expectation.matches(template.zone, tuple)
        };
        let Some(at) = self.expectations.list.iter().position(found) else { return false };
        let expectation = self.expectations.list[at];
        if !expectation.permanent {
            self.remove_expectation_at(at, now);
        }
        self.statistics.expect_new += 1;
        let master = self.table.get(expectation.master);
        let (mark, master_tuples) = master.map_or((0, None), |conn| (conn.mark, Some(conn.tuples)));
        if let Some(conn) = self.table.get_mut(key) {
            conn.status.insert(CtStatus::EXPECTED);
            conn.mark = mark;
            let extra = conn.extra_mut();
            extra.master = Some(expectation.master);
            extra.master_tuple = master_tuples.map(|tuples| tuples[0]);
        }
        if let (Some(port), Some(tuples)) = (expectation.saved_port, master_tuples) {
            self.follow_master(key, &expectation, port, tuples, now);
        }
        true
    }

    /// Translates an expected connection as its master (`nf_nat_follow_master`): its source to the master's
    /// address as the other end knows it, its destination to that other end's.
    fn follow_master(
        &mut self,
        key: ConnKey,
        expectation: &Expectation,
        port: u16,
        master: [Tuple; 2],
        now: SimTime,
    ) {
        let away = expectation.direction.opposite() as usize;
        let source = NatRange::address(master[away].destination);
        let _ = self.setup_nat_of(key, &source, Manip::Source, now);
        let target = NatRange::address(master[away].source).with_ports(port, port);
        let _ = self.setup_nat_of(key, &target, Manip::Destination, now);
    }
}
