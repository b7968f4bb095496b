//! Lines of `.strace` files: `<seconds> [<thread>] <call>(<arguments>) = <result>`.

use belljar_base::SimTime;

/// A system call, parsed from its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Time of its end.
    pub at: SimTime,
    /// Id of the calling thread.
    pub thread: i32,
    /// Name of the call; of the signal for `--- SIGTERM ---`.
    pub name: &'a str,
    /// Text between the parentheses.
    pub arguments: &'a str,
    /// Text behind ` = `; empty for a signal.
    pub result: &'a str,
}

/// Time at the start of a line.
pub fn time_of_line(line: &str) -> Option<SimTime> {
    let (seconds, rest) = line.split_once('.')?;
    let nanos = rest.get(..9)?;
    let digits = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let nanos = digits(seconds)?.checked_mul(1_000_000_000)?.checked_add(digits(nanos)?)?;
    Some(SimTime::from_nanos(nanos))
}

/// The calls in a log; other lines are skipped.
pub fn calls(text: &str) -> impl Iterator<Item = Call<'_>> {
    text.lines().filter_map(call)
}

fn call(line: &str) -> Option<Call<'_>> {
    let at = time_of_line(line)?;
    let (_, rest) = line.split_once(" [")?;
    let (thread, rest) = rest.split_once("] ")?;
    let thread = thread.parse().ok()?;
    if let Some(signal) = rest.strip_prefix("--- ") {
        let name = signal.split(' ').next()?;
        return Some(Call { at, thread, name, arguments: "", result: "" });
    }
    let (name, rest) = rest.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") = ")?;
    Some(Call { at, thread, name, arguments, result })
}

/// Time at which byte number `offset` was written to the file descriptor `fd` (1 or 2), determined by summing
/// the results of `write` and `writev`; `None` if the log does not reach it.
pub fn written_to(text: &str, fd: u8, offset: u64) -> Option<SimTime> {
    let first = format!("{fd}, ");
    let mut written = 0;
    for call in calls(text) {
        let ours = matches!(call.name, "write" | "writev") && call.arguments.starts_with(&first);
        written += call.result.parse::<u64>().ok().filter(|_| ours).unwrap_or(0);
        if written > offset {
            return Some(call.at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2.000000001 [1000] openat(AT_FDCWD, \"a) = 3\", O_RDONLY) = -1 ENOENT
2.500000000 [1001] write(1, \"hello\\n\", 6) = 6
2.500000000 [1001] --- SIGTERM ---
3.000000000 [1000] writev(1, [{\"ab\", 2}], 1) = 2
";

    #[test]
    fn lines_are_taken_apart() {
        let calls: Vec<Call> = calls(LOG).collect();
        assert_eq!(calls.len(), 4);
        assert_eq!((calls[0].name, calls[0].result), ("openat", "-1 ENOENT"));
        assert_eq!(calls[0].arguments, "AT_FDCWD, \"a) = 3\", O_RDONLY");
        assert_eq!((calls[1].thread, calls[1].at.as_nanos()), (1001, 2_500_000_000));
        assert_eq!(calls[2].name, "SIGTERM");
    }

    #[test]
    fn bytes_of_output_get_the_time_of_their_write() {
        assert_eq!(written_to(LOG, 1, 5), Some(SimTime::from_nanos(2_500_000_000)));
        assert_eq!(written_to(LOG, 1, 6), Some(SimTime::from_secs(3)));
        assert_eq!(written_to(LOG, 1, 8), None);
        assert_eq!(written_to(LOG, 2, 0), None);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for line in ["", "x.000000000", "-1.000000000", "1.5 [3] a", "99999999999999999999.000000000"] {
            assert_eq!(time_of_line(line), None, "{line}");
        }
    }
}
