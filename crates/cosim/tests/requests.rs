//! PCIe and memory of the libraries in C and Python, as peers of this crate.

mod support;

use belljar_base::{Seed, SimTime};
use belljar_cosim::{
    Backoff, Channel, Error, Layer, MemoryDevice, Parameters, PcieDevice, PcieHost, Role, Setup, establish,
};
use belljar_pci::{Bar, DeviceInfo, Interrupt, Memory, ToDevice, ToHost};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use support::*;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Starts one of these tests' programs, in C or Python, with a channel to it.
fn start<L: Layer>(folder: &Folder, name: &str, role: Role, layer: L) -> (Peer, Channel<L>) {
    let url = folder.url(role, "it", true);
    let ours = Parameters { slot_size: 9_088, slots: 1_024, ..parameters(folder, "it", other(role), true) };
    let setup = Setup::with(ours, layer).unwrap();
    let peer = match name.ends_with(".py") {
        true => Peer::python(&source(name), &[&url, &library("").display().to_string()]),
        false => {
            let built = folder.0.join(source(name).file_stem().unwrap());
            let program = if built.exists() { built } else { compile(folder, &source(name)) };
            Peer::start(program, &[&url])
        }
    };
    let made = establish::<L, Error>(vec![setup], Duration::from_secs(120), || Ok(()));
    (peer, made.unwrap().remove(0))
}

/// Runs this end up to `until`; `answer` returns the replies to each message and its time.
fn run_end<L: Layer>(
    channel: &mut Channel<L>,
    first: Vec<(SimTime, L::Sent)>,
    until: SimTime,
    mut answer: impl FnMut(SimTime, L::Received) -> Vec<L::Sent>,
) -> Result<(), Error> {
    let (mut now, mut backoff, mut first) = (SimTime::ZERO, Backoff::default(), first.into_iter().peekable());
    while now < until {
        // Arriving messages come before those planned for the same time.
        while let Some((at, message)) = channel.poll(until)? {
            while let Some((when, planned)) = first.next_if(|(when, _)| *when < at) {
                assert!(channel.send(when, &planned)?);
            }
            for sent in answer(at, message) {
                assert!(channel.send(at, &sent)?);
            }
        }
        let limit = channel.horizon().min(until);
        while let Some((when, planned)) = first.next_if(|(when, _)| *when < limit) {
            assert!(channel.send(when, &planned)?);
        }
        if limit > now {
            now = limit;
            backoff.reset();
        } else if backoff.wait() {
            channel.check_peer()?;
        }
        assert!(channel.sync(now));
    }
    Ok(())
}

#[track_caller]
fn ended_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => assert!(said.is_empty(), "{said}"),
        Some(1) => assert!(said.starts_with("echo: ") && said.lines().count() == 1, "{said}"),
        _ => panic!("{:?}: {said}", output.status),
    }
}

#[test]
fn a_device_in_c_or_python_reaches_our_memory_and_interrupts_to_the_picosecond() {
    for name in ["adder_device.c", "adder_device.py"] {
        for role in [Role::Listen, Role::Connect] {
            let folder = Folder::new();
            let (peer, mut channel) = start(&folder, name, role, PcieHost::default());
            assert_eq!((channel.layer().device().vendor, channel.layer().device().msi_vectors), (0x1234, 2));
            let (mut memory, mut heard) = (41_u64, Vec::new());
            let write = |posted| ToDevice::Write {
                id: 1,
                bar: 0,
                offset: 0,
                posted,
                data: 0x1000_u64.to_le_bytes().into(),
            };
            let first = vec![
                (SimTime::from_nanos(100), write(true)),
                (SimTime::from_nanos(20_000), write(false)),
                (SimTime::from_nanos(40_000), ToDevice::Read { id: 2, bar: 0, offset: 8, len: 4 }),
            ];
            let ran =
                run_end(&mut channel, first, SimTime::from_nanos(60_000), |at, message| match message {
                    ToHost::Read { id, address: 0x1000, len: 8 } => {
                        vec![ToDevice::ReadDone { id, data: memory.to_le_bytes().into() }]
                    }
                    ToHost::Write { id, address: 0x1000, data } => {
                        memory = u64::from_le_bytes(data.try_into().unwrap());
                        vec![ToDevice::WriteDone { id }]
                    }
                    other => {
                        heard.push((at.as_nanos(), other));
                        Vec::new()
                    }
                });
            ran.unwrap();
            let interrupt = ToHost::Interrupt(Interrupt::Msi(1));
            let way = OURS + THEIRS;
            assert_eq!(
                heard,
                [
                    (100 + 3 * way, interrupt.clone()),
                    (20_000 + way, ToHost::WriteDone { id: 1 }),
                    (20_000 + 3 * way, interrupt),
                    (40_000 + way, ToHost::ReadDone { id: 2, data: vec![2, 0, 0, 0] }),
                ],
                "{name}"
            );
            assert_eq!(memory, 43);
            drop(channel);
            ended_well(&peer.ended());
        }
    }
}

/// The device for the host program in C or Python, which first writes and reads register 16, then the memory
/// that it has written.
fn device() -> DeviceInfo {
    let mut info = DeviceInfo { vendor: 0x1234, device: 1, msi_vectors: 1, ..DeviceInfo::default() };
    info.bars[0] = Bar { len: 4_096, flags: 0 };
    info
}

#[test]
fn a_host_in_c_or_python_uses_our_device() {
    for name in ["prober_host.c", "prober_host.py"] {
        let folder = Folder::new();
        let (peer, mut channel) = start(&folder, name, Role::Connect, PcieDevice::new(device()));
        let mut register = Vec::new();
        let ran =
            run_end(&mut channel, Vec::new(), SimTime::from_nanos(50_000), |_, message| match message {
                ToDevice::Write { data, posted: true, bar: 0, offset: 16, .. } => {
                    register = data;
                    Vec::new()
                }
                ToDevice::Read { id, bar: 0, offset: 16, len: 4 } => vec![
                    ToHost::ReadDone { id, data: register.clone() },
                    ToHost::Write { id: 5, address: 64, data: vec![9; 100] },
                    ToHost::Read { id: 6, address: 60, len: 8 },
                ],
                ToDevice::ReadDone { id: 6, data } => {
                    assert_eq!(data, [0, 0, 0, 0, 9, 9, 9, 9]);
                    vec![ToHost::Interrupt(Interrupt::Msi(0)), ToHost::Interrupt(Interrupt::Line(true))]
                }
                _ => Vec::new(),
            });
        ran.unwrap();
        assert_eq!(register, [1, 2, 3, 4]);
        drop(channel);
        let output = peer.ended();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, "register 1 2 3 4\nmsi 0\nup 0\n", "{name}: {:?}", output.stderr);
    }
}

#[test]
fn a_host_in_c_or_python_keeps_its_memory_with_us() {
    for name in ["memory_host.c", "memory_host.py"] {
        let folder = Folder::new();
        let (peer, mut channel) = start(&folder, name, Role::Connect, MemoryDevice::default());
        let mut memory = Memory::new(1 << 20);
        run_end(&mut channel, Vec::new(), SimTime::from_nanos(30_000), |_, message| {
            memory.access(message).into_iter().collect()
        })
        .unwrap();
        drop(channel);
        let output = peer.ended();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "written\nread abc\n",
            "{name}: {:?}",
            output.stderr
        );
    }
}

#[test]
fn messages_drawn_at_random_end_them_with_one_message() {
    let mut stream = Seed(21).stream(&["slots"]);
    for (name, times) in [
        ("adder_device.c", 40),
        ("prober_host.c", 40),
        ("memory_host.c", 20),
        ("adder_device.py", 6),
        ("prober_host.py", 6),
    ] {
        let folder = Folder::new();
        for _ in 0..times {
            fn shower<L: Layer>(
                folder: &Folder,
                name: &str,
                layer: L,
                stream: &mut belljar_base::Stream,
            ) -> Peer {
                let (peer, mut channel) = start(folder, name, Role::Connect, layer);
                for _ in 0..1 + stream.below(40) {
                    let mut header = [0; 48];
                    for byte in &mut header[..26] {
                        *byte = if stream.below(12) == 0 { stream.below(256) as u8 } else { 0 };
                    }
                    let kind = [0x40, 0x60][stream.below(2) as usize] + stream.below(7) as u8;
                    let stamp = if stream.below(20) == 0 { u64::MAX } else { stream.below(1 << 24) };
                    assert!(channel.send_raw(stamp, kind, &header));
                }
                peer
            }
            let peer = match name.split('_').next() {
                Some("adder") => shower(&folder, name, PcieHost::default(), &mut stream),
                Some("prober") => shower(&folder, name, PcieDevice::new(device()), &mut stream),
                _ => shower(&folder, name, MemoryDevice::default(), &mut stream),
            };
            ended_well(&peer.ended());
        }
    }
}
