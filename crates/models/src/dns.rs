//! DNS client, and a server for the names of the network.

use crate::pace::{NEXT, Pacer};
use crate::spec::Dns;
use crate::{Draw, Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network};
use belljar_base::Map;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use std::net::SocketAddrV4;

pub struct DnsClient {
    spec: Dns,
    pacer: Pacer,
    socket: Option<ModelSocket>,
    /// Pending queries by message id.
    queries: Map<u16, Query>,
}

struct Query {
    flow: FlowRecord,
    message: Vec<u8>,
    tries: u32,
}

impl DnsClient {
    pub fn new(spec: Dns) -> DnsClient {
        DnsClient { pacer: Pacer::new(spec.pace), spec, socket: None, queries: Map::new() }
    }

    fn begin(&mut self, net: &mut dyn Network) {
        self.pacer.begin(net);
        let names = &self.spec.names;
        let name = match &names[..] {
            [one] => one,
            _ => &names[net.random().below(names.len() as u64) as usize],
        };
        let mut id = net.random().next_u32() as u16;
        while self.queries.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        let flow = FlowRecord::new(self.spec.to.socket_address(), net);
        let query = Query { flow, message: message(id, name), tries: 0 };
        self.queries.insert(id, query);
        self.ask(id, net);
    }

    fn ask(&mut self, id: u16, net: &mut dyn Network) {
        let (Some(socket), Some(query)) = (self.socket, self.queries.get_mut(&id)) else { return };
        query.tries += 1;
        // A query that cannot be sent is retried like a lost one.
        if net.send_to(socket, query.flow.peer, &query.message).unwrap_or(false) {
            query.flow.bytes_out += query.message.len() as u64;
            query.flow.datagrams += 1;
        }
        net.wake_at(
            net.now().saturating_add(self.spec.timeout),
            u64::from(query.tries) << 16 | u64::from(id),
        );
    }

    fn end(&mut self, id: u16, ended: Result<(), Failure>, net: &mut dyn Network) {
        if let Some(query) = self.queries.remove(&id) {
            query.flow.end(ended.into(), net);
            self.pacer.end(net);
        }
    }
}

/// Query message for an address.
fn message(id: u16, name: &str) -> Vec<u8> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let (kind, class) = (QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN));
    packet.questions.push(Question::new(Name::new_unchecked(name), kind, class, false));
    packet.build_bytes_vec().unwrap_or_default()
}

impl Model for DnsClient {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.socket = Some(net.bind_udp(0)?);
        self.begin(net);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        let mut bytes = Vec::new();
        loop {
            let from = match net.receive_from(socket, &mut bytes) {
                Ok(Some(from)) => from,
                Ok(None) => return,
                // An ICMP error does not identify the query, whose timeout will expire.
                Err(_) => continue,
            };
            let Ok(answer) = Packet::parse(&bytes) else { continue };
            let Some(query) = self.queries.get_mut(&answer.id()) else { continue };
            if query.flow.peer != from || !answer.has_flags(PacketFlag::RESPONSE) {
                continue;
            }
            query.flow.received(bytes.len(), net);
            let ended = match answer.rcode() {
                RCODE::NoError => Ok(()),
                code => Err(Failure::ResponseCode(code as u8)),
            };
            self.end(answer.id(), ended, net);
        }
    }
    fn wake(&mut self, token: u64, net: &mut dyn Network) {
        if token == NEXT {
            return self.begin(net);
        }
        let (id, tries) = (token as u16, (token >> 16) as u32);
        // Stale timeout of an earlier query with the same id.
        if self.queries.get(&id).is_none_or(|query| query.tries != tries) {
            return;
        }
        match tries <= self.spec.retries {
            true => self.ask(id, net),
            false => self.end(id, Err(Failure::TimedOut), net),
        }
    }
    fn is_finished(&self) -> bool {
        self.pacer.is_finished()
    }
    fn stop(&mut self, net: &mut dyn Network) {
        for query in std::mem::take(&mut self.queries).into_values() {
            query.flow.end(FlowOutcome::Cut, net);
        }
    }
}

pub struct DnsResponder {
    port: u16,
    delay: Draw,
    socket: Option<ModelSocket>,
    /// Answers delayed before sending, by number.
    waiting: Map<u64, (SocketAddrV4, Vec<u8>)>,
    answered: u64,
}

impl DnsResponder {
    pub fn new(port: u16, delay: Draw) -> DnsResponder {
        DnsResponder { port, delay, socket: None, waiting: Map::new(), answered: 0 }
    }
}

impl Model for DnsResponder {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.socket = Some(net.bind_udp(self.port)?);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        let mut query = Vec::new();
        while let Some(from) = net.receive_from(socket, &mut query).unwrap_or_default() {
            let Some(answer) = net.zone().and_then(|zone| zone.answer(&query)) else { continue };
            let delay = self.delay.next_time(net.random());
            if delay.is_zero() {
                let _ = net.send_to(socket, from, &answer);
                continue;
            }
            self.answered += 1;
            self.waiting.insert(self.answered, (from, answer));
            net.wake_at(net.now().saturating_add(delay), self.answered);
        }
    }
    fn wake(&mut self, token: u64, net: &mut dyn Network) {
        if let (Some(socket), Some((to, answer))) = (self.socket, self.waiting.remove(&token)) {
            let _ = net.send_to(socket, to, &answer);
        }
    }
    fn is_finished(&self) -> bool {
        false
    }
    fn stop(&mut self, _net: &mut dyn Network) {}
}
