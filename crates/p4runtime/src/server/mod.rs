//! P4Runtime server of a switch.
//!
//! [`Server`] is a state machine. Its methods are of four kinds.
//! - *Transport*: [`accept`](Server::accept), [`receive`](Server::receive), [`end_input`](Server::end_input),
//!   [`transmit`](Server::transmit), [`close`](Server::close), [`room`](Server::room),
//!   [`outgoing`](Server::outgoing), [`is_closed`](Server::is_closed), for each connection.
//! - *Work*: [`poll`](Server::poll), after bytes were received or transmitted and after events of the switch.
//!   It executes requests on the switch.
//! - *Events of the switch*: [`packet_in`](Server::packet_in), [`digest`](Server::digest),
//!   [`idle_timeouts`](Server::idle_timeouts).
//! - *Set-up*: [`install`](Server::install), [`import`](Server::import).
//!
//! Times are ns since the epoch, passed in by the caller.

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

/// P4Runtime version reported by `Capabilities`.
const VERSION: &str = "1.3.0";

/// Program with the state written by controllers.
#[derive(Debug)]
struct Program {
    config: ForwardingPipelineConfig,
    state: State,
}

struct Peer {
    connection: Connection,
    calls: Calls,
}

/// P4Runtime server of one device.
pub struct Server<D: Device> {
    device_id: u64,
    peers: Slab<Peer>,
    arbitration: Arbitration,
    program: Option<Program>,
    /// Program saved but not yet committed; requests apply to it.
    staged: Option<(Program, D::Pipeline)>,
    writes: Writes,
}

impl<D: Device> Server<D> {
    /// Creates the server of the device with this id.
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

    /// Sets the processing time of each update in a `Write`, and of a `SetForwardingPipelineConfig`. Writes
    /// are executed sequentially, each at the end of its processing time; [`next_event`](Self::next_event)
    /// returns that time.
    pub fn set_write_time(&mut self, time: SimDuration) {
        self.writes.time = time;
    }

    /// Time at which [`poll`](Self::poll) executes the next delayed write.
    pub fn next_event(&self) -> Option<SimTime> {
        self.writes.next()
    }

    /// Registers an accepted connection; returns its number for the other methods.
    pub fn accept(&mut self) -> usize {
        self.peers.insert(Peer { connection: Connection::default(), calls: Calls::default() })
    }

    /// Delivers bytes received on a connection, at most [`room`](Self::room).
    pub fn receive(&mut self, connection: usize, bytes: &[u8]) {
        self.peers[connection].connection.receive(bytes);
    }

    /// Signals that the client has closed its sending direction.
    pub fn end_input(&mut self, connection: usize) {
        self.peers[connection].connection.end_input();
    }

    /// Number of bytes that [`receive`](Self::receive) accepts now.
    pub fn room(&self, connection: usize) -> usize {
        self.peers[connection].connection.room()
    }

    /// Takes up to `limit` bytes to be sent on a connection.
    pub fn transmit(&mut self, connection: usize, limit: usize) -> Bytes {
        self.peers[connection].connection.transmit(limit)
    }

    /// Number of bytes queued for [`transmit`](Self::transmit).
    pub fn outgoing(&self, connection: usize) -> usize {
        self.peers[connection].connection.outgoing()
    }

    /// True if a connection is closed; bytes may still be queued for transmission.
    pub fn is_closed(&self, connection: usize) -> bool {
        self.peers[connection].connection.is_closed()
    }

    /// Releases a connection and ends its sessions. Its number may be reused.
    pub fn close(&mut self, connection: usize) {
        let peer = self.peers.remove(connection);
        self.writes.forget(|of| of.0 == connection);
        for call in peer.calls.streams() {
            self.leave((connection, call));
        }
    }

    /// Executes received requests on the switch.
    pub fn poll(&mut self, device: &mut D) {
        let connections: Vec<usize> = self.peers.iter().map(|(connection, _)| connection).collect();
        // A request on one connection may cause messages on another, so all are polled until none has an
        // event.
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

    /// Ends a call and, for a stream, its session.
    fn finish(&mut self, connection: usize, call: usize, status: Status) {
        self.peers[connection].calls.remove(call);
        self.peers[connection].connection.finish(call, status);
        self.leave((connection, call));
    }

    /// Answers a unary call.
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

    /// State to which requests apply.
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
