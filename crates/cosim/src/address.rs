//! Adapter URLs: `connect:SOCKET:sync=true|false[:latency=NS][:sync_interval=NS]` and
//! `listen:SOCKET:MEMORY:sync=true|false[:latency=NS][:sync_interval=NS]`.

use belljar_base::SimDuration;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Role of one side of a channel in the set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Creates the socket and the shared memory.
    Listen,
    /// Connects to the socket and maps the shared memory.
    Connect,
}

/// One end of a channel, as written on command lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Role in the set-up.
    pub role: Role,
    /// Path of the socket.
    pub socket: PathBuf,
    /// File of the shared memory, for a listener. Belljar's own listeners need none: they use anonymous
    /// memory.
    pub memory: Option<PathBuf>,
    /// True to synchronise.
    pub sync: bool,
    /// Latency that this end adds to the messages it sends; `None` for the simulator's default.
    pub latency: Option<SimDuration>,
    /// Longest time without a message; `None` for the simulator's default.
    pub sync_interval: Option<SimDuration>,
}

/// An invalid adapter URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("adapter URL `{url}`: {reason}")]
pub struct AddressError {
    /// The invalid text.
    pub url: String,
    /// The fault, as a phrase for error messages.
    pub reason: String,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Address, AddressError> {
        parse(url).map_err(|reason| AddressError { url: url.to_owned(), reason })
    }
}

fn parse(url: &str) -> Result<Address, String> {
    let mut parts = url.split(':');
    let role = match parts.next() {
        Some("listen") => Role::Listen,
        Some("connect") => Role::Connect,
        _ => return Err("begin with `connect:` or `listen:`".into()),
    };
    let mut path = |what| match parts.next() {
        None | Some("") => Err(format!("the path of the {what} is missing")),
        Some(path) => Ok(PathBuf::from(path)),
    };
    let socket = path("socket")?;
    let memory = if role == Role::Listen { Some(path("shared memory")?) } else { None };
    let sync = match parts.next() {
        Some("sync=true") => true,
        Some("sync=false") => false,
        _ => return Err("`sync=true` or `sync=false` comes after the paths".into()),
    };
    let (mut latency, mut sync_interval) = (None, None);
    for part in parts {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=VALUE"))?;
        let target = match name {
            "latency" => &mut latency,
            "sync_interval" => &mut sync_interval,
            _ => return Err(format!("`{name}` is neither `latency` nor `sync_interval`")),
        };
        let nanos: u64 = value.parse().map_err(|_| format!("`{value}` is not a number of nanoseconds"))?;
        *target = Some(SimDuration::from_nanos(nanos));
    }
    Ok(Address { role, socket, memory, sync, latency, sync_interval })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Connect => write!(f, "connect:{}", self.socket.display())?,
            Role::Listen => {
                let memory = self.memory.as_ref().unwrap_or(&self.socket);
                write!(f, "listen:{}:{}", self.socket.display(), memory.display())?;
            }
        }
        write!(f, ":sync={}", self.sync)?;
        if let Some(latency) = self.latency {
            write!(f, ":latency={}", latency.as_nanos())?;
        }
        if let Some(interval) = self.sync_interval {
            write!(f, ":sync_interval={}", interval.as_nanos())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was() {
        for url in [
            "connect:/tmp/a.sock:sync=true",
            "connect:a:sync=false:latency=20",
            "listen:a:b:sync=true:latency=500:sync_interval=250",
        ] {
            assert_eq!(url.parse::<Address>().unwrap().to_string(), url);
        }
        let address: Address = "listen:s:m:sync=true:sync_interval=7".parse().unwrap();
        assert_eq!(address.sync_interval, Some(SimDuration::from_nanos(7)));
        assert_eq!((address.role, address.memory), (Role::Listen, Some(PathBuf::from("m"))));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (url, reason) in [
            ("bind:a:sync=true", "begin with"),
            ("connect", "the path of the socket is missing"),
            ("connect::sync=true", "the path of the socket is missing"),
            ("listen:a:", "the path of the shared memory is missing"),
            ("connect:a", "comes after the paths"),
            ("connect:a:sync=yes", "comes after the paths"),
            ("connect:a:sync=true:latency", "is not NAME=VALUE"),
            ("connect:a:sync=true:latency=1us", "not a number of nanoseconds"),
            ("connect:a:sync=true:speed=9", "neither `latency` nor"),
        ] {
            let error = url.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(url), "{error}");
        }
    }
}
