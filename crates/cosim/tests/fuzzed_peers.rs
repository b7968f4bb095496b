//! The libraries in C and Python, and this crate, with random peers: invalid queues, slots filled out of
//! order or with random content, and an end at any time. None may hang, crash, or print more than one line.

mod support;

use belljar_base::{Seed, SimTime, Stream};
use belljar_channel::{Region, SlotRing};
use belljar_cosim::intro::{Intro, Queue, Queues};
use belljar_cosim::{Backoff, Net, Role};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;
use support::*;

const SLOT: u64 = 1600;
const SLOTS: u64 = 8;
const OWNER: usize = 63;

fn queue(offset: u64) -> Queue {
    Queue { offset, slot_size: SLOT, slots: SLOTS }
}

/// The listener's intro for two adjacent queues.
fn intro() -> Vec<u8> {
    let queues = Queues { to_connector: queue(0), to_listener: queue(SLOT * SLOTS) };
    Intro { flags: 1, queues: Some(queues), upper: vec![0; 4] }.encode(&Net)
}

/// A program with one channel, in C or Python.
struct Program {
    python: bool,
    path: PathBuf,
}

impl Program {
    fn new(folder: &Folder, python: bool) -> Program {
        if python {
            let path = folder.0.join("one.py");
            let library = library("");
            let text = format!(
                "import sys; sys.path.insert(0, {:?})\nfrom belljar_channel import *\nsim = Simulator()\n\
                 channel = sim.channel(sys.argv[1]); channel.on_frame = channel.send\n\
                 try: sim.run(patience=300)\nexcept ChannelError as error: sys.exit(f'echo: {{error}}')\n",
                library.display().to_string()
            );
            std::fs::write(&path, text).unwrap();
            return Program { python, path };
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/echo.c");
        Program { python, path: compile(folder, &source) }
    }
    fn start(&self, url: &str) -> Peer {
        if self.python { Peer::python(&self.path, &[url]) } else { Peer::start(&self.path, &[url]) }
    }
}

/// Listens for a program that connects, and sends it an intro with the memory.
fn listen(folder: &Folder, program: &Program, intro: &[u8], memory: &Region) -> (Peer, UnixStream) {
    let path = folder.socket("it");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let peer = program.start(&folder.url(Role::Connect, "it", true));
    let (socket, _) = listener.accept().unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [memory.file()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(&socket, &[IoSlice::new(intro)], &mut control, SendFlags::NOSIGNAL).unwrap();
    (peer, socket)
}

/// Asserts that the program exited successfully, or with one line of output.
#[track_caller]
fn ended_well(output: &Output, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => assert!(said.is_empty(), "{what}: {said}"),
        Some(1) => assert!(said.starts_with("echo: ") && said.lines().count() == 1, "{what}: {said}"),
        _ => panic!("{what}: {:?}: {said}", output.status),
    }
}

#[test]
fn queues_that_are_not_there_end_them_with_one_message() {
    let mut stream = Seed(8).stream(&["queues"]);
    for (python, times) in [(false, 60), (true, 8)] {
        let folder = Folder::new();
        let program = Program::new(&folder, python);
        for _ in 0..times {
            let mut words = intro();
            // One of the six words of the queues is replaced.
            let at = 16 + 8 * stream.below(6) as usize;
            let value = match stream.below(4) {
                0 => stream.below(200),
                1 => stream.below(1 << 20),
                2 => u64::MAX - stream.below(5_000),
                _ => 1 << stream.below(64),
            };
            words[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let memory = Region::create((2 * SLOT * SLOTS) as usize).unwrap();
            let (peer, socket) = listen(&folder, &program, &words, &memory);
            drop(socket);
            ended_well(&peer.ended(), &format!("python {python}, {value:#x} at {at}"));
        }
    }
}

/// Both queues of a peer that connects to this end, adjacent.
fn rings(memory: Arc<Region>) -> (SlotRing, SlotRing) {
    let ring = |offset| SlotRing::new(memory.clone(), offset, SLOT, SLOTS).unwrap();
    (ring(0), ring(SLOT * SLOTS))
}

fn fill(ring: &SlotRing, slot: usize, kind: u8, len: u16, stamp: u64) {
    ring.write(slot, 0, &len.to_le_bytes());
    ring.write(slot, 48, &stamp.to_le_bytes());
    ring.write(slot, 64, &[slot as u8; 64]);
    ring.give(slot, OWNER, kind | 0x80);
}

#[test]
fn slots_filled_out_of_order_are_read_in_order() {
    for python in [false, true] {
        let folder = Folder::new();
        let program = Program::new(&folder, python);
        let memory = Arc::new(Region::create((2 * SLOT * SLOTS) as usize).unwrap());
        let (peer, socket) = listen(&folder, &program, &intro(), &memory);
        let (to, from) = rings(memory);
        for slot in [2, 1, 3] {
            fill(&to, slot, 0x40, 64, 1_000 + slot as u64);
        }
        std::thread::sleep(Duration::from_millis(20));
        fill(&to, 0, 0x40, 64, 1_000);
        // This message ends the run, or lets its clock advance.
        fill(&to, 4, 0x00, 0, 1 << 40);
        let mut order = Vec::new();
        let mut backoff = Backoff::default();
        for slot in (0..SLOTS as usize).cycle().take(6) {
            for _ in 0..300_000 {
                if from.owner(slot, OWNER) & 0x80 != 0 {
                    break;
                }
                backoff.wait();
            }
            let mut byte = [0];
            from.read(slot, 64, &mut byte);
            if from.owner(slot, OWNER) == 0x80 | 0x40 {
                order.push(byte[0]);
            }
            from.give(slot, OWNER, from.owner(slot, OWNER) & 0x7f);
            if order.len() == 4 {
                break;
            }
        }
        assert_eq!(order, [0, 1, 2, 3], "python: {python}");
        drop(socket);
        ended_well(&peer.ended(), "out of order");
    }
}

#[test]
fn slots_with_anything_in_them_end_them_with_one_message() {
    let mut stream = Seed(9).stream(&["slots"]);
    for (python, times) in [(false, 60), (true, 8)] {
        let folder = Folder::new();
        let program = Program::new(&folder, python);
        for round in 0..times {
            let memory = Arc::new(Region::create((2 * SLOT * SLOTS) as usize).unwrap());
            let (peer, socket) = listen(&folder, &program, &intro(), &memory);
            let (to, _) = rings(memory);
            for _ in 0..1 + stream.below(30) {
                let kind = if stream.below(2) == 0 { 0x40 } else { stream.below(128) as u8 };
                let stamp = if stream.below(8) == 0 { u64::MAX } else { stream.below(1 << 24) };
                fill(&to, stream.below(SLOTS) as usize, kind, stream.below(2_000) as u16, stamp);
            }
            drop(socket);
            ended_well(&peer.ended(), &format!("python {python}, round {round}"));
        }
    }
}

/// A time of a run in nanoseconds, usually an early one.
fn point(stream: &mut Stream) -> SimTime {
    let most = 1 << (1 + stream.below(16));
    SimTime::from_nanos(stream.below(most))
}

#[test]
fn an_end_at_any_point_is_noticed_on_the_other_side() {
    let mut stream = Seed(10).stream(&["ends"]);
    for (python, times) in [(false, 30), (true, 4)] {
        let folder = Folder::new();
        let program = Program::new(&folder, python);
        for round in 0..times {
            let role = if round % 2 == 0 { Role::Listen } else { Role::Connect };
            let mut peer = program.start(&folder.url(role, "it", true));
            let mut channels = connect(vec![parameters(&folder, "it", other(role), true)]);
            let at = point(&mut stream);
            run(&mut channels, &numbered(20, 100), at).unwrap();
            if stream.below(2) == 0 {
                drop(channels);
                ended_well(&peer.ended(), &format!("we end at {at}"));
                continue;
            }
            peer.kill();
            let error = run(&mut channels, &[], SimTime::from_secs(1_000)).unwrap_err().to_string();
            assert!(error.starts_with("it: it closed the channel without TERMINATE"), "{error}");
        }
    }
}

#[test]
fn terminate_ends_a_channel_and_jumbo_frames_pass() {
    for python in [false, true] {
        let folder = Folder::new();
        let program = Program::new(&folder, python);
        let peer = program.start(&folder.url(Role::Connect, "it", true));
        let ours =
            belljar_cosim::Parameters { slot_size: 9_152, ..parameters(&folder, "it", Role::Listen, true) };
        let mut channels = connect(vec![ours]);
        assert_eq!(channels[0].capacity(), 9_088);
        let frame = belljar_cosim::Frame { port: 0, bytes: vec![7; 9_018] };
        let arrived =
            run(&mut channels, &[(SimTime::from_nanos(10), frame.clone())], SimTime::from_nanos(5_000));
        assert_eq!(arrived.unwrap()[0], [(SimTime::from_nanos(10 + OURS + THEIRS), frame)]);
        assert!(channels[0].terminate());
        ended_well(&peer.ended(), "terminate");
    }
}
