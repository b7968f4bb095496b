//! Attachments: names of ports on command lines and in experiment files.

use crate::{Namespace, PacketOptions, PacketRing, Port, Result, Tap, TapOptions, UnixOptions, UnixPort};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// Network attachment: `eth0` is an existing interface, `tap:NAME` a TAP interface, `unix:PATH` a UNIX socket
/// whose messages are frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// An existing interface, opened by a packet socket.
    Interface(String),
    /// A TAP interface; created unless a persistent one of this name exists.
    Tap(String),
    /// A listening UNIX socket.
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
    /// Opens the port in the calling thread's network namespace. `tap` configures a TAP interface, `ring` an
    /// existing interface.
    pub fn open(&self, tap: &TapOptions, ring: &PacketOptions) -> Result<Box<dyn Port>> {
        Ok(match self {
            Attachment::Interface(name) => Box::new(PacketRing::open(name, ring)?),
            Attachment::Tap(name) => Box::new(Tap::attach_or_create(name, tap)?),
            Attachment::Unix(path) => Box::new(UnixPort::connect(path, &UnixOptions::default())?),
        })
    }

    /// Opens the port in a namespace, for a link with packets of up to `mtu` bytes. `address` is assigned to
    /// the kernel's side of a created TAP interface. The error is a phrase for the user.
    pub fn open_for(
        &self,
        namespace: &Namespace<'_>,
        address: Option<(Ipv4Addr, u8)>,
        mtu: usize,
    ) -> std::result::Result<Box<dyn Port>, String> {
        let tap = TapOptions { mtu: Some(mtu), address, ..TapOptions::default() };
        let port = namespace
            .run(|| self.open(&tap, &PacketOptions::default()))
            .map_err(|error| error.to_string())?;
        match matches!(self, Attachment::Unix(_)) || port.mtu() >= mtu {
            true => Ok(port),
            false => Err(format!(
                "{} carries packets of {} bytes, and its link of up to {mtu}: give the link a smaller mtu",
                port.name(),
                port.mtu()
            )),
        }
    }
}
