//! Serialisation of the records of an exchange between cells.

use crate::message::Message;
use belljar_base::{EventClass, EventKey, HostId, SimTime};
use belljar_engine::{CellStatus, Outgoing};
use belljar_net::{ChecksumState, Packet};

/// Length in bytes of the prefix of a record, a 32-bit length. A record of length 0 is followed by the
/// status and ends the exchange. All numbers are little-endian.
const LENGTH: usize = 4;
/// Length of a message's key: receiver, time, class, source, sequence number, port.
const KEY: usize = 4 + 8 + 1 + 4 + 8 + 4;
/// Port value of messages over the graph.
const GRAPH: u32 = u32::MAX;
/// Flags of a packet, stored in the byte of the class: checksum state, and undelivered.
const INTACT: u8 = 2;
const OPEN: u8 = 4;
const UNDELIVERED: u8 = 8;
/// Length of a status: first, lbts, unfinished, last finish, stop.
const STANDING: usize = 4 * 8 + 1;

/// Appends a message.
pub fn write_message(out: &mut Vec<u8>, message: &Outgoing<Message>) {
    let bytes = message.message.packet.open_bytes();
    out.extend(((KEY + bytes.len()) as u32).to_le_bytes());
    out.extend(message.to.0.to_le_bytes());
    out.extend(message.key.time.as_picos().to_le_bytes());
    let checksum = match message.message.packet.checksum() {
        ChecksumState::Untested => 0,
        ChecksumState::Intact => INTACT,
        ChecksumState::Open => OPEN,
    };
    let undelivered = if message.message.packet.is_undelivered() { UNDELIVERED } else { 0 };
    out.push(u8::from(message.key.class == EventClass::Timer) | checksum | undelivered);
    out.extend(message.key.source.0.to_le_bytes());
    out.extend(message.key.sequence.to_le_bytes());
    out.extend(message.message.port.map_or(GRAPH, |port| port as u32).to_le_bytes());
    out.extend(bytes);
}

/// Appends a status, which ends the exchange.
pub fn write_status(out: &mut Vec<u8>, status: &CellStatus) {
    out.extend(0_u32.to_le_bytes());
    out.extend(status.first.as_picos().to_le_bytes());
    out.extend(status.lbts.as_picos().to_le_bytes());
    out.extend(status.unfinished.to_le_bytes());
    out.extend(status.last_finish.as_picos().to_le_bytes());
    out.push(u8::from(status.stop));
}

/// Parses complete records from the front of `input` and removes them, up to a status, which is returned.
pub fn read_exchange(input: &mut Vec<u8>, received: &mut Vec<Outgoing<Message>>) -> Option<CellStatus> {
    let mut rest = &input[..];
    let mut status = None;
    while let Some((length, after)) = rest.split_first_chunk::<LENGTH>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            let Some((record, after)) = after.split_at_checked(STANDING) else { break };
            status = Some(read_status(record));
            rest = after;
            break;
        }
        let Some((record, after)) = after.split_at_checked(length) else { break };
        received.push(read_message(record));
        rest = after;
    }
    let used = input.len() - rest.len();
    input.drain(..used);
    status
}

fn read_message(record: &[u8]) -> Outgoing<Message> {
    let (key, bytes) = record.split_at(KEY);
    let checksum = match key[12] & (INTACT | OPEN) {
        0 => ChecksumState::Untested,
        INTACT => ChecksumState::Intact,
        _ => ChecksumState::Open,
    };
    let key = EventKey {
        time: SimTime::from_picos(u64_at(key, 4)),
        class: if key[12] & 1 == 0 { EventClass::Arrival } else { EventClass::Timer },
        source: HostId(u32_at(key, 13)),
        sequence: u64_at(key, 17),
    };
    let port = Some(u32_at(record, 25)).filter(|port| *port != GRAPH).map(|port| port as usize);
    let packet = Packet::new(bytes.to_vec()).with_checksum(checksum);
    let packet = if record[12] & UNDELIVERED != 0 { packet.undelivered() } else { packet };
    Outgoing { to: HostId(u32_at(record, 0)), key, message: Message { port, packet } }
}

fn read_status(record: &[u8]) -> CellStatus {
    CellStatus {
        first: SimTime::from_picos(u64_at(record, 0)),
        lbts: SimTime::from_picos(u64_at(record, 8)),
        unfinished: u64_at(record, 16),
        last_finish: SimTime::from_picos(u64_at(record, 24)),
        stop: record[32] != 0,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a message whose fields all depend on its sequence number.
    pub fn message(sequence: u64, len: usize) -> Outgoing<Message> {
        let key = EventKey {
            time: SimTime::from_picos(u64::MAX - sequence),
            class: EventClass::Arrival,
            source: HostId(7),
            sequence,
        };
        let port = (sequence > 0).then_some(sequence as usize);
        let known = [ChecksumState::Untested, ChecksumState::Intact, ChecksumState::Open];
        let packet = Packet::new(vec![sequence as u8; len]).with_checksum(known[sequence as usize % 3]);
        let packet = if sequence == 2 { packet.undelivered() } else { packet };
        let message = Message { port, packet };
        Outgoing { to: HostId(3), key, message }
    }

    /// Returns a status with these times.
    pub fn status(first: u64) -> CellStatus {
        let at = SimTime::from_picos(first);
        CellStatus { first: at, lbts: at, unfinished: first, last_finish: at, stop: first == 2 }
    }

    #[test]
    fn records_are_read_as_they_were_written_wherever_the_pieces_end() {
        let mut stream = Vec::new();
        for sequence in 0..3 {
            write_message(&mut stream, &message(sequence, 40 * sequence as usize));
        }
        write_status(&mut stream, &status(2));
        let end = stream.len();
        write_message(&mut stream, &message(9, 1));
        for cut in 0..end {
            let (mut input, mut received) = (stream[..cut].to_vec(), Vec::new());
            assert_eq!(read_exchange(&mut input, &mut received), None, "{cut}");
            input.extend(&stream[cut..]);
            assert_eq!(read_exchange(&mut input, &mut received), Some(status(2)));
            let parts = |m: &Outgoing<Message>| (m.to, m.key, m.message.port, m.message.packet.clone());
            let sent = (0..3).map(|n| parts(&message(n, 40 * n as usize)));
            assert_eq!(received.iter().map(parts).collect::<Vec<_>>(), sent.collect::<Vec<_>>());
            assert_eq!(read_exchange(&mut input, &mut received), None);
            assert_eq!(received.last().unwrap().key.sequence, 9);
        }
    }
}
