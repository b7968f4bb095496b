//! Lines between rank 0 and each other rank: what is said before and after the simulation, and what must be known at once during it.
//!
//! A frame is its kind, the length of its content in 64 bits, little-endian, and the content. A line has a thread that reads: what is said waits in
//! a queue, and an interruption or the loss of a rank acts at once.

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

/// Frames that wait to be taken; a sender of more waits.
const QUEUE: usize = 8;
/// Bytes of a piece of a file.
pub const PIECE: usize = 256 << 10;
/// The longest greeting, of who may be a stranger.
const GREETING: u64 = 16 << 10;
/// Time between two looks at what may end a wait.
pub const LOOK: Duration = Duration::from_millis(200);
/// Patience with a greeting.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// A value, as JSON.
    Said = 1,
    /// A piece of a stream of bytes; an empty one ends it.
    Piece = 2,
    /// Hosts are to leave their windows.
    Interrupt = 3,
    /// A rank has gone.
    Part = 4,
}

/// Events of a line that act at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Hosts are to leave their windows.
    Interrupt,
    /// A rank has gone, or the one at the other end.
    Part,
}

/// A line to another rank.
#[derive(Debug)]
pub struct Line {
    writer: Mutex<TcpStream>,
    said: Mutex<Receiver<(Kind, Vec<u8>)>>,
}

/// Error: the rank at the other end has gone.
#[derive(Debug)]
pub struct Gone;

impl Line {
    /// The line over `stream`; `on_event` is called by its thread.
    pub fn new(stream: TcpStream, on_event: impl FnMut(Event) + Send + 'static) -> io::Result<Line> {
        stream.set_read_timeout(None)?;
        stream.set_nodelay(true)?;
        notice_loss(&stream)?;
        let (sender, said) = sync_channel(QUEUE);
        let reader = stream.try_clone()?;
        thread::Builder::new().name("ranks".into()).spawn(move || read(reader, &sender, on_event))?;
        Ok(Line { writer: Mutex::new(stream), said: Mutex::new(said) })
    }

    /// Says a value.
    pub fn say(&self, value: &impl Serialize) -> Result<(), Gone> {
        self.write(Kind::Said, &serde_json::to_vec(value).map_err(|_| Gone)?)
    }
    /// The next value that is said, once it is there.
    pub fn hear<T: DeserializeOwned>(&self) -> Result<T, Gone> {
        match self.next()? {
            (Kind::Said, bytes) => serde_json::from_slice(&bytes).map_err(|_| Gone),
            _ => Err(Gone),
        }
    }
    /// Tells of an event; one that has gone need not know.
    pub fn tell(&self, event: Event) {
        let kind = if event == Event::Interrupt { Kind::Interrupt } else { Kind::Part };
        let _ = self.write(kind, &[]);
    }
    /// Sends a piece of a stream of bytes.
    pub fn send_piece(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.write(Kind::Piece, bytes)
    }
    /// The next piece.
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

/// Lets a machine that has lost its power or its cable be noticed within half a minute.
pub fn notice_loss(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(())
}

/// Greets the other end of a new stream, whose answer is a value too.
pub fn greet(mut stream: &TcpStream, value: &impl Serialize) -> io::Result<()> {
    write_frame(&mut stream, Kind::Said, &serde_json::to_vec(value)?)
}

/// The greeting of the other end, which may be a stranger: short, and soon.
pub fn greeting<T: DeserializeOwned>(mut stream: &TcpStream) -> io::Result<T> {
    stream.set_read_timeout(Some(GREETING_TIME))?;
    let (kind, bytes) = read_frame(&mut stream, GREETING)?;
    if kind != Kind::Said {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

/// The answer to a greeting, for which a rank on a busy machine may take its time: waits until `deadline`, or while `go_on`.
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
                    // Nobody listens any more.
                    return;
                }
            }
        }
    }
    on_event(Event::Part);
}

fn write_frame(writer: &mut impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    // In one piece: it leaves as one packet.
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
    // Not what the head says: memory only for what comes.
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
