//! Bulk transfers over TCP, one connection each. An upload ends when the peer has closed after the last byte,
//! like a program that reads to the end of the stream; a download ends when the peer has sent everything and
//! closed.

use crate::network::Filler;
use crate::pace::{NEXT, Pacer};
use crate::spec::{Bulk, Direction, pick};
use crate::{Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network, Received};
use belljar_base::Map;

pub struct BulkClient {
    spec: Bulk,
    pacer: Pacer,
    transfers: Map<ModelSocket, Transfer>,
}

struct Transfer {
    flow: FlowRecord,
    /// Data sent to the server.
    filler: Option<Filler>,
}

impl BulkClient {
    pub fn new(spec: Bulk) -> BulkClient {
        BulkClient { pacer: Pacer::new(spec.pace), spec, transfers: Map::new() }
    }

    fn begin(&mut self, net: &mut dyn Network) {
        self.pacer.begin(net);
        let to = pick(&self.spec.to, net.random()).socket_address();
        let filler = match self.spec.direction {
            Direction::Down => None,
            Direction::Up => {
                Some(Filler::new(self.spec.size.map_or(u64::MAX, |size| size.next(net.random()))))
            }
        };
        let flow = FlowRecord::new(to, net);
        match net.connect(to) {
            Ok(socket) => drop(self.transfers.insert(socket, Transfer { flow, filler })),
            Err(why) => {
                flow.end(FlowOutcome::Failed(why), net);
                self.pacer.end(net);
            }
        }
    }
}

impl Model for BulkClient {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.begin(net);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        let Some(transfer) = self.transfers.get_mut(&socket) else { return };
        let ended = match transfer.go_on(socket, net) {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(why) => Err(why),
        };
        net.close(socket);
        if let Some(transfer) = self.transfers.remove(&socket) {
            transfer.flow.end(ended.into(), net);
        }
        self.pacer.end(net);
    }
    fn wake(&mut self, token: u64, net: &mut dyn Network) {
        if token == NEXT {
            self.begin(net);
        }
    }
    fn is_finished(&self) -> bool {
        self.pacer.is_finished()
    }
    fn stop(&mut self, net: &mut dyn Network) {
        for transfer in std::mem::take(&mut self.transfers).into_values() {
            transfer.flow.end(FlowOutcome::Cut, net);
        }
    }
}

impl Transfer {
    /// Sends and receives as much as possible; true if the transfer is complete.
    fn go_on(&mut self, socket: ModelSocket, net: &mut dyn Network) -> Result<bool, Failure> {
        if self.flow.connected.is_none() {
            if !net.is_connected(socket)? {
                return Ok(false);
            }
            self.flow.connected = Some(net.now());
        }
        if let Some(filler) = &mut self.filler {
            self.flow.bytes_out += filler.send(net, socket)?;
        }
        loop {
            match net.discard(socket, u64::MAX)? {
                Received::Bytes(n) => self.flow.received(n, net),
                Received::Nothing => return Ok(false),
                Received::End if self.filler.as_ref().is_some_and(|filler| !filler.finished) => {
                    return Err(Failure::Closed);
                }
                Received::End => return Ok(true),
            }
        }
    }
}
