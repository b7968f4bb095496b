//! FTP (RFC 959, RFC 2428): data connections, which the control connection announces (`nf_conntrack_ftp.c`,
//! `nf_nat_ftp.c`).
//!
//! The client names its address and port in `PORT` and `EPRT`, the server in the replies 227 and 229. A
//! command counts at the beginning of a line alone, so the sequence numbers after recent ends of lines are
//! kept. If the control connection is translated, the announced address is replaced by the one that the other
//! end can reach.

use super::{Helper, payload};
use crate::conn::{ConnKey, CtInfo, CtStatus};
use crate::conntrack::{Conntrack, TrackVerdict};
use crate::event::change;
use crate::expect::Expectation;
use crate::parse::Datagram;
use crate::tuple::{InetAddress, L3, Tuple, TupleDirection};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// State of a control connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FtpState {
    /// Sequence numbers after the two latest ends of lines, by direction.
    line_ends: [[Option<u32>; 2]; 2],
}

impl FtpState {
    fn begins_line(&self, direction: TupleDirection, seq: u32) -> bool {
        self.line_ends[direction as usize].contains(&Some(seq))
    }

    fn end_line(&mut self, direction: TupleDirection, seq: u32) {
        let ends = &mut self.line_ends[direction as usize];
        if ends.contains(&Some(seq)) {
            return;
        }
        let before = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        match *ends {
            [None, _] => ends[0] = Some(seq),
            [_, None] => ends[1] = Some(seq),
            [Some(one), Some(other)] => {
                let oldest = usize::from(!before(one, other));
                if ends[oldest].is_some_and(|end| before(end, seq)) {
                    ends[oldest] = Some(seq);
                }
            }
        }
    }
}

/// Notation of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `h1,h2,h3,h4,p1,p2`.
    Numbers,
    /// `|1|132.235.1.2|6275|`.
    Extended,
    /// `|||6446|`.
    PortOnly,
}

/// Announcement of a data connection in the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Announcement {
    notation: Notation,
    /// Range of the text that names address and port.
    start: usize,
    len: usize,
    /// Address, if it is named.
    address: Option<IpAddr>,
    port: u16,
}

/// Result of looking for an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// A command without the end of its parameters, or with malformed ones.
    Partial,
    Complete(Announcement),
}

impl Conntrack {
    /// Looks for an announcement in a packet of a control connection, and expects the data connection.
    pub(super) fn help_ftp(
        &mut self,
        packet: &mut Vec<u8>,
        datagram: &Datagram,
        key: ConnKey,
        info: CtInfo,
        now: SimTime,
    ) -> TrackVerdict {
        if !matches!(info, CtInfo::Established | CtInfo::EstablishedReply) {
            return TrackVerdict::Accept;
        }
        let Some((seq, range)) = payload(packet, datagram) else { return TrackVerdict::Accept };
        packet.truncate(range.end);
        let data = &packet[range.clone()];
        if data.is_empty() {
            return TrackVerdict::Accept;
        }
        let direction = info.direction();
        let Some(conn) = self.table.get_mut(key) else { return TrackVerdict::Accept };
        let line_end = data.ends_with(b"\n").then(|| seq.wrapping_add(data.len() as u32));
        let (l3, status) = (conn.original().l3, conn.status);
        let (own, away) = (*conn.tuple(direction), *conn.tuple(direction.opposite()));
        let zone = conn.zone;
        let state = &mut conn.extra_mut().ftp;
        let mut verdict = TrackVerdict::Accept;
        if state.begins_line(direction, seq) {
            match find(data, direction, l3) {
                Found::Nothing => {}
                Found::Partial => return TrackVerdict::Drop,
                Found::Complete(found) => {
                    // An announcement of a third host's address would open that host.
                    let address = found.address.map_or(own.source, InetAddress::from);
                    if address == own.source {
                        let tuple = Tuple {
                            source: away.source,
                            destination: away.destination,
                            source_port: 0,
                            destination_port: found.port,
                            ..own
                        };
                        let expectation = Expectation {
                            tuple,
                            has_source: true,
                            has_source_port: false,
                            zone,
                            master: key,
                            helper: Helper::Ftp,
                            permanent: false,
                            direction: direction.opposite(),
                            saved_port: None,
                            id: 0,
                            timeout: 0,
                        };
                        let done = match status.intersects(CtStatus::NAT_MASK) {
                            true => self.announce(packet, &found, (seq, range.start), info, expectation, now),
                            false => self.expect(expectation, now).is_ok(),
                        };
                        if !done {
                            verdict = TrackVerdict::Drop;
                        }
                    }
                }
            }
        }
        if let Some(end) = line_end
            && let Some(conn) = self.table.get_mut(key)
        {
            conn.extra_mut().ftp.end_line(direction, end);
        }
        verdict
    }

    /// Expects a data connection of a translated control connection, and replaces the announced address and
    /// port (`nf_nat_ftp`). False if no port is free.
    fn announce(
        &mut self,
        packet: &mut Vec<u8>,
        found: &Announcement,
        (seq, data_at): (u32, usize),
        info: CtInfo,
        mut expectation: Expectation,
        now: SimTime,
    ) -> bool {
        expectation.saved_port = Some(found.port);
        let Some(port) = self.expect_on_free_port(&mut expectation, now) else { return false };
        let address = expectation.tuple.destination.to_ip(expectation.tuple.l3);
        let text = match (found.notation, address) {
            (Notation::Numbers, IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{a},{b},{c},{d},{},{}", port >> 8, port & 0xff)
            }
            (Notation::Extended, IpAddr::V4(address)) => format!("|1|{address}|{port}|"),
            (Notation::Extended, IpAddr::V6(address)) => {
                let groups = address.segments().map(|group| format!("{group:04x}"));
                format!("|2|{}|{port}|", groups.join(":"))
            }
            (Notation::PortOnly, _) => format!("|||{port}|"),
            (Notation::Numbers, IpAddr::V6(_)) => return false,
        };
        let at = data_at + found.start;
        let growth = text.len() as i32 - found.len as i32;
        if packet.len() + text.len() > usize::from(u16::MAX) {
            return false;
        }
        packet.splice(at..at + found.len, text.bytes());
        super::fix_lengths(packet);
        if growth != 0
            && let Some(conn) = self.table.get_mut(expectation.master)
        {
            conn.status.insert(CtStatus::SEQ_ADJUST);
            conn.extra_mut().adjustments[info.direction() as usize].add(seq, growth);
            self.note(expectation.master, change::SEQADJ);
        }
        true
    }

    /// Adds an expectation on its port, or on a drawn one above if that is taken (`nf_nat_exp_find_port`).
    fn expect_on_free_port(&mut self, expectation: &mut Expectation, now: SimTime) -> Option<u16> {
        const MAX_ATTEMPTS: u16 = 128;
        let first = expectation.tuple.destination_port;
        let range = u16::MAX - first;
        for _ in 0..=range.min(MAX_ATTEMPTS) {
            match self.expect(*expectation, now) {
                Ok(()) => return Some(expectation.tuple.destination_port),
                Err(Errno::EBUSY) => {}
                Err(_) => return None,
            }
            expectation.tuple.destination_port = first + self.stream.below(u64::from(range)) as u16;
        }
        None
    }
}

/// Looks for an announcement at the beginning of a line.
fn find(data: &[u8], direction: TupleDirection, l3: L3) -> Found {
    let commands: [(&[u8], Notation); 2] = match direction {
        TupleDirection::Original => [(b"PORT", Notation::Numbers), (b"EPRT", Notation::Extended)],
        TupleDirection::Reply => [(b"227 ", Notation::Numbers), (b"229 ", Notation::PortOnly)],
    };
    for (word, notation) in commands {
        let len = word.len().min(data.len());
        if !data[..len].eq_ignore_ascii_case(&word[..len]) {
            continue;
        }
        if data.len() <= word.len() {
            return Found::Partial;
        }
        let rest = &data[word.len()..];
        let begin = match (direction, notation) {
            // "PORT h1,...": after the blank. 229: after the parenthesis.
            (TupleDirection::Original, _) => rest.iter().position(|byte| *byte == b' ').map(|at| at + 1),
            (_, Notation::PortOnly) => rest.iter().position(|byte| *byte == b'(').map(|at| at + 1),
            // 227: where the first number is, whatever precedes it (RFC 1123, section 4.1.2.6).
            _ => rest.iter().position(u8::is_ascii_digit),
        };
        let Some(begin) = begin.filter(|at| *at < rest.len()) else { return Found::Partial };
        let start = word.len() + begin;
        let text = &data[start..];
        let read = match notation {
            Notation::Numbers => {
                let end = if direction == TupleDirection::Original { Some(b'\r') } else { None };
                read_numbers(text, end).filter(|_| l3 == L3::V4)
            }
            Notation::Extended => read_extended(text, l3),
            Notation::PortOnly => read_port_only(text),
        };
        return match read {
            Some((len, address, port)) => {
                Found::Complete(Announcement { notation, start, len, address, port })
            }
            None => Found::Partial,
        };
    }
    Found::Nothing
}

/// Decimal numbers with a separator between them, up to a byte that is neither: that must be `end`, if it is
/// given. The result has the length of the text.
fn numbers<const N: usize>(text: &[u8], separator: u8, end: Option<u8>) -> Option<(usize, [u32; N])> {
    let mut values = [0u32; N];
    let mut n = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                let value = values.get_mut(n)?;
                *value = value.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?;
            }
            _ if *byte == separator => n += 1,
            _ => {
                let complete = n == N - 1 && end.is_none_or(|end| *byte == end);
                return complete.then_some((at, values));
            }
        }
    }
    None
}

fn read_numbers(text: &[u8], end: Option<u8>) -> Option<(usize, Option<IpAddr>, u16)> {
    let (len, values) = numbers::<6>(text, b',', end)?;
    let [a, b, c, d, high, low] = values.map(u8::try_from);
    let address = Ipv4Addr::new(a.ok()?, b.ok()?, c.ok()?, d.ok()?);
    Some((len, Some(address.into()), u16::from_be_bytes([high.ok()?, low.ok()?])))
}

/// Delimiter of RFC 2428: "one of the ASCII characters in range 33-126 inclusive", here not a digit.
fn delimiter(text: &[u8]) -> Option<u8> {
    text.first().copied().filter(|byte| byte.is_ascii_graphic() && !byte.is_ascii_digit())
}

/// Port up to a delimiter at offset `start`, and the length of the text with the delimiter.
fn read_port(text: &[u8], start: usize, delimiter: u8) -> Option<(usize, u16)> {
    let digits = text.get(start..)?.iter().position(|byte| *byte == delimiter)?;
    let number = std::str::from_utf8(&text[start..start + digits]).ok()?;
    let port: u16 = number.parse().ok().filter(|port| *port != 0 && !number.starts_with('+'))?;
    Some((start + digits + 1, port))
}

fn read_extended(text: &[u8], l3: L3) -> Option<(usize, Option<IpAddr>, u16)> {
    let delimiter = delimiter(text)?;
    let family = if l3 == L3::V4 { b'1' } else { b'2' };
    if text.get(1..3)? != [family, delimiter] {
        return None;
    }
    let len = text[3..].iter().position(|byte| *byte == delimiter)?;
    let name = std::str::from_utf8(&text[3..3 + len]).ok()?;
    let address: IpAddr = match l3 {
        L3::V4 => name.parse::<Ipv4Addr>().ok()?.into(),
        L3::V6 => name.parse::<Ipv6Addr>().ok()?.into(),
    };
    let (len, port) = read_port(text, 3 + len + 1, delimiter)?;
    Some((len, Some(address), port))
}

fn read_port_only(text: &[u8]) -> Option<(usize, Option<IpAddr>, u16)> {
    let delimiter = delimiter(text)?;
    if text.get(1..3)? != [delimiter, delimiter] {
        return None;
    }
    let (len, port) = read_port(text, 3, delimiter)?;
    Some((len, None, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use TupleDirection::{Original, Reply};

    fn complete(line: &str, direction: TupleDirection, l3: L3) -> Option<(String, Option<IpAddr>, u16)> {
        match find(line.as_bytes(), direction, l3) {
            Found::Complete(found) => {
                let text = line[found.start..found.start + found.len].to_string();
                Some((text, found.address, found.port))
            }
            _ => None,
        }
    }

    #[test]
    fn announcements_are_read_in_all_notations() {
        let v4: Option<IpAddr> = Some([10, 0, 1, 1].into());
        let found = complete("port 10,0,1,1,19,137\r\n", Original, L3::V4);
        assert_eq!(found, Some(("10,0,1,1,19,137".into(), v4, 5001)));
        let found = complete("227 Entering Passive Mode (10,0,1,1,19,137).\r\n", Reply, L3::V4);
        assert_eq!(found, Some(("10,0,1,1,19,137".into(), v4, 5001)));
        let found = complete("EPRT |1|10.0.1.1|5001|\r\n", Original, L3::V4);
        assert_eq!(found, Some(("|1|10.0.1.1|5001|".into(), v4, 5001)));
        let found = complete("EPRT |2|2001:db8::1|5001|\r\n", Original, L3::V6);
        assert_eq!(found.unwrap().1, Some("2001:db8::1".parse().unwrap()));
        let found = complete("229 Entering Extended Passive Mode (|||6446|)\r\n", Reply, L3::V4);
        assert_eq!(found, Some(("|||6446|".into(), None, 6446)));
    }

    #[test]
    fn incomplete_announcements_are_partial_and_other_lines_nothing() {
        for line in ["PO", "PORT", "PORT 10,0,1,1,19,137", "PORT 10,0,1\r\n", "PORT 10,0,1,1,19,400\r\n"] {
            assert_eq!(find(line.as_bytes(), Original, L3::V4), Found::Partial, "{line}");
        }
        let wrong = ["EPRT |2|10.0.1.1|5001|\r\n", "EPRT |1|10.0.1.1|0|\r\n", "EPRT |1|10.0.1.1|70000|\r\n"];
        for line in wrong {
            assert_eq!(find(line.as_bytes(), Original, L3::V4), Found::Partial, "{line}");
        }
        assert_eq!(find(b"229 Extended (||6446|)\r\n", Reply, L3::V4), Found::Partial);
        for line in ["USER anonymous\r\n", "227 no", "x"] {
            assert_eq!(find(line.as_bytes(), Original, L3::V4), Found::Nothing, "{line}");
        }
        assert_eq!(find(b"PORT 10,0,1,1,19,137\r\n", Original, L3::V6), Found::Partial);
    }

    #[test]
    fn the_two_latest_ends_of_lines_are_kept() {
        let mut state = FtpState::default();
        for end in [100, 200, 200, 300, 50] {
            state.end_line(Original, end);
        }
        assert!(state.begins_line(Original, 200) && state.begins_line(Original, 300));
        assert!(!state.begins_line(Original, 100) && !state.begins_line(Original, 50));
        assert!(!state.begins_line(Reply, 200));
    }
}
