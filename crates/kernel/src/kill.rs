//! Processes that an event of the experiment kills.

use crate::host::{Host, ProcessReport};
use crate::ids::ProcessKey;
use belljar_base::matches_wildcard;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;

/// Processes that were killed.
#[derive(Debug, Default)]
pub struct Killed {
    /// Their number.
    pub count: u64,
    /// Those of the experiment among them, by index.
    pub specs: Vec<usize>,
}

/// Kills the experiment's process with index `spec`, as SIGKILL does.
pub fn kill_program(host: &mut Host, spec: usize) -> Killed {
    kill(host, &|_, own| own == Some(spec), &spec.to_string())
}

/// Kills all processes with a name, in which `*` stands for any characters: that of the program's file, or that of the first thread.
pub fn kill_named(host: &mut Host, name: &str) -> Killed {
    kill(host, &|known, _| matches_wildcard(name, known), name)
}

/// Kills the processes that `is_meant` accepts by one of their names and their index in the experiment.
fn kill(host: &mut Host, is_meant: &dyn Fn(&[u8], Option<usize>) -> bool, called: &str) -> Killed {
    let mut meant: Vec<ProcessKey> = Vec::new();
    for (key, process) in host.processes.iter().filter(|(_, process)| process.ended.is_none()) {
        let comm = process.threads.first().map_or(&[][..], |thread| &host.threads[thread.0].comm[..]);
        let file = process.exe.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if is_meant(file, process.spec) || is_meant(comm, process.spec) {
            meant.push(ProcessKey(key));
        }
    }
    if meant.is_empty() && !host.net.is_down {
        host.warn(format!("event 'kill' that found no process '{called}'"));
    }
    let at = host.net.clock.now();
    let mut killed = Killed { count: meant.len() as u64, specs: Vec::new() };
    for process in meant {
        if let Some(spec) = host.processes[process.0].spec {
            // The experiment itself ends it, as in a crash: the end is as expected.
            host.reports.push(ProcessReport::Crashed { spec, at });
            killed.specs.push(spec);
        }
        host.send_signal(process, SigInfo::user(c::SIGKILL, c::SI_USER, 0, 0));
    }
    killed
}
