//! Set-up of a channel from an address.

use crate::address::Role;
use crate::channel::{Channel, Ends};
use crate::error::{Error, Fault};
use crate::intro::{Intro, MAX_LEN, Queue, Queues, SYNC, SYNC_FORCE};
use crate::layer::Layer;
use belljar_base::SimDuration;
use belljar_channel::{Region, SlotRing, with_socket_path};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::fs;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Synchronisation of the clocks of a channel's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// No synchronisation; a peer that requires it is an error.
    Off,
    /// Synchronisation if the peer offers it.
    Optional,
    /// Synchronisation; a peer that does not offer it is an error.
    Required,
}

/// Parameters of one end of a future channel.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The peer's name in errors.
    pub peer: String,
    /// Role in the set-up.
    pub role: Role,
    /// Path of the socket.
    pub socket: PathBuf,
    /// Synchronisation of this end.
    pub sync: SyncMode,
    /// Latency added to the time of each message sent. Not zero.
    pub latency: SimDuration,
    /// Longest time without a message; at most the latency.
    pub sync_interval: SimDuration,
    /// Size of a listener's slots in bytes, including their header of 64.
    pub slot_size: usize,
    /// Number of a listener's slots in each direction.
    pub slots: usize,
}

impl Parameters {
    /// An end that synchronises if the peer does, with the default latency of 500 ns and queues of the
    /// default size.
    pub fn new<L: Layer + Default>(peer: &str, role: Role, socket: impl Into<PathBuf>) -> Parameters {
        Parameters::of(&L::default(), peer, role, socket)
    }

    /// Default parameters for an initialised layer, which [`new`](Self::new) creates itself.
    pub fn of(layer: &impl Layer, peer: &str, role: Role, socket: impl Into<PathBuf>) -> Parameters {
        let usual = SimDuration::from_nanos(500);
        Parameters {
            peer: peer.to_owned(),
            role,
            socket: socket.into(),
            sync: SyncMode::Optional,
            latency: usual,
            sync_interval: usual,
            slot_size: layer.slot_size(),
            slots: 8192,
        }
    }
}

enum State {
    /// No peer listens yet.
    Connecting,
    /// No peer has connected yet.
    Listening(UnixListener),
    /// This end's intro has been sent.
    Greeting { socket: UnixStream, received: Vec<u8>, memory: Option<OwnedFd> },
    /// The channel has been returned.
    Done,
}

/// A channel set-up in progress. Call [`advance`](Setup::advance) until it returns the channel.
pub struct Setup<L> {
    parameters: Parameters,
    state: State,
    /// A listener's shared memory.
    region: Option<Arc<Region>>,
    /// This end's layer, until the channel takes it.
    layer: Option<L>,
}

impl<L: Layer> Setup<L> {
    /// Starts the set-up; a listener's socket exists from then on.
    pub fn new(parameters: Parameters) -> Result<Setup<L>, Error>
    where
        L: Default,
    {
        Setup::with(parameters, L::default())
    }

    /// Begins the setup with an initialised layer.
    pub fn with(parameters: Parameters, layer: L) -> Result<Setup<L>, Error> {
        match Setup::<L>::begin(&parameters) {
            Ok((state, region)) => Ok(Setup { parameters, state, region, layer: Some(layer) }),
            Err(fault) => Err(fault.of(&parameters.peer)),
        }
    }

    fn begin(parameters: &Parameters) -> Result<(State, Option<Arc<Region>>), Fault> {
        if parameters.latency.is_zero() || parameters.sync_interval > parameters.latency {
            let reason = "the latency is at least 1 ps, and the sync interval at most the latency";
            return Err(Fault::system("parameters", std::io::Error::other(reason)));
        }
        if parameters.role == Role::Connect {
            return Ok((State::Connecting, None));
        }
        let bytes = parameters.slot_size.checked_mul(parameters.slots).and_then(|one| one.checked_mul(2));
        let bytes = bytes.ok_or_else(|| Fault::Intro("queues larger than memory".into()))?;
        let region = Region::create(bytes).map_err(|error| Fault::system("shared memory", error))?;
        Ok((State::Listening(listen(&parameters.socket)?), Some(Arc::new(region))))
    }

    /// Advances the set-up as far as the peer allows. Never blocks; returns the channel once it is
    /// established.
    ///
    /// # Errors
    /// If the set-up has failed.
    pub fn advance(&mut self) -> Result<Option<Channel<L>>, Error> {
        self.step().map_err(|fault| fault.of(&self.parameters.peer))
    }

    fn step(&mut self) -> Result<Option<Channel<L>>, Fault> {
        let Some(mut layer) = self.layer.take() else { return Ok(None) };
        let done = self.step_as(&mut layer);
        match done? {
            Some(ends) => Ok(Some(Channel::new(&self.parameters, ends, layer))),
            None => {
                self.layer = Some(layer);
                Ok(None)
            }
        }
    }

    fn step_as(&mut self, layer: &mut L) -> Result<Option<Ends>, Fault> {
        if let Some(socket) = self.reach()? {
            socket.set_nonblocking(true).map_err(|error| Fault::system("socket", error))?;
            let intro = self.own_intro(layer).encode(layer);
            let memory = self.region.as_ref().map(|region| region.file());
            match send(&socket, &intro, memory) {
                // The peer has closed the connection: its earlier messages are more informative.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                sent => sent.map_err(|error| Fault::system("sending the intro", error))?,
            }
            self.state = State::Greeting { socket, received: Vec::new(), memory: None };
        }
        let listens = self.parameters.role == Role::Listen;
        let State::Greeting { socket, received, memory } = &mut self.state else { return Ok(None) };
        let least = Intro::least_len(!listens, layer);
        loop {
            match receive(socket, received, memory) {
                Ok(0) => return Err(Fault::ClosedEarly(received.len())),
                Ok(_) if received.len() < least => continue,
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // The intro of another layer may be complete though shorter.
                    return Intro::check_head(received, !listens, layer).map(|()| None);
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(Fault::ClosedEarly(received.len()));
                }
                Err(error) => return Err(Fault::system("receiving the intro", error)),
            }
        }
        let intro = Intro::decode(received, !listens, layer)?;
        layer.take_intro(&intro.upper).map_err(Fault::Intro)?;
        let State::Greeting { socket, memory, .. } = std::mem::replace(&mut self.state, State::Done) else {
            return Ok(None);
        };
        self.finish(intro, socket, memory).map(Some)
    }

    /// The connection to the peer, if it has just been established.
    fn reach(&mut self) -> Result<Option<UnixStream>, Fault> {
        match &self.state {
            State::Connecting => match connect(&self.parameters.socket) {
                Ok(socket) => Ok(Some(socket)),
                Err(error) if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) => {
                    Ok(None)
                }
                Err(error) => Err(Fault::system(self.parameters.socket.display().to_string(), error)),
            },
            State::Listening(listener) => match listener.accept() {
                Ok((socket, _)) => {
                    // Prevents further connections; an error means that it is gone already.
                    let _ = fs::remove_file(&self.parameters.socket);
                    Ok(Some(socket))
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(Fault::system("accepting the peer", error)),
            },
            State::Greeting { .. } | State::Done => Ok(None),
        }
    }

    fn own_intro(&self, layer: &L) -> Intro {
        let flags = match self.parameters.sync {
            SyncMode::Off => 0,
            SyncMode::Optional => SYNC,
            SyncMode::Required => SYNC | SYNC_FORCE,
        };
        Intro { flags, queues: self.region.is_some().then(|| self.own_queues()), upper: layer.intro() }
    }

    fn own_queues(&self) -> Queues {
        let (slot_size, slots) = (self.parameters.slot_size as u64, self.parameters.slots as u64);
        let queue = |offset| Queue { offset, slot_size, slots };
        Queues { to_listener: queue(0), to_connector: queue(slot_size * slots) }
    }

    fn finish(&self, intro: Intro, socket: UnixStream, memory: Option<OwnedFd>) -> Result<Ends, Fault> {
        let sync = match (self.parameters.sync, intro.flags & (SYNC | SYNC_FORCE)) {
            (SyncMode::Off, flags) if flags & SYNC_FORCE != 0 => return Err(Fault::SyncForced),
            (SyncMode::Required, 0) => return Err(Fault::SyncMissing),
            (SyncMode::Off, _) | (SyncMode::Optional, 0) => false,
            _ => true,
        };
        let (region, queues) = match (&self.region, intro.queues) {
            (Some(region), _) => (region.clone(), self.own_queues()),
            (None, Some(queues)) => {
                let memory =
                    memory.ok_or_else(|| Fault::Intro("it came without the shared memory".into()))?;
                let region =
                    Region::open(memory).map_err(|error| Fault::system("its shared memory", error))?;
                (Arc::new(region), queues)
            }
            (None, None) => return Err(Fault::Intro("it names no queues".into())),
        };
        let ring = |Queue { offset, slot_size, slots }| {
            SlotRing::new(region.clone(), offset, slot_size, slots).ok_or_else(|| {
                let len = region.len();
                Fault::Intro(format!("its queues do not lie within its shared memory of {len} bytes"))
            })
        };
        let (to_listener, to_connector) = (ring(queues.to_listener)?, ring(queues.to_connector)?);
        let (incoming, outgoing) = match self.parameters.role {
            Role::Listen => (to_listener, to_connector),
            Role::Connect => (to_connector, to_listener),
        };
        Ok(Ends { incoming, outgoing, socket, sync })
    }

    /// The error for a set-up that is incomplete after `seconds`.
    pub fn late(&self, seconds: u64) -> Error {
        let socket = self.parameters.socket.display().to_string();
        let fault = match &self.state {
            State::Connecting => Fault::NobodyListens { socket, seconds },
            State::Listening(_) => Fault::NobodyConnected { socket, seconds },
            State::Greeting { received, .. } => Fault::NoIntro { received: received.len(), seconds },
            State::Done => Fault::Closed,
        };
        fault.of(&self.parameters.peer)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Listening(listener) => Some(listener.as_fd()),
            State::Greeting { socket, .. } => Some(socket.as_fd()),
            State::Connecting | State::Done => None,
        }
    }
}

impl<L> Drop for Setup<L> {
    fn drop(&mut self) {
        if matches!(self.state, State::Listening(_)) {
            // It may have been removed already.
            let _ = fs::remove_file(&self.parameters.socket);
        }
    }
}

/// Interval at which [`establish`] retries when no descriptor can wake it.
const LOOK: Duration = Duration::from_millis(10);

/// Sets up several channels concurrently: peers connect in different orders. Calls `go_on` repeatedly to
/// check whether waiting still makes sense.
///
/// # Errors
/// The first error of a set-up or of `go_on`, or a timeout if a channel is not established within `patience`.
pub fn establish<L: Layer, E: From<Error>>(
    mut setups: Vec<Setup<L>>,
    patience: Duration,
    mut go_on: impl FnMut() -> Result<(), E>,
) -> Result<Vec<Channel<L>>, E> {
    let mut channels: Vec<Option<Channel<L>>> = setups.iter().map(|_| None).collect();
    let mut waited = Duration::ZERO;
    loop {
        for (setup, channel) in setups.iter_mut().zip(&mut channels).filter(|(_, channel)| channel.is_none())
        {
            *channel = setup.advance()?;
        }
        let mut missing = setups.iter().zip(&channels).filter(|(_, channel)| channel.is_none());
        let Some((first, _)) = missing.next() else { return Ok(channels.into_iter().flatten().collect()) };
        if waited >= patience {
            return Err(first.late(patience.as_secs()).into());
        }
        go_on()?;
        let watched = setups.iter().filter_map(Setup::descriptor);
        let mut watched: Vec<PollFd<'_>> =
            watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
        // Early returns mean progress, of which there is at most as much as an intro has bytes: only timeouts
        // count as time.
        if !poll(&mut watched, Some(&timeout)).is_ok_and(|ready| ready > 0) {
            waited += LOOK;
        }
    }
}

/// A listening socket. A stale socket of a program that no longer runs is replaced.
fn listen(path: &Path) -> Result<UnixListener, Fault> {
    let bind = || with_socket_path(path, |path| UnixListener::bind(path));
    let listener = match bind() {
        Err(error) if error.kind() == ErrorKind::AddrInUse => match connect(path) {
            Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path).and_then(|()| bind())
            }
            _ => return Err(Fault::SocketInUse(path.display().to_string())),
        },
        other => other,
    };
    let listener = listener.map_err(|error| Fault::system(path.display().to_string(), error))?;
    listener.set_nonblocking(true).map_err(|error| Fault::system("socket", error))?;
    Ok(listener)
}

fn connect(path: &Path) -> std::io::Result<UnixStream> {
    with_socket_path(path, |path| UnixStream::connect(path))
}

fn send(socket: &UnixStream, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

/// Appends received bytes to `received`, up to [`MAX_LEN`] in all; keeps the last file received with them.
fn receive(
    socket: &UnixStream,
    received: &mut Vec<u8>,
    memory: &mut Option<OwnedFd>,
) -> std::io::Result<usize> {
    let mut bytes = [0; MAX_LEN];
    let room = &mut bytes[received.len()..];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let count = recvmsg(socket, &mut [IoSliceMut::new(room)], &mut control, flags)?.bytes;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            *memory = files.last().or(memory.take());
        }
    }
    received.extend_from_slice(&room[..count]);
    Ok(count)
}
