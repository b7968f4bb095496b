//! A node: a child process whose lines are messages.

use crate::cli::Node;
use crate::clock::Clock;
use crate::message::Message;
use crate::post::{self, Receiver, Sender, is_client};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Client in whose name a node is initialised.
const STARTER: &str = "c0";
/// Time within which a node answers `init`.
const PATIENCE: Duration = Duration::from_secs(10);

/// Event of the node or the network.
enum Event {
    /// Line of the node's standard output, with its number.
    Line(usize, String),
    /// End of the node's standard output.
    End,
    Arrival(Message),
    Failure(String),
}

/// Runs a node: starts it, initialises it, then carries its messages until it ends.
///
/// # Errors
/// The node cannot be started, does not answer `init`, or writes a line that is no message.
pub fn run(options: &Node) -> Result<ExitCode, String> {
    if !options.nodes.contains(&options.id) {
        return Err(format!("--nodes lacks the node {}", options.id));
    }
    let clock = Clock::start();
    let (mut sender, receiver) = post::open(&options.clients, clock)?;
    let (program, arguments) = options.program.split_first().ok_or("a program is needed")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    let (events, incoming) = mpsc::channel();
    let output = child.stdout.take().ok_or("the node has no standard output")?;
    let lines = events.clone();
    std::thread::spawn(move || read_lines(BufReader::new(output), &lines));
    std::thread::spawn(move || receive(receiver, &events));
    let mut input = child.stdin.take().ok_or("the node has no standard input")?;
    let ended = start(options, &mut input, &incoming, clock).and_then(|held| {
        for message in held {
            if message.src == options.id { sender.send(&message)? } else { give(&mut input, &message) }
        }
        carry(options, &mut sender, &mut input, &incoming)
    });
    drop(input);
    if let Err(error) = ended {
        let _ = child.kill();
        return Err(error);
    }
    finish(options, &mut child)
}

/// Status of a node that has ended.
fn finish(options: &Node, child: &mut Child) -> Result<ExitCode, String> {
    let status = child.wait().map_err(|error| format!("{} is lost: {error}", options.id))?;
    match status.code() {
        Some(0) => Ok(ExitCode::SUCCESS),
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        None => Err(format!("{} ended by {status}", options.id)),
    }
}

fn read_lines(mut output: impl BufRead, events: &mpsc::Sender<Event>) {
    let mut number = 0;
    loop {
        let mut line = String::new();
        number += 1;
        let event = match output.read_line(&mut line) {
            Ok(0) => Event::End,
            Ok(_) if line.trim().is_empty() => continue,
            Ok(_) => Event::Line(number, line),
            Err(error) => Event::Failure(format!("the node's standard output cannot be read: {error}")),
        };
        let is_last = !matches!(event, Event::Line(..));
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

fn receive(mut receiver: Receiver, events: &mpsc::Sender<Event>) {
    loop {
        let event = match receiver.receive(None) {
            Ok(Some(message)) => Event::Arrival(message),
            Ok(None) => continue,
            Err(error) => Event::Failure(error),
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Writes a message to the node. One that has ended does not read it.
fn give(input: &mut ChildStdin, message: &Message) {
    let _ = writeln!(input, "{}", message.line()).and_then(|()| input.flush());
}

/// Initialises the node, and offers it the topology. Messages that arrive or are sent meanwhile are returned.
fn start(
    options: &Node,
    input: &mut ChildStdin,
    events: &mpsc::Receiver<Event>,
    clock: Clock,
) -> Result<Vec<Message>, String> {
    let mut held = Vec::new();
    let init = json!({"type": "init", "msg_id": 1, "node_id": options.id, "node_ids": options.nodes});
    request(options, input, events, init, clock, &mut held)?;
    if let Some(topology) = options.topology {
        let neighbours = topology.neighbours(&options.nodes);
        let body = json!({"type": "topology", "msg_id": 2, "topology": neighbours});
        request(options, input, events, body, clock, &mut held)?;
    }
    Ok(held)
}

/// Sends a request of the start, and waits for its answer.
fn request(
    options: &Node,
    input: &mut ChildStdin,
    events: &mpsc::Receiver<Event>,
    body: Value,
    clock: Clock,
    held: &mut Vec<Message>,
) -> Result<(), String> {
    let id = &options.id;
    let kind = body["type"].as_str().unwrap_or_default().to_owned();
    let number = body["msg_id"].clone();
    give(input, &Message::new(STARTER, id, body));
    let until = clock.now() + PATIENCE;
    loop {
        let wait = until.saturating_sub(clock.now());
        let event = events.recv_timeout(wait).map_err(|_| {
            format!(
                "{id} did not answer \"{kind}\" within {} s: a node answers with \"{kind}_ok\"",
                PATIENCE.as_secs()
            )
        })?;
        match event {
            Event::Arrival(message) => held.push(message),
            Event::Failure(error) => return Err(error),
            Event::End => return Err(format!("{id} ended before it answered \"{kind}\"")),
            Event::Line(line, text) => {
                let answer = message_of(options, line, &text)?;
                if answer.dest == STARTER && answer.body["in_reply_to"] == number {
                    return match answer.kind() {
                        answered if answered == format!("{kind}_ok") => Ok(()),
                        _ => Err(format!(
                            "{id} answered \"{kind}\" with {}: \"{kind}_ok\" is expected",
                            answer.body
                        )),
                    };
                }
                // Messages to others before the answer are kept, and sent after it.
                held.push(answer);
            }
        }
    }
}

/// Message in a line of the node.
fn message_of(options: &Node, line: usize, text: &str) -> Result<Message, String> {
    let message = Message::parse(text).map_err(|problem| {
        let text = text.trim_end();
        let id = &options.id;
        format!("{id}: line {line} of its standard output is no message, {problem}: {text:?}; a node writes other text to standard error")
    })?;
    // As in Maelstrom: a node that forwards a request may do so in the name of the client, whom the receiver answers.
    let is_known =
        message.src == options.id || is_client(&message.src) || options.nodes.contains(&message.src);
    if !is_known {
        return Err(format!(
            "{}: line {line} has the \"src\" {:?}: a node sends in its own name, or forwards in that of a client or node",
            options.id, message.src
        ));
    }
    Ok(message)
}

/// Carries messages until the node ends.
fn carry(
    options: &Node,
    sender: &mut Sender,
    input: &mut ChildStdin,
    events: &mpsc::Receiver<Event>,
) -> Result<(), String> {
    loop {
        match events.recv().map_err(|_| "messages cannot be received any more".to_owned())? {
            Event::Arrival(message) => give(input, &message),
            Event::Failure(error) => return Err(error),
            Event::End => return Ok(()),
            Event::Line(line, text) => {
                let message = message_of(options, line, &text)?;
                sender.send(&message).map_err(|error| format!("{}: line {line}: {error}", options.id))?;
            }
        }
    }
}
