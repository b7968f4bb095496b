//! Faults of the results of system calls: which call has which result, drawn or by its number.
//!
//! Calls are numbered for each process and each name from the beginning of the fault. A drawn result is logged with its number; a
//! fault with the same beginning that names this number gives the same result.

use belljar_base::{Map, SimTime, Stream};
use belljar_machine::{CallFault, CallResult, FAULTY_CALLS, ForcedResult};

/// Purposes of the stream of a fault: whether a call has another result, and which.
pub const PURPOSES: [&str; 2] = ["calls", "results"];
/// Position of the result among the purposes.
const RESULT: usize = 1;
/// Most entries of the log.
const MOST_LOGGED: usize = 100_000;

/// Result that a call was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedResult {
    /// Time of the call.
    pub at: SimTime,
    /// Beginning of the fault.
    pub since: SimTime,
    /// The call and its result.
    pub forced: ForcedResult,
}

/// Fault that lasts.
#[derive(Debug)]
struct Active {
    /// Number of the event.
    event: u32,
    since: SimTime,
    fault: CallFault,
    draw: Stream,
    /// Calls so far, by process id and number of the system call.
    calls: Map<(i32, u32), u64>,
}

/// Faults of the calls of one host.
#[derive(Debug)]
pub struct CallFaults {
    active: Vec<Active>,
    /// Results given so far.
    pub log: Vec<LoggedResult>,
    /// Largest number of bytes that the present call moves.
    pub most: u64,
}

impl Default for CallFaults {
    fn default() -> CallFaults {
        CallFaults { active: Vec::new(), log: Vec::new(), most: u64::MAX }
    }
}

impl CallFaults {
    /// Adds the fault of an event; an earlier one of the same event ends.
    pub fn begin(&mut self, event: u32, fault: CallFault, since: SimTime, draw: Stream) {
        self.end(event);
        self.active.push(Active { event, since, fault, draw, calls: Map::new() });
    }
    /// Ends the fault of an event.
    pub fn end(&mut self, event: u32) {
        self.active.retain(|active| active.event != event);
    }
    /// True if no fault lasts.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }
    /// Counts a call of a process.
    pub fn count(&mut self, pid: i32, number: u32) {
        for active in &mut self.active {
            *active.calls.entry((pid, number)).or_default() += 1;
        }
    }
    /// Result for the call that was counted last, among those that `allows` accepts; it is logged.
    pub fn choose(
        &mut self,
        at: SimTime,
        pid: i32,
        number: u32,
        allows: &mut dyn FnMut(CallResult) -> bool,
    ) -> Option<CallResult> {
        let call = FAULTY_CALLS.iter().find(|(_, known)| *known == number)?.0;
        for active in &mut self.active {
            let count = active.calls.get(&(pid, number)).copied().unwrap_or(0);
            let mut may = |result: &CallResult| result.suits(number) && allows(*result);
            let result = match &active.fault {
                CallFault::Drawn { results, rate } => {
                    let possible: Vec<CallResult> = results.iter().copied().filter(|one| may(one)).collect();
                    match !possible.is_empty() && active.draw.chance(*rate) {
                        true => {
                            let count = possible.len() as u64;
                            let draw = &mut active.draw;
                            Some(
                                possible
                                    [draw.choose(RESULT, 0, count, |random| random.below(count)) as usize],
                            )
                        }
                        false => None,
                    }
                }
                CallFault::One(one) => {
                    let is_it = (one.pid, one.call, one.number) == (pid, call, count);
                    Some(one.result).filter(|result| is_it && may(result))
                }
            };
            if let Some(result) = result {
                if self.log.len() < MOST_LOGGED {
                    let forced = ForcedResult { pid, call, number: count, result };
                    self.log.push(LoggedResult { at, since: active.since, forced });
                }
                return Some(result);
            }
        }
        None
    }
    /// Length of a short transfer of at most `len` bytes, which is at least two: the same for a drawn result and one by number.
    pub fn short_length(&self, pid: i32, number: u32, len: u64) -> u64 {
        // A function of the call, so that a single forced call moves as many bytes as the drawn one.
        let count = self.log.last().map_or(0, |logged| logged.forced.number);
        let mixed =
            (count ^ (pid as u64) << 32 ^ u64::from(number) << 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        1 + (mixed >> 32) % (len - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    const READ: u32 = 0;

    fn given(fault: CallFault) -> Vec<LoggedResult> {
        let mut faults = CallFaults::default();
        faults.begin(3, fault, SimTime::from_secs(1), Seed(7).stream_for(&["test"], &PURPOSES));
        for n in 0..1_000 {
            for pid in [1_000, 1_001] {
                faults.count(pid, READ);
                faults.choose(SimTime::from_secs(n), pid, READ, &mut |result| result == CallResult::Short);
            }
        }
        faults.log
    }

    #[test]
    fn a_drawn_result_is_repeated_by_its_number() {
        let results = vec![CallResult::Short, CallResult::Again, CallResult::NoMemory];
        let drawn = given(CallFault::Drawn { results, rate: 0.05 });
        assert!((60..140).contains(&drawn.len()), "{}", drawn.len());
        for one in drawn.iter().step_by(10) {
            assert_eq!(given(CallFault::One(one.forced.clone())), std::slice::from_ref(one));
        }
    }

    #[test]
    fn results_that_do_not_suit_are_not_given() {
        let all: Vec<CallResult> = CallResult::NAMES.iter().map(|(_, result)| *result).collect();
        let drawn = given(CallFault::Drawn { results: all, rate: 1.0 });
        assert!(drawn.iter().all(|one| one.forced.result == CallResult::Short) && drawn.len() == 2_000);
        let one = ForcedResult { pid: 1_000, call: "read", number: 5, result: CallResult::Again };
        assert_eq!(given(CallFault::One(one)), []);
    }

    #[test]
    fn short_lengths_are_short() {
        let faults = CallFaults::default();
        for len in 2..100 {
            assert!((1..len).contains(&faults.short_length(1_000, READ, len)));
        }
    }
}
