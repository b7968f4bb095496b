//! Frames per second and round trip time of each kind of port, over a veth between two network namespaces; a
//! TAP is measured against a packet socket on the same interface. Requires root and `ip`.
//!
//! `cargo bench -p belljar-packetio [-- --quick]`
//!
//! One thread sends a batch through one end and receives it at the other, so a rate includes sending, the
//! kernel's processing in between, and receiving. CPU time is that of the thread, including kernel time. The
//! kinds alternate, and the best run of each counts, so that background load affects all kinds alike. The
//! round trip is the median time of a frame back and forth between ends that sleep in `poll`.
#![allow(missing_docs, clippy::disallowed_methods)]

use belljar_packetio::*;
use rustix::event::{PollFd, PollFlags, poll};
use std::process::{Command, ExitCode};
use std::time::Instant;

const BATCH: usize = 64;
/// 160 bytes of UDP payload.
const FRAME: usize = 202;

struct Net(String);

impl Drop for Net {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(line: &str) -> std::result::Result<(), String> {
    let output = Command::new("ip").args(line.split_whitespace()).output().map_err(|e| format!("ip: {e}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {line}: {error}")) }
}

type Pair = (Box<dyn Port>, Box<dyn Port>);
type Open<'a> = Box<dyn Fn() -> Result<Pair> + 'a>;

fn on_veth<'a, P: Port + 'static>(
    left: &'a Net,
    right: &'a Net,
    open: impl Fn(&str) -> Result<P> + Sync + 'a,
) -> Open<'a> {
    Box::new(move || {
        let a = Namespace::Name(left.0.clone()).run(|| open("a"))?;
        let b = Namespace::Name(right.0.clone()).run(|| open("b"))?;
        Ok((Box::new(a), Box::new(b)))
    })
}

fn main() -> ExitCode {
    match run(std::env::args().any(|a| a == "--quick")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(quick: bool) -> std::result::Result<(), String> {
    let net = |side| {
        let name = format!("bjbench{}{side}", std::process::id());
        ip(&format!("netns add {name}")).map(|()| Net(name))
    };
    let (left, right) = (net("a")?, net("b")?);
    ip(&format!("-n {} link add name a type veth peer name b netns {}", left.0, right.0))?;
    for (net, dev) in [(&left, "a"), (&right, "b")] {
        ip(&format!("-n {} link set dev {dev} addrgenmode none", net.0))?;
        ip(&format!("-n {} link set dev {dev} up", net.0))?;
    }
    let ring = |ring, bypass_qdisc| {
        let options = PacketOptions { ring, bypass_qdisc, ..PacketOptions::default() };
        move |dev: &str| PacketRing::open(dev, &options)
    };
    let xdp = |mode| move |dev: &str| Xdp::open(dev, &XdpOptions { mode, ..XdpOptions::default() });
    let tap = |upwards: bool| {
        let namespace = Namespace::Name(left.0.clone());
        Box::new(move || {
            let open = || {
                Ok((
                    Tap::create("t", &TapOptions::default())?,
                    PacketRing::open("t", &PacketOptions::default())?,
                ))
            };
            let (tap, kernel) = namespace.run(open)?;
            let (tap, kernel) = (Box::new(tap) as Box<dyn Port>, Box::new(kernel) as Box<dyn Port>);
            Ok(if upwards { (tap, kernel) } else { (kernel, tap) })
        })
    };
    let blocks = RingKind::Blocks { timeout_ms: 1 };
    let kinds: Vec<(&str, Open<'_>)> = vec![
        ("ring of frames (TPACKET_V2)", on_veth(&left, &right, ring(RingKind::Frames, false))),
        ("  past the queueing discipline", on_veth(&left, &right, ring(RingKind::Frames, true))),
        ("ring of blocks (TPACKET_V3)", on_veth(&left, &right, ring(blocks, false))),
        ("AF_XDP native", on_veth(&left, &right, xdp(XdpMode::Native))),
        ("AF_XDP generic", on_veth(&left, &right, xdp(XdpMode::Generic))),
        ("TAP to the kernel", tap(true)),
        ("TAP from the kernel", tap(false)),
        (
            "UNIX socket pair",
            Box::new(|| {
                let (a, b) = UnixPort::pair("pair", &UnixOptions::default())?;
                Ok((Box::new(a) as Box<dyn Port>, Box::new(b) as Box<dyn Port>))
            }),
        ),
    ];
    let (frames, pings, turns) = if quick { (5_000, 50, 1) } else { (200_000, 300, 5) };
    let mut best = vec![(0.0f64, f64::INFINITY, f64::INFINITY); kinds.len()];
    for _ in 0..turns {
        for ((name, open), best) in kinds.iter().zip(&mut best) {
            let (mut a, mut b) = match open() {
                Ok(pair) => pair,
                Err(e) => {
                    eprintln!("{name}: {e}");
                    continue;
                }
            };
            let (rate, cpu) = rate(&mut *a, &mut *b, frames).map_err(|e| format!("{name}: {e}"))?;
            let trip = round_trip(a, b, pings).map_err(|e| format!("{name}: {e}"))?;
            *best = (best.0.max(rate), best.1.min(cpu), best.2.min(trip));
        }
    }
    println!(
        "{:34} {:>10} {:>12} {:>8} {:>14}",
        "frames of 202 bytes", "kframes/s", "CPU us/frame", "ratio", "round trip us"
    );
    for ((name, _), (rate, cpu, trip)) in kinds.iter().zip(&best) {
        println!("{name:34} {:10.0} {cpu:12.2} {:8.2} {trip:14.1}", rate / 1e3, best[0].1 / cpu);
    }
    Ok(())
}

fn frame() -> Vec<u8> {
    let mut frame = vec![0; FRAME];
    frame[..6].fill(0xff);
    frame[6] = 2;
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// Frames per second through both ports, one batch at a time, and CPU time per frame in microseconds.
fn rate(a: &mut dyn Port, b: &mut dyn Port, frames: usize) -> Result<(f64, f64)> {
    let cpu = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let frame = frame();
    let mut arrived = 0;
    let (start, cpu_start) = (Instant::now(), cpu());
    while arrived < frames {
        for _ in 0..BATCH {
            if a.send(&frame)? == Sent::Full {
                break;
            }
        }
        a.flush()?;
        arrived += b.receive(4 * BATCH, &mut |_| {})?;
    }
    let n = arrived as f64;
    Ok((n / start.elapsed().as_secs_f64(), (cpu() - cpu_start) / n))
}

/// The median round trip of a frame in microseconds.
fn round_trip(mut a: Box<dyn Port>, mut b: Box<dyn Port>, pings: usize) -> Result<f64> {
    let frame = frame();
    drain(&mut *a, &mut *b)?;
    let echo = std::thread::spawn(move || -> Result<()> {
        for _ in 0..pings {
            wait(&mut *b)?;
            while b.send(&frame)? == Sent::Full {}
            b.flush()?;
        }
        Ok(())
    });
    let ping = self::frame();
    let mut times = Vec::new();
    for _ in 0..pings {
        let start = Instant::now();
        while a.send(&ping)? == Sent::Full {}
        a.flush()?;
        wait(&mut *a)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    echo.join().expect("the echo ends")?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Receives until no frame arrives for a while.
fn drain(a: &mut dyn Port, b: &mut dyn Port) -> Result<()> {
    let mut quiet = 0;
    while quiet < 10 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let got = a.receive(1000, &mut |_| {})? + b.receive(1000, &mut |_| {})?;
        quiet = if got == 0 { quiet + 1 } else { 0 };
    }
    Ok(())
}

/// Sleeps until a test frame is received.
fn wait(port: &mut dyn Port) -> Result<()> {
    let mut found = false;
    loop {
        port.receive(1, &mut |f| found = f.bytes[12..14] == [0x88, 0xb5])?;
        if found {
            return Ok(());
        }
        let _ = poll(&mut [PollFd::from_borrowed_fd(port.fd(), PollFlags::IN)], None);
    }
}
