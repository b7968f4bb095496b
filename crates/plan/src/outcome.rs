//! Comparison of the end of each process with the experiment's expectation. The module is independent of the
//! backend: simulation and real kernel both report [`Observation`]s.

use belljar_base::SimTime;
use belljar_config::{FinalState, Process, Signal};
use belljar_results::ProcessStatistics;

/// An observed event of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// The process was started, possibly again.
    Started {
        /// Process id.
        pid: i32,
        /// Time of the start.
        at: SimTime,
    },
    /// The process could not be started.
    Failed {
        /// Reason of the failure.
        reason: String,
        /// Time of the attempt.
        at: SimTime,
    },
    /// The process ended.
    Ended {
        /// Exit code or signal.
        how: End,
        /// Time of the end.
        at: SimTime,
    },
    /// An event of the experiment crashed the process's host.
    Crashed {
        /// Time of the crash.
        at: SimTime,
    },
}

/// End of a process, as reported by wait(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process exited with this status.
    Exited(u8),
    /// The process was killed by the signal with this number.
    Signaled(i32),
}

/// Compares a process with the experiment's expectation. `observed` are its observations in order, in a run
/// that ended at `now`.
pub fn judge(
    settings: &Process,
    observed: impl IntoIterator<Item = Observation>,
    now: SimTime,
) -> ProcessStatistics {
    let mut result = ProcessStatistics {
        program: settings.program_name(),
        pid: None,
        started: None,
        ended: None,
        shell_status: None,
        state: "not started".into(),
        as_expected: false,
        problem: None,
        waits_in: Vec::new(),
    };
    let (mut status, mut crashed) = (None, false);
    for observation in observed {
        match observation {
            Observation::Started { pid, at } => {
                // After a restart, only the latest end counts.
                (status, crashed, result.ended, result.shell_status) = (None, false, None, None);
                (result.pid, result.started) = (Some(pid), Some(at.as_secs_f64()));
                result.state = "running".into();
            }
            Observation::Failed { reason, at } => {
                result.ended = Some(at.as_secs_f64());
                (result.state, result.problem) = ("failed to start".into(), Some(reason));
                return result;
            }
            Observation::Ended { how, at } => {
                result.ended = Some(at.as_secs_f64());
                result.state = state_name(how);
                result.shell_status = Some(match how {
                    End::Exited(code) => code,
                    End::Signaled(signal) => 128 + signal as u8,
                });
                status = Some(how);
            }
            Observation::Crashed { at } => {
                (crashed, result.ended) = (true, Some(at.as_secs_f64()));
                result.state = "crashed".into();
            }
        }
    }
    let expected = settings.expected_final_state;
    result.as_expected = match (expected, status, result.pid) {
        // A process whose start time had not come by the end of the run is as expected, unless it must start.
        (_, _, None) => settings.start_time >= now && !settings.must_start,
        // The experiment itself stopped its host.
        _ if crashed => true,
        (FinalState::Any, ..) | (FinalState::Running, None, _) => true,
        (FinalState::Exited(code), Some(End::Exited(got)), _) => code == i32::from(got),
        (FinalState::Signaled(signal), Some(End::Signaled(got)), _) => signal.number() == got,
        _ => false,
    };
    if !result.as_expected {
        let mut problem = format!("expected: {}", expected_name(expected));
        if result.pid.is_none() && settings.start_time >= now {
            let (start, end) = (settings.start_time.as_secs_f64(), now.as_secs_f64());
            problem += &format!("; it starts at {start} s, and the run ended at {end} s");
        }
        result.problem = Some(problem);
    }
    result
}

fn state_name(how: End) -> String {
    match how {
        End::Exited(code) => format!("exited {code}"),
        End::Signaled(number) => match Signal::from_number(number) {
            Some(signal) => format!("signaled {}", signal.name()),
            None => format!("signaled {number}"),
        },
    }
}

fn expected_name(state: FinalState) -> String {
    match state {
        FinalState::Exited(code) => format!("exited {code}"),
        FinalState::Signaled(signal) => format!("signaled {}", signal.name()),
        FinalState::Running => "running".into(),
        FinalState::Any => "anything".into(),
    }
}
