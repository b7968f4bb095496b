//! gRPC over HTTP/2 as a polled state machine: bytes in, calls and messages out, and back.
//!
//! [`Connection`] is one peer's connection. Its methods are of three kinds.
//! - *Transport*: [`receive`](Connection::receive), [`end_input`](Connection::end_input),
//!   [`transmit`](Connection::transmit), [`room`](Connection::room), [`is_closed`](Connection::is_closed). Bytes are moved
//!   whenever the transport can.
//! - *Events*: [`poll`](Connection::poll), after bytes came or went and after calls were answered, until it gives none.
//! - *Answers*: [`admit`](Connection::admit), [`send`](Connection::send), [`finish`](Connection::finish).
//!
//! HTTP/2 itself is the `h2` crate, polled with a waker that does nothing: after every change everything is polled again.
//! No clock is read: `h2` reads one only for streams that it has reset and remembers, and it is told to remember none.

mod call;
mod pipe;
mod status;

pub use status::{Code, Status};

use bytes::Bytes;
use call::{Call, Step};
use h2::server;
use http::{Response, StatusCode};
use pipe::Pipe;
use prost::Message;
use slab::Slab;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Calls that a peer may have open.
const MAX_CALLS: u32 = 128;
/// Bytes of unfinished messages that a connection keeps at most, over all its calls.
const MAX_UNFINISHED: usize = 80 << 20;
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// A call with this much to send is not read any more, so its peer has to take answers before it can ask on.
const OUTPUT_HIGH: usize = 1 << 20;
/// A call whose peer leaves this much unread is ended.
const OUTPUT_MAX: usize = 8 << 20;

/// An event on a connection.
#[derive(Debug)]
pub enum Event {
    /// A call began. It is not read before [`Connection::admit`].
    Call {
        /// The call, in all that follows.
        call: usize,
        /// `/package.Service/Method`.
        path: String,
    },
    /// A message came.
    Message {
        /// The call.
        call: usize,
        /// The message, encoded.
        message: Bytes,
    },
    /// The peer sends no more messages in this call.
    End {
        /// The call.
        call: usize,
    },
    /// The call is gone: given up by the peer, or lost with the connection.
    Cancelled {
        /// The call. The number may be used again.
        call: usize,
    },
}

enum State {
    Handshake(Box<server::Handshake<Pipe, Bytes>>),
    Open(Box<server::Connection<Pipe, Bytes>>),
    Closed,
}

/// One peer's connection.
pub struct Connection {
    pipe: Pipe,
    state: State,
    calls: Slab<Call>,
    events: VecDeque<Event>,
}

impl Default for Connection {
    fn default() -> Self {
        let pipe = Pipe::default();
        let handshake = server::Builder::new()
            .max_concurrent_streams(MAX_CALLS)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(256 * 1024)
            .max_header_list_size(16 * 1024)
            .max_concurrent_reset_streams(0)
            .handshake(pipe.clone());
        Self {
            pipe,
            state: State::Handshake(Box::new(handshake)),
            calls: Slab::new(),
            events: VecDeque::new(),
        }
    }
}

impl Connection {
    /// Takes bytes from the peer, at most [`room`](Self::room) of them.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.pipe.receive(bytes);
    }

    /// The peer has closed its side of the byte stream.
    pub fn end_input(&mut self) {
        self.pipe.end_input();
    }

    /// The number of bytes that can be received now.
    pub fn room(&self) -> usize {
        self.pipe.room()
    }

    /// Takes up to `limit` bytes for the peer.
    pub fn transmit(&mut self, limit: usize) -> Bytes {
        self.pipe.transmit(limit)
    }

    /// The number of bytes that wait for [`transmit`](Self::transmit).
    pub fn outgoing(&self) -> usize {
        self.pipe.level().1
    }

    /// True if the connection is over. Bytes may still wait to be transmitted.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// The next event.
    pub fn poll(&mut self) -> Option<Event> {
        while self.events.is_empty() {
            let before = self.pipe.level();
            let progressed = self.advance();
            if !progressed && self.pipe.level() == before {
                return None;
            }
        }
        self.events.pop_front()
    }

    /// Lets messages of a call come in, up to `limit` bytes each.
    pub fn admit(&mut self, call: usize, limit: usize) {
        if let Some(call) = self.calls.get_mut(call) {
            call.admit(limit);
        }
    }

    /// Sends a message in a call that is not finished.
    pub fn send(&mut self, call: usize, message: &impl Message) {
        if let Some(call) = self.calls.get_mut(call) {
            call.push(message);
        }
    }

    /// Bytes of messages that a call has not been able to send yet.
    pub fn queued(&self, call: usize) -> usize {
        self.calls.get(call).map_or(0, Call::queued)
    }

    /// Ends a call once what was sent in it has gone out. The call gives no more events.
    pub fn finish(&mut self, call: usize, status: Status) {
        if let Some(call) = self.calls.get_mut(call) {
            call.finish(status);
        }
    }

    /// Polls everything once; whether anything changed.
    fn advance(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut progressed = false;
        match &mut self.state {
            State::Closed => return false,
            State::Handshake(handshake) => match Pin::new(handshake.as_mut()).poll(&mut context) {
                Poll::Pending => return false,
                Poll::Ready(Ok(connection)) => {
                    self.state = State::Open(Box::new(connection));
                    return true;
                }
                Poll::Ready(Err(_)) => return self.close(),
            },
            State::Open(connection) => loop {
                match connection.poll_accept(&mut context) {
                    Poll::Pending => break,
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        progressed = true;
                        accept(&mut self.calls, &mut self.events, request, respond);
                    }
                    // The peer's error, or its end: HTTP/2 has said what there is to say.
                    Poll::Ready(None | Some(Err(_))) => return self.close(),
                }
            },
        }
        progressed | self.advance_calls(&mut context)
    }

    fn advance_calls(&mut self, context: &mut Context<'_>) -> bool {
        let mut progressed = false;
        let mut unfinished: usize = self.calls.iter().map(|(_, call)| call.unfinished()).sum();
        let numbers: Vec<usize> = self.calls.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let call = &mut self.calls[number];
            unfinished -= call.unfinished();
            if call.is_stuck(OUTPUT_MAX) {
                call.give_up(Status::new(
                    Code::ResourceExhausted,
                    "the client does not read what it is sent",
                ));
                self.events.push_back(Event::Cancelled { call: number });
            }
            match call.advance(context, MAX_UNFINISHED.saturating_sub(unfinished)) {
                Step::Idle => {}
                Step::Progress => progressed = true,
                Step::Message(message) => self.events.push_back(Event::Message { call: number, message }),
                Step::End => self.events.push_back(Event::End { call: number }),
                Step::Failed => {
                    progressed = true;
                    self.events.push_back(Event::Cancelled { call: number });
                }
                Step::Gone { told } => {
                    progressed = true;
                    self.calls.remove(number);
                    if !told {
                        self.events.push_back(Event::Cancelled { call: number });
                    }
                    continue;
                }
            }
            unfinished += self.calls[number].unfinished();
        }
        progressed | !self.events.is_empty()
    }

    fn close(&mut self) -> bool {
        self.state = State::Closed;
        for (number, call) in &self.calls {
            if !call.is_over() {
                self.events.push_back(Event::Cancelled { call: number });
            }
        }
        self.calls.clear();
        true
    }
}

/// Makes a call of a request, or refuses what is no gRPC.
fn accept(
    calls: &mut Slab<Call>,
    events: &mut VecDeque<Event>,
    request: http::Request<h2::RecvStream>,
    mut respond: server::SendResponse<Bytes>,
) {
    let kind =
        request.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if request.method() != http::Method::POST || !kind.starts_with("application/grpc") {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        // A stream that is gone already needs no answer.
        let _ = respond.send_response(response, true);
        return;
    }
    let path = request.uri().path().to_string();
    let call = calls.insert(Call::new(request.into_body(), respond));
    events.push_back(Event::Call { call, path });
}

#[cfg(test)]
pub(crate) mod client;
#[cfg(test)]
mod tests;
