//! Event `call_faults`: results of system calls.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set, probability, with_programs};
use crate::model::Experiment;
use crate::yaml::{Node, Section, section};
use belljar_machine::{CallFault, CallResult, FAULTY_CALLS, ForcedResult};

/// Keys that name one call.
const ONE: &[&str] = &["pid", "call", "number"];
/// Largest number of a call or process.
const MOST: u64 = i32::MAX as u64;

/// Lets system calls fail, or move fewer bytes.
pub(super) struct Calls;

impl Kind for Calls {
    fn key(&self) -> &'static str {
        "call_faults"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["results", "share", "pid", "call", "number"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "call_faults", world)?;
        with_programs(value, "call_faults", &hosts, world)?;
        let node = s.required("results", "results: [short, EINTR]")?;
        let results = results(node, "results")?;
        let one = ONE.iter().find_map(|key| s.get(key));
        if let (Some(share), Some(_)) = (s.get("share"), one) {
            return Err(share
                .problem("'share' is not valid for a single call")
                .help("leave 'pid', 'call' and 'number' out, or 'share'"));
        }
        if one.is_none() {
            let share = s.required("share", "share: 0.05")?;
            let rate = probability(share, "share")?;
            if rate == 0.0 {
                return Err(share.problem("'share' is 0: no call would fail"));
            }
            return Ok(Action::CallFault { hosts, fault: CallFault::Drawn { results, rate } });
        }
        let whole = |key: &str, example: &str| section::whole(s.required(key, example)?, key, MOST);
        let names: Vec<(&str, (&str, u32))> = FAULTY_CALLS.iter().map(|call| (call.0, *call)).collect();
        let call_node = s.required("call", "call: write")?;
        let (call, code) = section::choice(call_node, "call", &names)?;
        let [result] = results[..] else {
            return Err(node.problem("a single call has one result").help("write results: [short]"));
        };
        if !result.suits(code) {
            return Err(node.problem(format!("Linux does not give '{}' to '{call}'", result.name())));
        }
        let (pid, number) = (whole("pid", "pid: 1000")? as i32, whole("number", "number: 1")?);
        if number == 0 {
            return Err(s.get("number").unwrap_or(node).problem("calls are numbered from 1"));
        }
        // Names of calls live as long as the program.
        let call = FAULTY_CALLS.iter().find(|(name, _)| *name == call).map_or("", |(name, _)| name);
        Ok(Action::CallFault { hosts, fault: CallFault::One(ForcedResult { pid, call, number, result }) })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::CallFault { hosts, fault } = action else { return };
        out.plain(1, "call_faults", experiment.host_set(hosts));
        match fault {
            CallFault::Drawn { results, rate } => {
                let names: Vec<&str> = results.iter().map(|result| result.name()).collect();
                out.plain(1, "results", format_args!("[{}]", names.join(", ")));
                out.plain(1, "share", rate);
            }
            CallFault::One(ForcedResult { pid, call, number, result }) => {
                out.plain(1, "results", format_args!("[{}]", result.name()));
                out.plain(1, "pid", pid);
                out.plain(1, "call", call);
                out.plain(1, "number", number);
            }
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::CallFault { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}

/// One result of calls, or several.
pub(crate) fn results(node: &Node, key: &str) -> Result<Vec<CallResult>, Problem> {
    let result = |node: &Node, key: &str| section::choice(node, key, CallResult::NAMES);
    let mut results = section::one_or_several(node, key, "write results: [short, EINTR]", result)?;
    results.sort();
    results.dedup();
    Ok(results)
}
