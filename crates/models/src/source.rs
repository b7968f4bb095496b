//! Server that sends bytes on each connection and closes it.

use crate::network::Filler;
use crate::{Draw, Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network, Received};
use belljar_base::Map;

pub struct ByteSource {
    port: u16,
    size: Option<Draw>,
    listener: Option<ModelSocket>,
    peers: Map<ModelSocket, Peer>,
}

struct Peer {
    flow: FlowRecord,
    filler: Filler,
}

impl ByteSource {
    pub fn new(port: u16, size: Option<Draw>) -> ByteSource {
        ByteSource { port, size, listener: None, peers: Map::new() }
    }
}

impl Model for ByteSource {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.listener = Some(net.listen(self.port)?);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        if self.listener == Some(socket) {
            while let Some((peer, from)) = net.accept(socket) {
                let left = self.size.map_or(u64::MAX, |size| size.next(net.random()));
                self.peers.insert(peer, Peer { flow: FlowRecord::new(from, net), filler: Filler::new(left) });
                self.ready(peer, net);
            }
            return;
        }
        let Some(peer) = self.peers.get_mut(&socket) else { return };
        let ended = match peer.go_on(socket, net) {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(why) => Err(why),
        };
        net.close(socket);
        if let Some(peer) = self.peers.remove(&socket) {
            peer.flow.end(ended.into(), net);
        }
    }
    fn is_finished(&self) -> bool {
        false
    }
    fn stop(&mut self, net: &mut dyn Network) {
        for peer in std::mem::take(&mut self.peers).into_values() {
            peer.flow.end(FlowOutcome::Cut, net);
        }
    }
}

impl Peer {
    fn go_on(&mut self, socket: ModelSocket, net: &mut dyn Network) -> Result<bool, Failure> {
        self.flow.bytes_out += self.filler.send(net, socket)?;
        loop {
            match net.discard(socket, u64::MAX)? {
                Received::Bytes(n) => self.flow.received(n, net),
                Received::Nothing => return Ok(false),
                // A client may close its sending side immediately and continue to read.
                Received::End => return Ok(self.filler.finished),
            }
        }
    }
}
