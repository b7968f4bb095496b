//! Section `experimental`. Many of its keys tune Shadow's own implementation: such keys are accepted, checked
//! and listed in one note.

use crate::error::Problem;
use crate::model::{Experimental, StraceMode};
use crate::yaml::{Node, Section, section};

/// Type of a key without effect.
#[derive(Clone, Copy)]
enum Form {
    Boolean,
    Time,
    Ratio,
    Choice(&'static [(&'static str, ())]),
}

const HONOURED: &[&str] = &[
    "strace_logging_mode",
    "socket_send_buffer",
    "socket_send_autotune",
    "socket_recv_buffer",
    "socket_recv_autotune",
    "unblocked_syscall_latency",
    "unblocked_vdso_latency",
    "max_unapplied_cpu_latency",
    "use_cpu_pinning",
    "native_preemption_sim_interval",
];

const IGNORED: &[(&str, Form)] = &[
    ("edge_bandwidth_algorithm", Form::Choice(&[("token-bucket", ())])),
    ("edge_bandwidth_burst_ratio", Form::Ratio),
    ("edge_bandwidth_limiting_enabled", Form::Boolean),
    ("interface_qdisc", Form::Choice(&[("fifo", ()), ("round-robin", ())])),
    // Guests that compute for long without a system call are always preempted.
    ("native_preemption_enabled", Form::Boolean),
    ("native_preemption_native_interval", Form::Time),
    ("report_errors_to_stderr", Form::Boolean),
    ("runahead", Form::Time),
    ("scheduler", Form::Choice(&[("thread-per-core", ()), ("thread-per-host", ())])),
    ("use_dynamic_runahead", Form::Boolean),
    ("use_memory_manager", Form::Boolean),
    ("use_new_tcp", Form::Boolean),
    ("use_object_counters", Form::Boolean),
    ("use_preload_libc", Form::Boolean),
    ("use_preload_openssl_crypto", Form::Boolean),
    ("use_preload_openssl_rng", Form::Boolean),
    ("use_sched_fifo", Form::Boolean),
    ("use_syscall_counters", Form::Boolean),
    ("use_worker_spinning", Form::Boolean),
];

pub(super) fn read(node: &Node, notes: &mut Vec<String>) -> Result<Experimental, Problem> {
    let keys: Vec<&str> = HONOURED.iter().copied().chain(IGNORED.iter().map(|(key, _)| *key)).collect();
    let s = Section::new(node, "section 'experimental'", &keys, false)?;
    let mut ignored = Vec::new();
    for (key, form) in IGNORED {
        s.read(key, |node, key| check(node, key, *form))?;
        // The default value describes the actual behaviour.
        let by_default = *key == "interface_qdisc" && s.read(key, section::string)? == Some("fifo");
        if s.entry(key).is_some() && !by_default {
            ignored.push(*key);
        }
    }
    if !ignored.is_empty() {
        notes.push(format!("options of 'experimental' that have no effect: {}", ignored.join(", ")));
    }
    let mut result = Experimental::default();
    let set = &mut result;
    let strace = |n: &_, k: &str| section::choice(n, k, StraceMode::NAMES);
    s.read("strace_logging_mode", strace)?.inspect(|v| set.strace_logging_mode = *v);
    set.socket_send_buffer = s.read("socket_send_buffer", buffer)?;
    s.read("socket_send_autotune", section::boolean)?.inspect(|v| set.socket_send_autotune = *v);
    set.socket_recv_buffer = s.read("socket_recv_buffer", buffer)?;
    s.read("socket_recv_autotune", section::boolean)?.inspect(|v| set.socket_recv_autotune = *v);
    s.read("unblocked_syscall_latency", section::shadow_duration)?
        .inspect(|v| set.unblocked_syscall_latency = *v);
    s.read("unblocked_vdso_latency", section::shadow_duration)?.inspect(|v| set.unblocked_vdso_latency = *v);
    s.read("max_unapplied_cpu_latency", section::shadow_duration)?
        .inspect(|v| set.max_unapplied_cpu_latency = *v);
    s.read("use_cpu_pinning", section::boolean)?.inspect(|v| set.use_cpu_pinning = Some(*v));
    s.read("native_preemption_sim_interval", section::shadow_duration)?
        .inspect(|v| set.native_preemption_sim_interval = *v);
    Ok(result)
}

/// A socket buffer size within Linux's limits.
fn buffer(node: &Node, key: &str) -> Result<u32, Problem> {
    match section::bytes(node, key)? {
        bytes @ 4_608..=0x4000_0000 => Ok(bytes as u32),
        bytes => Err(node.problem(format!("'{key}' must be from 4608 B to 1 GiB, not {bytes} B"))),
    }
}

fn check(node: &Node, key: &str, form: Form) -> Result<(), Problem> {
    match form {
        Form::Boolean => section::boolean(node, key).map(drop),
        Form::Time => section::shadow_duration(node, key).map(drop),
        Form::Choice(choices) => section::choice(node, key, choices),
        Form::Ratio => match section::string(node, key)?.parse::<f64>() {
            Ok(ratio) if ratio.is_finite() => Ok(()),
            _ => Err(node.problem(format!("'{key}' must be a number"))),
        },
    }
}
