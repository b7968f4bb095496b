//! Tests of the streams of added programs, with the calls of a process that has them.

use super::*;
use crate::testing::{Answer, DATA, TestHost};
use belljar_linux_abi::c;

const SPEC: usize = 0;

/// Host whose process has a terminal of 30 rows and 90 columns.
fn with_terminal(threads: usize) -> TestHost {
    let mut t = TestHost::new(threads);
    let size = Winsize { rows: 30, columns: 90, ..Winsize::default() };
    open_terminal(&mut t.host, t.process, SPEC, size).unwrap();
    t
}

#[test]
fn what_is_typed_is_echoed_and_read_and_what_is_written_is_taken() {
    let mut t = with_terminal(2);
    assert!(!waits_for_input(&t.host, SPEC) && !has_output(&t.host, SPEC));
    assert_eq!(t.attempt(1, c::SYS_read, &[0, DATA + 0x1000, 100]), Answer::Blocked);
    assert!(waits_for_input(&t.host, SPEC));
    assert_eq!(type_in(&mut t.host, SPEC, b"ls\r"), 3);
    assert!(!waits_for_input(&t.host, SPEC), "it has been woken");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(3)));
    assert_eq!(t.get(0x1000, 3), b"ls\n");
    let said = t.put(0x2000, b"file\n");
    t.call(c::SYS_write, &[1, said, 5]).unwrap();
    assert!(has_output(&t.host, SPEC));
    assert_eq!(take_output(&mut t.host, SPEC), [b"ls\r\nfile\r\n".to_vec(), Vec::new()]);
    assert!(!has_output(&t.host, SPEC));
}

#[test]
fn it_is_the_controlling_terminal_with_the_size_of_the_clients() {
    let mut t = with_terminal(1);
    let size = |t: &mut TestHost| {
        t.call(c::SYS_ioctl, &[0, c::TIOCGWINSZ, DATA]).unwrap();
        t.get(0, 4).to_vec()
    };
    assert_eq!(size(&mut t), [30, 0, 90, 0]);
    resize(&mut t.host, SPEC, Winsize { rows: 40, columns: 120, ..Winsize::default() });
    assert_eq!(size(&mut t), [40, 0, 120, 0]);
    t.call(c::SYS_ioctl, &[2, c::TIOCGSID, DATA]).unwrap();
    let pid = t.host.processes[t.process.0].pid;
    assert_eq!(t.get(0, 4), pid.to_ne_bytes());
}

#[test]
fn a_poll_of_the_terminal_waits_for_input_and_one_of_something_else_does_not() {
    let mut t = with_terminal(2);
    let fds = [0i32.to_ne_bytes(), [1, 0, 0, 0]].concat();
    let at = t.put(0x1000, &fds);
    assert_eq!(t.attempt(1, c::SYS_poll, &[at, 1, u64::MAX]), Answer::Blocked);
    assert!(waits_for_input(&t.host, SPEC));
    let mut other = with_terminal(2);
    other.call(c::SYS_pipe2, &[DATA, 0]).unwrap();
    let (reader, _) = other.pair(0);
    assert_eq!(other.attempt(1, c::SYS_read, &[reader, DATA + 0x1000, 1]), Answer::Blocked);
    assert!(!waits_for_input(&other.host, SPEC));
}

#[test]
fn pipes_end_with_the_input_and_separate_errors() {
    let mut t = TestHost::new(2);
    open_pipes(&mut t.host, t.process, SPEC).unwrap();
    assert_eq!(t.attempt(1, c::SYS_read, &[0, DATA + 0x1000, 100]), Answer::Blocked);
    assert!(waits_for_input(&t.host, SPEC));
    assert_eq!(type_in(&mut t.host, SPEC, b"all of it"), 9);
    assert_eq!(t.go_on(1), Answer::Ended(Ok(9)));
    close_input(&mut t.host, SPEC);
    assert_eq!(t.call(c::SYS_read, &[0, DATA, 100]), Ok(0));
    assert!(!waits_for_input(&t.host, SPEC));
    let said = t.put(0x2000, b"outerr");
    t.call(c::SYS_write, &[1, said, 3]).unwrap();
    t.call(c::SYS_write, &[2, said + 3, 3]).unwrap();
    assert_eq!(take_output(&mut t.host, SPEC), [b"out".to_vec(), b"err".to_vec()]);
}

#[test]
fn a_pipe_takes_what_there_is_room_for() {
    let mut t = TestHost::new(1);
    open_pipes(&mut t.host, t.process, SPEC).unwrap();
    let much = vec![b'x'; 100_000];
    assert_eq!(type_in(&mut t.host, SPEC, &much), 65_536);
    assert_eq!(type_in(&mut t.host, SPEC, &much), 0);
    t.call(c::SYS_read, &[0, DATA, 50_000]).unwrap();
    assert!(type_in(&mut t.host, SPEC, &much) > 0);
}

#[test]
fn after_a_hang_up_the_terminal_is_gone() {
    let mut t = with_terminal(1);
    // The process ignores SIGHUP.
    let action = [1u64.to_ne_bytes(), [0; 8], [0; 8], [0; 8]].concat();
    let at = t.put(0x1000, &action);
    t.call(c::SYS_rt_sigaction, &[c::SIGHUP as u64, at, 0, 8]).unwrap();
    hang_up(&mut t.host, SPEC);
    assert_eq!(t.call(c::SYS_read, &[0, DATA, 1]), Ok(0));
    assert_eq!(t.call(c::SYS_write, &[1, DATA, 1]), Err(Errno::EIO));
    assert_eq!(take_output(&mut t.host, SPEC), [Vec::new(), Vec::new()]);
    assert_eq!(type_in(&mut t.host, SPEC, b"x"), 1, "nobody reads it");
    hang_up(&mut t.host, SPEC);
}
