//! The end of each process, held against what the experiment expects of it. Neutral: whoever ran the process, in
//! simulation or on a real kernel, reports what happened as [`Observation`]s.

use crate::program_name;
use belljar_base::SimTime;
use belljar_config::{FinalState, Process, Signal};
use belljar_results::ProcessStatistics;

/// Something that happened to a process of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// It was started, be it again.
    Started {
        /// Its process id.
        pid: i32,
        /// When.
        at: SimTime,
    },
    /// It could not be started.
    Failed {
        /// The reason.
        reason: String,
        /// When.
        at: SimTime,
    },
    /// It ended.
    Ended {
        /// Exit code or signal.
        how: End,
        /// When.
        at: SimTime,
    },
    /// Its host was crashed by an event of the experiment.
    Crashed {
        /// When.
        at: SimTime,
    },
}

/// The end of a process, as wait(2) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(u8),
    /// It was killed by the signal with this number.
    Signaled(i32),
}

/// Holds a process against what the experiment expects of it: `observed` is what happened to it, in order, in a run that
/// has come to `now`.
pub fn judge(
    settings: &Process,
    observed: impl IntoIterator<Item = Observation>,
    now: SimTime,
) -> ProcessStatistics {
    let mut result = ProcessStatistics {
        program: program_name(&settings.path),
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
                // Started again, it is judged by how it ends now.
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
        // A process whose time has not come by the end is nobody's failure.
        (_, _, None) => settings.start_time >= now,
        // The experiment itself has stopped its host.
        _ if crashed => true,
        (FinalState::Any, ..) | (FinalState::Running, None, _) => true,
        (FinalState::Exited(code), Some(End::Exited(got)), _) => code == i32::from(got),
        (FinalState::Signaled(signal), Some(End::Signaled(got)), _) => signal.number() == got,
        _ => false,
    };
    if !result.as_expected {
        result.problem = Some(format!("expected: {}", expected_name(expected)));
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
