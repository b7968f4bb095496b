//! Datagrams at a constant rate, continuously or in bursts, with the header of iperf 2 (number and send
//! time), so that `iperf -s -u` understands them.

use crate::spec::Datagrams;
use crate::{Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network};
use belljar_base::{SimDuration, SimTime};

/// Repetitions of the last datagram until the receiver answers, and the interval between them, as in iperf.
const LAST_TRIES: u32 = 10;
const LAST_INTERVAL: SimDuration = SimDuration::from_millis(250);

/// Header of an iperf 2 datagram: `struct UDP_datagram`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Datagram number, from 0.
    pub number: u64,
    /// Send time, in nanoseconds since 1970.
    pub sent_ns: u64,
    /// True for the last datagram, which ends the stream and carries no data.
    pub is_last: bool,
}

impl DatagramHeader {
    /// Parses the header of a datagram's payload. `None` if it is too short.
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
    /// Current burst: start, number of datagrams sent, end.
    burst: (SimTime, u64, SimTime),
    end: SimTime,
    last_tries: u32,
}

impl Sender {
    pub fn new(spec: Datagrams) -> Sender {
        // Zeros, since iperf reads flags after the header.
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

    /// Due time of datagram `n` of the current burst.
    fn due(&self, n: u64) -> SimTime {
        let picos = u128::from(n) * u128::from(self.spec.datagram_size) * 8 * 1_000_000_000_000
            / u128::from(self.spec.rate);
        self.burst.0.saturating_add(SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX)))
    }

    fn send(&mut self, is_last: bool, net: &mut dyn Network) {
        let (Some(socket), Some(flow)) = (self.socket, &mut self.flow) else { return };
        DatagramHeader { number: flow.datagrams, sent_ns: net.wall_clock_ns(), is_last }
            .write(&mut self.payload);
        // A datagram for which the host has no room is lost, as is one that no socket receives.
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
            // Datagrams sent after the end do not count.
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
