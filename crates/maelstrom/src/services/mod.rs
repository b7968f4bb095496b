//! Services: nodes that others can rely on, or must not rely on.
//!
//! | service | promise |
//! |---|---|
//! | `lin-kv` | a linearizable map |
//! | `seq-kv` | a sequentially consistent map: a client may see older states, never older than before |
//! | `lww-kv` | replicas that are merged now and then, the last write of a key wins |
//! | `lin-tso` | integers that increase |
//!
//! `lin-kv` and `lin-tso` are a map and a counter. The others are built around the same map, and draw which of its states an operation sees.

mod kv;
mod lww;
mod sequential;
#[cfg(test)]
mod tests;

use crate::cli::ServiceOptions;
use crate::clock::Clock;
use crate::message::{MALFORMED, Message, NOT_SUPPORTED, error};
use crate::post;
use belljar_base::{Seed, Stream};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Service that the system offers to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Service {
    /// Linearizable map
    LinKv,
    /// Sequentially consistent map
    SeqKv,
    /// Map whose replicas are merged, the last write wins
    LwwKv,
    /// Source of increasing integers
    LinTso,
}

impl Service {
    /// All services.
    pub const ALL: [Service; 4] = [Service::LinKv, Service::SeqKv, Service::LwwKv, Service::LinTso];

    /// Name, which is that of its host.
    pub fn name(self) -> &'static str {
        match self {
            Service::LinKv => "lin-kv",
            Service::SeqKv => "seq-kv",
            Service::LwwKv => "lww-kv",
            Service::LinTso => "lin-tso",
        }
    }
}

/// State of a service.
enum State {
    Linear(kv::Pairs),
    Sequential(sequential::Sequential),
    Replicated(lww::Replicas),
    Timestamps(i64),
}

impl State {
    fn new(service: Service) -> State {
        match service {
            Service::LinKv => State::Linear(kv::Pairs::default()),
            Service::SeqKv => State::Sequential(sequential::Sequential::default()),
            Service::LwwKv => State::Replicated(lww::Replicas::default()),
            Service::LinTso => State::Timestamps(0),
        }
    }

    /// Body of the answer to a client's request.
    fn answer(&mut self, client: &str, body: &Value, random: &mut Stream) -> Value {
        if let State::Timestamps(next) = self {
            if body["type"] != "ts" {
                return error(NOT_SUPPORTED, format!("the request is \"ts\", not {}", body["type"]));
            }
            *next += 1;
            return json!({"type": "ts_ok", "ts": *next - 1});
        }
        let operation = match kv::Operation::parse(body) {
            Ok(operation) => operation,
            Err(answer) => return answer,
        };
        match self {
            State::Linear(pairs) => pairs.apply(&operation),
            State::Sequential(states) => states.apply(client, &operation, random),
            State::Replicated(replicas) => replicas.apply(&operation, random),
            State::Timestamps(_) => error(MALFORMED, "the request is \"ts\""),
        }
    }
}

/// Runs a service, without an end.
///
/// # Errors
/// The socket fails.
pub fn run(options: &ServiceOptions) -> Result<ExitCode, String> {
    let (mut sender, mut receiver) = post::open(&options.clients, Clock::start())?;
    let mut state = State::new(options.service);
    let name = options.service.name();
    let mut random = drawn_seed()?.stream(&["maelstrom", name]);
    loop {
        let Some(message) = receiver.receive(None)? else { continue };
        let mut body = state.answer(&message.src, &message.body, &mut random);
        body["in_reply_to"] = message.body["msg_id"].clone();
        if let Err(problem) = sender.send(&Message::new(name, &message.src, body)) {
            eprintln!("belljar-maelstrom: {name}: {problem}");
        }
    }
}

/// Random seed from the host, which a simulation derives from its own.
///
/// # Errors
/// The host has no random device.
pub fn drawn_seed() -> Result<Seed, String> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|error| format!("/dev/urandom cannot be read: {error}"))?;
    Ok(Seed(u64::from_le_bytes(bytes)))
}
