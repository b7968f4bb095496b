//! ctnetlink.

use crate::conn::Conn;
use crate::conntrack::Conntrack;
use crate::event::{EventGroups, Reporter};
use crate::expect::Expectation;
use belljar_base::SimTime;

pub(crate) fn event(
    _conn: &Conn,
    _group: EventGroups,
    _changes: u16,
    _reporter: Reporter,
    _now: SimTime,
) -> Vec<u8> {
    Vec::new()
}

pub(crate) fn expectation_event(
    _ct: &Conntrack,
    _e: &Expectation,
    _group: EventGroups,
    _now: SimTime,
) -> Vec<u8> {
    Vec::new()
}
