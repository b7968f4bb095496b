//! gRPC client over a pipe, for tests.

use super::pipe::Pipe;
use crate::proto;
use base64::Engine as _;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Request;
use prost::Message;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Client side of a connection.
pub(crate) struct Client {
    pipe: Pipe,
    requests: SendRequest<Bytes>,
    connection: client::Connection<Pipe, Bytes>,
    calls: Vec<ClientCall>,
}

struct ClientCall {
    sending: SendStream<Bytes>,
    outgoing: BytesMut,
    half_close: bool,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    input: BytesMut,
    messages: VecDeque<Bytes>,
    status: Option<proto::Status>,
    paused: bool,
}

impl Client {
    pub fn new() -> Self {
        let pipe = Pipe::default();
        let handshake = client::Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake::<_, Bytes>(pipe.clone());
        let mut handshake = Box::pin(handshake);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok((requests, connection))) = handshake.as_mut().poll(&mut context) else {
            panic!("a client's handshake does not wait for its peer");
        };
        Self { pipe, requests, connection, calls: Vec::new() }
    }

    /// Starts a call; returns its number for the other methods.
    pub fn call(&mut self, method: &str) -> usize {
        let request = Request::post(format!("http://switch/p4.v1.P4Runtime/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (response, sending) = self.requests.send_request(request, false).unwrap();
        self.calls.push(ClientCall {
            sending,
            outgoing: BytesMut::new(),
            half_close: false,
            response: Some(response),
            body: None,
            input: BytesMut::new(),
            messages: VecDeque::new(),
            status: None,
            paused: false,
        });
        self.calls.len() - 1
    }

    pub fn send(&mut self, call: usize, message: &impl Message) {
        let encoded = message.encode_to_vec();
        let outgoing = &mut self.calls[call].outgoing;
        outgoing.put_u8(0);
        outgoing.put_u32(encoded.len() as u32);
        outgoing.put_slice(&encoded);
    }

    /// Sends arbitrary bytes, not necessarily a message.
    pub fn send_raw(&mut self, call: usize, bytes: &[u8]) {
        self.calls[call].outgoing.put_slice(bytes);
    }

    pub fn half_close(&mut self, call: usize) {
        self.calls[call].half_close = true;
    }

    pub fn cancel(&mut self, call: usize) {
        self.calls[call].sending.send_reset(h2::Reason::CANCEL);
    }

    /// Pauses or resumes reading of a call's body.
    pub fn pause(&mut self, call: usize, paused: bool) {
        self.calls[call].paused = paused;
    }

    pub fn message<M: Message + Default>(&mut self, call: usize) -> Option<M> {
        self.calls[call].messages.pop_front().map(|message| M::decode(message).unwrap())
    }

    pub fn status(&self, call: usize) -> Option<&proto::Status> {
        self.calls[call].status.as_ref()
    }

    /// Takes up to `limit` bytes for the server.
    pub fn transmit(&mut self, limit: usize) -> Bytes {
        self.pipe.transmit(limit)
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        self.pipe.receive(bytes);
    }

    pub fn room(&self) -> usize {
        self.pipe.room()
    }

    pub fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self.connection).poll(&mut context);
        for call in &mut self.calls {
            call.poll(&mut context);
        }
        let _ = Pin::new(&mut self.connection).poll(&mut context);
    }
}

impl ClientCall {
    fn poll(&mut self, context: &mut Context<'_>) {
        while !self.outgoing.is_empty() {
            self.sending.reserve_capacity(self.outgoing.len());
            let length = self.sending.capacity().min(self.outgoing.len());
            if length == 0 || self.sending.send_data(self.outgoing.split_to(length).freeze(), false).is_err()
            {
                break;
            }
        }
        if self.half_close && self.outgoing.is_empty() {
            self.half_close = false;
            let _ = self.sending.send_data(Bytes::new(), true);
        }
        if let Some(response) = &mut self.response
            && let Poll::Ready(result) = Pin::new(response).poll(context)
        {
            self.response = None;
            match result {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    self.body = Some(body);
                    if parts.headers.contains_key("grpc-status") {
                        self.end(&parts.headers);
                    }
                }
                Err(error) => self.lost(&error),
            }
        }
        while let (Some(body), false) = (&mut self.body, self.paused) {
            match body.poll_data(context) {
                Poll::Ready(Some(Ok(data))) => {
                    body.flow_control().release_capacity(data.len()).unwrap();
                    self.input.extend_from_slice(&data);
                }
                Poll::Ready(Some(Err(error))) => self.lost(&error),
                Poll::Ready(None) => {
                    if let Poll::Ready(Ok(Some(trailers))) = body.poll_trailers(context) {
                        self.end(&trailers);
                    }
                    break;
                }
                Poll::Pending => break,
            }
        }
        while self.input.len() >= 5 {
            let length = u32::from_be_bytes(self.input[1..5].try_into().unwrap()) as usize;
            if self.input.len() < 5 + length {
                break;
            }
            self.input.advance(5);
            self.messages.push_back(self.input.split_to(length).freeze());
        }
    }

    fn end(&mut self, trailers: &http::HeaderMap) {
        let text = |name: &str| trailers.get(name).map(|value| value.to_str().unwrap().to_string());
        let code = text("grpc-status").unwrap().parse().unwrap();
        let message = text("grpc-message").unwrap_or_default();
        let message = percent_encoding::percent_decode_str(&message).decode_utf8().unwrap().into_owned();
        self.status = Some(match text("grpc-status-details-bin") {
            Some(details) => {
                let details = base64::engine::general_purpose::STANDARD_NO_PAD.decode(details).unwrap();
                let status = proto::Status::decode(&details[..]).unwrap();
                assert_eq!((status.code, &status.message), (code, &message));
                status
            }
            None => proto::Status { code, message, details: Vec::new() },
        });
    }

    fn lost(&mut self, error: &h2::Error) {
        self.body = None;
        self.status.get_or_insert(proto::Status {
            code: -1,
            message: error.to_string(),
            details: Vec::new(),
        });
    }
}
