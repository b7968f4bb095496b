//! A switch's P4Runtime server.
//!
//! [`Server`] is a state machine. Its methods are of four kinds.
//! - *Transport*: [`accept`](Server::accept), [`receive`](Server::receive), [`end_input`](Server::end_input),
//!   [`transmit`](Server::transmit), [`close`](Server::close), [`room`](Server::room), [`outgoing`](Server::outgoing),
//!   [`is_closed`](Server::is_closed), for each connection.
//! - *Work*: [`poll`](Server::poll), after bytes came or went and after events of the switch. It carries requests out on the
//!   switch.
//! - *Events of the switch*: [`packet_in`](Server::packet_in), [`digest`](Server::digest),
//!   [`idle_timeouts`](Server::idle_timeouts).
//! - *Set-up*: [`install`](Server::install), [`import`](Server::import).
//!
//! Times are ns since the epoch, and never read here.

mod arbitration;
mod calls;
mod config;
mod packets;
mod stream;
mod writes;

use crate::grpc::{Code, Connection, Event, Status};
use crate::pipeline::Device;
use crate::proto::{
    Atomicity, CapabilitiesRequest, CapabilitiesResponse, ForwardingPipelineConfig,
    SetForwardingPipelineConfigResponse, WriteRequest, WriteResponse,
};
use crate::state::{Forwarding, State};
use arbitration::Arbitration;
use belljar_base::{SimDuration, SimTime};
use bytes::Bytes;
use calls::{Calls, Method};
use prost::Message;
use slab::Slab;
use writes::Writes;

/// The version of P4Runtime that `Capabilities` tells.
const VERSION: &str = "1.3.0";

/// A program, what controllers wrote to it and what it tells them.
#[derive(Debug)]
struct Program {
    config: ForwardingPipelineConfig,
    state: State,
}

struct Peer {
    connection: Connection,
    calls: Calls,
}

/// The P4Runtime server of one device.
pub struct Server<D: Device> {
    device_id: u64,
    peers: Slab<Peer>,
    arbitration: Arbitration,
    program: Option<Program>,
    /// A program that is saved, not committed; requests are for it.
    staged: Option<(Program, D::Pipeline)>,
    writes: Writes,
}

impl<D: Device> Server<D> {
    /// The server of the device with that id.
    pub fn new(device_id: u64) -> Self {
        Self {
            device_id,
            peers: Slab::new(),
            arbitration: Arbitration::default(),
            program: None,
            staged: None,
            writes: Writes::default(),
        }
    }

    /// Sets the time that each update of a `Write` takes, and a `SetForwardingPipelineConfig`. They are carried out one after
    /// the other, each when its time is over; [`next_event`](Self::next_event) says when that is.
    pub fn set_write_time(&mut self, time: SimDuration) {
        self.writes.time = time;
    }

    /// When [`poll`](Self::poll) carries out a write that takes its time now.
    pub fn next_event(&self) -> Option<SimTime> {
        self.writes.next()
    }

    /// A connection was accepted. The number is for the other methods.
    pub fn accept(&mut self) -> usize {
        self.peers.insert(Peer { connection: Connection::default(), calls: Calls::default() })
    }

    /// Takes bytes from a connection, at most [`room`](Self::room) of them.
    pub fn receive(&mut self, connection: usize, bytes: &[u8]) {
        self.peers[connection].connection.receive(bytes);
    }

    /// The client has closed its side of a connection.
    pub fn end_input(&mut self, connection: usize) {
        self.peers[connection].connection.end_input();
    }

    /// The number of bytes that can be received now.
    pub fn room(&self, connection: usize) -> usize {
        self.peers[connection].connection.room()
    }

    /// Takes up to `limit` bytes for a connection.
    pub fn transmit(&mut self, connection: usize, limit: usize) -> Bytes {
        self.peers[connection].connection.transmit(limit)
    }

    /// The number of bytes that wait for [`transmit`](Self::transmit).
    pub fn outgoing(&self, connection: usize) -> usize {
        self.peers[connection].connection.outgoing()
    }

    /// True if a connection is over, but for what waits to be transmitted.
    pub fn is_closed(&self, connection: usize) -> bool {
        self.peers[connection].connection.is_closed()
    }

    /// Forgets a connection, which ends its sessions. The number may be used again.
    pub fn close(&mut self, connection: usize) {
        let peer = self.peers.remove(connection);
        self.writes.forget(|of| of.0 == connection);
        for call in peer.calls.streams() {
            self.leave((connection, call));
        }
    }

    /// Carries out what has come, on the switch.
    pub fn poll(&mut self, device: &mut D) {
        let connections: Vec<usize> = self.peers.iter().map(|(connection, _)| connection).collect();
        // What one connection asks for may be told to another, so all are polled until none has anything.
        let mut busy = true;
        while busy {
            busy = false;
            while let Some(((connection, call), method, message)) = self.writes.pop(device.now()) {
                busy = true;
                self.carry_out(device, connection, call, method, message);
            }
            for connection in &connections {
                while let Some(event) = self.peers[*connection].connection.poll() {
                    busy = true;
                    self.handle(device, *connection, event);
                }
                busy |= self.continue_reads(device, *connection);
            }
        }
    }

    fn handle(&mut self, device: &mut D, connection: usize, event: Event) {
        let peer = &mut self.peers[connection];
        match event {
            Event::Call { call, path } => match Method::of_path(&path) {
                Some(method) => {
                    peer.calls.begin(call, method);
                    peer.connection.admit(call, method.limit());
                }
                None => peer
                    .connection
                    .finish(call, Status::new(Code::Unimplemented, format!("there is no method {path}"))),
            },
            Event::Message { call, message } => match peer.calls.take_message(call, message) {
                Ok(None) => {}
                Ok(Some(message)) => self.stream_message(device, (connection, call), message),
                Err(status) => self.finish(connection, call, status),
            },
            Event::End { call } => match peer.calls.complete(call) {
                Ok(Some((Method::Stream, _))) => self.finish(connection, call, Status::ok()),
                Ok(Some((method, message))) => {
                    let due = self.writes.delay(device.now(), (connection, call), method, message);
                    if let Some((method, message)) = due {
                        self.carry_out(device, connection, call, method, message);
                    }
                }
                Ok(None) => {}
                Err(status) => self.finish(connection, call, status),
            },
            Event::Cancelled { call } => {
                peer.calls.remove(call);
                self.writes.forget(|of| of == (connection, call));
                self.leave((connection, call));
            }
        }
    }

    /// Ends a call, and the session that it may have been.
    fn finish(&mut self, connection: usize, call: usize, status: Status) {
        self.peers[connection].calls.remove(call);
        self.peers[connection].connection.finish(call, status);
        self.leave((connection, call));
    }

    /// Answers a call of one message.
    fn answer(&mut self, connection: usize, call: usize, result: Result<impl Message, Status>) {
        let peer = &mut self.peers[connection];
        let status = match result {
            Ok(message) => {
                peer.connection.send(call, &message);
                Status::ok()
            }
            Err(status) => status,
        };
        self.finish(connection, call, status);
    }

    fn carry_out(&mut self, device: &mut D, connection: usize, call: usize, method: Method, message: Bytes) {
        match method {
            Method::Write => {
                let result = decode(message).and_then(|request| self.write(device, &request));
                self.answer(connection, call, result.map(|()| WriteResponse {}));
            }
            Method::Read => match decode(message) {
                Ok(request) => self.peers[connection].calls.queue_read(call, request),
                Err(status) => self.finish(connection, call, status),
            },
            Method::SetConfig => {
                let result = decode(message).and_then(|request| self.set_config(device, request));
                self.answer(connection, call, result.map(|()| SetForwardingPipelineConfigResponse {}));
            }
            Method::GetConfig => {
                let result = decode(message).and_then(|request| self.get_config(request));
                self.answer(connection, call, result);
            }
            Method::Capabilities => {
                let result =
                    decode(message).and_then(|request: CapabilitiesRequest| match request.device_id {
                        0 => Ok(()),
                        id => self.check_device(id),
                    });
                self.answer(
                    connection,
                    call,
                    result.map(|()| CapabilitiesResponse { p4runtime_api_version: VERSION.to_string() }),
                );
            }
            Method::Stream => {}
        }
    }

    fn write(&mut self, device: &mut D, request: &WriteRequest) -> Result<(), Status> {
        self.check_device(request.device_id)?;
        self.arbitration.check_primary(&request.role, request.role_id, request.election_id)?;
        let atomicity = Atomicity::try_from(request.atomicity);
        let atomicity =
            atomicity.map_err(|_| Status::new(Code::InvalidArgument, "the atomicity is unknown"))?;
        self.forwarding(device)?.batch(&request.updates, atomicity)
    }

    /// The state that requests are for.
    fn forwarding<'a>(&'a mut self, device: &'a mut D) -> Result<Forwarding<'a, D::Pipeline>, Status> {
        if let Some((program, pipeline)) = &mut self.staged {
            return Ok(Forwarding { state: &mut program.state, pipeline });
        }
        match (&mut self.program, device.pipeline()) {
            (Some(program), Some(pipeline)) => Ok(Forwarding { state: &mut program.state, pipeline }),
            _ => Err(Status::new(Code::FailedPrecondition, "no forwarding pipeline config has been set")),
        }
    }

    fn check_device(&self, id: u64) -> Result<(), Status> {
        if id == self.device_id {
            return Ok(());
        }
        Err(Status::new(
            Code::NotFound,
            format!("there is no device {id}; this is device {}", self.device_id),
        ))
    }
}

fn decode<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|error| {
        Status::new(Code::InvalidArgument, format!("the message cannot be decoded: {error}"))
    })
}
