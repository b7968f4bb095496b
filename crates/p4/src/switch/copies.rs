//! Clones, multicast copies, resubmission and recirculation.

use super::ingress::instance;
use super::{Drop, MAX_COPIES, Switch};
use crate::bits;
use crate::packet::Packet;
use crate::phv::Phv;
use crate::program::Program;
use belljar_base::SimTime;

/// Copies the fields of a field list between packet states.
fn copy_list(program: &Program, list: u16, from: &Phv, to: &mut Phv) {
    let Some(list) = program.field_lists.iter().find(|other| other.id == u64::from(list)) else { return };
    for field in &list.fields {
        bits::copy(&mut to.bytes, field.offset, &from.bytes, field.offset, field.width);
    }
    for header in &list.variable {
        to.copy_variable(program, *header, from);
    }
}

impl Switch {
    /// Copies a packet, with an empty state.
    fn sibling(&mut self, packet: &Packet) -> Box<Packet> {
        let mut copy = self.fresh();
        copy.data.clone_from(&packet.data);
        copy.parsed = packet.parsed;
        copy.ingress_port = packet.ingress_port;
        copy.ingress_len = packet.ingress_len;
        copy.len = packet.len;
        copy.passes = packet.passes;
        copy.id = packet.id;
        copy.timestamp = packet.timestamp;
        copy
    }

    /// Clones a packet as it arrived at ingress.
    pub(super) fn clone_at_ingress(&mut self, at: SimTime, packet: &Packet, session: u16, list: u16) {
        if self.replication.session(session & 0x7fff).is_none() {
            return;
        }
        let program = self.program.clone();
        let mut copy = self.sibling(packet);
        copy.len = packet.ingress_len;
        copy.phv.put(program.standard.ingress_port, u64::from(packet.ingress_port));
        self.run(at, &mut copy).parse();
        copy.phv.reset_metadata(&program);
        copy_list(&program, list, &packet.phv, &mut copy.phv);
        copy.phv.put(program.standard.instance_type, instance::INGRESS_CLONE);
        self.send_clones(at, copy, session & 0x7fff, false);
    }

    /// Clones a packet as it left egress.
    pub(super) fn clone_at_egress(&mut self, packet: &Packet, session: u16, list: u16) {
        if self.replication.session(session & 0x7fff).is_none() {
            return;
        }
        let program = self.program.clone();
        let mut copy = self.sibling(packet);
        copy.phv.copy_from(&packet.phv);
        copy.phv.reset_metadata(&program);
        copy_list(&program, list, &packet.phv, &mut copy.phv);
        copy.phv.put(program.standard.instance_type, instance::EGRESS_CLONE);
        self.send_clones(self.now, copy, session & 0x7fff, true);
    }

    fn send_clones(&mut self, at: SimTime, mut copy: Box<Packet>, session: u16, from_egress: bool) {
        let Some(session) = self.replication.session(session).cloned() else { return };
        copy.truncate = session.length;
        if let Some(trace) = &mut self.trace {
            let half = if from_egress { "egress" } else { "ingress" };
            trace.line(format!("  clone from {half}"));
        }
        let mut copies = session.replicas;
        if let Some(group) = session.group {
            copies.extend_from_slice(self.replication.copies(group).unwrap_or_default());
        }
        self.flow.clones += copies.len() as u64;
        for replica in copies {
            let mut one = self.sibling(&copy);
            one.truncate = copy.truncate;
            one.phv.copy_from(&copy.phv);
            one.phv.put(self.program.standard.egress_rid, u64::from(replica.instance));
            if from_egress || self.config.latency.is_zero() {
                self.push_copy(replica.port, one);
            } else {
                self.delayed.push_back((at + self.config.latency, replica.port, one));
            }
        }
        self.recycle(copy);
    }

    fn push_copy(&mut self, port: u16, copy: Box<Packet>) {
        if self.copies.len() >= MAX_COPIES {
            self.drop_packet(Drop::QueueFull, copy);
        } else {
            self.copies.push_back((port, copy));
        }
    }

    /// Sends a copy to each replica of a group.
    pub(super) fn multicast(&mut self, at: SimTime, packet: Box<Packet>, group: u16) {
        let copies = self.replication.copies(group).unwrap_or_default().to_vec();
        if copies.is_empty() {
            return self.drop_packet(Drop::NoGroup, packet);
        }
        // The first copy replaces the packet.
        self.flow.multicast += copies.len() as u64 - 1;
        let rid = self.program.standard.egress_rid;
        for replica in copies {
            let mut one = self.sibling(&packet);
            one.truncate = packet.truncate;
            one.phv.copy_from(&packet.phv);
            one.phv.put(rid, u64::from(replica.instance));
            if self.config.latency.is_zero() {
                self.push_copy(replica.port, one);
            } else {
                self.delayed.push_back((at + self.config.latency, replica.port, one));
            }
        }
        self.recycle(packet);
    }

    fn again(&mut self, at: SimTime, packet: Box<Packet>) {
        if self.input.len() >= self.config.input_packets {
            return self.drop_packet(Drop::InputFull, packet);
        }
        self.input.push_back((at, packet));
    }

    /// Resubmits a packet: sends the packet as it arrived to ingress again.
    pub(super) fn resubmit(&mut self, at: SimTime, packet: Box<Packet>) {
        let program = self.program.clone();
        let mut next = self.sibling(&packet);
        copy_list(&program, packet.resubmit, &packet.phv, &mut next.phv);
        next.phv.put(program.standard.instance_type, instance::RESUBMITTED);
        next.len = next.ingress_len;
        self.recycle(packet);
        self.again(at, next);
    }

    /// Recirculates a packet: sends the deparsed packet to ingress again.
    pub(super) fn recirculate(&mut self, at: SimTime, packet: Box<Packet>) {
        let program = self.program.clone();
        let mut next = self.sibling(&packet);
        copy_list(&program, packet.recirculate, &packet.phv, &mut next.phv);
        next.phv.put(program.standard.instance_type, instance::RECIRCULATED);
        next.ingress_len = next.data.len() as u32;
        next.len = next.ingress_len;
        next.timestamp = at;
        self.recycle(packet);
        self.again(at, next);
    }
}
