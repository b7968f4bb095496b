//! The order of a host's threads.

use crate::error::Problem;
use crate::scheduling::{Preemption, Scheduling};
use crate::yaml::{Node, Section, Value, section};

/// A name, or `priorities` with its numbers.
pub(super) fn read(node: &Node, key: &str) -> Result<Scheduling, Problem> {
    let Value::Mapping(_) = &node.value else { return section::choice(node, key, Scheduling::NAMES) };
    let s = Section::new(node, "'scheduling'", &["priorities"], false)?;
    if s.entry("priorities").is_none() {
        return Err(node.problem("'scheduling' is empty").help("write fifo, random or priorities"));
    }
    let preemption = s.read("priorities", |node, _| preemption(node))?;
    Ok(Scheduling::Priorities(preemption.unwrap_or(Preemption::DEFAULT)))
}

fn preemption(node: &Node) -> Result<Preemption, Problem> {
    let s = Section::new(node, "'priorities'", &["points", "calls", "instructions"], false)?;
    let number = |key: &str, usual: u32, most: u64| -> Result<u32, Problem> {
        let Some(node) = s.get(key) else { return Ok(usual) };
        match section::whole(node, key, most)? {
            0 if key != "points" => Err(node
                .problem(format!("'{key}' is 0: there is no such point"))
                .help("write at least 1, or points: 0 for priorities alone")),
            number => Ok(number as u32),
        }
    };
    let usual = Preemption::DEFAULT;
    Ok(Preemption {
        points: number("points", usual.points, Preemption::MOST_POINTS)?,
        calls: number("calls", usual.calls, Preemption::MOST_CALLS)?,
        instructions: number("instructions", usual.instructions, Preemption::MOST_INSTRUCTIONS)?,
    })
}
