//! Simulators in other languages as peers of this crate.
#![allow(dead_code)]

use belljar_base::{SimDuration, SimTime};
use belljar_cosim::{
    Backoff, Channel, Error, Fault, Frame, Net, Parameters, Role, Setup, SyncMode, establish,
};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Latencies of this crate's ends and of the peers.
pub const OURS: u64 = 700;
pub const THEIRS: u64 = 500;

/// A folder removed at the end of the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("belljar-cosim-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    pub fn socket(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// The adapter URL of the other end, for a peer in that role.
    pub fn url(&self, role: Role, name: &str, sync: bool) -> String {
        let socket = self.socket(name);
        let socket = socket.display();
        match role {
            Role::Connect => format!("connect:{socket}:sync={sync}:latency={THEIRS}"),
            Role::Listen => format!("listen:{socket}:{socket}-memory:sync={sync}:latency={THEIRS}"),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Path of a file of the libraries for other simulators.
pub fn library(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/cosim").join(file)
}

/// Compiles a C program of the library, or one of a test.
pub fn compile(folder: &Folder, source: &Path) -> PathBuf {
    let program = folder.0.join(source.file_stem().unwrap());
    let include = library("");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .args([include.as_path(), Path::new("-o"), &program, source])
        .status();
    assert!(compiled.unwrap().success());
    program
}

/// A process that is killed at the end of the test.
pub struct Peer(Option<Child>);

impl Peer {
    pub fn start(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Peer {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Peer(Some(command.spawn().unwrap()))
    }
    pub fn python(script: &Path, arguments: &[&str]) -> Peer {
        let script = script.display().to_string();
        Peer::start("python3", &[&["-B", script.as_str()], arguments].concat())
    }
    pub fn kill(&mut self) {
        self.0.as_mut().unwrap().kill().unwrap();
    }
    /// The output of the process, which has to exit within minutes.
    pub fn ended(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        for _ in 0..60_000 {
            if child.try_wait().unwrap().is_some() {
                return child.wait_with_output().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        panic!("it does not end: {:?}", child.wait_with_output());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Parameters of this end for a peer in the other role.
pub fn parameters(folder: &Folder, name: &str, role: Role, sync: bool) -> Parameters {
    let latency = SimDuration::from_nanos(OURS);
    Parameters {
        sync: if sync { SyncMode::Required } else { SyncMode::Off },
        latency,
        sync_interval: latency,
        ..Parameters::new::<Net>(name, role, folder.socket(name))
    }
}

pub fn other(role: Role) -> Role {
    match role {
        Role::Listen => Role::Connect,
        Role::Connect => Role::Listen,
    }
}

pub fn connect(parameters: Vec<Parameters>) -> Vec<Channel<Net>> {
    let setups = parameters.into_iter().map(|one| Setup::new(one).unwrap()).collect();
    establish::<Net, Error>(setups, Duration::from_secs(120), || Ok(())).unwrap()
}

/// A frame with the time at which it is sent or arrives.
pub type Timed = (SimTime, Frame);

/// Runs this crate's ends up to `until`, sends `to_send` on the first, and returns the arrivals on each.
pub fn run(
    channels: &mut [Channel<Net>],
    to_send: &[Timed],
    until: SimTime,
) -> Result<Vec<Vec<Timed>>, Error> {
    let mut arrived: Vec<Vec<Timed>> = channels.iter().map(|_| Vec::new()).collect();
    let (mut now, mut to_send, mut backoff) = (SimTime::ZERO, to_send.iter().peekable(), Backoff::default());
    while now < until {
        let mut limit = until;
        for (channel, arrived) in channels.iter_mut().zip(&mut arrived) {
            while let Some(got) = channel.poll(until)? {
                arrived.push(got);
            }
            limit = limit.min(channel.horizon());
        }
        while let Some((at, frame)) = to_send.next_if(|(at, _)| *at < limit) {
            assert!(channels[0].send(*at, frame)?);
        }
        if limit > now {
            now = limit;
            backoff.reset();
        } else if backoff.wait() {
            channels.iter_mut().try_for_each(Channel::check_peer)?;
        }
        channels.iter_mut().for_each(|channel| assert!(channel.sync(now)));
    }
    Ok(arrived)
}

/// Waits for `count` arrivals on a channel without synchronisation.
pub fn collect(channel: &mut Channel<Net>, count: usize) -> Result<Vec<Frame>, Error> {
    let (mut got, mut backoff) = (Vec::new(), Backoff::default());
    for _ in 0..300_000 {
        while let Some((_, frame)) = channel.poll(SimTime::ZERO)? {
            got.push(frame);
            backoff.reset();
        }
        if got.len() >= count {
            return Ok(got);
        }
        if backoff.wait() {
            channel.check_peer()?;
        }
    }
    Err(Error { peer: channel.peer().into(), fault: Fault::Intro("too few frames came".into()) })
}

pub fn numbered(count: u64, gap: u64) -> Vec<Timed> {
    let frame = |n: u64| Frame { port: 0, bytes: [n.to_le_bytes(); 8].concat() };
    (0..count).map(|n| (SimTime::from_nanos(n * gap), frame(n))).collect()
}
