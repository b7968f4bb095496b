//! HTTP client.

use super::message::Reader;
use crate::network::send_filler;
use crate::pace::{NEXT, Pacer};
use crate::spec::{Http, pick};
use crate::{Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network, Received};
use belljar_base::Map;
use std::net::SocketAddrV4;

pub struct HttpClient {
    spec: Http,
    pacer: Pacer,
    requests: Map<ModelSocket, Request>,
    /// Reusable connections, the most recently used last.
    idle: Vec<(SocketAddrV4, ModelSocket)>,
    /// Number of requests begun; identifies a request's timeout.
    begun: u64,
}

struct Request {
    number: u64,
    flow: FlowRecord,
    /// Unsent rest of the head, and the unsent length of the body in bytes.
    head: Vec<u8>,
    body: u64,
    connected: bool,
    answer: Reader,
}

impl HttpClient {
    pub fn new(spec: Http) -> HttpClient {
        let pacer = Pacer::new(spec.pace);
        HttpClient { spec, pacer, requests: Map::new(), idle: Vec::new(), begun: 0 }
    }

    fn begin(&mut self, net: &mut dyn Network) {
        self.pacer.begin(net);
        self.begun += 1;
        let number = self.begun;
        let to = pick(&self.spec.to, net.random());
        let body = self.spec.request_size.next(net.random());
        let connection = if self.spec.keep_alive { "keep-alive" } else { "close" };
        let (path, host) = (&self.spec.path, &to.host);
        let mut head = match body {
            0 => format!("GET {path} HTTP/1.1\r\n"),
            _ => format!("POST {path} HTTP/1.1\r\nContent-Length: {body}\r\n"),
        };
        head += &format!(
            "Host: {host}\r\nUser-Agent: belljar\r\nAccept: */*\r\nConnection: {connection}\r\n\r\n"
        );
        let address = to.socket_address();
        let flow = FlowRecord::new(address, net);
        let reused = self.idle.iter().rposition(|(peer, _)| *peer == address).map(|n| self.idle.remove(n).1);
        let socket = match reused.map_or_else(|| net.connect(address), Ok) {
            Ok(socket) => socket,
            Err(why) => {
                flow.end(FlowOutcome::Failed(why), net);
                return self.pacer.end(net);
            }
        };
        let connected = reused.is_some();
        let answer = Reader::default();
        self.requests.insert(socket, Request { number, flow, head: head.into(), body, connected, answer });
        net.wake_at(net.now().saturating_add(self.spec.timeout), number);
        self.ready(socket, net);
    }

    fn end(&mut self, socket: ModelSocket, ended: Result<(), Failure>, net: &mut dyn Network) {
        let Some(request) = self.requests.remove(&socket) else { return };
        let head = request.answer.head();
        let ended = match head {
            Some(head) if ended.is_ok() && head.status >= 400 => Err(Failure::Status(head.status)),
            _ => ended,
        };
        let sound = request.answer.is_complete() && request.body == 0 && request.head.is_empty();
        if self.spec.keep_alive && sound && head.is_some_and(|head| head.keep_alive) {
            self.idle.push((request.flow.peer, socket));
        } else {
            net.close(socket);
        }
        request.flow.end(ended.into(), net);
        self.pacer.end(net);
    }
}

impl Model for HttpClient {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.begin(net);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        if let Some(place) = self.idle.iter().position(|(_, idle)| *idle == socket) {
            // Only the close of the connection is expected from the server.
            if net.discard(socket, u64::MAX) != Ok(Received::Nothing) {
                self.idle.remove(place);
                net.close(socket);
            }
            return;
        }
        let Some(request) = self.requests.get_mut(&socket) else { return };
        match request.go_on(socket, net) {
            Ok(false) => {}
            Ok(true) => self.end(socket, Ok(()), net),
            Err(why) => self.end(socket, Err(why), net),
        }
    }
    fn wake(&mut self, token: u64, net: &mut dyn Network) {
        if token == NEXT {
            return self.begin(net);
        }
        let late = self.requests.iter().find(|(_, request)| request.number == token);
        if let Some(socket) = late.map(|(socket, _)| *socket) {
            self.end(socket, Err(Failure::TimedOut), net);
        }
    }
    fn is_finished(&self) -> bool {
        self.pacer.is_finished()
    }
    fn stop(&mut self, net: &mut dyn Network) {
        for request in std::mem::take(&mut self.requests).into_values() {
            request.flow.end(FlowOutcome::Cut, net);
        }
    }
}

impl Request {
    /// Sends and receives as much as possible; true if the response is complete.
    fn go_on(&mut self, socket: ModelSocket, net: &mut dyn Network) -> Result<bool, Failure> {
        if !self.connected {
            if !net.is_connected(socket)? {
                return Ok(false);
            }
            self.connected = true;
            self.flow.connected = Some(net.now());
        }
        if !self.head.is_empty() {
            let sent = net.send(socket, &self.head)?;
            self.flow.bytes_out += sent as u64;
            self.head.drain(..sent);
        }
        if self.head.is_empty() && self.body > 0 {
            let sent = send_filler(net, socket, self.body)?;
            self.flow.bytes_out += sent;
            self.body -= sent;
        }
        let mut buffer = [0; 4_096];
        while !self.answer.is_complete() {
            let skippable = self.answer.skippable();
            let received = match skippable {
                0 => net.receive(socket, &mut buffer)?,
                _ => net.discard(socket, skippable)?,
            };
            match received {
                Received::Nothing => return Ok(false),
                Received::End if skippable == u64::MAX => return Ok(true),
                Received::End => return Err(Failure::Closed),
                Received::Bytes(n) => {
                    self.flow.received(n, net);
                    if skippable > 0 {
                        self.answer.skipped(n as u64);
                    } else if self.answer.read(&buffer[..n], false)? < n {
                        return Err(Failure::Malformed);
                    }
                    // Informational responses such as 100 Continue precede the final one.
                    if self.answer.head().is_some_and(|head| matches!(head.status, 100..=199)) {
                        self.answer = Reader::default();
                    }
                }
            }
        }
        Ok(true)
    }
}
