//! Activity of each worker, sampled from another thread: `belljar run --profile`.
//!
//! A worker publishes its next activity without reading a clock or waiting, so sampling does not affect
//! results. Without sampling there is no [`Board`], and nothing is published.

use std::cell::Cell;
use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

const HOST_BITS: u32 = 24;
const PROGRAM_BITS: u32 = 20;
const CALL_BITS: u32 = 12;

thread_local! {
    /// Index of the calling thread on boards.
    static SEAT: Cell<usize> = const { Cell::new(0) };
}

/// Kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Building the world.
    Building,
    /// Loading a program.
    Starting,
    /// Running guest code, or waiting for a guest's shim.
    Guest,
    /// Handling a system call.
    Call,
    /// Processing packets and their timers: stacks, interfaces, paths, switches and routers.
    Network,
    /// Running a traffic model.
    Model,
    /// Other work in a host's kernel.
    Kernel,
    /// Writing captures, logs and outputs.
    Writing,
    /// Delivering messages, opening and closing windows.
    Engine,
    /// Waiting for other workers.
    Waiting,
}

impl Phase {
    /// All phases in display order.
    pub const ALL: [Phase; 10] = [
        Phase::Building,
        Phase::Starting,
        Phase::Guest,
        Phase::Call,
        Phase::Network,
        Phase::Model,
        Phase::Kernel,
        Phase::Writing,
        Phase::Engine,
        Phase::Waiting,
    ];

    /// Name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Building => "building the world",
            Phase::Starting => "starting programs",
            Phase::Guest => "guests",
            Phase::Call => "system calls",
            Phase::Network => "network",
            Phase::Model => "traffic models",
            Phase::Kernel => "rest of the kernel",
            Phase::Writing => "writing results",
            Phase::Engine => "engine",
            Phase::Waiting => "waiting for others",
        }
    }
}

/// Activity of a worker at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Activity {
    /// Kind of work.
    pub phase: Phase,
    /// Index of the node that it is done for, if there is one.
    pub node: Option<u32>,
    /// Program number from [`Board::program`], or 0.
    pub program: u32,
    /// System call number, for [`Phase::Call`].
    pub call: u32,
}

impl Activity {
    /// Activity that belongs to no node.
    pub fn of_all(phase: Phase) -> Activity {
        Activity { phase, node: None, program: 0, call: 0 }
    }
    /// Activity for a node, but for none of its programs.
    pub fn of(phase: Phase, node: u32) -> Activity {
        Activity { phase, node: Some(node), program: 0, call: 0 }
    }

    /// Packs the activity into a word. Numbers too large for their field are clamped, since they only serve
    /// display.
    fn packed(self) -> u64 {
        let cut = |value: u32, bits: u32| u64::from(value.min((1 << bits) - 1));
        let node = self.node.map_or(0, |node| cut(node + 1, HOST_BITS));
        let program = cut(self.program, PROGRAM_BITS);
        (self.phase as u64) << (HOST_BITS + PROGRAM_BITS + CALL_BITS)
            | node << (PROGRAM_BITS + CALL_BITS)
            | program << CALL_BITS
            | cut(self.call, CALL_BITS)
    }
    fn unpacked(word: u64) -> Activity {
        let part = |shift: u32, bits: u32| (word >> shift) as u32 & ((1 << bits) - 1);
        let phase = (word >> (HOST_BITS + PROGRAM_BITS + CALL_BITS)) as usize;
        Activity {
            phase: Phase::ALL[phase.min(Phase::ALL.len() - 1)],
            node: part(PROGRAM_BITS + CALL_BITS, HOST_BITS).checked_sub(1),
            program: part(CALL_BITS, PROGRAM_BITS),
            call: part(0, CALL_BITS),
        }
    }
}

/// Board with the activities of all workers.
pub struct Board {
    workers: Vec<Seat>,
    programs: Mutex<Vec<Program>>,
}

/// Program that has run, on any host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Name.
    pub name: String,
    /// Numbers of its system calls by entry path.
    pub ways: CallWays,
}

/// Numbers of system calls by entry path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallWays {
    /// Calls from patched call sites.
    pub rewritten: u64,
    /// Calls that trapped, at about ten times the cost.
    pub trapped: u64,
}

impl CallWays {
    /// Number of calls on both paths.
    pub fn all(self) -> u64 {
        self.rewritten + self.trapped
    }
}

impl AddAssign for CallWays {
    fn add_assign(&mut self, more: CallWays) {
        self.rewritten += more.rewritten;
        self.trapped += more.trapped;
    }
}

/// Activity word of a worker, on a separate cache line.
#[repr(align(128))]
struct Seat(AtomicU64);

impl Board {
    /// Creates a board for `workers` workers, all waiting.
    pub fn new(workers: usize) -> Board {
        let waiting = Activity::of_all(Phase::Waiting).packed();
        Board {
            workers: (0..workers).map(|_| Seat(AtomicU64::new(waiting))).collect(),
            programs: Mutex::default(),
        }
    }
    /// Makes the calling thread worker `worker`.
    pub fn sit(worker: usize) {
        SEAT.set(worker);
    }
    /// Sets the activity of the calling worker.
    pub fn doing(&self, activity: Activity) {
        if let Some(seat) = self.workers.get(SEAT.get()) {
            seat.0.store(activity.packed(), Relaxed);
        }
    }
    /// Current activity of each worker.
    pub fn look(&self) -> impl Iterator<Item = Activity> + '_ {
        self.workers.iter().map(|seat| Activity::unpacked(seat.0.load(Relaxed)))
    }
    /// Number of a program, from 1.
    pub fn program(&self, name: &str) -> u32 {
        let mut programs = self.known();
        let known = programs.iter().position(|known| known.name == name);
        let place = known.unwrap_or_else(|| {
            programs.push(Program { name: name.to_owned(), ..Program::default() });
            programs.len() - 1
        });
        place as u32 + 1
    }
    /// Adds to the call counts of a program.
    pub fn called(&self, program: u32, more: CallWays) {
        let Some(place) = (program as usize).checked_sub(1) else { return };
        if let Some(program) = self.known().get_mut(place) {
            program.ways += more;
        }
    }
    /// Programs in order of number.
    pub fn programs(&self) -> Vec<Program> {
        self.known().clone()
    }
    fn known(&self) -> MutexGuard<'_, Vec<Program>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.look()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let board = Board::new(2);
        let python = board.program("python3");
        assert_eq!((python, board.program("sh"), board.program("python3")), (1, 2, 1));
        let call = Activity { phase: Phase::Call, node: Some(70_000), program: python, call: 461 };
        board.doing(call);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Board::sit(1);
                board.doing(Activity::of(Phase::Network, 0));
            });
        });
        let seen: Vec<Activity> = board.look().collect();
        assert_eq!(seen, [call, Activity::of(Phase::Network, 0)]);
        for phase in Phase::ALL {
            let activity = Activity::of_all(phase);
            assert_eq!(Activity::unpacked(activity.packed()), activity);
        }
    }
}
