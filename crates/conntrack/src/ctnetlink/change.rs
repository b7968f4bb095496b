//! Creation and change of connections by requests (`ctnetlink_new_conntrack`).

use super::attribute::{cta, help, protoinfo, seqadj};
use super::message::{Attributes, CREATE, EXCL};
use super::{CtRequest, decode};
use crate::conn::{Conn, ConnKey, CtStatus, CtZone, ProtocolState, Template, seconds};
use crate::conntrack::Conntrack;
use crate::event::change;
use crate::helper::Helper;
use crate::nat::Manip;
use crate::sctp::{SctpState, SctpTrack};
use crate::seqadj::SequenceAdjustment;
use crate::tcp::{Side, SideFlags, TcpState, TcpTrack};
use crate::tuple::{Tuple, protocol};
use crate::{L3, TrackVerdict};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// Changes that a request reports, whatever it has changed.
const REPORTED: u16 =
    change::REPLY | change::ASSURED | change::HELPER | change::PROTOINFO | change::SEQADJ | change::MARK;

/// Bits that a request leaves as they are (`IPS_UNCHANGEABLE_MASK`).
const UNCHANGEABLE: CtStatus = CtStatus::NAT_DONE_MASK
    .union(CtStatus::NAT_MASK)
    .union(CtStatus::EXPECTED)
    .union(CtStatus::CONFIRMED)
    .union(CtStatus::DYING)
    .union(CtStatus::SEQ_ADJUST)
    .union(CtStatus::TEMPLATE)
    .union(CtStatus::NAT_CLASH);

pub(super) fn create_or_change(
    ct: &mut Conntrack,
    request: &CtRequest<'_>,
    now: SimTime,
) -> Result<(), Errno> {
    let attributes = Attributes::parse(request.attributes, cta::MAX)?;
    let mut zone = decode::zone(&attributes, cta::ZONE)?;
    let mut tuple = |kind| match attributes.has(kind) {
        true => decode::tuple(&attributes, kind, request.family, Some(&mut zone)).map(Some),
        false => Ok(None),
    };
    let (original, reply) = (tuple(cta::TUPLE_ORIG)?, tuple(cta::TUPLE_REPLY)?);
    let found = original.or(reply).and_then(|tuple| ct.table.find(zone, &tuple, now));
    let Some((key, _)) = found else {
        if request.flags & CREATE == 0 {
            return Err(Errno::ENOENT);
        }
        let (Some(original), Some(reply)) = (original, reply) else { return Err(Errno::EINVAL) };
        if original.protocol != reply.protocol {
            return Err(Errno::EINVAL);
        }
        let key = create(ct, &attributes, zone, [original, reply], request.family, now)?;
        let expected = ct.table.get(key).is_some_and(|conn| conn.is(CtStatus::EXPECTED));
        let begun = if expected { change::RELATED } else { change::NEW };
        let labels = if attributes.has(cta::LABELS) { change::LABEL } else { 0 };
        ct.report_changes(key, REPORTED | begun | labels, request.reporter(), now);
        return Ok(());
    };
    if request.flags & EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    change_existing(ct, &attributes, key, now)?;
    ct.report_changes(key, REPORTED | change::LABEL, request.reporter(), now);
    Ok(())
}

fn create(
    ct: &mut Conntrack,
    attributes: &Attributes<'_>,
    zone: CtZone,
    [original, reply]: [Tuple; 2],
    family: u8,
    now: SimTime,
) -> Result<ConnKey, Errno> {
    ct.make_room(zone, &original, now)?;
    let conn = ct.blank(original, reply, &Template { zone, ..Template::default() });
    let key = ct.table.add(conn, now);
    let result = fill(ct, attributes, key, family, now);
    if let Err(error) = result {
        ct.table.remove(key);
        ct.table.bury();
        return Err(error);
    }
    Ok(key)
}

fn fill(
    ct: &mut Conntrack,
    attributes: &Attributes<'_>,
    key: ConnKey,
    family: u8,
    now: SimTime,
) -> Result<(), Errno> {
    let timeout = attributes.be32(cta::TIMEOUT)?.ok_or(Errno::EINVAL)?;
    refuse_synproxy(attributes)?;
    if let Some(helper) = helper(attributes)? {
        let conn = ct.table.get_mut(key).ok_or(Errno::ENOENT)?;
        if helper.protocol() != conn.original().protocol {
            return Err(Errno::EOPNOTSUPP);
        }
        conn.helper = Some(helper);
        conn.status.insert(CtStatus::HELPER);
    }
    for (kind, manip) in [(cta::NAT_DST, Manip::Destination), (cta::NAT_SRC, Manip::Source)] {
        let l3 = L3::from_family(family).ok_or(Errno::EOPNOTSUPP)?;
        let verdict = match attributes.get(kind) {
            Some(bytes) => ct.setup_nat_of(key, &decode::nat_range(bytes, l3)?, manip, now),
            // The other translation is decided as well: to none.
            None if attributes.has(cta::NAT_SRC) || attributes.has(cta::NAT_DST) => {
                ct.setup_null(key, manip, now)
            }
            None => TrackVerdict::Accept,
        };
        if verdict == TrackVerdict::Drop {
            return Err(Errno::ENOMEM);
        }
    }
    if let Some(bits) = attributes.be32(cta::STATUS)? {
        let conn = ct.table.get_mut(key).ok_or(Errno::ENOENT)?;
        // The connection counts as confirmed here.
        conn.status.insert(CtStatus::CONFIRMED);
        let result = change_status(conn, bits);
        conn.status.remove(CtStatus::CONFIRMED);
        result?;
    }
    let master = match attributes.has(cta::TUPLE_MASTER) {
        true => {
            let zone = ct.table.get(key).ok_or(Errno::ENOENT)?.zone;
            let tuple = decode::tuple(attributes, cta::TUPLE_MASTER, family, None)?;
            let (master, _) = ct.table.find(zone, &tuple, now).ok_or(Errno::ENOENT)?;
            Some((master, *ct.table.get(master).ok_or(Errno::ENOENT)?.original()))
        }
        false => None,
    };
    let start = ct.real_time(now);
    let conn = ct.table.get_mut(key).ok_or(Errno::ENOENT)?;
    change_adjustments(conn, attributes)?;
    if let Some(state) = initial_state(conn.original().protocol) {
        conn.protocol = state;
    }
    change_protocol(conn, attributes)?;
    change_mark(conn, attributes)?;
    change_labels(conn, attributes)?;
    if let Some((master, tuple)) = master {
        conn.status.insert(CtStatus::EXPECTED);
        conn.extra_mut().master = Some(master);
        conn.extra_mut().master_tuple = Some(tuple);
    }
    if let Some(times) = &mut conn.timestamps {
        times.0 = start;
    }
    conn.timeout = seconds(timeout);
    let (zone, tuples) = (conn.zone, conn.tuples);
    if tuples.iter().any(|tuple| ct.table.find(zone, tuple, now).is_some()) {
        return Err(Errno::EEXIST);
    }
    ct.table.confirm(key, false, now);
    ct.statistics.insert += 1;
    Ok(())
}

fn change_existing(
    ct: &mut Conntrack,
    attributes: &Attributes<'_>,
    key: ConnKey,
    now: SimTime,
) -> Result<(), Errno> {
    if [cta::NAT_SRC, cta::NAT_DST, cta::TUPLE_MASTER].iter().any(|kind| attributes.has(*kind)) {
        return Err(Errno::EOPNOTSUPP);
    }
    refuse_synproxy(attributes)?;
    if attributes.has(cta::HELP) {
        let wanted = helper(attributes)?;
        let conn = ct.table.get_mut(key).ok_or(Errno::ENOENT)?;
        match (conn.helper, wanted) {
            (held, wanted) if held == wanted => {}
            _ if conn.master().is_some() => return Err(Errno::EBUSY),
            (Some(_), None) => {
                conn.helper = None;
                ct.remove_expectations(key);
            }
            (Some(_), Some(_)) => return Err(Errno::EBUSY),
            // A helper is for new connections.
            (None, _) => return Err(Errno::EOPNOTSUPP),
        }
    }
    if let Some(timeout) = attributes.be32(cta::TIMEOUT)? {
        let conn = ct.table.get(key).ok_or(Errno::ENOENT)?;
        if conn.is(CtStatus::FIXED_TIMEOUT) {
            return Err(Errno::EPERM);
        }
        ct.table.set_timeout(key, seconds(timeout), now);
    }
    let conn = ct.table.get_mut(key).ok_or(Errno::ENOENT)?;
    if let Some(bits) = attributes.be32(cta::STATUS)? {
        change_status(conn, bits)?;
    }
    change_protocol(conn, attributes)?;
    change_mark(conn, attributes)?;
    change_adjustments(conn, attributes)?;
    change_labels(conn, attributes)
}

fn refuse_synproxy(attributes: &Attributes<'_>) -> Result<(), Errno> {
    if attributes.has(cta::SYNPROXY) { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

/// Helper that a request names; `EOPNOTSUPP` for one that is not there. An empty name is none.
fn helper(attributes: &Attributes<'_>) -> Result<Option<Helper>, Errno> {
    let Some(held) = attributes.nested(cta::HELP, help::MAX)? else { return Ok(None) };
    match held.text(help::NAME)? {
        None => Err(Errno::EINVAL),
        Some("") => Ok(None),
        Some(name) => Helper::by_name(name).map(Some).ok_or(Errno::EOPNOTSUPP),
    }
}

/// Sets status bits (`nf_ct_change_status_common`): some may not change, some may not be taken back.
fn change_status(conn: &mut Conn, bits: u32) -> Result<(), Errno> {
    let wanted = CtStatus::from_bits_truncate(bits);
    let differing = conn.status ^ wanted;
    if differing.intersects(CtStatus::EXPECTED | CtStatus::CONFIRMED | CtStatus::DYING) {
        return Err(Errno::EBUSY);
    }
    let lasting = CtStatus::SEEN_REPLY | CtStatus::ASSURED;
    if (conn.status & lasting).difference(wanted) != CtStatus::empty() {
        return Err(Errno::EBUSY);
    }
    conn.status.insert(wanted.difference(UNCHANGEABLE));
    Ok(())
}

fn change_mark(conn: &mut Conn, attributes: &Attributes<'_>) -> Result<(), Errno> {
    if let Some(mark) = attributes.be32(cta::MARK)? {
        let kept = attributes.be32(cta::MARK_MASK)?.map_or(0, |mask| !mask);
        conn.mark = conn.mark & kept ^ mark;
    }
    Ok(())
}

fn change_labels(conn: &mut Conn, attributes: &Attributes<'_>) -> Result<(), Errno> {
    let Some(labels) = attributes.get(cta::LABELS) else { return Ok(()) };
    if labels.len() % 4 != 0 {
        return Err(Errno::EINVAL);
    }
    let mask = attributes.get(cta::LABELS_MASK);
    if mask.is_some_and(|mask| mask.is_empty() || mask.len() != labels.len()) {
        return Err(Errno::EINVAL);
    }
    // What is beyond the labels is ignored. What the request does not reach is cleared.
    for (n, label) in conn.labels.iter_mut().enumerate() {
        let value = labels.get(n).copied().unwrap_or(0);
        let mask = mask.map_or(0xff, |mask| mask.get(n).copied().unwrap_or(0xff));
        *label = *label & !mask ^ value;
    }
    Ok(())
}

fn change_adjustments(conn: &mut Conn, attributes: &Attributes<'_>) -> Result<(), Errno> {
    for (n, kind) in [cta::SEQ_ADJ_ORIG, cta::SEQ_ADJ_REPLY].into_iter().enumerate() {
        let Some(held) = attributes.nested(kind, seqadj::MAX)? else { continue };
        let word = |kind| held.be32(kind)?.ok_or(Errno::EINVAL);
        let adjustment = SequenceAdjustment {
            position: word(seqadj::CORRECTION_POS)?,
            before: word(seqadj::OFFSET_BEFORE)? as i32,
            after: word(seqadj::OFFSET_AFTER)? as i32,
        };
        conn.extra_mut().adjustments[n] = adjustment;
        conn.status.insert(CtStatus::SEQ_ADJUST);
    }
    Ok(())
}

/// State of a protocol before any packet.
fn initial_state(number: u8) -> Option<ProtocolState> {
    match number {
        protocol::TCP => Some(ProtocolState::Tcp(TcpTrack::default())),
        protocol::SCTP => Some(ProtocolState::Sctp(SctpTrack::default())),
        protocol::UDP => Some(ProtocolState::Udp { stream_after: 0 }),
        _ => None,
    }
}

fn change_protocol(conn: &mut Conn, attributes: &Attributes<'_>) -> Result<(), Errno> {
    let Some(held) = attributes.nested(cta::PROTOINFO, protoinfo::MAX)? else { return Ok(()) };
    match &mut conn.protocol {
        ProtocolState::Tcp(track) => {
            use protoinfo::tcp;
            let Some(own) = held.nested(protoinfo::TCP, tcp::MAX)? else { return Ok(()) };
            if let Some(number) = own.u8(tcp::STATE)? {
                track.state = TcpState::from_number(number).ok_or(Errno::ERANGE)?;
            }
            let scales = [own.u8(tcp::WSCALE_ORIGINAL)?, own.u8(tcp::WSCALE_REPLY)?];
            let flags = [own.fixed(tcp::FLAGS_ORIGINAL)?, own.fixed(tcp::FLAGS_REPLY)?];
            for (side, flags) in track.sides.iter_mut().zip(flags) {
                if let Some([value, mask]) = flags {
                    change_flags(side, value, mask);
                }
            }
            // The scales count where both sides are known to offer them.
            let both = (track.sides[0].flags & track.sides[1].flags).contains(SideFlags::WINDOW_SCALE);
            if let [Some(original), Some(reply)] = scales
                && both
            {
                track.sides[0].scale = original.min(14);
                track.sides[1].scale = reply.min(14);
            }
        }
        ProtocolState::Sctp(track) => {
            use protoinfo::sctp;
            let Some(own) = held.nested(protoinfo::SCTP, sctp::MAX)? else { return Ok(()) };
            let number = own.u8(sctp::STATE)?.ok_or(Errno::EINVAL)?;
            let tags = [sctp::VTAG_ORIGINAL, sctp::VTAG_REPLY].map(|kind| own.be32(kind));
            let [Some(original), Some(reply)] = [tags[0]?, tags[1]?] else { return Err(Errno::EINVAL) };
            track.state = SctpState::from_number(number).ok_or(Errno::ERANGE)?;
            track.tags = [original, reply];
        }
        ProtocolState::Stateless | ProtocolState::Udp { .. } => {}
    }
    Ok(())
}

fn change_flags(side: &mut Side, value: u8, mask: u8) {
    side.flags = SideFlags::from_bits_retain(side.flags.bits() & !mask | value & mask);
}
