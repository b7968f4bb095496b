use super::client::Client;
use super::{Code, Connection, Event, Status};
use crate::proto::{CapabilitiesResponse, Error};
use prost::Message;

/// Connection of a server and its client.
struct Pair {
    server: Connection,
    client: Client,
}

impl Pair {
    fn new() -> Self {
        Self { server: Connection::default(), client: Client::new() }
    }

    /// Moves bytes in pieces of `piece` and collects the server's events, until no byte moves.
    fn run(&mut self, piece: usize) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            self.client.poll();
            let up = self.client.transmit(piece.min(self.server.room()));
            self.server.receive(&up);
            let before = events.len();
            while let Some(event) = self.server.poll() {
                if let Event::Call { call, .. } = event {
                    self.server.admit(call, 1 << 20);
                }
                events.push(event);
            }
            let down = self.server.transmit(piece.min(self.client.room()));
            self.client.receive(&down);
            self.client.poll();
            if up.is_empty() && down.is_empty() && events.len() == before {
                return events;
            }
        }
    }
}

fn text(value: &str) -> CapabilitiesResponse {
    CapabilitiesResponse { p4runtime_api_version: value.to_string() }
}

#[test]
fn a_call_and_its_answer() {
    for piece in [1, 7, 100_000] {
        let mut pair = Pair::new();
        let call = pair.client.call("Echo");
        pair.client.send(call, &text("hello"));
        pair.client.half_close(call);
        let events = pair.run(piece);
        let [Event::Call { call: number, path }, Event::Message { message, .. }, Event::End { .. }] =
            &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(path, "/p4.v1.P4Runtime/Echo");
        assert_eq!(CapabilitiesResponse::decode(message.clone()).unwrap(), text("hello"));
        pair.server.send(*number, &text("hello"));
        pair.server.finish(*number, Status::ok());
        assert!(pair.run(piece).is_empty());
        assert_eq!(pair.client.message(call), Some(text("hello")));
        assert_eq!(pair.client.status(call).unwrap().code, 0);
        assert!(pair.server.calls.is_empty());
    }
}

#[test]
fn a_status_has_its_message_and_details() {
    let mut pair = Pair::new();
    let call = pair.client.call("Echo");
    let events = pair.run(1000);
    let Event::Call { call: number, .. } = events[0] else { panic!("{events:?}") };
    let details = vec![
        Error { canonical_code: 6, message: "50% dänisch\n".to_string(), ..Error::default() },
        Error::default(),
    ];
    let status =
        Status { code: Code::Unknown, message: "50% dänisch\n".to_string(), details: details.clone() };
    pair.server.finish(number, status);
    pair.run(1000);
    let status = pair.client.status(call).unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "50% dänisch\n"));
    let unpacked: Vec<_> = status.details.iter().map(|any| Error::decode(&any.value[..]).unwrap()).collect();
    assert_eq!(unpacked, details);
    assert_eq!(status.details[0].type_url, "type.googleapis.com/p4.v1.Error");
}

#[test]
fn long_messages_pass_in_both_directions_and_too_long_ones_do_not() {
    let mut pair = Pair::new();
    let long = text(&"x".repeat(1 << 20 | 500).split_off(1000));
    let call = pair.client.call("Echo");
    pair.client.send(call, &long);
    let events = pair.run(100_000);
    let Some(Event::Message { call: number, message }) = events.last() else { panic!("{}", events.len()) };
    assert_eq!(CapabilitiesResponse::decode(message.clone()).unwrap(), long);
    for _ in 0..6 {
        pair.server.send(*number, &long);
    }
    pair.client.pause(call, true);
    pair.run(100_000);
    assert!(
        pair.server.queued(*number) > 3 << 20,
        "what the client does not take waits: {}",
        pair.server.queued(*number)
    );
    pair.client.pause(call, false);
    pair.run(100_000);
    assert_eq!(pair.server.queued(*number), 0);
    assert_eq!((0..6).filter(|_| pair.client.message(call) == Some(long.clone())).count(), 6);

    // A call whose client never reads is ended.
    pair.client.pause(call, true);
    for _ in 0..20 {
        pair.server.send(*number, &long);
    }
    assert!(matches!(pair.run(100_000)[..], [Event::Cancelled { .. }]));
    assert_eq!(pair.server.queued(*number), 0);

    let call = pair.client.call("Echo");
    pair.client.send_raw(call, &[0, 0, 0x10, 0, 1]);
    pair.run(100_000);
    let status = pair.client.status(call).unwrap();
    assert_eq!(status.code, Code::ResourceExhausted as i32);
    assert_eq!(status.message, "a message of 1048577 bytes is longer than 1048576, the most for this call");
}

#[test]
fn a_call_that_is_given_up_is_gone() {
    let mut pair = Pair::new();
    let call = pair.client.call("Echo");
    pair.client.send(call, &text("x"));
    pair.run(1000);
    pair.client.cancel(call);
    let events = pair.run(1000);
    assert!(matches!(events[..], [Event::Cancelled { .. }]), "{events:?}");
    assert!(pair.server.calls.is_empty());

    pair.client.call("Echo");
    pair.run(1000);
    pair.server.end_input();
    let events = pair.run(1000);
    assert!(matches!(events[..], [Event::Cancelled { .. }]), "{events:?}");
    assert!(pair.server.is_closed());
}

#[test]
fn unfinished_and_compressed_messages_are_refused() {
    for (bytes, code) in [(&[0, 0, 0, 0, 9, 1][..], Code::Internal), (&[1, 0, 0, 0, 0], Code::Unimplemented)]
    {
        let mut pair = Pair::new();
        let call = pair.client.call("Echo");
        pair.client.send_raw(call, bytes);
        pair.client.half_close(call);
        let events = pair.run(1000);
        assert!(matches!(events.last(), Some(Event::Cancelled { .. })), "{events:?}");
        assert_eq!(pair.client.status(call).unwrap().code, code as i32);
    }
}

#[test]
fn anything_may_come_instead_of_http() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    // Bytes from a real client, so that some errors follow a valid beginning.
    let mut client = Client::new();
    let call = client.call("Echo");
    client.send(call, &text("hello"));
    client.poll();
    let good = client.transmit(10_000);
    for round in 0..3_000 {
        let mut bytes = good.to_vec();
        match round % 3 {
            0 => bytes = (0..draw() % 200).map(|_| draw() as u8).collect(),
            1 => {
                for _ in 0..=draw() % 4 {
                    let at = draw() as usize % bytes.len();
                    bytes[at] = draw() as u8;
                }
            }
            _ => bytes.truncate(draw() as usize % bytes.len()),
        }
        let mut server = Connection::default();
        for piece in bytes.chunks(1 + draw() as usize % 64) {
            server.receive(piece);
            while let Some(event) = server.poll() {
                if let Event::Call { call, .. } = event {
                    server.admit(call, 1 << 20);
                }
            }
            server.transmit(usize::MAX);
        }
        server.end_input();
        while server.poll().is_some() {}
        assert!(server.is_closed(), "round {round}");
    }
}
