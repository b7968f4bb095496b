use super::*;
use crate::model::{GraphSource, LogLevel, PlacementSetting, StraceMode};
use belljar_base::{HostId, SimDuration};
use std::path::PathBuf;

mod damaged;
mod errors;
mod events;
mod links;
mod properties;
mod radios;
mod round_trip;

/// A unique folder removed at the end of the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("belljar-config-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn around() -> PathContext {
    PathContext {
        base_dir: PathBuf::from("/nowhere/experiment"),
        current_dir: PathBuf::from("/nowhere"),
        home: Some(PathBuf::from("/bin")),
        search_path: vec![PathBuf::from("/bin")],
        cache: None,
        kernel: None,
        network_only: false,
    }
}

pub(super) fn parse(text: &str) -> Experiment {
    Experiment::parse_in("test.yaml", text, &around()).unwrap_or_else(|e| panic!("{e}"))
}

const SHADOW: &str = r#"
x-server: &server
  network_node_id: 0
  processes: &true
  - path: sh
    args: -c 'exit 0' "two words"
general: { stop_time: 10 min, seed: 7, heartbeat_interval: null, log_level: debug }
network:
  use_shortest_path: false
  graph:
    type: gml
    inline: |
      graph [
        directed 0
        node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "2 Gbit" ]
        edge [ source 0 target 0 latency "10 ms" jitter "2 ms" packet_loss 0.1 ]
      ]
host_option_defaults: { pcap_enabled: true, log_level: warning }
experimental: { use_memory_manager: true, strace_logging_mode: standard, socket_recv_buffer: 1 MiB, runahead: null }
belljar: { start_date: 2026-02-03, placement: far }
hosts:
  zoe:
    <<: *server
    bandwidth_up: 5 Mbit
  adam:
    network_node_id: 0
    ip_addr: 11.0.0.1
    host_options: { log_level: null, pcap_capture_size: 96 B }
    processes:
    - path: ~/sh
      args: [-c, true, 5]
      environment: { PORT: 80, EMPTY: "" }
      start_time: 2
      shutdown_time: 3.5 s
      shutdown_signal: SIGINT
      expected_final_state: { signaled: SIGINT }
      placement: near
    - { path: /bin/sh, expected_final_state: running }
    - { path: /bin/sh, expected_final_state: any, start_time: 1h }
"#;

#[test]
fn a_whole_experiment() {
    let e = parse(SHADOW);
    assert_eq!(e.general.stop_time, SimTime::from_secs(600));
    assert_eq!((e.general.seed, e.general.heartbeat_interval), (7, None));
    assert_eq!(e.general.log_level, LogLevel::Debug);
    assert_eq!(e.general.results(), Path::new("experiment.data"));
    let path = e.network.graph.path(NodeIndex(0), NodeIndex(0)).unwrap();
    assert_eq!(
        (path.latency, path.least_latency),
        (SimDuration::from_millis(10), SimDuration::from_millis(8))
    );
    assert!(matches!(e.network.source, GraphSource::Gml(_)) && !e.network.use_shortest_path);
    assert_eq!(e.experimental.strace_logging_mode, StraceMode::Standard);
    assert_eq!(e.experimental.socket_recv_buffer, Some(1 << 20));
    assert_eq!(e.belljar.start_date, 1_770_076_800);

    let names: Vec<_> = e.hosts.iter().map(|h| (h.name.as_str(), h.address.to_string())).collect();
    assert_eq!(names, [("adam", "11.0.0.1".to_owned()), ("zoe", "11.0.0.2".to_owned())]);
    assert_eq!(e.host_by_name("zoe"), Some(HostId(1)));
    assert_eq!(e.addresses().address(HostId(1)), e.hosts[1].address);
    let (adam, zoe) = (&e.hosts[0], &e.hosts[1]);
    assert_eq!((zoe.bandwidth_up, zoe.bandwidth_down), (Some(5_000_000), Some(2_000_000_000)));
    assert_eq!(zoe.options.log_level, Some(LogLevel::Warning));
    assert_eq!(zoe.processes[0].args, ["-c", "exit 0", "two words"]);
    assert_eq!(zoe.processes[0].path, Path::new("/bin/sh"));
    assert_eq!(zoe.processes[0].arg0, "sh");
    assert_eq!(zoe.processes[0].placement, PlacementSetting::Far);
    assert_eq!(zoe.processes[0].expected_final_state, FinalState::Exited(0));
    assert_eq!((adam.options.log_level, adam.options.pcap_capture_size), (None, 96));
    let first = &adam.processes[0];
    assert_eq!(first.path, Path::new("/bin/sh"));
    assert_eq!(first.arg0, "/bin/sh");
    assert_eq!(first.args, ["-c", "true", "5"]);
    assert_eq!(first.environment["PORT"], "80");
    assert_eq!(first.environment["EMPTY"], "");
    assert_eq!(first.shutdown_time, Some(SimTime::from_nanos(3_500_000_000)));
    assert_eq!(first.shutdown_signal.name(), "SIGINT");
    assert_eq!(first.expected_final_state, FinalState::Signaled(Signal::from_number(2).unwrap()));
    assert_eq!(first.placement, PlacementSetting::Near);
    assert_eq!(adam.processes[1].expected_final_state, FinalState::Running);
    assert_eq!(
        e.notes,
        [
            "options of 'experimental' that have no effect: runahead, use_memory_manager",
            "host 'adam': '/bin/sh' never starts, since the simulation stops at 600 s",
        ]
    );
}

#[test]
fn a_single_host_runs_the_command() {
    let e = Experiment::single_host(&["/bin/sh".into(), "-c".into(), "exit 3".into()]).unwrap();
    assert_eq!(e.hosts.len(), 1);
    assert_eq!(e.hosts[0].processes[0].args, ["-c", "exit 3"]);
    let reloaded = Experiment::parse("again", &e.to_yaml(), Path::new("")).unwrap();
    assert_eq!(reloaded, e);
    let error = Experiment::single_host(&["no-such-program-here".into()]).unwrap_err();
    assert_eq!(error.message, "there is no program 'no-such-program-here' in PATH");
    assert_eq!(Experiment::single_host(&[]).unwrap_err().message, "there is no command to run");
}

#[test]
fn times_of_the_command_line_are_read_like_those_of_files() {
    assert_eq!(crate::parse_time("1.5 min"), Ok(SimTime::from_secs(90)));
    assert_eq!(
        crate::parse_time("1 Min"),
        Err("\"Min\" is not a unit of time: did you mean \"1 min\"? Units are case-sensitive".to_owned())
    );
}

#[test]
fn overrides_replace_what_the_file_says() {
    let mut e = parse(SHADOW);
    e.apply_overrides(&crate::Overrides {
        seed: Some(99),
        heartbeat_interval: Some(Some(SimDuration::from_secs(5))),
        template_directory: Some("/tmp".into()),
        pcap_enabled: Some(false),
        ..Default::default()
    });
    assert_eq!(e.general.seed, 99);
    assert_eq!(e.general.heartbeat_interval, Some(SimDuration::from_secs(5)));
    assert_eq!(e.general.template_directory, Some("/tmp".into()));
    assert_eq!(e.general.log_level, LogLevel::Debug);
    assert!(e.hosts.iter().all(|h| !h.options.pcap_enabled));
}

#[test]
fn files_are_found_beside_the_experiment_and_unpacked() {
    const GML: &str =
        "graph [\n node [ id 3 host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ]\n]\n";
    let folder = Folder::new("files");
    folder.write("net.gml", GML);
    let mut packed = Vec::new();
    lzma_rs::xz_compress(&mut GML.as_bytes(), &mut packed).unwrap();
    folder.write("net.gml.xz", packed);
    for file in ["path: net.gml", "path: ./net.gml.xz, compression: xz"] {
        let text = format!(
            "general: {{ stop_time: 1 }}\nnetwork: {{ graph: {{ type: gml, file: {{ {file} }} }} }}\n\
             hosts: {{ a: {{ network_node_id: 3, processes: [] }} }}\n"
        );
        let path = folder.write("experiment.yaml", text);
        let e = Experiment::load(&path).unwrap();
        assert_eq!(e.network.source, GraphSource::Gml(GML.into()));
    }
}

#[test]
fn hosts_can_be_aliases_of_each_other_and_arguments_span_lines() {
    let e = parse(
        "\u{feff}general:\r\n  stop_time: 10s\r\nnetwork: { graph: { type: 1_gbit_switch } }\r
hosts:
  client1: &client
    network_node_id: 0
    processes:
    - path: sh
      arg0: -login
      args:
        --name server1
        --peers 'a=http://a:1,b=http://b:2'
  client2: *client
  client3: { <<: [*client], ip_addr: 100.0.0.1 }
",
    );
    assert_eq!(e.hosts.len(), 3);
    assert!(e.hosts.iter().all(|h| h.processes == e.hosts[0].processes));
    assert_eq!(e.hosts[0].processes[0].args, ["--name", "server1", "--peers", "a=http://a:1,b=http://b:2"]);
    assert_eq!(e.hosts[0].processes[0].arg0, "-login");
    assert_eq!(e.hosts[2].address, Ipv4Addr::new(100, 0, 0, 1));
}

#[test]
fn hosts_that_cannot_talk_to_each_other_are_noted() {
    for (shortest, what) in [(true, "path"), (false, "edge")] {
        let e = parse(&format!(
            r#"
general: {{ stop_time: 1 }}
network:
  use_shortest_path: {shortest}
  graph:
    type: gml
    inline: |
      graph [ directed 1 node [ id 3 ] node [ id 4 ] edge [ source 4 target 3 latency "1 ms" ] ]
x-any: &any {{ bandwidth_up: unlimited, bandwidth_down: unlimited, processes: [] }}
hosts:
  a: {{ <<: *any, network_node_id: 3 }}
  b: {{ <<: *any, network_node_id: 4 }}
"#
        ));
        let expected = format!(
            "no {what} of the graph leads from host 'a' (node 3) to host 'b' (node 4): their packets are dropped"
        );
        assert_eq!(e.notes, [expected]);
    }
}
