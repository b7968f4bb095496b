//! gRPC call: length-prefixed messages in both directions of an HTTP/2 stream.

use super::OUTPUT_HIGH;
use super::status::{Code, Status};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderValue, Response, header};
use prost::Message;
use std::collections::VecDeque;
use std::task::{Context, Poll};

/// Length of the message prefix: flag and length.
const PREFIX: usize = 5;

/// Result of advancing a call.
pub enum Step {
    /// No progress is possible now.
    Idle,
    /// Bytes were read or written.
    Progress,
    /// A message was received.
    Message(Bytes),
    /// The peer has closed its sending direction.
    End,
    /// Protocol violation of the peer. The call is being ended with a status; the owner need not answer.
    Failed,
    /// The call is finished and can be dropped.
    Gone {
        /// True if the owner has finished the call and needs no event.
        told: bool,
    },
}

/// Sending state: headers are sent with the first message or with the status.
enum Sending {
    Headers(SendResponse<Bytes>),
    Body(SendStream<Bytes>),
}

/// State of a call.
pub struct Call {
    receiving: Option<RecvStream>,
    sending: Sending,
    /// Input not yet decoded: at most one incomplete message and any messages received with it.
    input: BytesMut,
    /// Maximum message length; `None` before the call is admitted.
    limit: Option<usize>,
    output: VecDeque<Bytes>,
    queued: usize,
    status: Option<Status>,
}

impl Call {
    pub fn new(receiving: RecvStream, respond: SendResponse<Bytes>) -> Self {
        Self {
            receiving: Some(receiving),
            sending: Sending::Headers(respond),
            input: BytesMut::new(),
            limit: None,
            output: VecDeque::new(),
            queued: 0,
            status: None,
        }
    }

    pub fn admit(&mut self, limit: usize) {
        self.limit = Some(limit);
    }

    pub fn push(&mut self, message: &impl Message) {
        if self.status.is_some() {
            return;
        }
        let length = message.encoded_len();
        let mut framed = BytesMut::with_capacity(PREFIX + length);
        framed.put_u8(0);
        framed.put_u32(length as u32);
        framed.put_slice(&message.encode_to_vec());
        self.queued += framed.len();
        self.output.push_back(framed.freeze());
    }

    /// Number of bytes queued for sending.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// True if more than `limit` bytes are queued in more than one message. A single long message does not
    /// count.
    pub fn is_stuck(&self, limit: usize) -> bool {
        self.queued > limit && self.output.len() > 1
    }

    /// Number of bytes of incomplete messages.
    pub fn unfinished(&self) -> usize {
        self.input.len()
    }

    pub fn finish(&mut self, status: Status) {
        self.status.get_or_insert(status);
        self.receiving = None;
        self.input = BytesMut::new();
    }

    /// Ends the call and discards queued messages.
    pub fn give_up(&mut self, status: Status) {
        self.output.clear();
        self.queued = 0;
        self.finish(status);
    }

    /// True if the call has a status.
    pub fn is_over(&self) -> bool {
        self.status.is_some()
    }

    /// Reads and writes as far as possible. `budget` limits the bytes of incomplete messages.
    pub fn advance(&mut self, context: &mut Context<'_>, budget: usize) -> Step {
        let reset = match &mut self.sending {
            Sending::Headers(respond) => respond.poll_reset(context),
            Sending::Body(stream) => stream.poll_reset(context),
        };
        if reset.is_ready() {
            return Step::Gone { told: self.is_over() };
        }
        match self.write() {
            Ok(Some(step)) => return step,
            Ok(None) => {}
            // The stream was closed in the meantime.
            Err(_) => return Step::Gone { told: self.is_over() },
        }
        self.read(context, budget)
    }

    /// Sends messages as far as flow control allows, then the status.
    fn write(&mut self) -> Result<Option<Step>, h2::Error> {
        let mut progressed = false;
        if let (Sending::Headers(respond), true) = (&mut self.sending, !self.output.is_empty()) {
            self.sending = Sending::Body(respond.send_response(headers(), false)?);
            progressed = true;
        }
        if let Sending::Body(stream) = &mut self.sending {
            while let Some(first) = self.output.front_mut() {
                stream.reserve_capacity(self.queued);
                let length = stream.capacity().min(first.len());
                if length == 0 {
                    break;
                }
                stream.send_data(first.split_to(length), false)?;
                self.queued -= length;
                progressed = true;
                if first.is_empty() {
                    self.output.pop_front();
                }
            }
        }
        let Some(status) = self.status.as_ref().filter(|_| self.output.is_empty()) else {
            return Ok(progressed.then_some(Step::Progress));
        };
        match &mut self.sending {
            Sending::Headers(respond) => {
                let mut response = headers();
                response.headers_mut().extend(status.trailers());
                respond.send_response(response, true)?;
            }
            Sending::Body(stream) => stream.send_trailers(status.trailers())?,
        }
        Ok(Some(Step::Gone { told: true }))
    }

    fn read(&mut self, context: &mut Context<'_>, budget: usize) -> Step {
        let (Some(limit), Some(stream)) = (self.limit, &mut self.receiving) else {
            return Step::Idle;
        };
        loop {
            if self.queued > OUTPUT_HIGH {
                return Step::Idle;
            }
            if let Some((&flag, rest)) = self.input.split_first() {
                if flag != 0 {
                    return self.fail(Code::Unimplemented, "compressed messages are not supported");
                }
                if let Some(length) = rest.first_chunk() {
                    let length = u32::from_be_bytes(*length) as usize;
                    if length > limit {
                        let message = format!(
                            "a message of {length} bytes is longer than {limit}, the most for this call"
                        );
                        return self.fail(Code::ResourceExhausted, &message);
                    }
                    if rest.len() - 4 >= length {
                        self.input.advance(PREFIX);
                        return Step::Message(self.input.split_to(length).freeze());
                    }
                }
            }
            match stream.poll_data(context) {
                Poll::Pending => return Step::Idle,
                Poll::Ready(Some(Ok(data))) => {
                    if stream.flow_control().release_capacity(data.len()).is_err() {
                        return Step::Gone { told: self.is_over() };
                    }
                    if self.input.len() + data.len() > budget {
                        return self.fail(
                            Code::ResourceExhausted,
                            "the connection has too many bytes of unfinished messages",
                        );
                    }
                    self.input.extend_from_slice(&data);
                }
                Poll::Ready(Some(Err(_))) => return Step::Gone { told: self.is_over() },
                Poll::Ready(None) => {
                    if !self.input.is_empty() {
                        return self.fail(Code::Internal, "the call ends inside a message");
                    }
                    self.receiving = None;
                    return Step::End;
                }
            }
        }
    }

    fn fail(&mut self, code: Code, message: &str) -> Step {
        self.finish(Status::new(code, message));
        Step::Failed
    }
}

fn headers() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
