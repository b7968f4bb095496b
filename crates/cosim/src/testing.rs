//! Pairs of channels, and unique sockets, for tests.

use crate::*;
use belljar_base::{SimDuration, SimTime};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A path that no other test uses, removed when dropped.
pub struct SocketPath(pub PathBuf);

pub fn socket() -> SocketPath {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("belljar-cosim-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    SocketPath(std::env::temp_dir().join(name))
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn parameters(role: Role, path: &SocketPath, latency: u64) -> Parameters {
    let latency = SimDuration::from_nanos(latency);
    let parameters = Parameters::new::<Net>("peer", role, &path.0);
    Parameters { sync: SyncMode::Required, latency, sync_interval: latency, slots: 8, ..parameters }
}

/// Both ends of a channel, the listener's first.
pub fn pair(listener: Parameters, connector: Parameters) -> Result<(Channel<Net>, Channel<Net>), Error> {
    let setups = vec![Setup::new(listener)?, Setup::new(connector)?];
    let mut ends = establish::<Net, Error>(setups, Duration::from_secs(120), || Ok(()))?;
    let connector = ends.pop().expect("two");
    Ok((ends.pop().expect("two"), connector))
}

pub fn synchronised(latency: u64) -> (Channel<Net>, Channel<Net>) {
    let path = socket();
    pair(parameters(Role::Listen, &path, latency), parameters(Role::Connect, &path, latency))
        .expect("a channel")
}

pub fn at(nanos: u64) -> SimTime {
    SimTime::from_nanos(nanos)
}

pub fn frame(byte: u8, len: usize) -> Frame {
    Frame { port: 0, bytes: vec![byte; len] }
}

/// Waits for `look` to return a value, as long as a test may take.
pub fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let mut backoff = Backoff::default();
    for _ in 0..300_000 {
        if let Some(found) = look() {
            return found;
        }
        backoff.wait();
    }
    panic!("it never comes");
}
