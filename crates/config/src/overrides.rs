use crate::events::Event;
use crate::{CaptureFilter, Experiment, LogLevel, PlacementSetting, StraceMode};
use belljar_base::{SimDuration, SimTime};
use belljar_net::units::format_duration;
use std::path::PathBuf;

/// Changes of an experiment by the command line: `Some` replaces the value in the file.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Overrides {
    pub seed: Option<u64>,
    pub data_directory: Option<PathBuf>,
    pub log_level: Option<LogLevel>,
    pub parallelism: Option<u32>,
    pub bootstrap_end_time: Option<SimTime>,
    /// `Some(None)` disables heartbeats.
    pub heartbeat_interval: Option<Option<SimDuration>>,
    pub template_directory: Option<PathBuf>,
    pub progress: Option<bool>,
    pub model_unblocked_syscall_latency: Option<bool>,
    /// Capture setting of every host, regardless of its own options.
    pub pcap_enabled: Option<bool>,
    /// Capture filter of every host, switch and router, regardless of its own options.
    pub pcap_filter: Option<String>,
    pub strace_logging_mode: Option<StraceMode>,
    /// For every process, regardless of its own setting.
    pub placement: Option<PlacementSetting>,
}

/// Parses a simulated time in the notation of experiment files and the command line, such as `10 min`; a bare
/// number counts seconds.
pub fn parse_time(text: &str) -> Result<SimTime, String> {
    let duration = belljar_net::units::parse_duration(text).map_err(|error| match error.help {
        Some(help) => format!("{}: {help}", error.message),
        None => error.message,
    })?;
    Ok(SimTime::ZERO + duration)
}

impl Experiment {
    /// Applies the command line's values.
    pub fn apply_overrides(&mut self, overrides: &Overrides) {
        fn set<T: Clone>(target: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                target.clone_from(value);
            }
        }
        let general = &mut self.general;
        set(&mut general.seed, &overrides.seed);
        set(&mut general.data_directory, &overrides.data_directory.clone().map(Some));
        set(&mut general.log_level, &overrides.log_level);
        set(&mut general.parallelism, &overrides.parallelism);
        set(&mut general.bootstrap_end_time, &overrides.bootstrap_end_time);
        set(&mut general.heartbeat_interval, &overrides.heartbeat_interval);
        set(&mut general.progress, &overrides.progress);
        set(&mut general.model_unblocked_syscall_latency, &overrides.model_unblocked_syscall_latency);
        set(&mut general.template_directory, &overrides.template_directory.clone().map(Some));
        set(&mut self.experimental.strace_logging_mode, &overrides.strace_logging_mode);
        set(&mut self.topology.pcap_enabled, &overrides.pcap_enabled);
        let filter = overrides.pcap_filter.clone().map(CaptureFilter::Packets);
        set(&mut self.topology.pcap_filter, &filter);
        for host in &mut self.hosts {
            set(&mut host.options.pcap_filter, &filter);
            set(&mut host.options.pcap_enabled, &overrides.pcap_enabled);
            for process in &mut host.processes {
                set(&mut process.placement, &overrides.placement);
            }
        }
    }

    /// Removes events that never happen because the command line has shortened the run, with a note for each.
    pub(crate) fn drop_late_events(&mut self) {
        let stop = self.general.stop_time;
        let is_late = |event: &Event| event.first() >= stop;
        if !self.events.iter().any(is_late) {
            return;
        }
        let seconds = |at: SimTime| format_duration(at.since(SimTime::ZERO));
        for event in &mut self.events {
            // Written again, the experiment has other positions.
            event.name.get_or_insert_with(|| event.number.to_string());
            if is_late(event) {
                let (key, at, stop) = (event.action.kind().key(), seconds(event.first()), seconds(stop));
                self.notes.push(format!(
                    "event '{key}' at {at} never happens, since the simulation stops at {stop}"
                ));
            }
        }
        self.events.retain(|event| !is_late(event));
        Event::remove_idle(&mut self.events);
    }
}
