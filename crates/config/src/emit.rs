//! Emits an experiment as YAML that parses to the same experiment: `processed-config.yaml`.

mod events;
mod exploration;
mod line;
mod models;
mod properties;
mod radio;
mod topology;

pub(crate) use events::{ppm, signed};
pub(crate) use line::change as line_change;
pub(crate) use radio::position;
pub(crate) use topology::p4_setups;

use crate::CaptureFilter;
use crate::model::{
    Experiment, FinalState, GraphSource, Host, HostOptions, Process, WholeMachine, WrittenProgram,
    starts_late,
};
use belljar_base::{Map, SimTime};
use belljar_net::units::{format_bandwidth, format_duration};
use std::fmt::Write;
use std::path::Path;

impl Experiment {
    /// The resolved experiment as a file: defaults written out, addresses assigned, paths absolute, the graph
    /// inline.
    pub fn to_yaml(&self) -> String {
        let mut out = Writer::default();
        self.general(&mut out);
        // Without a graph in the experiment, the network is a stand-in.
        let on_graph = self.hosts.iter().any(|host| host.node.is_some());
        if on_graph || self.topology.links.is_empty() || self.network.source != GraphSource::OneGbitSwitch {
            self.network(&mut out);
        }
        self.experimental(&mut out);
        out.section(0, "belljar");
        let start = jiff::Timestamp::from_second(self.belljar.start_date as i64).unwrap_or_default();
        out.text(1, "start_date", &start.to_string());
        out.plain(1, "placement", self.belljar.placement.name());
        out.plain(1, "ipv6", self.belljar.ipv6);
        out.plain(1, "route_log", self.belljar.route_log);
        if let Some(pool) = self.belljar.address_pool {
            out.plain(1, "address_pool", pool);
        }
        out.section(1, "dns");
        out.plain(2, "address", self.belljar.dns_address);
        let records: Vec<String> = self.belljar.dns_records.iter().map(|line| quoted(line)).collect();
        out.plain(2, "records", format_args!("[{}]", records.join(", ")));
        if let Some(interval) = self.belljar.metrics_interval {
            out.section(1, "metrics");
            out.plain(2, "interval", format_duration(interval));
        }
        if !self.hosts.is_empty() {
            out.section(0, "hosts");
        }
        for host in &self.hosts {
            self.host(&mut out, host);
        }
        self.topology(&mut out);
        self.events(&mut out, &self.events);
        self.properties(&mut out);
        self.exploration_section(&mut out);
        out.0
    }

    fn general(&self, out: &mut Writer) {
        let g = &self.general;
        out.section(0, "general");
        out.plain(1, "stop_time", time(g.stop_time));
        out.plain(1, "seed", g.seed);
        out.plain(1, "parallelism", g.parallelism);
        out.plain(1, "bootstrap_end_time", time(g.bootstrap_end_time));
        out.plain(1, "log_level", g.log_level.name());
        out.plain(1, "heartbeat_interval", g.heartbeat_interval.map_or("null".to_owned(), format_duration));
        if let Some(results) = &g.data_directory {
            out.path(1, "data_directory", results);
        }
        match &g.template_directory {
            Some(path) => out.path(1, "template_directory", path),
            None => out.plain(1, "template_directory", "null"),
        }
        out.plain(1, "progress", g.progress);
        out.plain(1, "model_unblocked_syscall_latency", g.model_unblocked_syscall_latency);
    }

    fn network(&self, out: &mut Writer) {
        out.section(0, "network");
        out.plain(1, "use_shortest_path", self.network.use_shortest_path);
        out.section(1, "graph");
        match &self.network.source {
            GraphSource::OneGbitSwitch => out.plain(2, "type", "1_gbit_switch"),
            GraphSource::Gml(text) => {
                out.plain(2, "type", "gml");
                out.block(2, "inline", text);
            }
        }
    }

    fn experimental(&self, out: &mut Writer) {
        let e = &self.experimental;
        out.section(0, "experimental");
        out.plain(1, "strace_logging_mode", quoted(e.strace_logging_mode.name()));
        if let Some(bytes) = e.socket_send_buffer {
            out.plain(1, "socket_send_buffer", format_args!("{bytes} B"));
        }
        out.plain(1, "socket_send_autotune", e.socket_send_autotune);
        if let Some(bytes) = e.socket_recv_buffer {
            out.plain(1, "socket_recv_buffer", format_args!("{bytes} B"));
        }
        out.plain(1, "socket_recv_autotune", e.socket_recv_autotune);
        for (key, value) in [
            ("unblocked_syscall_latency", e.unblocked_syscall_latency),
            ("unblocked_vdso_latency", e.unblocked_vdso_latency),
            ("max_unapplied_cpu_latency", e.max_unapplied_cpu_latency),
            ("native_preemption_sim_interval", e.native_preemption_sim_interval),
        ] {
            out.plain(1, key, format_duration(value));
        }
        if let Some(pinning) = e.use_cpu_pinning {
            out.plain(1, "use_cpu_pinning", pinning);
        }
    }

    fn host(&self, out: &mut Writer, host: &Host) {
        let bandwidth = |bits: Option<u64>| bits.map_or("unlimited".to_owned(), format_bandwidth);
        out.section(1, &quoted(&host.name));
        if let Some(node) = host.node {
            out.plain(2, "network_node_id", self.network.graph.node(node).id);
            out.plain(2, "ip_addr", host.address);
            if let Some(address6) = host.address6 {
                out.text(2, "ip6_addr", &address6.to_string());
            }
            out.plain(2, "bandwidth_up", bandwidth(host.bandwidth_up));
            out.plain(2, "bandwidth_down", bandwidth(host.bandwidth_down));
        }
        if self.belljar.ipv6 && !host.ipv6 {
            out.plain(2, "ipv6", "false");
        }
        if !host.interfaces.is_empty() {
            topology::interfaces(out, &host.interfaces);
            topology::routing(out, &host.routing, &host.interfaces);
            self.devices_of(out, &host.interfaces);
            out.plain(2, "forwarding", host.forwarding);
        }
        options(out, &host.options);
        if host.clock != Default::default() {
            out.section(2, "clock");
            out.text(3, "offset", &events::signed(host.clock.offset_ns));
            out.plain(3, "drift_ppm", events::ppm(host.clock.drift_ppb));
            out.plain(3, "reading", format_duration(host.clock.reading));
            if let Some(offset) = host.clock.hardware_offset_ns {
                out.text(3, "hardware_offset", &events::signed(offset));
            }
            if let Some(drift) = host.clock.hardware_drift_ppb {
                out.plain(3, "hardware_drift_ppm", events::ppm(drift));
            }
        }
        if let Some(cpu) = &host.cpu {
            out.section(2, "cpu");
            out.plain(3, "syscall", format_duration(cpu.syscall));
            out.plain(3, "packet", format_duration(cpu.packet));
            out.plain(3, "byte", format_duration(cpu.byte));
            out.plain(3, "interrupt", format_duration(cpu.interrupt));
            out.plain(3, "backlog", cpu.backlog);
        }
        if let Some(count) = host.cpu_count.filter(|count| *count != 1) {
            out.plain(2, "cpu_count", count);
        }
        if let Some(bytes) = host.memory {
            out.plain(2, "memory", format_args!("{bytes} B"));
        }
        if let Some(root) = &host.root {
            out.path(2, "root", &root.source);
        }
        if let Some(own) = &host.machine {
            machine(out, own);
        }
        let processes = host.machine.as_ref().map_or(&host.processes, |machine| &machine.programs);
        let (setup, processes): (Vec<_>, Vec<_>) = processes.iter().partition(|process| process.is_setup);
        for commands in setup.iter().filter_map(|process| process.setup_commands()) {
            out.plain(2, "setup", format_args!("[{}]", words(commands)));
        }
        match processes.is_empty() && host.models.is_empty() {
            true => out.plain(2, "processes", "[]"),
            false => out.section(2, "processes"),
        }
        for each in processes {
            process(out, each, self.general.stop_time);
        }
        for each in &host.models {
            models::model(out, each);
        }
    }
}

/// Words of a list, quoted and separated.
fn words(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ")
}

fn machine(out: &mut Writer, machine: &WholeMachine) {
    out.section(2, "machine");
    out.plain(3, "type", "qemu");
    for (key, path) in [
        ("qemu", &machine.qemu),
        ("kernel", &machine.kernel),
        ("modules", &machine.modules),
        ("busybox", &machine.busybox),
    ] {
        out.path(3, key, path);
    }
    out.plain(3, "args", format_args!("[{}]", words(&machine.args)));
    out.plain(3, "kernel_args", format_args!("[{}]", words(&machine.kernel_args)));
    out.plain(3, "memory", format_args!("{} B", machine.memory));
    out.plain(3, "nic", machine.nic.name());
    out.plain(3, "shift", machine.shift);
    out.plain(3, "quantum", format_duration(machine.quantum));
    if !machine.files.is_empty() {
        let files: Vec<String> =
            machine.files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        out.plain(3, "files", format_args!("[{}]", words(&files)));
    }
}

fn options(out: &mut Writer, options: &HostOptions) {
    out.section(2, "host_options");
    out.plain(3, "log_level", options.log_level.map_or("null", |level| level.name()));
    out.plain(3, "pcap_enabled", options.pcap_enabled);
    out.plain(3, "pcap_capture_size", format_args!("{} B", options.pcap_capture_size));
    capture_filter(out, 3, &options.pcap_filter);
    if !options.shared.is_empty() {
        let paths: Vec<String> = options.shared.iter().map(|path| quoted(&path.to_string_lossy())).collect();
        out.plain(3, "shared", format_args!("[{}]", paths.join(", ")));
    }
    if !options.sysctls.is_empty() {
        let all: Vec<String> = options.sysctls.iter().map(|(k, v)| format!("{k}: {}", quoted(v))).collect();
        out.plain(3, "sysctls", format_args!("{{ {} }}", all.join(", ")));
    }
    if options.queue != HostOptions::default().queue {
        out.plain(3, "queue", line::queue(&options.queue));
    }
    if options.scheduling != HostOptions::default().scheduling {
        out.plain(3, "scheduling", options.scheduling);
    }
}

fn capture_filter(out: &mut Writer, level: usize, filter: &CaptureFilter) {
    match filter {
        CaptureFilter::All => {}
        CaptureFilter::Packets(packets) => out.text(level, "pcap_filter", packets),
        CaptureFilter::ByInterface(own) => {
            out.section(level, "pcap_filter");
            for (interface, packets) in own {
                match packets {
                    Some(packets) => out.text(level + 1, &quoted(interface), packets),
                    None => out.plain(level + 1, &quoted(interface), false),
                }
            }
        }
    }
}

/// A program in a root, as the experiment has it: another root may have another program for it.
fn written(out: &mut Writer, program: &WrittenProgram, placement: &str) {
    match &program.path {
        Some(path) => out.text(2, "- path", path),
        None => out.plain(2, "- placement", placement),
    }
    if let Some(arg0) = &program.arg0 {
        out.text(3, "arg0", arg0);
    }
    if let Some(args) = &program.args {
        out.plain(3, "args", format_args!("[{}]", words(args)));
    }
    environment(out, &program.environment);
    if let Some(user) = &program.user {
        out.text(3, "user", user);
    }
}

fn environment(out: &mut Writer, variables: &Map<String, String>) {
    if !variables.is_empty() {
        out.section(3, "environment");
        for (name, value) in variables {
            out.text(4, &quoted(name), value);
        }
    }
}

fn program(out: &mut Writer, process: &Process) {
    out.path(2, "- path", &process.path);
    if process.path.as_os_str() != process.arg0.as_str() {
        out.text(3, "arg0", &process.arg0);
    }
    out.plain(3, "args", format_args!("[{}]", words(&process.args)));
    environment(out, &process.environment);
    if let Some(user) = &process.user {
        out.text(3, "user", user);
    }
}

fn process(out: &mut Writer, process: &Process, stop: SimTime) {
    match &process.written {
        Some(program) => written(out, program, process.placement.name()),
        None => program(out, process),
    }
    match process.start_time {
        SimTime::MAX => out.plain(3, "start_time", "never"),
        start => out.plain(3, "start_time", time(start)),
    }
    if let Some(shutdown) = process.shutdown_time {
        out.plain(3, "shutdown_time", time(shutdown));
    }
    out.plain(3, "shutdown_signal", process.shutdown_signal);
    let never_starts = starts_late(process.start_time, stop);
    match process.expected_final_state {
        FinalState::Exited(0) if !process.must_start && never_starts => {}
        FinalState::Exited(status) => {
            out.plain(3, "expected_final_state", format_args!("{{ exited: {status} }}"))
        }
        FinalState::Signaled(signal) => {
            out.plain(3, "expected_final_state", format_args!("{{ signaled: {signal} }}"))
        }
        FinalState::Running => out.plain(3, "expected_final_state", "running"),
        FinalState::Any => out.plain(3, "expected_final_state", "any"),
    }
    if process.written.as_ref().is_none_or(|program| program.path.is_some()) {
        out.plain(3, "placement", process.placement.name());
    }
}

fn time(time: SimTime) -> String {
    format_duration(time.since(SimTime::ZERO))
}

/// Lines of `key: value`, two spaces per level.
#[derive(Default)]
pub(crate) struct Writer(String);

impl Writer {
    pub(crate) fn plain(&mut self, level: usize, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{:width$}{key}: {value}", "", width = level * 2);
    }
    /// All keys on one line.
    fn one_line(&self) -> String {
        self.0.lines().map(str::trim).collect::<Vec<_>>().join(", ")
    }
    fn section(&mut self, level: usize, key: &str) {
        let _ = writeln!(self.0, "{:width$}{key}:", "", width = level * 2);
    }
    pub(crate) fn text(&mut self, level: usize, key: &str, value: &str) {
        self.plain(level, key, quoted(value));
    }
    fn path(&mut self, level: usize, key: &str, value: &Path) {
        self.text(level, key, &value.to_string_lossy());
    }
    fn item(&mut self, level: usize, value: &str) {
        let _ = writeln!(self.0, "{:width$}- {value}", "", width = level * 2);
    }
    /// Writes an item as a literal block, which the loader requires for a text that was one.
    fn block_item(&mut self, level: usize, text: &str) {
        let width = level * 2;
        let _ = writeln!(self.0, "{:width$}- |2{}", "", if text.ends_with('\n') { "+" } else { "-" });
        for line in text.lines() {
            match line.is_empty() {
                true => self.0.push('\n'),
                false => drop(writeln!(self.0, "{:width$}  {line}", "")),
            }
        }
    }
    /// Writes a text of several lines, as a literal block if that preserves it exactly.
    fn block(&mut self, level: usize, key: &str, text: &str) {
        let starts_well = text.starts_with(|c: char| c.is_ascii_graphic());
        let ends_well = text.ends_with('\n') && !text.ends_with("\n\n");
        let printable = text.chars().all(|c| matches!(c, '\n' | ' '..='~'));
        if !(starts_well && ends_well && printable) {
            return self.text(level, key, text);
        }
        self.plain(level, key, "|");
        for line in text.lines() {
            match line.is_empty() {
                true => self.0.push('\n'),
                false => drop(writeln!(self.0, "{:width$}{line}", "", width = (level + 1) * 2)),
            }
        }
    }
}

/// The string in double quotes, or without them if a plain scalar is unambiguous.
pub(crate) fn quoted(text: &str) -> String {
    let first = |c: char| c.is_ascii_alphabetic() || c == '/';
    let rest = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    if text.starts_with(first) && text.chars().all(rest) && !word {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            _ if (c as u32) < 0x1_0000 => drop(write!(out, "\\u{:04x}", c as u32)),
            _ => drop(write!(out, "\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}
