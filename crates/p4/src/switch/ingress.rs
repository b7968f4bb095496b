//! Packet processing in two halves: ingress up to the queue, and egress from the queue.

use super::{DROP_PORT, Drop, Leaving, Notification, Switch};
use crate::packet::Packet;
use belljar_base::SimTime;

/// Values of `instance_type`.
pub(super) mod instance {
    pub const NORMAL: u64 = 0;
    pub const INGRESS_CLONE: u64 = 1;
    pub const EGRESS_CLONE: u64 = 2;
    pub const RECIRCULATED: u64 = 4;
    pub const REPLICATION: u64 = 5;
    pub const RESUBMITTED: u64 = 6;
}

impl Switch {
    fn too_often(&self, packet: &Packet) -> bool {
        packet.passes > self.config.max_passes
    }

    /// Parses a packet, runs ingress and selects its destination.
    pub(super) fn ingress(&mut self, at: SimTime, mut packet: Box<Packet>) {
        packet.passes += 1;
        if self.too_often(&packet) {
            return self.drop_packet(Drop::TooManyPasses, packet);
        }
        // No reference count of the program is touched here: switches of several workers share it.
        let standard = &self.program.standard;
        let stamp = self.stamp(packet.timestamp);
        packet.phv.put(standard.ingress_port, u64::from(packet.ingress_port));
        packet.phv.put(standard.packet_length, u64::from(packet.ingress_len));
        packet.phv.put(standard.ingress_timestamp, stamp);
        if let Some(trace) = &mut self.trace {
            let (id, port, len) = (packet.id, packet.ingress_port, packet.data.len());
            let again = if packet.passes > 1 { ", again" } else { "" };
            trace.line(format!("{at} packet {id}: ingress from port {port}, {len} bytes{again}"));
        }
        let mut run = self.run(at, &mut packet);
        run.parse();
        let (error, wrong) = (u64::from(run.packet.error), u64::from(run.packet.checksum_error));
        let (standard, first) = (&run.program.standard, run.program.ingress);
        run.packet.phv.put(standard.parser_error, error);
        run.packet.phv.put(standard.checksum_error, wrong);
        run.pipeline(first);
        self.tell_logs();
        if packet.failed {
            return self.drop_packet(Drop::Assertion, packet);
        }
        if let Some((session, list)) = packet.clone.take() {
            self.clone_at_ingress(at, &packet, session, list);
        }
        if packet.digest != 0 {
            self.digest(at, &packet);
        }
        if packet.resubmit != 0 {
            return self.resubmit(at, packet);
        }
        let standard = &self.program.standard;
        let group = packet.phv.read(standard.mcast_grp) as u16;
        if group != 0 {
            packet.phv.put(standard.instance_type, instance::REPLICATION);
            return self.multicast(at, packet, group);
        }
        let port = packet.phv.read(standard.egress_spec);
        if port == DROP_PORT {
            return self.drop_packet(Drop::Ingress, packet);
        }
        packet.phv.put(standard.instance_type, instance::NORMAL);
        packet.end_ingress();
        self.forward(at, port as u16, packet);
    }

    /// Forwards a packet to its queue after the pipeline latency.
    pub(super) fn forward(&mut self, at: SimTime, port: u16, packet: Box<Packet>) {
        if self.config.latency.is_zero() {
            if self.copies.is_empty() {
                self.enqueue(at, port, packet);
            } else {
                self.copies.push_back((port, packet));
            }
        } else {
            self.delayed.push_back((at + self.config.latency, port, packet));
        }
    }

    /// Queues a packet; dequeues it at once if the port is free.
    pub(super) fn enqueue(&mut self, at: SimTime, port: u16, mut packet: Box<Packet>) {
        let standard = &self.program.standard;
        if Some(port) == self.config.cpu_port && usize::from(port) >= self.ports.len() {
            // A CPU port outside of the ports has no queue.
            self.egress(at, port, 0, packet);
            return;
        }
        let queue = packet.phv.read(standard.priority) as usize;
        let Some(found) = self.ports.get_mut(usize::from(port)) else {
            return self.drop_packet(Drop::NoPort, packet);
        };
        if queue >= self.config.queues.max(1) {
            return self.drop_packet(Drop::NoQueue, packet);
        }
        if !found.carrier {
            found.counters.link_down += 1;
            return self.drop_packet(Drop::LinkDown, packet);
        }
        packet.enqueued = at;
        let depth = found.depth(queue) as u64;
        let stamp = if self.config.nanoseconds { at.as_nanos() } else { at.as_nanos() / 1_000 };
        packet.phv.put(standard.enq_timestamp, stamp);
        packet.phv.put(standard.enq_qdepth, depth);
        match found.push(queue, packet) {
            Err(packet) => {
                found.counters.queue_full += 1;
                self.drop_packet(Drop::QueueFull, packet);
            }
            Ok(()) => self.serve(at, port),
        }
    }

    /// Dequeues packets of a port while it is free, and schedules the next dequeue.
    pub(super) fn serve(&mut self, at: SimTime, port: u16) {
        loop {
            let found = &mut self.ports[usize::from(port)];
            match found.ready(at) {
                None => return,
                Some(ready) if ready > at => {
                    if found.due != Some(ready) {
                        if let Some(old) = found.due.replace(ready) {
                            self.busy.remove(old, port);
                        }
                        self.busy.insert(ready, port);
                    }
                    return;
                }
                Some(_) => {}
            }
            let Some((queue, packet)) = found.pop(at) else { return };
            self.egress(at, port, queue, packet);
        }
    }

    /// Runs egress and transmits the packet.
    fn egress(&mut self, at: SimTime, port: u16, queue: usize, mut packet: Box<Packet>) {
        packet.passes += 1;
        if self.too_often(&packet) {
            return self.drop_packet(Drop::TooManyPasses, packet);
        }
        let standard = &self.program.standard;
        let depth = self.ports.get(usize::from(port)).map_or(0, |port| port.depth(queue)) as u64;
        let (now, then) = (self.stamp(at), self.stamp(packet.enqueued));
        packet.phv.put(standard.egress_timestamp, now);
        packet.phv.put(standard.deq_timedelta, now.saturating_sub(then));
        packet.phv.put(standard.deq_qdepth, depth);
        packet.phv.put(standard.qid, queue as u64);
        packet.phv.put(standard.egress_port, u64::from(port));
        packet.phv.put(standard.egress_spec, DROP_PORT + 1);
        let len = u64::from(packet.len);
        packet.phv.put(standard.packet_length, len);
        if let Some(trace) = &mut self.trace {
            trace.line(format!("{at} packet {}: egress to port {port}", packet.id));
        }
        let first = self.program.egress;
        self.run(at, &mut packet).pipeline(first);
        self.tell_logs();
        if packet.failed {
            return self.drop_packet(Drop::Assertion, packet);
        }
        if let Some((session, list)) = packet.clone.take() {
            self.clone_at_egress(&packet, session, list);
        }
        if packet.phv.read(self.program.standard.egress_spec) == DROP_PORT {
            return self.drop_packet(Drop::Egress, packet);
        }
        self.run(at, &mut packet).deparse();
        if !self.program.deparser.is_empty() {
            self.tell_logs();
            if packet.failed {
                return self.drop_packet(Drop::Assertion, packet);
            }
        }
        if packet.recirculate != 0 {
            return self.recirculate(at, packet);
        }
        if let Some(trace) = &mut self.trace {
            trace.line(format!("  sent by port {port}: {} bytes", packet.data.len()));
        }
        let bytes = std::mem::take(&mut packet.data);
        self.recycle(packet);
        if Some(port) == self.config.cpu_port {
            return self.notify(Notification::PacketIn(bytes));
        }
        match self.ports.get_mut(usize::from(port)) {
            Some(found) => {
                let departs = found.transmit(at, bytes.len());
                self.out.push_back(Leaving { port, at, departs, packet: bytes });
            }
            // No port loses packets here: `enqueue` has looked for it.
            None => self.drops[Drop::NoPort as usize] += 1,
        }
    }
}
