//! Datagrams at a constant rate, all the time or in bursts, with the header that iperf 2 writes, so
//! that `iperf -s -u` understands them: number, and when it was sent.

use crate::spec::Datagrams;
use crate::{Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network};
use belljar_base::{SimDuration, SimTime};

/// Repetitions of a stream's end until the receiver answers, and the time between them: iperf's.
const LAST_TRIES: u32 = 10;
const LAST_INTERVAL: SimDuration = SimDuration::from_millis(250);

/// The beginning of a datagram of iperf 2: `struct UDP_datagram`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Counts from 0.
    pub number: u64,
    /// Send time, in nanoseconds since 1970.
    pub sent_ns: u64,
    /// It tells the end of the stream; the number is that of a datagram that never was.
    pub is_last: bool,
}

impl DatagramHeader {
    /// Reads it from a datagram's payload. `None` if that is too short.
    pub fn parse(payload: &[u8]) -> Option<DatagramHeader> {
        let word = |at: usize| Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?));
        let (low, secs, micros) = (word(0)?, word(4)?, word(8)?);
        let is_last = low & 0x8000_0000 != 0;
        let number = if is_last { (low as i32).unsigned_abs() } else { low };
        let sent_ns = u64::from(secs) * 1_000_000_000 + u64::from(micros) * 1_000;
        Some(DatagramHeader { number: number.into(), sent_ns, is_last })
    }
    fn write(&self, out: &mut [u8]) {
        let number = (self.number & 0x7fff_ffff) as i32;
        let low = if self.is_last { -number } else { number };
        out[0..4].copy_from_slice(&low.to_be_bytes());
        out[4..8].copy_from_slice(&((self.sent_ns / 1_000_000_000) as u32).to_be_bytes());
        out[8..12].copy_from_slice(&((self.sent_ns % 1_000_000_000 / 1_000) as u32).to_be_bytes());
    }
}

pub struct Sender {
    spec: Datagrams,
    socket: Option<ModelSocket>,
    flow: Option<FlowRecord>,
    payload: Vec<u8>,
    /// The present burst: its start, the datagrams of it that are sent, and its end.
    burst: (SimTime, u64, SimTime),
    end: SimTime,
    last_tries: u32,
}

impl Sender {
    pub fn new(spec: Datagrams) -> Sender {
        // Zeroes: iperf looks for flags behind the header.
        let payload = vec![0; spec.datagram_size as usize];
        let burst = (SimTime::ZERO, 0, SimTime::ZERO);
        Sender { spec, socket: None, flow: None, payload, burst, end: SimTime::MAX, last_tries: LAST_TRIES }
    }

    fn begin_burst(&mut self, at: SimTime, net: &mut dyn Network) {
        let end = match &self.spec.bursts {
            Some((on, _)) => at.saturating_add(on.next_time(net.random())),
            None => SimTime::MAX,
        };
        self.burst = (at, 0, end.min(self.end));
    }

    /// Time at which datagram `n` of the present burst is due.
    fn due(&self, n: u64) -> SimTime {
        let picos = u128::from(n) * u128::from(self.spec.datagram_size) * 8 * 1_000_000_000_000
            / u128::from(self.spec.rate);
        self.burst.0.saturating_add(SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX)))
    }

    fn send(&mut self, is_last: bool, net: &mut dyn Network) {
        let (Some(socket), Some(flow)) = (self.socket, &mut self.flow) else { return };
        DatagramHeader { number: flow.datagrams, sent_ns: net.wall_clock_ns(), is_last }
            .write(&mut self.payload);
        // What the host has no room for is lost, as on the way. So is what nobody listens for.
        let _ = net.send_to(socket, flow.peer, &self.payload);
        if !is_last {
            flow.datagrams += 1;
            flow.bytes_out += self.payload.len() as u64;
        }
    }

    fn finish(&mut self, net: &mut dyn Network) {
        if let Some(socket) = self.socket.take() {
            net.close(socket);
        }
        if let Some(mut flow) = self.flow.take() {
            // What has been told after the end is no part of it.
            flow.outcome = FlowOutcome::Done;
            flow.ended = self.end;
            net.record(flow);
        }
    }
}

impl Model for Sender {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.socket = Some(net.bind_udp(0)?);
        self.flow = Some(FlowRecord::new(self.spec.to.socket_address(), net));
        let now = net.now();
        self.end = self.spec.duration.map_or(SimTime::MAX, |duration| now.saturating_add(duration));
        self.begin_burst(now, net);
        self.wake(0, net);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        let mut answer = Vec::new();
        while let Ok(Some(_)) = net.receive_from(socket, &mut answer) {
            if self.last_tries < LAST_TRIES {
                return self.finish(net);
            }
        }
    }
    fn wake(&mut self, _token: u64, net: &mut dyn Network) {
        let now = net.now();
        if self.flow.is_none() {
            return;
        }
        if now >= self.end {
            if self.last_tries == 0 {
                return self.finish(net);
            }
            self.last_tries -= 1;
            self.send(true, net);
            return net.wake_at(now + LAST_INTERVAL, 0);
        }
        if now >= self.burst.2 {
            let Some((_, off)) = &self.spec.bursts else { return };
            let next = self.burst.2.saturating_add(off.next_time(net.random()));
            self.begin_burst(next, net);
            return net.wake_at(next.min(self.end), 0);
        }
        if now >= self.due(self.burst.1) {
            self.send(false, net);
            self.burst.1 += 1;
        }
        net.wake_at(self.due(self.burst.1).min(self.burst.2), 0);
    }
    fn is_finished(&self) -> bool {
        self.flow.is_none()
    }
    fn stop(&mut self, net: &mut dyn Network) {
        if let Some(flow) = self.flow.take() {
            flow.end(FlowOutcome::Cut, net);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back() {
        for is_last in [false, true] {
            let header = DatagramHeader { number: 70_000, sent_ns: 946_684_805_000_123_000, is_last };
            let mut bytes = [0; 16];
            header.write(&mut bytes);
            assert_eq!(DatagramHeader::parse(&bytes), Some(header));
        }
        assert_eq!(DatagramHeader::parse(&[0; 11]), None);
    }
}
