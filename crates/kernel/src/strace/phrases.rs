//! How calls were described last. Most are made again with the same registers, so what a line says of these is kept;
//! what it says of the guest's memory is read anew each time.

use super::arity;
use super::format::Formatter;
use super::signatures::{Arg, Signature};
use super::text::Text;
use smallvec::SmallVec;

/// The phrases that a host's programs have used last: nothing in them is of one process.
#[derive(Debug, Default)]
pub struct Phrases(Vec<Option<Box<Phrase>>>);

/// How many are kept at most.
const KEPT: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 6;

/// A call but for its result, with gaps for what depends on memory.
#[derive(Debug, Default)]
struct Phrase {
    number: u32,
    /// The arguments that the text says something of, and zeros.
    args: [u64; 6],
    /// All ones for each of these.
    said: [u64; 6],
    text: Text,
    /// Arguments that point to memory, in order, and the text's length in front of each.
    gaps: SmallVec<[(usize, u8); 3]>,
}

impl Phrases {
    /// Appends the call's name and arguments, up to its result.
    #[inline]
    pub fn push(&mut self, signature: &Signature, formatter: &Formatter, out: &mut Text) {
        let (number, args) = (formatter.traced.number, &formatter.traced.args);
        if self.0.is_empty() {
            self.0.resize_with(KEPT, || None);
        }
        let phrase = &mut self.0[place(number, args[0])];
        let phrase = match phrase {
            Some(phrase) if phrase.fits(number, args) => phrase,
            _ => {
                let phrase = phrase.get_or_insert_default();
                phrase.make(signature, formatter);
                phrase
            }
        };
        let text = phrase.text.as_bytes();
        let mut from = 0;
        for (to, n) in &phrase.gaps {
            let n = usize::from(*n);
            out.push_bytes(&text[from..*to]);
            formatter.push_argument(signature.arguments[n], args[n], out);
            from = *to;
        }
        out.push_bytes(&text[from..]);
    }
}

/// Where a call's phrase is kept: programs use several descriptors in turns, and those are mostly the first argument. Spread by
/// Fibonacci hashing (Knuth, The Art of Computer Programming, section 6.4).
#[inline]
fn place(number: u32, first: u64) -> usize {
    let key = u64::from(number) << 16 | first & 0xffff;
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACE_BITS)) as usize
}

impl Phrase {
    /// True if it describes this call.
    #[inline]
    fn fits(&self, number: u32, args: &[u64; 6]) -> bool {
        let differs = (0..6).fold(0, |differs, n| differs | (args[n] & self.said[n]) ^ self.args[n]);
        self.number == number && differs == 0 && self.gaps.iter().all(|(_, n)| args[usize::from(*n)] != 0)
    }

    /// Has it describe another call.
    fn make(&mut self, signature: &Signature, formatter: &Formatter) {
        let (number, args) = (formatter.traced.number, &formatter.traced.args);
        let mut text = std::mem::take(&mut self.text);
        text.truncate(0);
        text.push_short(&signature.head);
        *self = Phrase { number, ..Phrase::default() };
        let given = arity::given(number, args);
        for (n, arg) in signature.arguments.iter().enumerate().filter(|(n, _)| given >> n & 1 != 0) {
            if n > 0 {
                text.push_str(", ");
            }
            if points_to_memory(*arg) && args[n] != 0 {
                self.gaps.push((text.len(), n as u8));
            } else {
                (self.args[n], self.said[n]) = (args[n], u64::MAX);
                formatter.push_argument(*arg, args[n], &mut text);
            }
        }
        text.push_str(") = ");
        self.text = text;
    }
}

/// True if an argument is described by what it points to: all but those whose register is all that is looked at.
fn points_to_memory(arg: Arg) -> bool {
    !matches!(
        arg,
        Arg::Fd
            | Arg::DirFd
            | Arg::Int
            | Arg::Size
            | Arg::Hex
            | Arg::Word
            | Arg::OpenFlags
            | Arg::Mode
            | Arg::Flags(_)
            | Arg::OneOf(_)
            | Arg::Signal
    )
}

#[cfg(test)]
mod tests {
    use super::{Phrases, place};
    use crate::call::{Outcome, SysResult};
    use crate::host::HostConfig;
    use crate::syscall::table;
    use crate::testing::{DATA, NoFiles, TestHost, config};
    use belljar_linux_abi::{Errno, c};

    fn logging() -> TestHost {
        let mut test = TestHost::with(HostConfig { strace: true, ..config() }, Box::new(NoFiles), 1);
        // Its log is called by what its thread is called.
        test.host.process(test.process).spec = None;
        test
    }

    /// The line of a call that ends like this, without its time and thread.
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
        // What registers beyond the arguments hold is nobody's business.
        is(c::SYS_read, [3, DATA, 9, 7, 7, 7], done(1), r#"read(3, "o", 9) = 1"#);
        // They share a place.
        let close = c::SYS_close as u32;
        let other = (6..).find(|fd| place(close, *fd) == place(close, 5)).expect("there are fewer places");
        is(c::SYS_close, of(5, 0, 0), done(0), "close(5) = 0");
        is(c::SYS_close, of(other, 0, 0), done(0), &format!("close({other}) = 0"));
        is(c::SYS_close, of(5, 0, 0), done(0), "close(5) = 0");
        is(c::SYS_alarm, of(3, 0, 0), done(0), "alarm(0x3) = 0");
        // Which arguments there are depends on others.
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
}
