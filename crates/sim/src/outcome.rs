//! How the experiment's processes ended, held against what it expects of them.

use crate::node::HostNode;
use crate::world::program_name;
use belljar_base::{Map, SimTime};
use belljar_config::{Experiment, FinalState, Host as HostSettings, Process, Signal};
use belljar_kernel::syscall::table;
use belljar_kernel::{Report, WaitStatus};
use belljar_net::DropReason;
use belljar_results::{HostStatistics, ProcessStatistics, Statistics};

/// Statistics of these hosts of a run that has come to `now`.
pub fn statistics(experiment: &Experiment, nodes: &[HostNode], now: SimTime) -> Statistics {
    let mut statistics = Statistics { simulated_seconds: now.as_secs_f64(), ..Statistics::default() };
    for node in nodes {
        let settings = &experiment.hosts[node.id().index()];
        statistics.hosts.insert(settings.name.clone(), host(settings, node, now));
        for (number, count) in node.kernel.call_counts() {
            let name =
                table::entry(*number).map_or_else(|| number.to_string(), |entry| entry.name.to_owned());
            *statistics.syscalls.entry(name).or_default() += count;
        }
        add(&mut statistics.warnings, node.kernel.warnings());
        add(&mut statistics.preempted, node.kernel.preempted());
    }
    statistics
}

fn add(total: &mut Map<String, u64>, part: &Map<String, u64>) {
    for (what, count) in part {
        *total.entry(what.clone()).or_default() += count;
    }
}

fn host(settings: &HostSettings, node: &HostNode, now: SimTime) -> HostStatistics {
    let counters = node.kernel.interface_counters();
    let drops = DropReason::ALL.iter().map(|reason| {
        let on_path = node.path_drops.get(reason).copied().unwrap_or_default();
        (reason.name().to_owned(), counters.dropped(*reason) + on_path)
    });
    let processes = settings.processes.iter().enumerate().map(|(n, p)| process(p, n, &node.reports, now));
    HostStatistics {
        address: settings.address.to_string(),
        packets_in: counters.packets_in,
        bytes_in: counters.bytes_in,
        packets_out: counters.packets_out,
        bytes_out: counters.bytes_out,
        drops: drops.filter(|(_, count)| *count > 0).collect(),
        processes: processes.collect(),
    }
}

fn process(settings: &Process, number: usize, reports: &[Report], now: SimTime) -> ProcessStatistics {
    let mut result = ProcessStatistics {
        program: program_name(&settings.path),
        pid: None,
        started: None,
        ended: None,
        shell_status: None,
        state: "not started".into(),
        as_expected: false,
        problem: None,
    };
    let (mut status, mut crashed) = (None, false);
    for report in reports {
        match report {
            Report::Started { spec, pid, at } if *spec == number => {
                // Started again, it is judged by how it ends now.
                (status, crashed, result.ended, result.shell_status) = (None, false, None, None);
                (result.pid, result.started) = (Some(*pid), Some(at.as_secs_f64()));
                result.state = "running".into();
            }
            Report::Failed { spec, reason, at } if *spec == number => {
                result.ended = Some(at.as_secs_f64());
                (result.state, result.problem) = ("failed to start".into(), Some(reason.clone()));
                return result;
            }
            Report::Ended { spec, status: how, at } if *spec == number => {
                result.ended = Some(at.as_secs_f64());
                result.state = state_name(*how);
                result.shell_status = Some(match *how {
                    WaitStatus::Exited(code) => code,
                    WaitStatus::Signaled(signal) => 128 + signal as u8,
                });
                status = Some(*how);
            }
            Report::Crashed { spec, at } if *spec == number => {
                (crashed, result.ended) = (true, Some(at.as_secs_f64()));
                result.state = "crashed".into();
            }
            _ => {}
        }
    }
    let expected = settings.expected_final_state;
    result.as_expected = match (expected, status, result.pid) {
        // A process whose time has not come by the end is nobody's failure.
        (_, _, None) => settings.start_time >= now,
        // The experiment itself has stopped its host.
        _ if crashed => true,
        (FinalState::Any, ..) | (FinalState::Running, None, _) => true,
        (FinalState::Exited(code), Some(WaitStatus::Exited(got)), _) => code == i32::from(got),
        (FinalState::Signaled(signal), Some(WaitStatus::Signaled(got)), _) => signal.number() == got,
        _ => false,
    };
    if !result.as_expected {
        result.problem = Some(format!("expected: {}", expected_name(expected)));
    }
    result
}

fn state_name(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(code) => format!("exited {code}"),
        WaitStatus::Signaled(number) => match Signal::from_number(number) {
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
