//! Timing of `MSG_ZEROCOPY` notifications over a wire; `tests/guests/zerocopies.c` covers `lo`.

use super::*;
use belljar_linux_abi::socket::MsgHdr;

const HEADER: u64 = 1_024;
const CONTROL: u64 = 2_048;

fn send(test: &mut TestHost, fd: u64, len: usize) -> Result<u64, Errno> {
    let buffer = test.put(BUFFER, &vec![7; len]);
    test.call(c::SYS_sendto, &[fd, buffer, len as u64, c::MSG_ZEROCOPY as u64])
}

/// Reads the next notification: first and last send number, and code.
fn told(test: &mut TestHost, fd: u64) -> Result<(u32, u32, u8), Errno> {
    let base = crate::testing::DATA;
    let header = MsgHdr { control: base + CONTROL, controllen: 256, ..MsgHdr::default() };
    let at = test.put(HEADER, header.as_bytes());
    assert_eq!(test.call(c::SYS_recvmsg, &[fd, at, c::MSG_ERRQUEUE as u64])?, 0);
    let report = test.get(CONTROL + 16, 16);
    let word = |at: usize| u32::from_ne_bytes(report[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), report[4]), (0, 5));
    Ok((word(8), word(12), report[6]))
}

#[test]
fn a_datagram_is_told_of_when_it_has_left() {
    let nic = NicConfig { bandwidth_up: Some(8_000_000), ..NicConfig::default() };
    let mut wire = Wire::with_nic(&nic);
    let a = wire.hosts[A].udp4();
    assert_eq!(wire.hosts[A].connect(a, at(B, 7)), Answer::Ended(Ok(0)));
    wire.hosts[A].set(a, c::SOL_SOCKET, c::SO_ZEROCOPY, 1).unwrap();
    // Three of 1,000 bytes with headers, at 1 MB/s.
    for _ in 0..3 {
        assert_eq!(send(&mut wire.hosts[A], a, 972), Ok(972));
    }
    wire.pass(SimDuration::from_micros(2_500));
    assert_ne!(wire.hosts[A].ready(a) & c::EPOLLERR as u32, 0);
    let (first, last, copied) = told(&mut wire.hosts[A], a).unwrap();
    assert_eq!((first, copied), (0, 0));
    assert!(last < 2, "the last one is still under way");
    wire.pass(millis(1));
    assert_eq!(told(&mut wire.hosts[A], a), Ok((last + 1, 2, 0)));
    assert_eq!(told(&mut wire.hosts[A], a), Err(Errno::EAGAIN));
    // Linux copies a datagram that it fragments.
    assert_eq!(send(&mut wire.hosts[A], a, 3_000), Ok(3_000));
    assert_eq!(told(&mut wire.hosts[A], a), Ok((3, 3, 1)));
    // A datagram that is too long gets no send number.
    wire.hosts[A].set(a, c::IPPROTO_IP, c::IP_MTU_DISCOVER, c::IP_PMTUDISC_DO).unwrap();
    assert_eq!(send(&mut wire.hosts[A], a, 3_000), Err(Errno::EMSGSIZE));
    assert_eq!(send(&mut wire.hosts[A], a, 100), Ok(100));
    wire.pass(millis(10));
    assert_eq!(told(&mut wire.hosts[A], a), Ok((4, 4, 0)));
}

#[test]
fn bytes_are_told_of_when_they_are_acknowledged() {
    let mut wire = Wire::new();
    let (a, listener) = (wire.hosts[A].tcp4(), wire.hosts[B].listener(at(B, 80)));
    wire.hosts[A].set(a, c::SOL_SOCKET, c::SO_ZEROCOPY, 1).unwrap();
    assert_eq!(wire.hosts[A].connect(a, at(B, 80)), Answer::Blocked);
    wire.pass(millis(30));
    assert_eq!(wire.hosts[A].go_on(0), Answer::Ended(Ok(0)));
    let b = wire.hosts[B].accept(listener).unwrap();
    for _ in 0..2 {
        assert_eq!(send(&mut wire.hosts[A], a, 1_000), Ok(1_000));
    }
    wire.pass(millis(19));
    assert_eq!(wire.hosts[A].ready(a) & c::EPOLLERR as u32, 0);
    assert_eq!(told(&mut wire.hosts[A], a), Err(Errno::EAGAIN));
    wire.pass(millis(60));
    assert_ne!(wire.hosts[A].ready(a) & c::EPOLLERR as u32, 0);
    assert_eq!(told(&mut wire.hosts[A], a), Ok((0, 1, 0)));
    // Data lost with the connection is reported too.
    wire.lost = (wire.seen.len()..wire.seen.len() + 1).collect();
    assert_eq!(send(&mut wire.hosts[A], a, 1_000), Ok(1_000));
    wire.hosts[B].close(b);
    assert_eq!(wire.hosts[B].receive(b), Err(Errno::EBADF));
    wire.pass(millis(500));
    assert_eq!(told(&mut wire.hosts[A], a), Ok((2, 2, 0)));
    assert_eq!(told(&mut wire.hosts[A], a), Err(Errno::EAGAIN));
}
