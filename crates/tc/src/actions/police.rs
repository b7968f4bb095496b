//! `police`: a token bucket that decides about packets (`net/sched/act_police.c`, tc-police(8)).

use super::{Counts, Making, Outcome};
use crate::action::verdict;
use crate::attributes::{Attributes, Out, word, words};
use crate::buffer::Buffer;
use crate::error::{TcError, invalid};
use crate::rate::{Rate, ns_to_ticks, ticks_to_ns};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

const TBF: u16 = 1;
const AVRATE: u16 = 4;
const RESULT: u16 = 5;
const TM: u16 = 6;
const RATE64: u16 = 8;
const PEAKRATE64: u16 = 9;
const PKTRATE64: u16 = 10;
const PKTBURST64: u16 = 11;
/// Length of `struct tc_police` in bytes.
const PARMS: usize = 56;

/// Policer.
#[derive(Debug)]
pub(crate) struct Police {
    action: i32,
    result: i32,
    limit: u32,
    /// Longest packet in bytes.
    mtu: u32,
    burst: i64,
    mtu_time: i64,
    rate: Option<Rate>,
    peak: Option<Rate>,
    /// Packets per second, and the burst in nanoseconds.
    packets: Option<(u64, i64)>,
    tokens: i64,
    peak_tokens: i64,
    packet_tokens: i64,
    updated: i64,
}

impl Police {
    pub(super) fn new(options: Attributes<'_>, making: Making<'_>) -> Result<Police, TcError> {
        let parms = options.array::<PARMS>(TBF)?.ok_or(Errno::EINVAL)?;
        let result = options.u32(RESULT)?.unwrap_or(0) as i32;
        if options.get(AVRATE).is_some() {
            return Err(invalid("rate estimators are not supported"));
        }
        let rate64 = options.u64(RATE64)?;
        let rate = (word(&parms, 28) != 0 || rate64.is_some()).then(|| Rate::new(&parms[20..32], rate64));
        let peak64 = options.u64(PEAKRATE64)?;
        let peak = (word(&parms, 40) != 0 || peak64.is_some()).then(|| Rate::new(&parms[32..44], peak64));
        let packets = match (options.u64(PKTRATE64)?, options.u64(PKTBURST64)?) {
            (None, None) => None,
            (Some(packets), Some(burst)) if packets > 0 && rate.is_none() => {
                Some((packets, (u128::from(burst) * 1_000_000_000 / u128::from(packets)) as i64))
            }
            (Some(_), Some(_)) => {
                return Err(invalid(
                    "packet-per-second and byte-per-second rate limits not allowed in same action",
                ));
            }
            _ => return Err(invalid("both or neither packet-per-second burst and rate must be provided")),
        };
        if peak.is_some() && rate.is_none() {
            return Err(Errno::EINVAL.into());
        }
        let given = word(&parms, 16);
        let mtu = match (given, &rate) {
            (0, Some(_)) => 255u32.checked_shl(u32::from(parms[20])).unwrap_or(u32::MAX),
            (0, None) => u32::MAX,
            (given, _) => given,
        };
        let burst = ticks_to_ns(word(&parms, 12));
        let mtu_time = peak.as_ref().map_or(0, |peak| peak.time(mtu));
        Ok(Police {
            action: super::checked(word(&parms, 4))?,
            result: super::checked(result as u32)?,
            limit: word(&parms, 8),
            mtu,
            burst,
            mtu_time,
            rate,
            peak,
            packet_tokens: packets.map_or(0, |(_, burst)| burst),
            packets,
            tokens: burst,
            peak_tokens: mtu_time,
            updated: making.now.as_nanos() as i64,
        })
    }
    pub(super) fn execute(&mut self, buffer: &Buffer, now: SimTime) -> Outcome {
        let len = buffer.len;
        let exceeds = Outcome { verdict: self.action, redirected: None, overlimit: true };
        if len > self.mtu {
            return exceeds;
        }
        let now = now.as_nanos() as i64;
        if let Some((rate, burst)) = self.packets {
            let gained = (now - self.updated).min(burst);
            let cost = 1_000_000_000 * i64::from(buffer.segments) / rate as i64;
            let tokens = (gained + self.packet_tokens).min(burst) - cost;
            if tokens < 0 {
                return exceeds;
            }
            (self.updated, self.packet_tokens) = (now, tokens);
            return Outcome::of(self.result);
        }
        let Some(rate) = &self.rate else { return Outcome::of(self.result) };
        let gained = (now - self.updated).min(self.burst);
        let mut peak_tokens = 0;
        if let Some(peak) = &self.peak {
            peak_tokens = (gained + self.peak_tokens).min(self.mtu_time) - peak.time(len);
        }
        let tokens = (gained + self.tokens).min(self.burst) - rate.time(len);
        if tokens < 0 || peak_tokens < 0 {
            return exceeds;
        }
        (self.updated, self.tokens, self.peak_tokens) = (now, tokens, peak_tokens);
        Outcome::of(self.result)
    }
    pub(super) fn dump(&self, (index, references, bindings): Counts, times: &[u8], out: &mut Out) {
        let mut parms = words([index, self.action as u32, self.limit, ns_to_ticks(self.burst), self.mtu]);
        parms.extend(self.rate.map_or(vec![0; 12], |rate| rate.spec()));
        parms.extend(self.peak.map_or(vec![0; 12], |peak| peak.spec()));
        parms.extend(words([references, bindings, 0]));
        out.put(TBF, &parms);
        if let Some(bytes) = self.rate.and_then(|rate| rate.large()) {
            out.u64(RATE64, bytes);
        }
        if let Some(bytes) = self.peak.and_then(|peak| peak.large()) {
            out.u64(PEAKRATE64, bytes);
        }
        if let Some((rate, burst)) = self.packets {
            out.u64(PKTRATE64, rate);
            out.u64(PKTBURST64, (i128::from(burst) * i128::from(rate) / 1_000_000_000) as u64);
        }
        if self.result != verdict::OK {
            out.u32(RESULT, self.result as u32);
        }
        out.put(TM, times);
    }
}
