//! The libraries in C and Python with peers that break the protocol: they print one message and do not hang.

mod support;

use belljar_base::{Seed, SimTime, Stream};
use belljar_cosim::{Role, SyncMode};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use support::*;

const PYTHON: &str = "import sys; from belljar_channel import *
sim = Simulator(); sim.channel(sys.argv[1])
try: sim.run(patience=float(sys.argv[2]))
except ChannelError as error: sys.exit(f'wire: {error}')";

/// A peer with one listening channel.
fn listener(folder: &Folder, python: bool, patience: &str) -> Peer {
    let url = folder.url(Role::Listen, "it", true);
    if python {
        let script = folder.0.join("one.py");
        let library = library("");
        let path = format!("import sys; sys.path.insert(0, {:?})\n", library.display().to_string());
        std::fs::write(&script, path + PYTHON).unwrap();
        return Peer::python(&script, &[&url, patience]);
    }
    let source = folder.0.join("one.c");
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire.c")).unwrap();
    let start = text.find("    struct bjc_channel *right").unwrap();
    let end = text.find("    if (bjc_run").unwrap();
    std::fs::write(&source, format!("{}    (void)left;\n{}", &text[..start], &text[end..])).unwrap();
    Peer::start(compile(folder, &source), &[&url])
}

fn reach(folder: &Folder) -> UnixStream {
    for _ in 0..60_000 {
        if let Ok(socket) = UnixStream::connect(folder.socket("it")) {
            return socket;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nobody listens");
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).chain([0; 4]).collect()
}

fn garbage(stream: &mut Stream) -> Vec<u8> {
    (0..1 + stream.below(100)).map(|_| stream.below(256) as u8).collect()
}

#[test]
fn a_wrong_intro_ends_them_with_one_message() {
    let mut stream = Seed(3).stream(&["intros"]);
    for python in [false, true] {
        let mut intros = vec![
            (words(&[2, 1, 1, 32]), "speaks version 2"),
            (words(&[1, 1, 3, 32]), "speaks protocol 3"),
            (words(&[1])[..9].to_vec(), "has 9 bytes only"),
            (Vec::new(), "instead of sending its intro"),
        ];
        intros.push((garbage(&mut stream), ""));
        intros.push((garbage(&mut stream), ""));
        for (intro, reason) in intros {
            let folder = Folder::new();
            let peer = listener(&folder, python, "300");
            let mut socket = reach(&folder);
            // The peer may have exited before it reads more.
            let _ = socket.write_all(&intro);
            drop(socket);
            let output = peer.ended();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(
                said.starts_with("wire: ") && said.contains(reason) && said.lines().count() == 1,
                "{said}"
            );
        }
    }
}

#[test]
fn a_message_that_cannot_be_ends_them_with_one_message() {
    for python in [false, true] {
        for (kind, header, reason) in
            [(0x02, 0, "type 0x2"), (0x7f, 0, "type 0x7f"), (0x40, 0xff, "of 65535 bytes in a slot of")]
        {
            let folder = Folder::new();
            let peer = listener(&folder, python, "300");
            let ours = parameters(&folder, "it", Role::Connect, true);
            let mut channel = connect(vec![ours]).remove(0);
            assert!(channel.sync(SimTime::ZERO));
            assert!(channel.send_raw(0, kind, &[header; 48]));
            let output = peer.ended();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(
                said.starts_with("wire: ") && said.contains(reason) && said.lines().count() == 1,
                "{said}"
            );
        }
    }
}

#[test]
fn who_requires_what_they_do_not_do_is_told() {
    let folder = Folder::new();
    let url = folder.url(Role::Listen, "left", false);
    let right = folder.url(Role::Listen, "right", false);
    let peer = Peer::python(&library("middlebox.py"), &[&url, &right]);
    let ours = belljar_cosim::Parameters {
        sync: SyncMode::Required,
        ..parameters(&folder, "left", Role::Connect, true)
    };
    let setup = belljar_cosim::Setup::new(ours).unwrap();
    let told = belljar_cosim::establish::<belljar_cosim::Net, belljar_cosim::Error>(
        vec![setup],
        Duration::from_secs(120),
        || Ok(()),
    );
    let told = told.err().unwrap().to_string();
    assert!(told.starts_with("left: it does not synchronise, which is required here"), "{told}");
    let output = peer.ended();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the peer requires synchronisation: set sync=true")
    );
}

#[test]
fn nobody_coming_is_said_within_the_patience() {
    let folder = Folder::new();
    let output = listener(&folder, true, "0.2").ended();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no peer came within 0.2 s") && said.lines().count() == 1, "{said}");
}
