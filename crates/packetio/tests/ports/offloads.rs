//! Traffic of real stacks through ports: every frame is valid, and the stacks' data arrives.

use crate::fixture::*;
use belljar_packetio::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Checks lengths and checksums of an IPv4 frame.
fn check(bytes: &[u8], mtu: usize) {
    assert!(bytes.len() <= mtu + 14, "a frame of {} bytes", bytes.len());
    let at = if bytes[12..14] == [0x81, 0] { 18 } else { 14 };
    if bytes[at - 2..at] != [8, 0] {
        return;
    }
    let header = belljar_wire::ipv4::Packet::new_checked(&bytes[at..]).unwrap();
    assert_eq!(belljar_wire::checksum::internet(&bytes[at..at + header.header_len()]), 0, "IPv4 header");
    if matches!(header.protocol(), 6 | 17) {
        let segment = &bytes[at + header.header_len()..at + header.total_len()];
        let (src, dst) = (header.src().into(), header.dst().into());
        let sum = belljar_wire::checksum::transport(src, dst, header.protocol(), segment);
        assert_eq!(sum, 0, "checksum of protocol {} in {} bytes", header.protocol(), bytes.len());
    }
}

/// Stops the other threads when the thread that holds it fails.
struct StopOnFailure<'a>(&'a AtomicBool);

impl Drop for StopOnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Forwards frames between two ports until stopped; checks each. Returns the number of frames.
fn bridge(a: &mut dyn Port, b: &mut dyn Port, stop: &AtomicBool) -> u64 {
    let _stop = StopOnFailure(stop);
    let mut carried = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut moved = 0;
        for forward in [true, false] {
            let (from, to): (&mut dyn Port, &mut dyn Port) =
                if forward { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
            let mtu = from.mtu();
            moved += from
                .receive(64, &mut |f| {
                    check(f.bytes, mtu);
                    let _ = to.send(f.bytes).unwrap();
                })
                .unwrap();
            to.flush().unwrap();
        }
        carried += moved as u64;
        if moved == 0 {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let mut fds = [&*a, &*b].map(|p| PollFd::from_borrowed_fd(p.fd(), PollFlags::IN));
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })).unwrap();
        }
    }
    carried
}

/// Opens sockets in a namespace.
fn io<T: Send>(net: &Net, open: impl FnOnce() -> std::io::Result<T> + Send) -> T {
    net.inside(|| Ok(open())).unwrap().unwrap()
}

/// Time without progress after which a connection has failed.
const SILENCE: Duration = PATIENCE;

/// Accepts the first connection, unless stopped before.
fn accept(listener: &TcpListener, stop: &AtomicBool) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    loop {
        assert!(!stop.load(Ordering::Relaxed), "no connection has come");
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            return stream;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Transfers megabytes over TCP in both directions between the stacks behind two ports.
fn transfer(client: &Net, server: &Net, a: &mut dyn Port, b: &mut dyn Port) -> u64 {
    let data: Vec<u8> = (0..4_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    let stop = AtomicBool::new(false);
    let listener = io(server, || TcpListener::bind("10.9.0.2:7"));
    std::thread::scope(|scope| {
        let carrier = scope.spawn(|| bridge(a, b, &stop));
        let echo = scope.spawn(|| {
            let _stop = StopOnFailure(&stop);
            let mut stream = accept(&listener, &stop);
            stream.set_read_timeout(Some(SILENCE)).unwrap();
            stream.set_write_timeout(Some(SILENCE)).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            stream.write_all(&got).unwrap();
        });
        let _stop = StopOnFailure(&stop);
        let address: SocketAddr = "10.9.0.2:7".parse().unwrap();
        let mut stream = io(client, || TcpStream::connect_timeout(&address, SILENCE));
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        stream.set_write_timeout(Some(SILENCE)).unwrap();
        stream.write_all(&data).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        let read = stream.read_to_end(&mut got);
        echo.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        let carried = carrier.join().unwrap();
        read.unwrap();
        assert!(got == data, "{} of {} bytes came back", got.len(), data.len());
        carried
    })
}

#[test]
fn tcp_between_stacks_passes_through_every_pair_of_ports() {
    for kind in KINDS {
        for large_segments in [false, true] {
            let (Some(world), Some(server)) = (World::new(), Net::new()) else { return };
            if kind == Kind::Generic {
                world.left.ip("link set dev a gso_max_segs 1");
            }
            world.left.ip("addr add 10.9.0.1/24 dev a");
            let mut a = match kind.open(&world.right, "b") {
                Err(Error::Unsupported { .. } | Error::Permission { .. }) => continue,
                other => other.unwrap(),
            };
            let options = TapOptions { large_segments, ..TapOptions::default() };
            let mut tap = server.inside(|| Tap::create("t", &options)).unwrap();
            server.ip("addr add 10.9.0.2/24 dev t");
            let carried = transfer(&world.left, &server, &mut *a, &mut tap);
            // 8 MB in segments of at most 1,448 bytes.
            assert!(carried >= 5_500, "{kind:?}: {carried} frames");
            assert_eq!(a.counters().dropped_port + tap.counters().dropped_port, 0, "{kind:?}");
        }
    }
}

#[test]
fn the_tag_of_a_vlan_interface_is_in_the_frame() {
    let Some(world) = World::new() else { return };
    let add = ["-n", &world.left.name, "link", "add", "link", "a", "name", "a.7", "type", "vlan", "id", "7"];
    if !std::process::Command::new("ip").args(add).status().unwrap().success() {
        eprintln!("skipped: this kernel has no VLAN interfaces");
        return;
    }
    world.left.ip("addr add 10.9.7.1/24 dev a.7");
    world.left.ip("link set dev a.7 up");
    world.left.ip("neigh add 10.9.7.2 lladdr 02:00:00:00:00:05 dev a.7 nud permanent");
    for kind in KINDS {
        if matches!(kind, Kind::Native | Kind::Generic) {
            // XDP does not see a tag that the kernel stores outside the frame.
            let keep = ["netns", "exec", &world.left.name, "ethtool", "-K", "a", "txvlan", "off"];
            if !std::process::Command::new("ip").args(keep).status().unwrap().success() {
                eprintln!("skipped {kind:?}: no ethtool");
                continue;
            }
        }
        let Ok(mut b) = kind.open(&world.right, "b") else { continue };
        let socket = io(&world.left, || UdpSocket::bind("10.9.7.1:9"));
        socket.send_to(b"tagged", "10.9.7.2:9").unwrap();
        let mut found = None;
        while found.is_none() {
            let ready = wait(&*b, rustix::event::PollFlags::IN, PATIENCE);
            assert!(!ready.is_empty(), "{kind:?}: nothing arrives");
            b.receive(64, &mut |f| {
                if f.bytes.ends_with(b"tagged") {
                    found = Some(f.bytes.to_vec());
                }
            })
            .unwrap();
        }
        let found = found.unwrap();
        assert_eq!(found[..6], [2, 0, 0, 0, 0, 5], "{kind:?}");
        assert_eq!(found[12..18], [0x81, 0, 0, 7, 8, 0], "{kind:?}: {found:02x?}");
        check(&found, 1500 + 4);
    }
}
