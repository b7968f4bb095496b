//! Meaningless messages.

use super::World;
use super::builders::*;
use crate::proto::{Atomicity, StreamMessageRequest, WriteRequest};
use prost::Message;

/// Pseudo-random numbers (xorshift).
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

#[test]
fn broken_messages_are_refused_and_the_server_goes_on() {
    let mut draw = Draw(0x2545_f491_4f6c_dd1d);
    let mut world = World::new();
    let write = WriteRequest {
        device_id: 1,
        election_id: Some(1.into()),
        updates: vec![insert(table(route(1, 1))), modify(table(rule(1, 5))), delete(all(ECMP))],
        atomicity: Atomicity::DataplaneAtomic as i32,
        ..WriteRequest::default()
    };
    let stream = StreamMessageRequest::default();
    let samples = [
        ("Write", write.encode_to_vec()),
        ("Read", write.encode_to_vec()),
        ("StreamChannel", stream.encode_to_vec()),
    ];
    let rounds =
        std::env::var("BELLJAR_FUZZ_ROUNDS").map_or(2_000, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let (method, sample) = &samples[round % samples.len()];
        let mut message = sample.clone();
        for _ in 0..draw.next(6) {
            let at = draw.next(message.len() + 1);
            match draw.next(3) {
                0 => message.truncate(at),
                1 => message.insert(at, draw.next(256) as u8),
                _ => {
                    if let Some(byte) = message.get_mut(at) {
                        *byte = draw.next(256) as u8;
                    }
                }
            }
        }
        let client = world.client(0);
        let call = client.call(method);
        client.send_raw(call, &[&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat());
        client.half_close(call);
        world.run();
        assert!(world.client(0).status(call).is_some(), "round {round}: {method} {message:?}");
    }
    world.write(insert(table(route(200, 1)))).unwrap();
}
