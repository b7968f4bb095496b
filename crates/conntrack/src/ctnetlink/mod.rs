//! ctnetlink: connections and expectations through `NETLINK_NETFILTER`, as `conntrack` uses it
//! (`nf_conntrack_netlink.c`).
//!
//! [`answer`] takes one request of subsystem 1 or 2 and returns the messages that the socket receives.
//! Notifications are [events](crate::CtEvent). Sockets, groups, permissions (`CAP_NET_ADMIN`),
//! acknowledgments and the end of dumps (`NLMSG_DONE`) belong to the caller. A dump is answered as a whole:
//! changes between its parts do not show.
//!
//! | request | answer |
//! |---|---|
//! | `IPCTNL_MSG_CT_NEW` | creates or changes a connection, with NAT, helper, state, mark and labels |
//! | `IPCTNL_MSG_CT_GET`, `_GET_CTRZERO` | one connection, or a dump by family, zone, mark, status and tuple |
//! | `IPCTNL_MSG_CT_DELETE` | removes one connection, or those that a filter selects |
//! | `IPCTNL_MSG_CT_GET_STATS`, `_GET_STATS_CPU` | counters |
//! | `IPCTNL_MSG_CT_GET_DYING`, `_GET_UNCONFIRMED` | dumps of connections that have ended or not begun |
//! | `IPCTNL_MSG_EXP_GET`, `_DELETE`, `_GET_STATS_CPU` | the same of expectations |
//!
//! `IPCTNL_MSG_EXP_NEW` is refused with `EOPNOTSUPP`: helpers in programs are not supported. So are
//! `CTA_SYNPROXY` and helpers other than `ftp` and `tftp`.

mod attribute;
mod change;
mod decode;
mod encode;
mod message;
#[cfg(test)]
mod tests;

pub(crate) use encode::{event, expectation_event};
pub use message::{CONNECTIONS, EXPECTATIONS};

use crate::conn::{Conn, ConnKey, CtCounters, CtStatus};
use crate::conntrack::Conntrack;
use crate::event::Reporter;
use crate::expect::Expectation;
use attribute::{cta, expect};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use decode::Selection;
use message::{Attributes, DUMP, DUMP_FILTERED, ECHO};

/// Request, its headers decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct CtRequest<'a> {
    /// Kind: the low byte of `nlmsg_type`.
    pub kind: u8,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`.
    pub sequence: u32,
    /// Port of the socket.
    pub port: u32,
    /// `nfgen_family`.
    pub family: u8,
    /// `version` of `struct nfgenmsg`.
    pub version: u8,
    /// Attributes, after `struct nfgenmsg`.
    pub attributes: &'a [u8],
}

impl CtRequest<'_> {
    fn to(&self) -> (u32, u32) {
        (self.sequence, self.port)
    }

    fn is_dump(&self) -> bool {
        self.flags & DUMP == DUMP
    }

    fn reporter(&self) -> Reporter {
        Reporter { port: self.port, echo: self.flags & ECHO != 0 }
    }
}

/// Answers a request of a subsystem: [`CONNECTIONS`] or [`EXPECTATIONS`]. The result is the messages that the
/// socket receives, without an acknowledgment or the end of a dump.
pub fn answer(
    ct: &mut Conntrack,
    subsystem: u8,
    request: &CtRequest<'_>,
    now: SimTime,
) -> Result<Vec<Vec<u8>>, Errno> {
    ct.expire(now);
    match (subsystem, request.kind) {
        (CONNECTIONS, 0) => change::create_or_change(ct, request, now).map(|()| Vec::new()),
        (CONNECTIONS, 1 | 3) => get(ct, request, now),
        (CONNECTIONS, 2) => delete(ct, request, now).map(|()| Vec::new()),
        (CONNECTIONS, 4) => {
            dump_only(request, || vec![encode::processor_statistics(&ct.statistics, request.to())])
        }
        (CONNECTIONS, 5) => Ok(vec![encode::global_statistics(ct, request.to())]),
        (CONNECTIONS, 6) => dump_only(request, || {
            let listed = ct.table.dying().filter(|(_, conn)| conn.is(CtStatus::CONFIRMED));
            listed.map(|(_, conn)| encode::connection(conn, request.to(), 0, 1, now)).collect()
        }),
        (CONNECTIONS, 7) => dump_only(request, || {
            let listed = ct.table.unconfirmed();
            listed.map(|(_, conn)| encode::connection(conn, request.to(), 0, 1, now)).collect()
        }),
        (EXPECTATIONS, 0) => Err(Errno::EOPNOTSUPP),
        (EXPECTATIONS, 1) => get_expectations(ct, request, now),
        (EXPECTATIONS, 2) => delete_expectations(ct, request, now).map(|()| Vec::new()),
        (EXPECTATIONS, 3) => {
            dump_only(request, || vec![encode::expectation_statistics(&ct.statistics, request.to())])
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Requests that have an answer as dumps alone.
fn dump_only(
    request: &CtRequest<'_>,
    messages: impl FnOnce() -> Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>, Errno> {
    Ok(if request.is_dump() { messages() } else { Vec::new() })
}

/// Connection that a request names by one of its tuples, and by its identifier where that is given.
fn named(
    ct: &Conntrack,
    request: &CtRequest<'_>,
    attributes: &Attributes<'_>,
    now: SimTime,
) -> Result<ConnKey, Errno> {
    let mut zone = decode::zone(attributes, cta::ZONE)?;
    let kind = match attributes.has(cta::TUPLE_ORIG) {
        true => cta::TUPLE_ORIG,
        false => cta::TUPLE_REPLY,
    };
    let tuple = decode::tuple(attributes, kind, request.family, Some(&mut zone))?;
    let (key, _) = ct.table.find(zone, &tuple, now).ok_or(Errno::ENOENT)?;
    Ok(key)
}

fn get(ct: &mut Conntrack, request: &CtRequest<'_>, now: SimTime) -> Result<Vec<Vec<u8>>, Errno> {
    const CTRZERO: u8 = 3;
    let attributes = Attributes::parse(request.attributes, cta::MAX)?;
    let (keys, flags, uses): (Vec<ConnKey>, u16, u32) = if request.is_dump() {
        let selection = Selection::parse(&attributes, request.family)?;
        let selected = |conn: &Conn| selection.as_ref().is_none_or(|selection| selection.matches(conn));
        let keys = ct.connections().filter(|(_, conn)| selected(conn)).map(|(key, _)| key).collect();
        (keys, if selection.is_some() { DUMP_FILTERED } else { 0 }, 1)
    } else {
        if !attributes.has(cta::TUPLE_ORIG) && !attributes.has(cta::TUPLE_REPLY) {
            return Err(Errno::EINVAL);
        }
        (vec![named(ct, request, &attributes, now)?], 0, 2)
    };
    let mut messages = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(conn) = ct.table.get_mut(key) else { continue };
        messages.push(encode::connection(conn, request.to(), flags, uses, now));
        if request.kind == CTRZERO
            && let Some(counters) = &mut conn.counters
        {
            *counters = [CtCounters::default(); 2];
        }
    }
    Ok(messages)
}

fn delete(ct: &mut Conntrack, request: &CtRequest<'_>, now: SimTime) -> Result<(), Errno> {
    let attributes = Attributes::parse(request.attributes, cta::MAX)?;
    let by_tuple =
        (attributes.has(cta::TUPLE_ORIG) || attributes.has(cta::TUPLE_REPLY)) && !attributes.has(cta::FILTER);
    if !by_tuple {
        decode::zone(&attributes, cta::ZONE)?;
        let by_family = request.version != 0 || attributes.has(cta::FILTER);
        let family = if by_family { request.family } else { 0 };
        let selection = Selection::parse(&attributes, family)?;
        ct.flush(request.reporter(), now, |conn| {
            selection.as_ref().is_none_or(|selection| selection.matches(conn))
        });
        return Ok(());
    }
    let key = named(ct, request, &attributes, now)?;
    if let Some(id) = attributes.be32(cta::ID)?
        && ct.table.get(key).is_none_or(|conn| conn.id != id)
    {
        return Err(Errno::ENOENT);
    }
    ct.delete(key, request.reporter(), now);
    Ok(())
}

/// Expectation that a request names by its tuple or by that of its master, and by its identifier where that
/// is given.
fn named_expectation(
    ct: &Conntrack,
    request: &CtRequest<'_>,
    attributes: &Attributes<'_>,
    kind: u16,
) -> Result<Expectation, Errno> {
    let zone = decode::zone(attributes, expect::ZONE)?;
    let tuple = decode::tuple(attributes, kind, request.family, None)?;
    let id = attributes.be32(expect::ID)?;
    let found = ct.expectations().find(|expectation| {
        let own = &expectation.tuple;
        own.destination == tuple.destination
            && own.destination_port == tuple.destination_port
            && own.protocol == tuple.protocol
            && own.l3 == tuple.l3
            && expectation.zone == zone
            && (!expectation.has_source || own.source == tuple.source)
            && id.is_none_or(|id| id == expectation.id)
    });
    found.copied().ok_or(Errno::ENOENT)
}

fn get_expectations(
    ct: &mut Conntrack,
    request: &CtRequest<'_>,
    now: SimTime,
) -> Result<Vec<Vec<u8>>, Errno> {
    let attributes = Attributes::parse(request.attributes, expect::MAX)?;
    let encoded = |expectation: &Expectation| encode::expectation(ct, expectation, request.to(), now);
    if request.is_dump() {
        let master = match attributes.has(expect::MASTER) {
            false => None,
            true => {
                let zone = decode::zone(&attributes, expect::ZONE)?;
                let tuple = decode::tuple(&attributes, expect::MASTER, request.family, None)?;
                Some(ct.table.find(zone, &tuple, now).ok_or(Errno::ENOENT)?.0)
            }
        };
        let listed = ct.expectations().filter(|expectation| {
            let family = request.family == 0 || request.family == expectation.tuple.l3.family();
            master.map_or(family, |master| expectation.master == master)
        });
        return Ok(listed.map(encoded).collect());
    }
    let kind = match (attributes.has(expect::TUPLE), attributes.has(expect::MASTER)) {
        (true, _) => expect::TUPLE,
        (false, true) => expect::MASTER,
        (false, false) => return Err(Errno::EINVAL),
    };
    Ok(vec![encoded(&named_expectation(ct, request, &attributes, kind)?)])
}

fn delete_expectations(ct: &mut Conntrack, request: &CtRequest<'_>, now: SimTime) -> Result<(), Errno> {
    let attributes = Attributes::parse(request.attributes, expect::MAX)?;
    if attributes.has(expect::TUPLE) {
        let found = named_expectation(ct, request, &attributes, expect::TUPLE)?;
        ct.remove_expectations_that(now, |expectation| expectation.id == found.id);
    } else if let Some(name) = attributes.text(expect::HELP_NAME)? {
        ct.remove_expectations_that(now, |expectation| expectation.helper.name() == name);
    } else {
        ct.remove_expectations_that(now, |_| true);
    }
    Ok(())
}
