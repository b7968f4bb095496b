//! gRPC over HTTP/2 as a polled state machine between byte streams and calls.
//!
//! [`Connection`] is the connection of one peer. Its methods are of three kinds.
//! - *Transport*: [`receive`](Connection::receive), [`end_input`](Connection::end_input),
//!   [`transmit`](Connection::transmit), [`room`](Connection::room), [`is_closed`](Connection::is_closed).
//!   Called whenever the transport can move bytes.
//! - *Events*: [`poll`](Connection::poll). Called until it returns `None`, after bytes were moved and after
//!   calls were answered.
//! - *Answers*: [`admit`](Connection::admit), [`send`](Connection::send), [`finish`](Connection::finish).
//!
//! HTTP/2 is implemented by the `h2` crate, polled with a no-op waker: after every change everything is
//! polled again. No clock is read: `h2` reads a clock only to expire reset streams that it remembers, and it
//! is configured to remember none.

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

/// Maximum number of concurrent calls per peer.
const MAX_CALLS: u32 = 128;
/// Maximum size of incomplete messages over all calls of a connection, in bytes.
const MAX_UNFINISHED: usize = 80 << 20;
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Send-queue length in bytes above which a call is not read, so that its peer must take answers before it
/// sends further requests.
const OUTPUT_HIGH: usize = 1 << 20;
/// Send-queue length in bytes above which a call is ended.
const OUTPUT_MAX: usize = 8 << 20;

/// Event of a connection.
#[derive(Debug)]
pub enum Event {
    /// A call started. Its messages are not read before [`Connection::admit`].
    Call {
        /// Number of the call.
        call: usize,
        /// `/package.Service/Method`.
        path: String,
    },
    /// A message was received.
    Message {
        /// Number of the call.
        call: usize,
        /// Encoded message.
        message: Bytes,
    },
    /// The peer will send no more messages in this call.
    End {
        /// Number of the call.
        call: usize,
    },
    /// The call was cancelled by the peer, or lost with the connection.
    Cancelled {
        /// Number of the call, which may be reused.
        call: usize,
    },
}

enum State {
    Handshake(Box<server::Handshake<Pipe, Bytes>>),
    Open(Box<server::Connection<Pipe, Bytes>>),
    Closed,
}

/// Connection of one peer.
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
    /// Delivers bytes received from the peer, at most [`room`](Self::room).
    pub fn receive(&mut self, bytes: &[u8]) {
        self.pipe.receive(bytes);
    }

    /// Signals that the peer has closed its sending direction.
    pub fn end_input(&mut self) {
        self.pipe.end_input();
    }

    /// Number of bytes that [`receive`](Self::receive) accepts now.
    pub fn room(&self) -> usize {
        self.pipe.room()
    }

    /// Takes up to `limit` bytes to be sent to the peer.
    pub fn transmit(&mut self, limit: usize) -> Bytes {
        self.pipe.transmit(limit)
    }

    /// Number of bytes queued for [`transmit`](Self::transmit).
    pub fn outgoing(&self) -> usize {
        self.pipe.level().1
    }

    /// True if the connection is closed. Bytes may still be queued for transmission.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Returns the next event.
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

    /// Admits the messages of a call, up to `limit` bytes each.
    pub fn admit(&mut self, call: usize, limit: usize) {
        if let Some(call) = self.calls.get_mut(call) {
            call.admit(limit);
        }
    }

    /// Sends a message in an unfinished call.
    pub fn send(&mut self, call: usize, message: &impl Message) {
        if let Some(call) = self.calls.get_mut(call) {
            call.push(message);
        }
    }

    /// Number of bytes of messages queued for sending in a call.
    pub fn queued(&self, call: usize) -> usize {
        self.calls.get(call).map_or(0, Call::queued)
    }

    /// Ends a call after its queued messages are sent. The call emits no further events.
    pub fn finish(&mut self, call: usize, status: Status) {
        if let Some(call) = self.calls.get_mut(call) {
            call.finish(status);
        }
    }

    /// Polls everything once; returns true if anything changed.
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
                    // The peer failed or closed the connection; HTTP/2 has sent its final frames.
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

/// Creates a call from a request; rejects requests that are not gRPC.
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
        // A stream that is already closed needs no answer.
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
