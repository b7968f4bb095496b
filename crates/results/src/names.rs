//! Names of the files in a results folder, relative to it. All readers and writers use these constants.

/// The resolved experiment.
pub const EXPERIMENT: &str = "processed-config.yaml";
/// The statistics of the run.
pub const STATISTICS: &str = "sim-stats.json";
/// Fidelity of an emulated run.
pub const EMULATION: &str = "emulation.json";
/// Machines of a deployed run and their clocks.
pub const DEPLOYMENT: &str = "deployment.json";
/// The network as drawn by the report.
pub const TOPOLOGY: &str = "topology.json";
/// Hashes of the machine's files that the run has read.
pub const MANIFEST: &str = "manifest.sha256";
/// Flows of traffic models.
pub const FLOWS: &str = "flows.csv";
/// Folder of route logs: one for each host, with the extension `jsonl`.
pub const ROUTES: &str = "routes";
/// Folder of the times of watched files: one file for each host, with the extension `jsonl`.
pub const TIMES: &str = "times";
/// Folder of the captures that properties are about: a folder for each host.
pub const PACKETS: &str = "packets";
/// Folder of histories and of the reports on them, by property.
pub const PROPERTIES: &str = "properties";
/// Connectivity of the nodes over time, beside the route logs.
pub const CONNECTIVITY: &str = "routes/network.json";
/// Time series of hosts.
pub const HOST_METRICS: &str = "metrics/hosts.csv";
/// Time series of TCP connections.
pub const TCP_METRICS: &str = "metrics/tcp.csv";
/// Time series of links, by direction.
pub const LINK_METRICS: &str = "metrics/links.csv";
/// Time spent by workers, by activity.
pub const PROFILE: &str = "profile.json";
/// Trace for Perfetto and Chrome.
pub const TRACE: &str = "trace.json";
/// HTML report.
pub const REPORT: &str = "report.html";
/// Merged captures.
pub const ALL_CAPTURES: &str = "all.pcapng";
/// Folder of mount points while an emulation runs.
pub const EMULATION_SCRATCH: &str = ".emulation";
/// Results that faults gave to system calls, in the folder of a host.
pub const CALL_FAULTS: &str = "call_faults.jsonl";
/// Counts of edges of programs instrumented for Antithesis, of all hosts and in a host's folder.
pub const SDK_COVERAGE: &str = "sdk_coverage.json";
/// Files of hosts for Antithesis' SDKs during the run.
pub const SDK_SCRATCH: &str = ".sdk";
/// Messages of a simulator's channels, in its folder.
pub const CHANNELS: &str = "channels.csv";
