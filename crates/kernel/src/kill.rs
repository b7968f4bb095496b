//! Processes that an event of the experiment kills.

use crate::host::{Host, ProcessReport};
use crate::ids::ProcessKey;
use crate::process::Process;
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

/// Processes that an event means.
#[derive(Clone, Copy, Debug)]
pub enum Meant<'a> {
    /// The experiment's process with this index.
    Listed(usize),
    /// All processes with a name, in which `*` stands for any characters: that of the program's file, or that of the first thread.
    Named(&'a str),
}

/// Living processes that `event` means, a word for the warning if there is none.
pub(crate) fn find(host: &mut Host, meant: &Meant<'_>, event: &str) -> Vec<ProcessKey> {
    let is_meant = |process: &Process| match meant {
        Meant::Listed(spec) => process.spec == Some(*spec),
        Meant::Named(name) => {
            let comm = process.threads.first().map_or(&[][..], |thread| &host.threads[thread.0].comm[..]);
            let file = process.exe.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            matches_wildcard(name, file) || matches_wildcard(name, comm)
        }
    };
    let living = host.processes.iter().filter(|(_, process)| process.ended.is_none());
    let found: Vec<ProcessKey> =
        living.filter(|(_, process)| is_meant(process)).map(|(key, _)| ProcessKey(key)).collect();
    if found.is_empty() && !host.net.is_down {
        let called = match meant {
            Meant::Listed(spec) => spec.to_string(),
            Meant::Named(name) => (*name).to_owned(),
        };
        host.warn(format!("event '{event}' that found no process '{called}'"));
    }
    found
}

/// Kills processes, as SIGKILL does.
pub fn kill(host: &mut Host, meant: &Meant<'_>) -> Killed {
    let meant = find(host, meant, "kill");
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
