//! Names of the files in a results folder, relative to it. Whoever writes or reads one takes its name from here.

/// The experiment with everything resolved.
pub const EXPERIMENT: &str = "processed-config.yaml";
/// The statistics of the run.
pub const STATISTICS: &str = "sim-stats.json";
/// The truthfulness of an emulated run.
pub const EMULATION: &str = "emulation.json";
/// The machines of a deployed run and their clocks.
pub const DEPLOYMENT: &str = "deployment.json";
/// The network as it is drawn.
pub const TOPOLOGY: &str = "topology.json";
/// The machine's files that the run has read, with their hashes.
pub const MANIFEST: &str = "manifest.sha256";
/// The flows of traffic models.
pub const FLOWS: &str = "flows.csv";
/// The folder of route logs: one of each host, with the extension `jsonl`.
pub const ROUTES: &str = "routes";
/// Time series of hosts.
pub const HOST_METRICS: &str = "metrics/hosts.csv";
/// Time series of TCP connections.
pub const TCP_METRICS: &str = "metrics/tcp.csv";
/// Time series of the directions of links.
pub const LINK_METRICS: &str = "metrics/links.csv";
/// The time that workers spent, by what they did.
pub const PROFILE: &str = "profile.json";
/// The trace for Perfetto and Chrome.
pub const TRACE: &str = "trace.json";
/// The report.
pub const REPORT: &str = "report.html";
/// All captures in one.
pub const ALL_CAPTURES: &str = "all.pcapng";
/// The messages of a simulator's channels, in its folder.
pub const CHANNELS: &str = "channels.csv";
