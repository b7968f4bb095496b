//! `belljar p4 run`.

use super::{pcap, program, step::Stepper};
use crate::failure::Failure;
use belljar_base::{Map, SimDuration, SimTime, hex};
use belljar_p4::switch::Drop;
use belljar_p4::{Notification, Switch, SwitchConfig};
use belljar_p4files as files;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Sends the packets of captures through a P4 program and writes one capture for each port that packets leave by.
/// Times are those of the captures, from the first packet on; the run is exact and the same every time.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  belljar p4 run forward.p4 --pcap 0=in.pcap --runtime s1-runtime.json -o out\n  out/port1.pcap then has what left by port 1"
)]
pub struct Arguments {
    /// Program, as P4_16 source (.p4) or BMv2 JSON
    program: PathBuf,
    /// Packets that come in by a port: PORT=FILE
    #[arg(long = "pcap", value_name = "PORT=FILE")]
    captures: Vec<String>,
    /// Folder for the captures of what leaves: port0.pcap and so on
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Entries, groups and clone sessions as the P4 tutorials write them (s1-runtime.json)
    #[arg(long, value_name = "FILE")]
    runtime: Vec<PathBuf>,
    /// Commands of simple_switch_CLI
    #[arg(long, value_name = "FILE")]
    commands: Vec<PathBuf>,
    /// Say what happens to each packet: parser states, tables, actions
    #[arg(long)]
    trace: bool,
    /// Stop at each line of the trace, and read commands: help lists them
    #[arg(long, conflicts_with = "trace")]
    step: bool,
    /// Ports of the switch
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=512))]
    ports: u16,
    /// Bits per second of each port, unlimited if not given
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
}

/// Reads the input packets, in order of arrival time, then of port.
fn inputs(arguments: &Arguments) -> Result<Vec<(SimTime, u16, Vec<u8>)>, Failure> {
    let mut packets: Vec<(Duration, u16, Vec<u8>)> = Vec::new();
    for capture in &arguments.captures {
        let usage = || Failure::usage(format!("--pcap {capture}: write PORT=FILE, such as --pcap 0=in.pcap"));
        let (port, file) = capture.split_once('=').ok_or_else(usage)?;
        let port: u16 = port.parse().ok().filter(|port| *port < arguments.ports).ok_or_else(usage)?;
        let read = pcap::read(file.as_ref()).map_err(Failure::usage)?;
        packets.extend(read.into_iter().map(|(at, packet)| (at, port, packet)));
    }
    packets.sort_by_key(|(at, port, _)| (*at, *port));
    let start = packets.first().map_or(Duration::ZERO, |(at, ..)| *at);
    let since =
        |at: Duration| SimTime::from_nanos(u64::try_from((at - start).as_nanos()).unwrap_or(u64::MAX));
    Ok(packets.into_iter().map(|(at, port, packet)| (since(at), port, packet)).collect())
}

/// Runs the program over the captures.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let program = program::read(&arguments.program).map_err(Failure::input)?;
    let config = SwitchConfig {
        name: "s1".to_owned(),
        ports: arguments.ports,
        rate: arguments.rate,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(Arc::new(program), config);
    for file in &arguments.runtime {
        files::runtime::apply_file(&mut switch, file).map_err(Failure::input)?;
    }
    for file in &arguments.commands {
        print!("{}", files::commands::apply_file(&mut switch, file).map_err(Failure::input)?);
    }
    switch.set_trace(arguments.trace);
    let mut stepper = arguments.step.then(Stepper::new);
    if stepper.is_some() {
        switch.set_steps();
    }
    let mut left: Map<u16, Vec<(SimTime, Vec<u8>)>> = Map::new();
    let mut now = SimTime::ZERO;
    for (at, port, packet) in inputs(arguments)? {
        now = at;
        switch.receive(at, port, packet);
        collect(&mut switch, at, &mut left);
        if stepper.as_mut().is_some_and(|stepper| !stepper.show(&mut switch)) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    // Drains the queued packets; timers alone would never end.
    while let Some(at) = switch.next_packet() {
        now = now.max(at);
        collect(&mut switch, now, &mut left);
        if stepper.as_mut().is_some_and(|stepper| !stepper.show(&mut switch)) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    collect(&mut switch, now + SimDuration::from_secs(2), &mut left);
    if let Some(folder) = &arguments.output {
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| Failure::run(format!("{}: {error}", folder.display())))?;
        for (port, packets) in &left {
            pcap::write(&folder.join(format!("port{port}.pcap")), packets).map_err(Failure::run)?;
        }
    }
    summarise(&switch, &left);
    Ok(ExitCode::SUCCESS)
}

fn collect(switch: &mut Switch, now: SimTime, left: &mut Map<u16, Vec<(SimTime, Vec<u8>)>>) {
    while let Some(leaving) = switch.poll(now) {
        left.entry(leaving.port).or_default().push((leaving.at, leaving.packet));
    }
    print!("{}", switch.take_trace());
    while let Some(notification) = switch.notification() {
        match notification {
            Notification::Log(text) => println!("log: {text}"),
            Notification::Digest { name, list, samples } => {
                for sample in samples {
                    let values: Vec<String> = sample.iter().map(|value| hex(value)).collect();
                    println!("digest {name} (list {list}): {}", values.join(" "));
                }
            }
            Notification::IdleTimeout { table, entries } => {
                println!("idle entries of {}: {entries:?}", switch.program().table_name(table));
            }
            Notification::PacketIn(packet) => println!("packet to the control plane: {}", hex(&packet)),
        }
    }
}

fn summarise(switch: &Switch, left: &Map<u16, Vec<(SimTime, Vec<u8>)>>) {
    let out: usize = left.values().map(Vec::len).sum();
    println!("{} packets in, {out} out", switch.received());
    for (port, packets) in left {
        let bytes: usize = packets.iter().map(|(_, packet)| packet.len()).sum();
        println!("  port {port}: {} packets, {bytes} bytes", packets.len());
    }
    for reason in Drop::ALL {
        if switch.dropped(reason) > 0 {
            println!("  dropped, {}: {}", reason.name(), switch.dropped(reason));
        }
    }
}
