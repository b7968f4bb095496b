//! Ports by their names on command lines and in experiment files.

use crate::{PacketOptions, PacketRing, Port, Result, Tap, TapOptions, UnixOptions, UnixPort};
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// A place where frames are received and sent: `eth0` is an existing interface, `tap:NAME` a TAP interface, `unix:PATH` a UNIX
/// socket whose messages are frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// An existing interface, by a packet socket.
    Interface(String),
    /// A TAP interface: one that exists already and is persistent, or else one that is made.
    Tap(String),
    /// A socket on which somebody listens.
    Unix(PathBuf),
}

impl FromStr for Attachment {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(match text.split_once(':') {
            Some(("tap", name)) => Attachment::Tap(name.to_owned()),
            Some(("unix", path)) => Attachment::Unix(path.into()),
            _ => Attachment::Interface(text.to_owned()),
        })
    }
}

impl Attachment {
    /// Opens the port, in the calling thread's network namespace. `tap` says how a TAP interface is made.
    pub fn open(&self, tap: &TapOptions) -> Result<Box<dyn Port>> {
        Ok(match self {
            Attachment::Interface(name) => Box::new(PacketRing::open(name, &PacketOptions::default())?),
            Attachment::Tap(name) => Box::new(Tap::attach_or_create(name, tap)?),
            Attachment::Unix(path) => Box::new(UnixPort::connect(path, &UnixOptions::default())?),
        })
    }
}
