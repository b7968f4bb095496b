//! Targets that change packets, or the attributes of their connections, or decide on them.

use super::field::Fields;
use super::nat_targets;
use super::{Extends, Outcome, verdict};
use crate::attributes::NetfilterError;
use crate::environment::{Rejection, RuleRequest};
use crate::expression::{tcp_option, write_covered};
use crate::family::FilterHook;
use crate::log_line::{LogStyle, log_line};
use crate::operation::{Passing, Verdict};
use crate::packet::{Headers, update_checksum};
use belljar_conntrack::{Attached, CtZone, Helper, Template};
use belljar_linux_abi::Errno;

/// Reads a target; `None` if an option of it is not supported.
pub(super) fn read(
    name: &str,
    revision: u32,
    info: &[u8],
    v6: bool,
) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let fields = Fields(info);
    Ok(match name {
        "MASQUERADE" | "SNAT" | "DNAT" | "REDIRECT" | "NETMAP" => {
            Some(Box::new(nat_targets::Nat::read(name, revision, fields, v6)?))
        }
        "MARK" => {
            let (mark, mask) = (fields.u32(0)?, fields.u32(4)?);
            Some(Box::new(Mark { mark, mask }))
        }
        "CONNMARK" => Some(Box::new(ConnectionMark::read(fields, revision)?)),
        "LOG" => {
            let (level, flags) = (fields.u8(0)?, fields.u8(1)?);
            let prefix = fields.text(2, 30)?.to_string();
            let style = LogStyle::of_flags(u32::from(flags));
            // The group of a socket's owner is not known.
            (flags & 8 == 0).then(|| Box::new(Log { level, style, prefix }) as Box<dyn Extends>)
        }
        "REJECT" => Some(Box::new(Reject::read(fields.u32(0)?, v6)?)),
        "TCPMSS" => Some(Box::new(Mss { mss: fields.u16(0)? })),
        "NOTRACK" => Some(Box::new(Track { attached: Attached::Untracked, zone_of_mark: false })),
        "CT" => track(fields, revision)?,
        "TTL" | "HL" => {
            let [mode, ttl] = fields.bytes(0)?;
            Some(Box::new(Ttl { mode, ttl }))
        }
        "DSCP" => Some(Box::new(Class { value: fields.u8(0)? << 2, mask: 0xfc })),
        "TOS" => Some(Box::new(Class { value: fields.u8(0)?, mask: fields.u8(1)? })),
        // No program can listen to a group.
        "NFLOG" | "CHECKSUM" => Some(Box::new(Nothing)),
        _ => None,
    })
}

/// `CHECKSUM`, since packets have their checksums here, and `NFLOG`.
#[derive(Debug)]
struct Nothing;

impl Extends for Nothing {
    fn apply(&self, _: &mut Passing<'_>) -> Outcome {
        Outcome::Continue
    }
}

/// `MARK`.
#[derive(Debug)]
struct Mark {
    mark: u32,
    mask: u32,
}

impl Extends for Mark {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let mark = passing.packet.mark() & !self.mask ^ self.mark;
        passing.packet.set_mark(mark);
        Outcome::Continue
    }
}

/// `CONNMARK`.
#[derive(Debug)]
struct ConnectionMark {
    mark: u32,
    mask: u32,
    packet_mask: u32,
    mode: u8,
    /// Shift of the mark in bits, to the right if true.
    shift: (bool, u8),
}

impl ConnectionMark {
    fn read(fields: Fields<'_>, revision: u32) -> Result<ConnectionMark, NetfilterError> {
        let shift = if revision >= 2 { (fields.u8(13)? != 0, fields.u8(14)?) } else { (false, 0) };
        Ok(ConnectionMark {
            mark: fields.u32(0)?,
            mask: fields.u32(4)?,
            packet_mask: fields.u32(8)?,
            mode: fields.u8(12)?,
            shift,
        })
    }
    fn shifted(&self, mark: u32) -> u32 {
        let bits = u32::from(self.shift.1);
        let shifted = if self.shift.0 { mark.checked_shr(bits) } else { mark.checked_shl(bits) };
        shifted.unwrap_or(0)
    }
}

impl Extends for ConnectionMark {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let conntrack = &mut passing.tracking.conntrack;
        let Some(before) = conntrack.conn(passing.attached).map(|conn| conn.mark()) else {
            return Outcome::Continue;
        };
        let of_packet = passing.packet.mark();
        match self.mode {
            0 => {
                let mark = self.shifted(before & !self.mask ^ self.mark);
                conntrack.set_mark(passing.attached, mark);
            }
            1 => {
                let saved = self.shifted(of_packet & self.packet_mask);
                conntrack.set_mark(passing.attached, before & !self.mask ^ saved);
            }
            _ => {
                let restored = self.shifted(before & self.mask);
                passing.packet.set_mark(of_packet & !self.packet_mask ^ restored);
            }
        }
        Outcome::Continue
    }
    fn tracks(&self) -> bool {
        true
    }
}

/// `LOG`.
#[derive(Debug)]
struct Log {
    level: u8,
    style: LogStyle,
    prefix: String,
}

impl Extends for Log {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let line = log_line(passing, &self.prefix, self.style);
        passing.requests.push(RuleRequest::Log(self.level, line));
        Outcome::Continue
    }
}

/// `REJECT`.
#[derive(Debug)]
struct Reject(Rejection);

impl Reject {
    /// By `enum ipt_reject_with` or `enum ip6t_reject_with`.
    fn read(with: u32, v6: bool) -> Result<Reject, NetfilterError> {
        let code = match (v6, with) {
            (false, 7) | (true, 6) => return Ok(Reject(Rejection::Reset)),
            (false, 0..=3) => with,
            (false, 5) => 9,
            (false, 6) => 10,
            (false, 8) => 13,
            (true, 0..=4) => with,
            (true, 7) => 5,
            (true, 8) => 6,
            _ => return Err(Errno::EINVAL.into()),
        };
        Ok(Reject(Rejection::Unreachable(code as u8)))
    }
}

impl Extends for Reject {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        passing.requests.push(RuleRequest::Reject(self.0));
        verdict(Verdict::Drop)
    }
    fn hooks(&self) -> &'static [FilterHook] {
        &[FilterHook::Input, FilterHook::Forward, FilterHook::Output]
    }
}

/// `TCPMSS`.
#[derive(Debug)]
struct Mss {
    /// The MSS, or [`CLAMP`] for that of the path.
    mss: u16,
}

/// `XT_TCPMSS_CLAMP_PMTU`.
const CLAMP: u16 = 0xffff;

impl Extends for Mss {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let headers = passing.headers;
        let Some((at, 4)) = tcp_option(passing.bytes(), &headers, 2) else { return Outcome::Continue };
        let wanted = match self.mss {
            CLAMP => {
                let interfaces = passing.output.into_iter().chain(passing.input);
                let mtu = interfaces.map(|number| passing.environment.mtu(number)).min().unwrap_or(0);
                match mtu.checked_sub(if headers.v6 { 60 } else { 40 }) {
                    Some(mss) => mss.min(usize::from(u16::MAX)) as u16,
                    None => return verdict(Verdict::Drop),
                }
            }
            mss => mss,
        };
        let bytes = passing.packet.bytes();
        let before = u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]);
        // The MSS never grows: that could break the other end.
        if before > wanted {
            let value = wanted.to_be_bytes();
            write_covered(passing.packet.bytes_mut(), at + 2, &value, headers.transport + 16);
        }
        Outcome::Continue
    }
    fn hooks(&self) -> &'static [FilterHook] {
        match self.mss {
            CLAMP => &[FilterHook::Forward, FilterHook::Output, FilterHook::Postrouting],
            _ => &[],
        }
    }
}

/// `CT` and `NOTRACK`.
#[derive(Debug)]
struct Track {
    attached: Attached,
    /// True if the zone is the packet's mark.
    zone_of_mark: bool,
}

/// Reads `struct xt_ct_target_info`.
fn track(fields: Fields<'_>, revision: u32) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let flags = fields.u16(0)?;
    if flags & 1 != 0 {
        return Ok(Some(Box::new(Track { attached: Attached::Untracked, zone_of_mark: false })));
    }
    let directions = match flags & (4 | 8) {
        4 => CtZone::ORIGINAL,
        8 => CtZone::REPLY,
        _ => CtZone::DEFAULT.directions,
    };
    let helper = match fields.text(12, 16)? {
        "" => None,
        name => Some(Helper::by_name(name).ok_or(NetfilterError::from(Errno::ENOENT))?),
    };
    let has_timeouts = revision >= 1 && !fields.text(28, 32)?.is_empty();
    if has_timeouts || fields.u32(8)? != 0 {
        return Ok(None);
    }
    let events = fields.u32(4)?;
    let zone = CtZone { id: fields.u16(2)?, directions };
    let template = Template { zone, helper, event_mask: (events != 0).then_some(events as u16) };
    Ok(Some(Box::new(Track { attached: Attached::Template(template), zone_of_mark: flags & 16 != 0 })))
}

impl Extends for Track {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        if passing.attached == Attached::None {
            passing.attached = match self.attached {
                Attached::Template(template) if self.zone_of_mark => {
                    let zone = CtZone { id: passing.packet.mark() as u16, ..template.zone };
                    Attached::Template(Template { zone, ..template })
                }
                attached => attached,
            };
        }
        Outcome::Continue
    }
    fn hooks(&self) -> &'static [FilterHook] {
        &[FilterHook::Prerouting, FilterHook::Output]
    }
    fn tracks(&self) -> bool {
        self.attached != Attached::Untracked
    }
}

/// `TTL` and `HL`.
#[derive(Debug)]
struct Ttl {
    mode: u8,
    ttl: u8,
}

impl Extends for Ttl {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let v6 = passing.headers.v6;
        let at = if v6 { 7 } else { 8 };
        let before = passing.bytes()[at];
        let ttl = match self.mode {
            0 => self.ttl,
            1 => before.saturating_add(self.ttl),
            _ => before.saturating_sub(self.ttl),
        };
        set_byte(passing, at, ttl);
        Outcome::Continue
    }
}

/// `DSCP` and `TOS`.
#[derive(Debug)]
struct Class {
    value: u8,
    mask: u8,
}

impl Extends for Class {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let bytes = passing.bytes();
        if passing.headers.v6 {
            let (first, second) = (bytes[0], bytes[1]);
            let class = (first << 4 | second >> 4) & !self.mask ^ self.value;
            set_byte(passing, 0, first & 0xf0 | class >> 4);
            set_byte(passing, 1, second & 0xf | class << 4);
        } else {
            let class = bytes[1] & !self.mask ^ self.value;
            set_byte(passing, 1, class);
        }
        Outcome::Continue
    }
}

/// Changes a byte of the IP header, with the checksum of IPv4.
fn set_byte(passing: &mut Passing<'_>, at: usize, value: u8) {
    let v6 = passing.headers.v6;
    let checksum = passing.packet.checksum();
    let packet = passing.packet.bytes_mut();
    if packet[at] != value {
        let start = at & !1;
        let before = [packet[start], packet[start + 1]];
        packet[at] = value;
        let after = [packet[start], packet[start + 1]];
        if !v6 {
            update_checksum(packet, 10, &before, &after);
        }
    }
    // The transport's checksum does not cover the byte.
    passing.packet.restore_checksum(checksum);
    passing.headers = Headers::of(passing.packet.bytes());
}
