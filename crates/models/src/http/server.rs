//! HTTP server, which answers the requests of a connection sequentially.

use super::message::Reader;
use crate::network::send_filler;
use crate::spec::HttpServer;
use crate::{Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network, Received};
use belljar_base::Map;

pub struct HttpResponder {
    spec: HttpServer,
    listener: Option<ModelSocket>,
    peers: Map<ModelSocket, Peer>,
    /// Sockets with a delayed response, by the token of the wake-up.
    thinking: Map<u64, ModelSocket>,
    tokens: u64,
}

#[derive(Default)]
struct Peer {
    /// Request being received.
    request: Reader,
    /// Received bytes of pipelined requests.
    ahead: Vec<u8>,
    flow: Option<FlowRecord>,
    /// True while the response is delayed.
    thinks: bool,
    /// Unsent head of the response; `body` is the unsent length of the body in bytes.
    head: Vec<u8>,
    body: u64,
    answering: bool,
    keep_alive: bool,
}

impl HttpResponder {
    pub fn new(spec: HttpServer) -> HttpResponder {
        HttpResponder { spec, listener: None, peers: Map::new(), thinking: Map::new(), tokens: 0 }
    }

    fn serve(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        let Some(peer) = self.peers.get_mut(&socket) else { return };
        match peer.go_on(socket, &self.spec, net) {
            Ok(Next::Wait) => {}
            Ok(Next::Think(delay)) => {
                self.tokens += 1;
                self.thinking.insert(self.tokens, socket);
                net.wake_at(net.now().saturating_add(delay), self.tokens);
            }
            Ok(Next::Close) => self.drop_peer(socket, FlowOutcome::Cut, net),
            Err(why) => self.drop_peer(socket, FlowOutcome::Failed(why), net),
        }
    }

    fn drop_peer(&mut self, socket: ModelSocket, outcome: FlowOutcome, net: &mut dyn Network) {
        net.close(socket);
        self.thinking.retain(|_, thinking| *thinking != socket);
        if let Some(flow) = self.peers.remove(&socket).and_then(|peer| peer.flow)
            && flow.bytes_in + flow.bytes_out > 0
        {
            flow.end(outcome, net);
        }
    }
}

impl Model for HttpResponder {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.listener = Some(net.listen(self.spec.port)?);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        if self.listener != Some(socket) {
            return self.serve(socket, net);
        }
        while let Some((peer, from)) = net.accept(socket) {
            self.peers.insert(peer, Peer { flow: Some(FlowRecord::new(from, net)), ..Peer::default() });
            self.serve(peer, net);
        }
    }
    fn wake(&mut self, token: u64, net: &mut dyn Network) {
        let Some(socket) = self.thinking.remove(&token) else { return };
        if let Some(peer) = self.peers.get_mut(&socket) {
            peer.thinks = false;
            self.serve(socket, net);
        }
    }
    fn is_finished(&self) -> bool {
        false
    }
    fn stop(&mut self, net: &mut dyn Network) {
        for socket in self.peers.keys().copied().collect::<Vec<_>>() {
            self.drop_peer(socket, FlowOutcome::Cut, net);
        }
    }
}

/// Next step for a connection.
enum Next {
    /// Wait for the network.
    Wait,
    /// Delay the response.
    Think(belljar_base::SimDuration),
    /// Close the connection.
    Close,
}

impl Peer {
    fn go_on(
        &mut self,
        socket: ModelSocket,
        spec: &HttpServer,
        net: &mut dyn Network,
    ) -> Result<Next, Failure> {
        loop {
            if self.thinks {
                return Ok(Next::Wait);
            }
            if self.answering {
                if !self.send(socket, net)? {
                    return Ok(Next::Wait);
                }
                if !self.keep_alive {
                    return Ok(Next::Close);
                }
            }
            match self.read(socket, net)? {
                Received::Nothing => return Ok(Next::Wait),
                Received::End => return Ok(Next::Close),
                Received::Bytes(_) => {}
            }
            self.prepare(spec, net);
            let delay = spec.delay.next_time(net.random());
            if !delay.is_zero() {
                self.thinks = true;
                return Ok(Next::Think(delay));
            }
        }
    }

    /// Reads to the end of a request.
    fn read(&mut self, socket: ModelSocket, net: &mut dyn Network) -> Result<Received, Failure> {
        let mut buffer = [0; 4_096];
        loop {
            let ahead = std::mem::take(&mut self.ahead);
            let (data, fresh) = match ahead.is_empty() {
                false => (&ahead[..], false),
                true => match net.receive(socket, &mut buffer)? {
                    Received::Bytes(n) => (&buffer[..n], true),
                    // A client may close between two requests.
                    other => return Ok(other),
                },
            };
            if let Some(flow) = &mut self.flow {
                if flow.bytes_in == 0 {
                    flow.started = net.now();
                }
                if fresh {
                    flow.received(data.len(), net);
                }
            }
            let used = self.request.read(data, true)?;
            self.ahead = data[used..].to_vec();
            if self.request.is_complete() {
                return Ok(Received::Bytes(used));
            }
        }
    }

    fn prepare(&mut self, spec: &HttpServer, net: &mut dyn Network) {
        let Some(request) = self.request.head() else { return };
        let size = spec.response_size.next(net.random());
        self.keep_alive = request.keep_alive;
        self.body = if request.wants_no_body { 0 } else { size };
        let connection = if request.keep_alive { "keep-alive" } else { "close" };
        self.head = format!(
            "HTTP/1.1 200 OK\r\nServer: belljar\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {size}\r\nConnection: {connection}\r\n\r\n"
        )
        .into_bytes();
        self.request = Reader::default();
        self.answering = true;
    }

    /// Sends as much of the response as possible; true if it is complete.
    fn send(&mut self, socket: ModelSocket, net: &mut dyn Network) -> Result<bool, Failure> {
        let Some(flow) = &mut self.flow else { return Ok(true) };
        if !self.head.is_empty() {
            let sent = net.send(socket, &self.head)?;
            flow.bytes_out += sent as u64;
            self.head.drain(..sent);
        }
        if self.head.is_empty() && self.body > 0 {
            let sent = send_filler(net, socket, self.body)?;
            flow.bytes_out += sent;
            self.body -= sent;
        }
        if !self.head.is_empty() || self.body > 0 {
            return Ok(false);
        }
        self.answering = false;
        let next = FlowRecord::new(flow.peer, net);
        if let Some(done) = self.flow.replace(next) {
            done.end(FlowOutcome::Done, net);
        }
        Ok(true)
    }
}
