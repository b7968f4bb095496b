//! `StreamChannel`: arbitration, packets, digests and idle timeouts.

use super::arbitration::SessionId;
use super::{Server, decode, packets};
use crate::data;
use crate::grpc::Code;
use crate::pipeline::{Device, Pipeline};
use crate::proto::stream_error::Details;
use crate::proto::stream_message_request::Update as Request;
use crate::proto::stream_message_response::Update as Response;
use crate::proto::{
    DigestList, DigestListAck, DigestListAckError, IdleTimeoutNotification, PacketOut, PacketOutError,
    StreamError, StreamMessageRequest, StreamMessageResponse, StreamOtherError,
};
use crate::refusal::Refusal;
use belljar_base::Set;
use bytes::Bytes;

/// Send-queue length in bytes above which packets, digests and errors for a controller are dropped.
const MAX_QUEUED: usize = 4 << 20;

impl<D: Device> Server<D> {
    pub(super) fn stream_message(&mut self, device: &mut D, session: SessionId, message: Bytes) {
        let request: StreamMessageRequest = match decode(message) {
            Ok(request) => request,
            Err(status) => return self.finish(session.0, session.1, status),
        };
        let result = match request.update {
            Some(Request::Arbitration(update)) => {
                match self.arbitration.update(self.device_id, session, &update) {
                    Ok(notices) => self.notify(notices),
                    Err(status) => self.finish(session.0, session.1, status),
                }
                return;
            }
            Some(Request::Packet(packet)) => {
                let result = self.packet_out(device, session, &packet);
                result.map_err(|refusal| {
                    (refusal, Details::PacketOut(PacketOutError { packet_out: Some(packet) }))
                })
            }
            Some(Request::DigestAck(ack)) => {
                let result = self.acknowledge(device, session, &ack);
                result.map_err(|refusal| {
                    (refusal, Details::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) }))
                })
            }
            Some(Request::Other(other)) => {
                let refusal = Refusal::unimplemented("this switch has no messages of other architectures");
                Err((refusal, Details::Other(StreamOtherError { other: Some(other) })))
            }
            None => Err((
                Refusal::invalid("the stream message is not set"),
                Details::Other(StreamOtherError::default()),
            )),
        };
        if let Err((refusal, details)) = result {
            let error = StreamError {
                canonical_code: refusal.code as i32,
                message: refusal.message,
                details: Some(details),
                ..StreamError::default()
            };
            self.send(session, Response::Error(error));
        }
    }

    fn packet_out(&mut self, device: &mut D, session: SessionId, packet: &PacketOut) -> Result<(), Refusal> {
        self.check_session(session)?;
        let Some(program) = &self.program else {
            return Err(Refusal::new(Code::FailedPrecondition, "no forwarding pipeline config has been set"));
        };
        let frame = packets::packet_out(program.state.objects.packet_out.as_deref(), packet)?;
        device.packet_out(frame)
    }

    fn acknowledge(
        &mut self,
        device: &mut D,
        session: SessionId,
        ack: &DigestListAck,
    ) -> Result<(), Refusal> {
        self.check_session(session)?;
        let digests = self.program.as_ref().map(|program| &program.state.objects.digests);
        let digest = digests.and_then(|digests| digests.get(&ack.digest_id));
        let (name, _) = digest
            .ok_or_else(|| Refusal::invalid(format!("P4Info has no digest {:#010x}", ack.digest_id)))?;
        device.pipeline().map_or(Ok(()), |pipeline| pipeline.acknowledge_digest(name, ack.list_id))
    }

    fn check_session(&self, session: SessionId) -> Result<(), Refusal> {
        if self.arbitration.is_primary(session) {
            return Ok(());
        }
        Err(Refusal::new(Code::PermissionDenied, "not the primary controller"))
    }

    /// Sends a packet from the CPU port, without its header, to the primary of every role.
    pub fn packet_in(&mut self, frame: &[u8]) {
        let Some(program) = &self.program else { return };
        if let Some(packet) = packets::packet_in(program.state.objects.packet_in.as_deref(), frame) {
            self.tell(&Response::Packet(packet));
        }
    }

    /// Sends a list of digest samples, one number per field, to controllers.
    pub fn digest(&mut self, name: &str, list_id: u64, samples: Vec<Vec<Vec<u8>>>, now: u64) {
        let Some(program) = &self.program else { return };
        let digest = program.state.objects.digests.iter().find(|(_, (known, _))| known == name);
        let Some((id, (_, Some(kind)))) = digest else { return };
        if !program.state.digests.contains_key(id) {
            return;
        }
        let mut list = DigestList {
            digest_id: *id,
            list_id,
            data: Vec::with_capacity(samples.len()),
            timestamp: now as i64,
        };
        // The samples of a list are deduplicated.
        let mut seen = Set::new();
        for sample in samples {
            if seen.insert(sample.clone()) {
                list.data.extend(data::pack(kind, &mut sample.into_iter()));
            }
        }
        self.tell(&Response::Digest(list));
    }

    /// Notifies controllers of table entries that exceeded their idle timeouts.
    pub fn idle_timeouts(&mut self, table: &str, handles: &[u64], device: &mut D, now: u64) {
        let (Some(program), Some(pipeline)) = (&mut self.program, device.pipeline()) else { return };
        let forwarding = crate::state::Forwarding { state: &mut program.state, pipeline };
        let table_entry: Vec<_> =
            handles.iter().filter_map(|handle| forwarding.idle_entry(table, *handle)).collect();
        if !table_entry.is_empty() {
            self.tell(&Response::IdleTimeoutNotification(IdleTimeoutNotification {
                table_entry,
                timestamp: now as i64,
            }));
        }
    }

    /// Ends a session, if the call is one; notifies the other sessions of its role.
    pub(super) fn leave(&mut self, session: SessionId) {
        let notices = self.arbitration.leave(self.device_id, session);
        self.notify(notices);
    }

    fn notify(&mut self, notices: super::arbitration::Notices) {
        for ((connection, call), update) in notices {
            if let Some(peer) = self.peers.get_mut(connection) {
                peer.connection
                    .send(call, &StreamMessageResponse { update: Some(Response::Arbitration(update)) });
            }
        }
    }

    /// Sends a message to the primary of every role.
    fn tell(&mut self, message: &Response) {
        let primaries: Vec<SessionId> = self.arbitration.primaries().collect();
        for session in primaries {
            self.send(session, message.clone());
        }
    }

    /// Sends a message unless the controller's queue is full.
    fn send(&mut self, (connection, call): SessionId, message: Response) {
        if let Some(peer) = self.peers.get_mut(connection)
            && peer.connection.queued(call) < MAX_QUEUED
        {
            peer.connection.send(call, &StreamMessageResponse { update: Some(message) });
        }
    }
}
