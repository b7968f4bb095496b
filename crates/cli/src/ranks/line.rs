//! Control connections between rank 0 and each other rank: messages before and after the simulation, and
//! urgent events during it.
//!
//! A frame is a kind (one byte), the length of the content (64 bits, little-endian), and the content. Each
//! line has a reader thread: messages are queued, while an interruption or the loss of a rank is handled at
//! once.

use crate::progress::now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Capacity of the receive queue in frames; the reader blocks when it is full.
const QUEUE: usize = 8;
/// Threshold in bytes above which a buffered stream is sent as a piece.
pub const PIECE: usize = 256 << 10;
/// Upper bound on the length of a greeting, in bytes: the sender is not authenticated yet.
const GREETING: u64 = 16 << 10;
/// Interval at which the end conditions of a wait are checked.
pub const LOOK: Duration = Duration::from_millis(200);
/// Timeout for a greeting.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// Value in JSON.
    Said = 1,
    /// Piece of a byte stream; an empty piece ends the stream.
    Piece = 2,
    /// Request that hosts leave their windows.
    Interrupt = 3,
    /// Loss of a rank.
    Part = 4,
}

/// Event of a line that is handled at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Request that hosts leave their windows.
    Interrupt,
    /// Loss of a rank, or of the connection.
    Part,
}

/// Line to another rank.
#[derive(Debug)]
pub struct Line {
    writer: Mutex<TcpStream>,
    said: Mutex<Receiver<(Kind, Vec<u8>)>>,
}

/// Error: the connection to the other rank has closed, or it has violated the protocol.
#[derive(Debug)]
pub struct Gone;

impl Line {
    /// Creates a line over `stream` and starts its reader thread, which calls `on_event`.
    pub fn new(stream: TcpStream, on_event: impl FnMut(Event) + Send + 'static) -> io::Result<Line> {
        stream.set_read_timeout(None)?;
        stream.set_nodelay(true)?;
        notice_loss(&stream)?;
        let (sender, said) = sync_channel(QUEUE);
        let reader = stream.try_clone()?;
        thread::Builder::new().name("ranks".into()).spawn(move || read(reader, &sender, on_event))?;
        Ok(Line { writer: Mutex::new(stream), said: Mutex::new(said) })
    }

    /// Sends a value.
    pub fn say(&self, value: &impl Serialize) -> Result<(), Gone> {
        self.write(Kind::Said, &serde_json::to_vec(value).map_err(|_| Gone)?)
    }
    /// Receives the next value. Blocks until it has arrived.
    pub fn hear<T: DeserializeOwned>(&self) -> Result<T, Gone> {
        match self.next()? {
            (Kind::Said, bytes) => serde_json::from_slice(&bytes).map_err(|_| Gone),
            _ => Err(Gone),
        }
    }
    /// Sends an event. A closed connection is ignored.
    pub fn tell(&self, event: Event) {
        let kind = if event == Event::Interrupt { Kind::Interrupt } else { Kind::Part };
        let _ = self.write(kind, &[]);
    }
    /// Sends a piece of a byte stream.
    pub fn send_piece(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.write(Kind::Piece, bytes)
    }
    /// Receives the next piece of a byte stream.
    pub fn piece(&self) -> Result<Vec<u8>, Gone> {
        match self.next()? {
            (Kind::Piece, bytes) => Ok(bytes),
            _ => Err(Gone),
        }
    }

    fn next(&self) -> Result<(Kind, Vec<u8>), Gone> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).recv().map_err(|_| Gone)
    }
    fn write(&self, kind: Kind, bytes: &[u8]) -> Result<(), Gone> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        write_frame(&mut *writer, kind, bytes).map_err(|_| Gone)
    }
}

/// Enables TCP keepalive, which detects a machine without power or network within half a minute.
pub fn notice_loss(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(())
}

/// Sends a greeting, or the answer to one, on a new stream.
pub fn greet(mut stream: &TcpStream, value: &impl Serialize) -> io::Result<()> {
    write_frame(&mut stream, Kind::Said, &serde_json::to_vec(value)?)
}

/// Receives a greeting from an unauthenticated peer, of at most `GREETING` bytes, within `GREETING_TIME`.
pub fn greeting<T: DeserializeOwned>(mut stream: &TcpStream) -> io::Result<T> {
    stream.set_read_timeout(Some(GREETING_TIME))?;
    let (kind, bytes) = read_frame(&mut stream, GREETING)?;
    if kind != Kind::Said {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

/// Receives the answer to a greeting. A loaded rank may answer late: waits until `deadline`, as long as
/// `go_on` returns true.
pub fn answer<T: DeserializeOwned>(
    stream: &TcpStream,
    deadline: Instant,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<T> {
    let moment = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    while poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&moment)).unwrap_or(0) == 0 {
        if now() >= deadline || !go_on() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    greeting(stream)
}

fn read(mut stream: TcpStream, said: &SyncSender<(Kind, Vec<u8>)>, mut on_event: impl FnMut(Event)) {
    while let Ok((kind, bytes)) = read_frame(&mut stream, u64::MAX) {
        match kind {
            Kind::Interrupt => on_event(Event::Interrupt),
            Kind::Part => on_event(Event::Part),
            Kind::Said | Kind::Piece => {
                if said.send((kind, bytes)).is_err() {
                    // The receiver was dropped.
                    return;
                }
            }
        }
    }
    on_event(Event::Part);
}

fn write_frame(writer: &mut impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    // One write, so that the frame leaves in one packet.
    let mut frame = vec![kind as u8];
    frame.extend((bytes.len() as u64).to_le_bytes());
    frame.extend(bytes);
    writer.write_all(&frame)
}

fn read_frame(reader: &mut impl Read, longest: u64) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 9];
    reader.read_exact(&mut head)?;
    let len = u64::from_le_bytes(head[1..].try_into().expect("eight bytes"));
    let kind =
        [Kind::Said, Kind::Piece, Kind::Interrupt, Kind::Part].into_iter().find(|k| *k as u8 == head[0]);
    let kind = kind.filter(|_| len <= longest).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = Vec::new();
    // Memory is allocated for received bytes, not for the announced length.
    if reader.take(len).read_to_end(&mut bytes)? as u64 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn values_wait_and_events_do_not() {
        let (here, there) = pair();
        let (events, happened) = mpsc::channel();
        let here = Line::new(here, |_| ()).unwrap();
        let there = Line::new(there, move |event| events.send(event).unwrap()).unwrap();
        here.say(&"a value").unwrap();
        here.tell(Event::Interrupt);
        assert_eq!(happened.recv().unwrap(), Event::Interrupt);
        here.send_piece(&vec![7; PIECE]).unwrap();
        assert_eq!(there.hear::<String>().unwrap(), "a value");
        assert_eq!(there.piece().unwrap().len(), PIECE);
        drop(here.writer.lock().unwrap().shutdown(std::net::Shutdown::Both));
        assert_eq!(happened.recv().unwrap(), Event::Part);
        assert!(there.hear::<String>().is_err());
    }

    #[test]
    fn a_stranger_s_greeting_is_short() {
        let (here, there) = pair();
        greet(&here, &vec![1; 20_000]).unwrap();
        assert!(greeting::<Vec<u8>>(&there).is_err());
        let (here, there) = pair();
        (&here).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(greeting::<Vec<u8>>(&there).is_err());
        let (here, there) = pair();
        greet(&here, &"hello").unwrap();
        assert_eq!(greeting::<String>(&there).unwrap(), "hello");
    }
}
