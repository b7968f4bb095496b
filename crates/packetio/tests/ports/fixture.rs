//! Fixture: two namespaces joined by a veth, and helpers that drive ports.

use belljar_packetio::{
    Error, Namespace, PacketOptions, PacketRing, Port, RingKind, Sent, Xdp, XdpMode, XdpOptions,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// IEEE's type for local experiments.
pub const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Network namespace, deleted on drop.
pub struct Net {
    pub name: String,
}

/// Interface `a` in one namespace, its peer `b` in another.
pub struct World {
    pub left: Net,
    pub right: Net,
}

/// Runs a command line; panics if it fails.
pub fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

impl Net {
    /// Creates a namespace; `None`, with the reason printed, where namespaces are not permitted.
    pub fn new() -> Option<Net> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to make network namespaces");
            return None;
        }
        let name = format!("bj{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match Command::new("ip").args(["netns", "add", &name]).output() {
            Ok(output) if output.status.success() => Some(Net { name }),
            Ok(output) => {
                eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(e) => {
                eprintln!("skipped: cannot run `ip`: {e}");
                None
            }
        }
    }

    pub fn ip(&self, arguments: &str) -> String {
        run(&format!("ip -n {} {arguments}", self.name))
    }

    pub fn inside<T: Send>(
        &self,
        open: impl FnOnce() -> belljar_packetio::Result<T> + Send,
    ) -> belljar_packetio::Result<T> {
        Namespace::Name(self.name.clone()).run(open)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

impl World {
    pub fn new() -> Option<World> {
        World::with_mtu(1500)
    }

    pub fn with_mtu(mtu: usize) -> Option<World> {
        let (left, right) = (Net::new()?, Net::new()?);
        left.ip(&format!("link add name a mtu {mtu} type veth peer name b netns {}", right.name));
        right.ip(&format!("link set dev b mtu {mtu}"));
        for (net, dev) in [(&left, "a"), (&right, "b")] {
            net.ip(&format!("link set dev {dev} addrgenmode none"));
            net.ip(&format!("link set dev {dev} up"));
        }
        Some(World { left, right })
    }
}

/// Kinds of port that open an existing interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Frames,
    Blocks,
    Native,
    Generic,
}

pub const KINDS: [Kind; 4] = [Kind::Frames, Kind::Blocks, Kind::Native, Kind::Generic];

impl Kind {
    pub fn open(self, net: &Net, dev: &str) -> belljar_packetio::Result<Box<dyn Port>> {
        net.inside(move || {
            let ring = |ring| PacketRing::open(dev, &PacketOptions { ring, ..PacketOptions::default() });
            let xdp = |mode| Xdp::open(dev, &XdpOptions { mode, ..XdpOptions::default() });
            Ok(match self {
                Kind::Frames => Box::new(ring(RingKind::Frames)?) as Box<dyn Port>,
                Kind::Blocks => Box::new(ring(RingKind::Blocks { timeout_ms: 1 })?),
                Kind::Native => Box::new(xdp(XdpMode::Native)?),
                Kind::Generic => Box::new(xdp(XdpMode::Generic)?),
            })
        })
    }

    /// Opens both ends of the link; `None`, with the reason printed, where the kernel lacks the facility.
    pub fn pair(self, world: &World) -> Option<(Box<dyn Port>, Box<dyn Port>)> {
        let open = |net, dev| match self.open(net, dev) {
            Err(e @ (Error::Unsupported { .. } | Error::Permission { .. })) => {
                eprintln!("skipped {self:?}: {e}");
                None
            }
            other => Some(other.unwrap()),
        };
        Some((open(&world.left, "a")?, open(&world.right, "b")?))
    }
}

/// Frame of `len` bytes with a number and a pattern, optionally behind a VLAN tag.
pub fn frame(number: u32, len: usize, vlan: Option<u16>) -> Vec<u8> {
    let mut f = vec![0xff; 6];
    f.extend([2, 0, 0, 0, 0, 9]);
    if let Some(id) = vlan {
        f.extend([0x81, 0x00]);
        f.extend(id.to_be_bytes());
    }
    f.extend(ETHERTYPE);
    f.extend(number.to_be_bytes());
    while f.len() < len {
        f.push((f.len() as u32 + number) as u8);
    }
    f.truncate(len);
    f
}

/// True for frames made by [`frame`]: the kernel occasionally sends others.
pub fn is_ours(f: &[u8]) -> bool {
    f[12..14] == ETHERTYPE || (f.len() >= 18 && f[12..14] == [0x81, 0] && f[16..18] == ETHERTYPE)
}

/// Waits until the port is ready or the timeout expires.
pub fn wait(port: &dyn Port, events: PollFlags, at_most: Duration) -> PollFlags {
    let mut fds = [PollFd::from_borrowed_fd(port.fd(), events)];
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    poll(&mut fds, Some(&timeout)).unwrap();
    fds[0].revents()
}

/// Waits for a condition; returns true if it holds before the timeout.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Receives until `n` test frames have arrived, or until the timeout.
pub fn receive(port: &mut dyn Port, n: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let end = Instant::now() + PATIENCE;
    while frames.len() < n && Instant::now() < end {
        let got = port.receive(64, &mut |f| {
            if is_ours(f.bytes) {
                frames.push(f.bytes.to_vec());
            }
        });
        if got.unwrap() == 0 {
            wait(port, PollFlags::IN, Duration::from_millis(100));
        }
    }
    frames
}

/// Sends all frames; waits while the queue is full.
pub fn send(port: &mut dyn Port, frames: &[Vec<u8>]) {
    for frame in frames {
        while port.send(frame).unwrap() == Sent::Full {
            wait(port, PollFlags::OUT, PATIENCE);
        }
    }
    flush(port);
}

pub fn flush(port: &mut dyn Port) {
    let end = Instant::now() + PATIENCE;
    while !port.flush().unwrap() {
        assert!(Instant::now() < end, "the queue does not empty");
        wait(port, PollFlags::OUT, Duration::from_millis(100));
    }
}

/// Sends `frames` and checks that they arrive unchanged and in order.
pub fn pass(from: &mut dyn Port, to: &mut dyn Port, frames: &[Vec<u8>]) {
    send(from, frames);
    let got = receive(to, frames.len());
    assert_eq!(got.len(), frames.len(), "frames arrive: {:?}", to.counters());
    for (got, sent) in got.iter().zip(frames) {
        assert_eq!(got, sent);
    }
}

/// Waits for an error on receiving.
pub fn receive_error(port: &mut dyn Port) -> Error {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match port.receive(64, &mut |_| {}) {
            Err(e) => return e,
            Ok(0) => {
                wait(port, PollFlags::IN, Duration::from_millis(100));
            }
            Ok(_) => {}
        }
    }
    panic!("no error on {}", port.name());
}
