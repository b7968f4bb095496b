//! Calls in progress on a connection.

use super::Server;
use crate::grpc::{Code, Status};
use crate::pipeline::Device;
use crate::proto::{self, Entity, ReadRequest, ReadResponse};
use belljar_base::Map;
use bytes::Bytes;
use prost::Message;
use std::collections::VecDeque;

/// Maximum size of the entities in one `Read` response, in bytes.
const RESPONSE: usize = 64 * 1024;
/// Send-queue length in bytes up to which a `Read` continues.
const AHEAD: usize = 256 * 1024;

/// Method of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Write,
    Read,
    SetConfig,
    GetConfig,
    Stream,
    Capabilities,
}

impl Method {
    pub fn of_path(path: &str) -> Option<Self> {
        match path.strip_prefix("/p4.v1.P4Runtime/")? {
            "Write" => Some(Self::Write),
            "Read" => Some(Self::Read),
            "SetForwardingPipelineConfig" => Some(Self::SetConfig),
            "GetForwardingPipelineConfig" => Some(Self::GetConfig),
            "StreamChannel" => Some(Self::Stream),
            "Capabilities" => Some(Self::Capabilities),
            _ => None,
        }
    }

    /// Maximum length of a request in bytes.
    pub fn limit(self) -> usize {
        match self {
            Self::SetConfig => 64 << 20,
            Self::Write => 16 << 20,
            Self::Read | Self::Stream => 1 << 20,
            Self::GetConfig | Self::Capabilities => 1 << 10,
        }
    }
}

struct Under {
    method: Method,
    message: Option<Bytes>,
}

/// `Read` being answered.
struct Reading {
    call: usize,
    entities: std::vec::IntoIter<Entity>,
    status: Status,
}

/// Calls of one connection.
#[derive(Default)]
pub struct Calls {
    under: Map<usize, Under>,
    /// Pending reads. Reads are answered one at a time, so that a connection buffers the entities of one
    /// only.
    reads: VecDeque<(usize, ReadRequest)>,
    reading: Option<Reading>,
}

impl Calls {
    pub fn begin(&mut self, call: usize, method: Method) {
        self.under.insert(call, Under { method, message: None });
    }

    /// Accepts a message. Messages of a stream are returned at once, others are kept until the client has
    /// half-closed the call.
    pub fn take_message(&mut self, call: usize, message: Bytes) -> Result<Option<Bytes>, Status> {
        match self.under.get_mut(&call) {
            None => Ok(None),
            Some(Under { method: Method::Stream, .. }) => Ok(Some(message)),
            Some(under) if under.message.is_none() => {
                under.message = Some(message);
                Ok(None)
            }
            Some(_) => Err(Status::new(Code::InvalidArgument, "the call takes one message")),
        }
    }

    /// Handles the half-close by the client; returns the request to execute.
    pub fn complete(&mut self, call: usize) -> Result<Option<(Method, Bytes)>, Status> {
        match self.under.get_mut(&call) {
            None => Ok(None),
            Some(under) => match (under.method, under.message.take()) {
                (Method::Stream, _) => Ok(Some((Method::Stream, Bytes::new()))),
                (method, Some(message)) => Ok(Some((method, message))),
                (_, None) => Err(Status::new(Code::InvalidArgument, "the call has no message")),
            },
        }
    }

    pub fn remove(&mut self, call: usize) {
        self.under.remove(&call);
        self.reads.retain(|(waiting, _)| *waiting != call);
        self.reading.take_if(|reading| reading.call == call);
    }

    pub fn streams(&self) -> Vec<usize> {
        self.under.iter().filter(|(_, under)| under.method == Method::Stream).map(|(call, _)| *call).collect()
    }

    pub fn queue_read(&mut self, call: usize, request: ReadRequest) {
        self.reads.push_back((call, request));
    }
}

impl<D: Device> Server<D> {
    /// Answers reads as far as the client accepts answers; returns true on progress.
    pub(super) fn continue_reads(&mut self, device: &mut D, connection: usize) -> bool {
        let mut progressed = false;
        loop {
            let peer = &mut self.peers[connection];
            let Some(mut reading) = peer.calls.reading.take() else {
                let Some((call, request)) = peer.calls.reads.pop_front() else { return progressed };
                progressed = true;
                match self.read(device, &request) {
                    Ok((entities, status)) => {
                        self.peers[connection].calls.reading =
                            Some(Reading { call, entities: entities.into_iter(), status });
                    }
                    Err(status) => self.finish(connection, call, status),
                }
                continue;
            };
            while reading.entities.len() > 0 {
                if peer.connection.queued(reading.call) > AHEAD {
                    peer.calls.reading = Some(reading);
                    return progressed;
                }
                progressed = true;
                let (mut response, mut size) = (ReadResponse::default(), 0);
                while let Some(entity) = reading.entities.as_slice().first().filter(|_| size < RESPONSE) {
                    size += entity.encoded_len();
                    response.entities.extend(reading.entities.next());
                }
                peer.connection.send(reading.call, &response);
            }
            self.finish(connection, reading.call, reading.status);
        }
    }

    /// Entities that a `Read` requests, and its final status.
    fn read(&mut self, device: &mut D, request: &ReadRequest) -> Result<(Vec<Entity>, Status), Status> {
        self.check_device(request.device_id)?;
        let forwarding = self.forwarding(device)?;
        let mut entities = Vec::new();
        let mut details = Vec::with_capacity(request.entities.len());
        let mut failed = 0;
        for entity in &request.entities {
            let before = entities.len();
            match forwarding.read(entity, &mut entities) {
                Ok(()) => details.push(proto::Error::default()),
                Err(refusal) => {
                    entities.truncate(before);
                    details.push(refusal.to_error());
                    failed += 1;
                }
            }
        }
        let status = match failed {
            0 => Status::ok(),
            _ => Status {
                code: Code::Unknown,
                message: format!("{failed} of {} requests failed", details.len()),
                details,
            },
        };
        Ok((entities, status))
    }
}
