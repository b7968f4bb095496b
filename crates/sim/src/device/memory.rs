//! Simulated memory, to whose ports other simulators are connected.

use super::{Device, DeviceAccount};
use belljar_base::{SimDuration, SimTime};
use belljar_config::topology;
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, Packet};
use belljar_pci::{Codec, Memory, ToMemory};
use belljar_plan::LinkChange;
use belljar_results::Statistics;
use std::collections::VecDeque;

struct MemoryDevice {
    memory: Memory,
    /// Latency of an access, from request to answer.
    access: SimDuration,
    /// Answers to be sent, by their times.
    leaving: VecDeque<EgressFrame>,
    /// Number of messages that were no requests.
    invalid: u64,
}

/// Builds the memory that these settings describe.
pub fn new(settings: &topology::Memory) -> Box<dyn Device> {
    Box::new(MemoryDevice {
        memory: Memory::new(settings.size),
        access: settings.access,
        leaving: VecDeque::new(),
        invalid: 0,
    })
}

impl Device for MemoryDevice {
    fn receive(&mut self, now: SimTime, port: usize, message: Packet) {
        match ToMemory::from_bytes(message.bytes()) {
            Ok(request) => {
                let answer = self.memory.access(request);
                self.leaving.extend(answer.map(|answer| {
                    let at = now + self.access;
                    EgressFrame { port, at, departs: at, packet: Packet::new(answer.to_bytes()) }
                }));
            }
            Err(_) => self.invalid += 1,
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        self.leaving.front().filter(|frame| frame.at <= now)?;
        self.leaving.pop_front()
    }
    fn change(&mut self, _: SimTime, _: LinkChange) {}
    fn counters(&self, _: usize) -> Counters {
        Counters::default()
    }
    /// A memory has no link: its transactions are not packets.
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        Vec::new()
    }
    fn queue_len(&self, _: usize) -> usize {
        0
    }
    fn next_event(&self) -> Option<SimTime> {
        self.leaving.front().map(|frame| frame.at)
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let warnings = [
            (self.memory.outside(), "accesses beyond its size: reads gave ones, writes were lost"),
            (self.invalid, "messages that are no requests: ignored"),
        ];
        for (count, what) in warnings.into_iter().filter(|(count, _)| *count > 0) {
            *statistics.warnings.entry(format!("memory '{name}': {what}")).or_default() += count;
        }
    }
}
