//! Execution of a program: the kernel executes the shim, which loads the program from a descriptor that stays
//! open.
//!
//! The guest's arguments and environment are passed on unchanged. The path of the shim encodes the number of
//! the descriptor in binary: `/` for a zero, which the kernel skips, and `/.` for a one, which stays in the
//! same folder. The kernel passes the path of its execution to the new program. An `ITIMER_REAL` of the timer thread,
//! which ends with the old program, is encoded before it.

use super::calls::nr;
use super::memory::{native, read, result};
use super::{clock, error, filter, layout, timer_descriptors, timers};

/// Number of bits in a descriptor's number.
const BITS: u32 = 20;
/// Bit that follows the number: a timer is encoded before.
const HAS_TIMER: u64 = 1 << BITS;
/// Number of bits in an encoded time.
const TIME_BITS: u32 = 64;
/// Upper bound on nested scripts.
const MOST_SCRIPTS: usize = 4;
/// Bytes of a file that are examined, as in the kernel.
const HEAD: usize = 256;
/// Largest number of script arguments that need no mapping of their own. Signal stacks are small.
const FEW: usize = 40;

const AT_FDCWD: u64 = -100i64 as u64;
const AT_EMPTY_PATH: u64 = 0x1000;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EACCESS: u64 = 0x200;
const O_NOFOLLOW: u64 = 0x2_0000;
const O_CLOEXEC: u64 = 0x8_0000;
const X_OK: u64 = 1;
const F_SETFD: u64 = 2;

/// Text assembled on the stack, terminated by a zero byte.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// A text that begins with `start`.
    pub fn new(start: &str) -> Text<N> {
        let mut text = Text { bytes: [0; N], len: 0 };
        text.add(start.as_bytes());
        text
    }
    /// The text without its terminator.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    /// Appends as many bytes as fit.
    pub fn add(&mut self, more: &[u8]) {
        for byte in more {
            if self.len + 1 < N {
                self.bytes[self.len] = *byte;
                self.len += 1;
            }
        }
    }
    /// Appends a number in decimal.
    pub fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.add(&[b'0' + (number % 10) as u8]);
    }
    /// Address of the text.
    pub fn at(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }
}

/// The path in `/proc` of a descriptor's file.
pub fn link_to(descriptor: u64) -> Text<32> {
    let mut link = Text::new("/proc/self/fd/");
    link.number(descriptor);
    link
}

/// Upper bound on the length of a path of the shim, in bytes.
pub const LONGEST: usize = layout::FOLDER_LEN + 2 * (BITS + 1 + 2 * TIME_BITS) as usize + 16;

/// The path of the shim in `folder` that encodes `descriptor`, and a timer's expiry and interval.
fn shim_path(folder: &[u8], descriptor: u64, timer: Option<[u64; 2]>) -> Text<LONGEST> {
    let mut path = Text::new("");
    path.add(folder);
    let mut add = |value: u64, bits: u32| {
        (0..bits).rev().for_each(|bit| path.add(if value >> bit & 1 == 1 { b"/." } else { b"/" }));
    };
    timer.into_iter().flatten().for_each(|time| add(time, TIME_BITS));
    add(descriptor | if timer.is_some() { HAS_TIMER } else { 0 }, BITS + 1);
    path.add(b"/");
    path.add(layout::PROGRAM.as_bytes());
    path
}

/// Content of a path of the shim.
#[derive(Debug, PartialEq)]
pub struct Parsed<'a> {
    /// The folder of the shim.
    pub folder: &'a [u8],
    /// Descriptor of the program; `None` if the shim was executed by its plain path.
    pub program: Option<u64>,
    /// Expiry and interval of `ITIMER_REAL`.
    pub timer: Option<[u64; 2]>,
}

/// The number encoded in the last `bits` steps of a path, and the path before it.
fn number(mut path: &[u8], bits: u32) -> Option<(&[u8], u64)> {
    let mut value = 0;
    for bit in 0..bits {
        let is_set = path.ends_with(b"/.");
        path = path.strip_suffix(if is_set { &b"/."[..] } else { b"/" })?;
        value |= u64::from(is_set) << bit;
    }
    Some((path, value))
}

/// Decodes a path of the shim.
pub fn parse(path: &[u8]) -> Option<Parsed<'_>> {
    let plain = path.strip_suffix(layout::PROGRAM.as_bytes())?.strip_suffix(b"/")?;
    let Some((mut folder, word)) = number(plain, BITS + 1) else {
        return Some(Parsed { folder: plain, program: None, timer: None });
    };
    let mut timer = None;
    if word & HAS_TIMER != 0 {
        let (before, interval) = number(folder, TIME_BITS)?;
        let (before, expiry) = number(before, TIME_BITS)?;
        (folder, timer) = (before, Some([expiry, interval]));
    }
    Some(Parsed { folder, program: Some(word & !HAS_TIMER), timer })
}

/// `execve` and `execveat`.
pub fn execute(number: u64, args: [u64; 6]) -> i64 {
    let folder = read::<[u8; layout::FOLDER_LEN]>(layout::TABLE + layout::FOLDER_AT)
        .unwrap_or([0; layout::FOLDER_LEN]);
    let folder = folder.split(|byte| *byte == 0).next().unwrap_or(&[]);
    match number {
        nr::EXECVE => run(folder, AT_FDCWD, args[0], args[1], args[2], 0, true),
        _ => run(folder, args[0], args[1], args[2], args[3], args[4], true),
    }
}

/// Sets up the first process of a host and executes its program: the arguments are the program's path
/// followed by the program's own arguments.
pub fn launch(folder: &[u8], argv: u64, envp: u64) -> i64 {
    match filter::install(freezes(folder)) {
        0 => result(read::<u64>(argv + 8).map(|path| run(folder, AT_FDCWD, path, argv + 16, envp, 0, false))),
        error => error,
    }
}

/// The method by which the host is frozen: a word of its clock's file, which is not mapped yet.
fn freezes(folder: &[u8]) -> u64 {
    let mut path = Text::<LONGEST>::new("");
    path.add(folder);
    path.add(b"/");
    path.add(layout::CLOCK_FILE.as_bytes());
    let file = native(nr::OPEN, [path.at(), O_CLOEXEC, 0, 0, 0, 0]);
    let mut word = 0u64;
    if file >= 0 {
        native(nr::PREAD64, [file as u64, &raw mut word as u64, 8, clock::FREEZES_AT, 0, 0]);
        native(nr::CLOSE, [file as u64, 0, 0, 0, 0, 0]);
    }
    word
}

/// Executes a program; returns only on failure. `is_dilated` is true for a process that may have timers: one that runs a program.
fn run(folder: &[u8], directory: u64, path: u64, argv: u64, envp: u64, flags: u64, is_dilated: bool) -> i64 {
    let mut heads = [[0u8; HEAD]; MOST_SCRIPTS + 1];
    // Arguments inserted before the guest's own, the last one first.
    let mut before = [0u64; 2 * MOST_SCRIPTS + 1];
    let mut count = 0;
    let (mut directory, mut path, mut flags) = (directory, path, flags);
    let mut descriptor_path = Text::<32>::new("/dev/fd/");
    for head in &mut heads {
        let program = match open(directory, path, flags) {
            error if error < 0 => return error,
            program => program as u64,
        };
        let got = native(nr::PREAD64, [program, head.as_mut_ptr() as u64, HEAD as u64, 0, 0, 0]);
        let close = |error: i64| {
            native(nr::CLOSE, [program, 0, 0, 0, 0, 0]);
            error
        };
        if got < 4 {
            // The file is a directory.
            return close(if got < 0 { -13 } else { error::NOEXEC });
        }
        if !head.starts_with(b"#!") {
            if !is_program(head) {
                return close(error::NOEXEC);
            }
            native(nr::FCNTL, [program, F_SETFD, 0, 0, 0, 0]);
            let mut timer = None;
            if is_dilated {
                timer_descriptors::hand_over();
                timer = timers::take_alarm();
            }
            let path = shim_path(folder, program, timer);
            let failed = with_arguments(&path, &before[..count], argv, envp);
            if timer.is_some() {
                timers::adopt(timer);
            }
            return close(failed);
        }
        let Some((interpreter, argument)) = interpreter(head) else { return close(error::NOEXEC) };
        if directory == AT_FDCWD || read::<u8>(path) == Ok(b'/') {
            close(0);
        } else {
            descriptor_path.number(program);
            path = descriptor_path.at();
            native(nr::FCNTL, [program, F_SETFD, 0, 0, 0, 0]);
        }
        // An interpreter that is itself a script becomes an argument of its own interpreter.
        let script = if count == 0 { path } else { before[count - 1] };
        count = count.saturating_sub(1);
        for entry in [script, argument, interpreter].into_iter().filter(|entry| *entry != 0) {
            before[count] = entry;
            count += 1;
        }
        (directory, path, flags) = (AT_FDCWD, interpreter, 0);
    }
    error::LOOP
}

/// Opens a program for which the caller has execute permission.
fn open(directory: u64, path: u64, flags: u64) -> i64 {
    let allowed = flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
    match native(nr::FACCESSAT2, [directory, path, X_OK, AT_EACCESS | allowed, 0, 0]) {
        0 => {}
        error => return error,
    }
    if flags & AT_EMPTY_PATH != 0 && read::<u8>(path) == Ok(0) {
        return native(nr::OPEN, [link_to(directory & 0xffff_ffff).at(), O_CLOEXEC, 0, 0, 0, 0]);
    }
    let no_follow = if flags & AT_SYMLINK_NOFOLLOW != 0 { O_NOFOLLOW } else { 0 };
    native(nr::OPENAT, [directory, path, O_CLOEXEC | no_follow, 0, 0, 0])
}

/// True for a 64-bit ELF image for this machine.
fn is_program(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF\x02\x01")
        && matches!(head[16], 2 | 3)
        && head[17] == 0
        && head[18..20] == [62, 0]
}

/// Addresses of the two words of a script's first line, the second one 0 if absent; terminates both with a
/// zero byte.
fn interpreter(head: &mut [u8; HEAD]) -> Option<(u64, u64)> {
    let end = head.iter().position(|byte| matches!(byte, b'\n' | 0)).unwrap_or(HEAD - 1);
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t');
    let mut last = end;
    while last > 2 && is_blank(head[last - 1]) {
        last -= 1;
    }
    head[last] = 0;
    let start = (2..last).find(|at| !is_blank(head[*at]))?;
    let word_end = (start..last).find(|at| is_blank(head[*at])).unwrap_or(last);
    let argument = (word_end..last).find(|at| !is_blank(head[*at]));
    head[word_end] = 0;
    let at = |place: usize| head.as_ptr() as u64 + place as u64;
    Some((at(start), argument.map_or(0, at)))
}

/// Executes the shim for a program, with `before` (the last one first) instead of the first argument.
fn with_arguments(path: &Text<LONGEST>, before: &[u64], argv: u64, envp: u64) -> i64 {
    let execute = |argv: u64| native(nr::EXECVE, [path.at(), argv, envp, 0, 0, 0]);
    if before.is_empty() {
        return execute(argv);
    }
    let given = |n: u64| if argv == 0 { Ok(0) } else { read::<u64>(argv + 8 * n) };
    result((|| {
        let mut count = 0;
        while given(count)? != 0 {
            count += 1;
        }
        let total = before.len() + (count.max(1) - 1) as usize + 1;
        let mut few = [0u64; FEW];
        let fill = |place: u64| {
            let write = |n: usize, value: u64| super::memory::write(place + 8 * n as u64, value);
            before.iter().rev().enumerate().try_for_each(|(n, entry)| write(n, *entry))?;
            (1..count).try_for_each(|n| write(before.len() + n as usize - 1, given(n)?))?;
            write(total - 1, 0)
        };
        if total <= FEW {
            fill(few.as_mut_ptr() as u64)?;
            return Ok(execute(few.as_ptr() as u64));
        }
        let bytes = 8 * total as u64;
        let many = native(nr::MMAP, [0, bytes, 3, 0x22, u64::MAX, 0]);
        if many < 0 {
            return Err(error::TOO_BIG);
        }
        let failed = fill(many as u64).err().unwrap_or_else(|| execute(many as u64));
        native(nr::MUNMAP, [many as u64, bytes, 0, 0, 0, 0]);
        Ok(failed)
    })())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_descriptor_and_a_timer() {
        for program in [0, 1, 5, 1_023, 524_287, (1 << BITS) - 1] {
            for folder in [&b"/.belljar"[..], b"/a/.b/c"] {
                for timer in [None, Some([1, 0]), Some([u64::MAX, 40_000_000])] {
                    let path = shim_path(folder, program, timer);
                    assert_eq!(parse(path.bytes()), Some(Parsed { folder, program: Some(program), timer }));
                }
            }
        }
        let plain = Parsed { folder: b"/.belljar", program: None, timer: None };
        assert_eq!(parse(b"/.belljar/dilate"), Some(plain));
        assert_eq!(parse(b"/bin/sh"), None);
    }

    #[test]
    fn the_first_line_of_a_script_has_two_words() {
        let words = |line: &[u8]| {
            let mut head = [0; HEAD];
            head[..line.len()].copy_from_slice(line);
            let start = head.as_ptr() as u64;
            let (first, second) = interpreter(&mut head)?;
            let text = |at: u64| {
                let from = &head[(at - start) as usize..];
                core::str::from_utf8(&from[..from.iter().position(|byte| *byte == 0).unwrap()]).unwrap()
            };
            let second = if second == 0 { "" } else { text(second) };
            Some((first, second).0).map(|first| {
                extern crate std;
                (std::string::String::from(text(first)), std::string::String::from(second))
            })
        };
        let pair = |a: &str, b: &str| Some((a.into(), b.into()));
        assert_eq!(words(b"#!/bin/sh\necho"), pair("/bin/sh", ""));
        assert_eq!(words(b"#! /usr/bin/env  python3 -u \nx"), pair("/usr/bin/env", "python3 -u"));
        assert_eq!(words(b"#!\n"), None);
    }
}
