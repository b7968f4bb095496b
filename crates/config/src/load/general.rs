//! Section `general`.

use crate::PathContext;
use crate::error::Problem;
use crate::model::{General, LogLevel};
use crate::yaml::{Node, Section, section};
use belljar_base::{SimDuration, SimTime};
use std::path::PathBuf;

const KEYS: &[&str] = &[
    "stop_time",
    "seed",
    "parallelism",
    "bootstrap_end_time",
    "log_level",
    "heartbeat_interval",
    "data_directory",
    "template_directory",
    "progress",
    "model_unblocked_syscall_latency",
];

pub(super) fn defaults(stop_time: SimTime) -> General {
    General {
        stop_time,
        seed: 1,
        parallelism: 0,
        bootstrap_end_time: SimTime::ZERO,
        log_level: LogLevel::Info,
        heartbeat_interval: Some(SimDuration::from_secs(1)),
        data_directory: None,
        template_directory: None,
        progress: false,
        model_unblocked_syscall_latency: false,
    }
}

pub(super) fn read(node: &Node, around: &PathContext) -> Result<General, Problem> {
    let s = Section::new(node, "section 'general'", KEYS, false)?;
    let stop_node = s.required("stop_time", "stop_time: 10s")?;
    let stop_time = section::shadow_time(stop_node, "stop_time")?;
    if stop_time == SimTime::ZERO {
        return Err(stop_node.problem("'stop_time' must not be 0").help("write stop_time: 10s"));
    }
    let mut general = defaults(stop_time);
    let set = &mut general;
    s.read("seed", |n, k| section::whole(n, k, u64::MAX))?.inspect(|v| set.seed = *v);
    s.read("parallelism", |n, k| section::whole(n, k, 4_096))?.inspect(|v| set.parallelism = *v as u32);
    s.read("bootstrap_end_time", section::shadow_time)?.inspect(|v| set.bootstrap_end_time = *v);
    s.read("log_level", |n, k| section::choice(n, k, LogLevel::NAMES))?.inspect(|v| set.log_level = *v);
    s.read_nullable("heartbeat_interval", section::shadow_duration)?.inspect(|v| set.heartbeat_interval = *v);
    s.read("progress", section::boolean)?.inspect(|v| set.progress = *v);
    s.read("model_unblocked_syscall_latency", section::boolean)?
        .inspect(|v| set.model_unblocked_syscall_latency = *v);
    if let Some(node) = s.get("data_directory") {
        general.data_directory = Some(path(node, "data_directory", around)?);
    }
    if let Some(node) = s.get("template_directory").filter(|_| !around.network_only) {
        let places = around.candidates(&path(node, "template_directory", around)?);
        let found = places.iter().find(|place| place.is_dir()).cloned();
        general.template_directory = Some(found.ok_or_else(|| {
            let looked: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
            node.problem("'template_directory' is not a folder")
                .help(format!("looked for {}", looked.join(" and ")))
        })?);
    }
    Ok(general)
}

fn path(node: &Node, key: &str, around: &PathContext) -> Result<PathBuf, Problem> {
    let text = section::string(node, key)?;
    if text.is_empty() {
        return Err(node.problem(format!("'{key}' is an empty path")));
    }
    around.expand(text).map_err(|message| node.problem(message))
}
