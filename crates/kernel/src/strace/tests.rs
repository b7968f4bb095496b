//! Tests of log lines.

use crate::config::HostConfig;
use crate::outcome::{Outcome, SysResult};
use crate::syscall::table;
use crate::testing::{DATA, NoFiles, TestHost, config};
use belljar_linux_abi::{Errno, c};
use belljar_strace::{Phrases, arity, is_plain, place};

fn logging() -> TestHost {
    let mut test = TestHost::with(HostConfig { strace: true, ..config() }, Box::new(NoFiles), 1);
    // Without a spec, the log is named after the thread.
    test.host.process(test.process).spec = None;
    test
}

/// Log line of a call with this outcome, without its time and thread.
fn line(test: &mut TestHost, number: i64, args: [u64; 6], outcome: &SysResult) -> String {
    let traced = test.host.strace_begin(test.threads[0], number as u32, args);
    test.host.strace_end(&traced, outcome);
    let mut line = String::new();
    test.host.drain_strace(true, |_, text| line.push_str(std::str::from_utf8(text).expect("ASCII")));
    line.split_once("] ").expect("a thread").1.to_owned()
}

#[test]
fn what_is_said_again_is_said_of_these_registers_and_this_memory() {
    let test = &mut logging();
    test.put(0, b"one, two");
    let mut is = |number, args, result, expected: &str| {
        assert_eq!(line(test, number, args, &result), format!("{expected}\n"));
    };
    let done = |value| Ok(Outcome::Done(value));
    let of = |fd, addr, len| [fd, addr, len, 0, 0, 0];
    is(c::SYS_write, of(4, DATA, 3), done(3), r#"write(4, "one", 3) = 3"#);
    is(c::SYS_write, of(4, DATA + 5, 3), done(3), r#"write(4, "two", 3) = 3"#);
    is(c::SYS_write, of(4, DATA + 5, 2), done(2), r#"write(4, "tw", 2) = 2"#);
    is(c::SYS_write, of(4, 0, 2), Err(Errno::EFAULT), "write(4, NULL, 2) = -1 EFAULT");
    is(c::SYS_write, of(4, 1, 2), Err(Errno::EFAULT), "write(4, 0x1, 2) = -1 EFAULT");
    is(c::SYS_write, of(4, DATA, 2), Err(Errno(4_000)), r#"write(4, "on", 2) = -1 errno 4000"#);
    is(c::SYS_read, of(3, DATA, 9), done(3), r#"read(3, "one", 9) = 3"#);
    is(c::SYS_read, of(3, DATA, 9), Err(Errno::EAGAIN), "read(3, 0x100000, 9) = -1 EAGAIN");
    // Registers beyond the arguments do not matter.
    is(c::SYS_read, [3, DATA, 9, 7, 7, 7], done(1), r#"read(3, "o", 9) = 1"#);
    // Two descriptors that share a cache slot.
    let close = c::SYS_close as u32;
    let other = (6..).find(|fd| place(close, *fd) == place(close, 5)).expect("there are fewer places");
    is(c::SYS_close, of(5, 0, 0), done(0), "close(5) = 0");
    is(c::SYS_close, of(other, 0, 0), done(0), &format!("close({other}) = 0"));
    is(c::SYS_close, of(5, 0, 0), done(0), "close(5) = 0");
    is(c::SYS_alarm, of(3, 0, 0), done(0), "alarm(0x3) = 0");
    // The number of arguments depends on other arguments.
    let (create, set) = ((c::O_CREAT | c::O_WRONLY) as u64, c::F_SETFL as u64);
    let opened = [3, DATA + 3, 0, 0o600, 0, 0];
    is(c::SYS_openat, opened, done(5), r#"openat(3, ", two", O_RDONLY) = 5"#);
    let made = [3, DATA + 3, create, 0o600, 0, 0];
    is(c::SYS_openat, made, done(5), r#"openat(3, ", two", O_WRONLY|O_CREAT, 0o600) = 5"#);
    is(c::SYS_openat, opened, done(5), r#"openat(3, ", two", O_RDONLY) = 5"#);
    is(c::SYS_fcntl, of(3, c::F_GETFL as u64, 2), done(2), "fcntl(3, F_GETFL) = 2");
    is(c::SYS_fcntl, of(3, set, 2), done(0), "fcntl(3, F_SETFL, 0x2) = 0");
    is(c::SYS_fcntl, of(3, c::F_GETFL as u64, 2), done(2), "fcntl(3, F_GETFL) = 2");
}

#[test]
fn no_line_depends_on_those_before() {
    let (remembering, forgetting) = (&mut logging(), &mut logging());
    let outcomes = [Ok(Outcome::Done(0)), Ok(Outcome::Done(2)), Err(Errno::EINTR)];
    for number in (0..i64::from(table::limit())).flat_map(|number| [number, number, number ^ 1]) {
        for pointer in [DATA + 0x100, 0, DATA + 0x200] {
            for last in [16, 0] {
                for outcome in &outcomes {
                    let args = [3, pointer, 2, last, pointer, last];
                    let line = |test: &mut TestHost| self::line(test, number, args, outcome);
                    assert_eq!(line(remembering), line(forgetting));
                    forgetting.host.strace.phrases = Phrases::default();
                }
            }
        }
    }
}

#[test]
fn those_with_six_arguments_are_known() {
    // Of the calls not shown above, only these have six arguments.
    let six: Vec<&str> = (0..table::limit())
        .filter_map(table::entry)
        .map(|entry| entry.name)
        .filter(|name| is_plain(name) && arity::of(name) == 6)
        .collect();
    assert_eq!(
        six,
        [
            "mbind",
            "splice",
            "move_pages",
            "process_vm_readv",
            "process_vm_writev",
            "copy_file_range",
            "preadv2",
            "pwritev2",
            "io_pgetevents",
            "io_uring_enter",
            "epoll_pwait2",
            "futex_wait",
            "setxattrat",
            "getxattrat",
        ]
        .into_iter()
        .collect::<Vec<_>>()
    );
}
