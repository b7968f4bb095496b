//! Proxy: carries channels over a byte stream between simulators on two machines.
//!
//! Two proxies connect the two simulators, each at the end of an ordinary channel. A proxy sends each message
//! received by the other with the same timestamp: the proxies add no simulated latency, and the two
//! simulators synchronise with each other, not with the proxies. Of consecutive SYNCs only the last one is
//! carried.
//!
//! ```text
//! hello    "belljar channel 1\n", then u8 number of channels, u8 1 if they synchronise
//! message  u8 channel, u8 type, u64 stamp; from type 0x40 on also 48 bytes of header, u32 length, the body
//! ```
//!
//! All numbers are little-endian. The type 0xff ends a channel whose simulator has gone.

use crate::channel::{Channel, Raw, SYNC};
use crate::error::{Error, Fault};
use crate::layer::{FIRST_TYPE, HEADER};
use crate::net::Net;
use crate::wait::Backoff;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

const HELLO: &[u8] = b"belljar channel 1\n";
const GONE: u8 = 0xff;
/// Length of a message without a body, and of the header of one with a body.
const SHORT: usize = 10;
const LONG: usize = SHORT + HEADER + 4;
/// Upper bound on the length of a body: lengths of frames have 16 bits.
const MOST: usize = 1 << 16;
/// Upper bound on the bytes queued for the other proxy; above it, channels are not read.
const ENOUGH: usize = 1 << 20;

/// Carries the channels until all their simulators or the other proxy have ended.
///
/// # Errors
/// If a simulator or the other proxy breaks the protocol, or the stream fails.
pub fn run(mut channels: Vec<Channel<Net>>, stream: TcpStream) -> Result<(), Error> {
    let mut far = Far::new(stream, &channels)?;
    let mut gone = vec![false; channels.len()];
    let mut backoff = Backoff::default();
    loop {
        let mut moved = far.receive()?;
        while let Some((number, message)) = far.arrived.front() {
            let (number, end) = (*number, message.kind == GONE);
            let Some(channel) = channels.get_mut(number) else {
                return Err(far.wrong(format!("it sent a message of channel {number}")));
            };
            if !end && !gone[number] && !channel.send_whole(message)? {
                break;
            }
            if end && !std::mem::replace(&mut gone[number], true) {
                channel.close();
            }
            far.arrived.pop_front();
            moved = true;
        }
        for (number, channel) in channels.iter_mut().enumerate().filter(|(number, _)| !gone[*number]) {
            while far.outgoing.len() < ENOUGH
                && let Some(message) = channel.poll_raw()?
            {
                far.send(number, &message);
                moved = true;
            }
        }
        moved |= far.flush()?;
        if far.closed || gone.iter().all(|gone| *gone) && far.outgoing.is_empty() {
            return Ok(());
        }
        if moved {
            backoff.reset();
        } else if backoff.wait() {
            for (number, (channel, gone)) in channels.iter_mut().zip(&mut gone).enumerate() {
                if !*gone && (channel.check_peer().is_err() || channel.has_ended()) {
                    *gone = true;
                    far.send(number, &Raw { kind: GONE, stamp: 0, header: [0; HEADER], body: Vec::new() });
                }
            }
        }
    }
}

/// Connection to the other proxy.
struct Far {
    stream: TcpStream,
    name: String,
    outgoing: Vec<u8>,
    /// Channel and offset of the last queued SYNC, if no message follows it.
    last_sync: Option<(usize, usize)>,
    incoming: Vec<u8>,
    arrived: VecDeque<(usize, Raw)>,
    closed: bool,
}

impl Far {
    /// Sends hello, and waits for the other proxy's.
    fn new(mut stream: TcpStream, channels: &[Channel<Net>]) -> Result<Far, Error> {
        let name =
            stream.peer_addr().map_or_else(|_| "the other proxy".into(), |peer| format!("proxy {peer}"));
        let failed = |error| Fault::system("connection", error).of(&name);
        let synchronised = channels.iter().all(Channel::is_synchronised);
        let own = [HELLO, &[channels.len() as u8, u8::from(synchronised)]].concat();
        stream.write_all(&own).map_err(failed)?;
        let mut theirs = vec![0; own.len()];
        match stream.read_exact(&mut theirs) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(Fault::Closed.of(&name)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(Fault::Intro("it said nothing: it is no proxy of channels".into()).of(&name));
            }
            read => read.map_err(failed)?,
        }
        let wrong = |reason: String| Err(Fault::Intro(reason).of(&name));
        if theirs[..HELLO.len()] != *HELLO {
            return wrong("it is no proxy of channels, or one of another version".into());
        }
        let (count, sync) = (theirs[HELLO.len()], theirs[HELLO.len() + 1] != 0);
        if usize::from(count) != channels.len() {
            return wrong(format!(
                "it carries {count} channels and this one {}: give both as many",
                channels.len()
            ));
        }
        if sync != synchronised {
            return wrong("only one of the two synchronises: give all addresses the same sync=".into());
        }
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
        Ok(Far {
            stream,
            name,
            outgoing: Vec::new(),
            last_sync: None,
            incoming: Vec::new(),
            arrived: VecDeque::new(),
            closed: false,
        })
    }

    fn wrong(&self, reason: String) -> Error {
        Fault::Message { number: 0, reason }.of(&self.name)
    }

    fn send(&mut self, number: usize, message: &Raw) {
        if message.kind == SYNC
            && let Some((_, at)) = self.last_sync.filter(|(last, _)| *last == number)
        {
            self.outgoing.truncate(at);
        }
        self.last_sync = (message.kind == SYNC).then_some((number, self.outgoing.len()));
        self.outgoing.extend([number as u8, message.kind]);
        self.outgoing.extend(message.stamp.to_le_bytes());
        if (FIRST_TYPE..GONE).contains(&message.kind) {
            self.outgoing.extend(message.header);
            self.outgoing.extend((message.body.len() as u32).to_le_bytes());
            self.outgoing.extend(&message.body);
        }
    }

    /// Writes to the stream without blocking; true if it accepted bytes.
    fn flush(&mut self) -> Result<bool, Error> {
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        match self.stream.write(&self.outgoing) {
            Ok(count) => {
                self.outgoing.drain(..count);
                self.last_sync = None;
                Ok(count > 0)
            }
            Err(error) => self.look_at(error),
        }
    }

    /// Reads from the stream without blocking; true if bytes or messages arrived.
    fn receive(&mut self) -> Result<bool, Error> {
        if self.incoming.len() > ENOUGH {
            return Ok(false);
        }
        let mut bytes = [0; 1 << 16];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.closed = self.arrived.is_empty(),
            Ok(count) => self.incoming.extend(&bytes[..count]),
            Err(error) => return self.look_at(error),
        }
        let mut at = 0;
        while let Some(length) = self.parse(at)? {
            at += length;
        }
        self.incoming.drain(..at);
        Ok(at > 0)
    }

    /// Parses the message at `at` if it is complete; returns its length.
    fn parse(&mut self, at: usize) -> Result<Option<usize>, Error> {
        let bytes = &self.incoming[at..];
        let word = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap_or_default());
        if bytes.len() < SHORT {
            return Ok(None);
        }
        let (number, kind, stamp) = (usize::from(bytes[0]), bytes[1], word(2));
        let mut message = Raw { kind, stamp, header: [0; HEADER], body: Vec::new() };
        let mut length = SHORT;
        if (FIRST_TYPE..GONE).contains(&kind) {
            if bytes.len() < LONG {
                return Ok(None);
            }
            let body = u32::from_le_bytes(bytes[LONG - 4..LONG].try_into().unwrap_or_default()) as usize;
            if body > MOST {
                return Err(self.wrong(format!("it sent {body} bytes at once")));
            }
            length = LONG + body;
            if bytes.len() < length {
                return Ok(None);
            }
            message.header.copy_from_slice(&bytes[SHORT..SHORT + HEADER]);
            message.body = bytes[LONG..length].to_vec();
        }
        self.arrived.push_back((number, message));
        Ok(Some(length))
    }

    /// Classifies an I/O error: would block, end of the connection, or failure.
    fn look_at(&mut self, error: std::io::Error) -> Result<bool, Error> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(false)
            }
            _ => Err(Fault::system("connection", error).of(&self.name)),
        }
    }
}
