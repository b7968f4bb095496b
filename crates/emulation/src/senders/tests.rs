use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Message of a dump about a socket with these counts.
fn message(cookie: u64, counts: Counts) -> Vec<u8> {
    let mut info = vec![0; BUSY_TIME + 64];
    info[BUSY_TIME..BUSY_TIME + 8].copy_from_slice(&counts.busy_us.to_ne_bytes());
    info[DATA_SEGS_OUT..DATA_SEGS_OUT + 4].copy_from_slice(&counts.segments.to_ne_bytes());
    let mut body = vec![0; MESSAGE];
    body[COOKIE..COOKIE + 8].copy_from_slice(&cookie.to_ne_bytes());
    // An attribute before it, whose length is no multiple of four.
    body.extend([5, 0, 8, 0, 0, 0, 0, 0]);
    body.extend(((info.len() + 4) as u16).to_ne_bytes());
    body.extend(INFO.to_ne_bytes());
    body.extend(info);
    headed(BY_FAMILY, &body)
}

fn headed(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.resize(HEADER, 0);
    bytes.extend(body);
    bytes
}

#[test]
fn dumps_are_read_as_the_kernel_writes_them() {
    let (one, two) = (Counts { busy_us: 7, segments: 2 }, Counts { busy_us: 1 << 40, segments: 9 });
    let mut found = Sockets::new();
    let first = [message(1, one), message(2, two)].concat();
    assert!(matches!(read(&first, 4, &mut found), Ok(false)));
    assert!(matches!(read(&headed(DONE, &[0; 4]), 4, &mut found), Ok(true)));
    assert_eq!(found, Sockets::from_iter([((4, 1), one), ((4, 2), two)]));
    let refused = read(&headed(ERROR, &(-2i32).to_ne_bytes()), 4, &mut found);
    assert_eq!(refused.map_err(|error| error.raw_os_error()), Err(Some(2)));
    for cut in 0..first.len() {
        let _ = read(&first[..cut], 5, &mut found);
    }
    let mut wrong = first.clone();
    wrong[HEADER + MESSAGE] = 0;
    assert!(read(&wrong, 6, &mut found).is_ok() && !found.contains_key(&(6, 1)));
}

#[test]
fn sockets_that_always_had_data_are_counted() {
    let counts = |busy_us, segments| Counts { busy_us, segments };
    let before = Sockets::from_iter([((0, 1), counts(5, u32::MAX)), ((0, 2), counts(5, 10))]);
    let now = Sockets::from_iter([
        ((0, 1), counts(180_005, 399)),
        ((0, 2), counts(179_005, 5_000)),
        ((1, 1), counts(900_000, 5_000)),
    ]);
    assert_eq!(pressing(&before, &now, 200_000_000), 2_000.0, "the second paused, the third is new");
}

#[test]
fn a_sender_of_this_kernel_is_seen() {
    let own = std::fs::File::open("/proc/thread-self/ns/net").expect("a namespace");
    let opened = Senders::open(std::iter::once(std::os::fd::AsFd::as_fd(&own)), false);
    let Ok(mut senders) = opened else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut giver = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (mut taker, _) = listener.accept().expect("a connection");
    senders.sample();
    if senders.hosts.is_empty() {
        return;
    }
    // The taker reads slowly, and the giver is never without data.
    giver.set_nonblocking(true).expect("an option");
    let mut buffer = vec![0; 100_000];
    let before = senders.sample();
    let mut rate = before;
    for _ in 0..400 {
        while giver.write(&[0; 100_000]).is_ok() {}
        let _ = taker.read(&mut buffer);
        std::thread::sleep(Duration::from_millis(1));
    }
    rate = rate.max(senders.sample());
    assert!(rate > 0.0, "{rate}");
}
