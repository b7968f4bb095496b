//! `belljar p4 serve`: the switch in real time, between network interfaces and controllers.

mod controllers;
mod events;
mod interfaces;
mod real_time;
mod set_up;

use crate::failure::Failure;
use crate::signals;
use belljar_base::{PacketAccount, SimDuration, SimTime};
use belljar_emulation::p4::SwitchPlan;
use belljar_p4::SwitchDevice;
use belljar_p4runtime::{Server, thrift};
use belljar_packetio::PacketOptions;
use clap::builder::NonEmptyStringValueParser;
use controllers::Controllers;
use events::Events;
use interfaces::{Attachment, Interfaces};
use real_time::{Alarm, Clock};
use rustix::event::{PollFd, PollFlags};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs a P4 program as a switch between interfaces of this machine, in real time. Controllers program it over P4Runtime,
/// and over BMv2's Thrift interface where `--thrift` says so. Ctrl-C ends it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar p4 serve switch.p4 -i 0@veth0 -i 1@veth1\n  belljar p4 serve -i 1@tap:p4port1 --cpu-port 510 --grpc 127.0.0.1:9559    controllers bring the program"
)]
pub struct Arguments {
    /// The program: P4_16 source (.p4), or BMv2 JSON; without it controllers bring one
    #[arg(value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// P4Info of the program, as text (.txtpb, .txt) or binary; that of source is made, and without any controllers bring it
    #[arg(long, value_name = "FILE", requires = "program")]
    p4info: Option<PathBuf>,
    /// A runtime file of the P4 tutorials: entries, multicast groups, clone sessions
    #[arg(long, value_name = "FILE", requires = "program")]
    runtime: Option<PathBuf>,
    /// Commands of simple_switch_CLI
    #[arg(long, value_name = "FILE", requires = "program")]
    commands: Option<PathBuf>,
    /// The address of the P4Runtime server
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = GRPC)]
    grpc: SocketAddr,
    /// The address of a Thrift server, for simple_switch_CLI and its like (BMv2's own is 127.0.0.1:9090)
    #[arg(long, value_name = "ADDRESS:PORT")]
    thrift: Option<SocketAddr>,
    /// The device's number in P4Runtime
    #[arg(long, value_name = "N", default_value_t = DEVICE_ID)]
    device_id: u64,
    /// A port of the switch: N@INTERFACE, N@tap:NAME for a TAP interface (made if there is none), N@unix:PATH to connect to a socket of frames
    #[arg(short, long = "interface", value_name = "PORT@INTERFACE")]
    interface: Vec<Attachment>,
    /// The port by which packets go to controllers and come from them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..511))]
    cpu_port: Option<u16>,
    /// The switch's name, from which its program's random numbers follow
    #[arg(long, default_value = "s1", value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

/// The usual address of the P4Runtime server.
const GRPC: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9559));

/// The usual number of the device in P4Runtime.
const DEVICE_ID: u64 = 0;
/// Interval between two checks of the interfaces' carriers.
const CARRIERS: Duration = Duration::from_secs(1);

/// Runs the switch until it is interrupted.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let switch = set_up::from_arguments(arguments)?;
    let interfaces = Interfaces::open(&arguments.interface, PacketOptions::default().ring_bytes)?;
    let servers = ManagementAddresses {
        device_id: arguments.device_id,
        p4runtime: vec![arguments.grpc],
        thrift: arguments.thrift,
        write_time: SimDuration::ZERO,
    };
    run(switch, interfaces, &servers, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Servers for controllers: where they listen, and how long an update takes.
struct ManagementAddresses {
    device_id: u64,
    p4runtime: Vec<SocketAddr>,
    thrift: Option<SocketAddr>,
    /// Duration of each update.
    write_time: SimDuration,
}

/// Runs a P4 switch of an emulation until it is interrupted.
pub fn planned(plan: &SwitchPlan) -> Result<ExitCode, Failure> {
    let attachment = |(port, name): &(u16, String)| Attachment::of_interface(*port, name);
    let attachments: Vec<_> = plan.interfaces.iter().map(attachment).collect();
    let switch = set_up::from_plan(plan)?;
    let servers = match &plan.management {
        None => ManagementAddresses {
            device_id: DEVICE_ID,
            p4runtime: vec![GRPC],
            thrift: None,
            write_time: SimDuration::ZERO,
        },
        Some(management) => ManagementAddresses {
            device_id: management.device_id,
            p4runtime: management.p4runtime.clone(),
            thrift: Some(management.thrift),
            write_time: SimDuration::from_nanos(management.write_ns),
        },
    };
    let events = Events::open(plan)?;
    let account = run(switch, Interfaces::open(&attachments, plan.ring_bytes)?, &servers, events)?;
    eprintln!("{}", belljar_emulation::p4::account_line(&account));
    Ok(ExitCode::SUCCESS)
}

fn run(
    (mut device, mut server): (SwitchDevice, Server<SwitchDevice>),
    mut interfaces: Interfaces,
    servers: &ManagementAddresses,
    mut events: Option<Events>,
) -> Result<PacketAccount, Failure> {
    let device_id = servers.device_id;
    server.set_write_time(servers.write_time);
    let p4runtime = (server, Controllers::listen(&servers.p4runtime)?);
    let listen = |address| {
        let controllers = Controllers::listen(&[address])?;
        let mut server = thrift::Server::new(device_id, controllers.address().port());
        server.set_write_time(servers.write_time);
        Ok::<_, Failure>((server, controllers))
    };
    let thrift = servers.thrift.map(listen).transpose()?;
    let stop = stop_signal()?;
    let clock = Clock::start();
    interfaces.look_at_carriers(&mut device, clock.now());
    eprintln!("P4Runtime: device {device_id} on {}", p4runtime.1.address());
    if let Some((_, controllers)) = &thrift {
        eprintln!("Thrift: on {}", controllers.address());
    }
    serve(&mut device, p4runtime, thrift, &mut interfaces, &mut events, &stop, &clock)?;
    let mut account = interfaces.finish();
    account.include(&device.packet_account());
    Ok(account)
}

fn serve(
    device: &mut SwitchDevice,
    (mut server, mut controllers): (Server<SwitchDevice>, Controllers),
    mut thrift: Option<(thrift::Server, Controllers)>,
    interfaces: &mut Interfaces,
    events: &mut Option<Events>,
    stop: &UnixStream,
    clock: &Clock,
) -> Result<(), Failure> {
    let mut next_look = clock.now() + real_time::duration(CARRIERS);
    let mut alarm = Alarm::new().map_err(Failure::run)?;
    loop {
        let of_thrift = thrift.as_ref().and_then(|(server, _)| server.next_event());
        let wakes = [device.next_event(), server.next_event(), of_thrift];
        let wake = wakes.into_iter().flatten().fold(next_look, SimTime::min);
        alarm.set(wake, clock).map_err(Failure::run)?;
        let ready = {
            let mut polled = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&alarm, PollFlags::IN)];
            interfaces.polled(&mut polled);
            controllers.polled(&server, &mut polled);
            if let Some((server, controllers)) = &thrift {
                controllers.polled(server, &mut polled);
            }
            polled.extend(events.iter().map(|events| PollFd::new(&events.pipe, PollFlags::IN)));
            wait(&mut polled)?;
            polled.iter().map(PollFd::revents).collect::<Vec<_>>()
        };
        if !ready[0].is_empty() {
            return Ok(());
        }
        if !ready[1].is_empty() {
            alarm.clear();
        }
        let now = clock.now();
        device.set_time(now);
        if now >= next_look {
            interfaces.look_at_carriers(device, now);
            next_look = now + real_time::duration(CARRIERS);
        }
        let (of_interfaces, rest) = ready[2..].split_at(interfaces.len());
        let (of_controllers, of_thrift) = rest.split_at(controllers.len());
        interfaces.receive(of_interfaces, device, now);
        controllers.receive(of_controllers, &mut server);
        if let Some((server, controllers)) = &mut thrift {
            controllers.receive(of_thrift, server);
        }
        if let Some(events) = events
            && ready.last().is_some_and(|ready| !ready.is_empty())
        {
            events.apply(device);
            server.import(device);
        }
        // A request may send packets, and a packet may cause a message to a controller.
        loop {
            let moved = interfaces.send(device, clock.now());
            for text in server.tell_notifications(device, clock.epoch_ns()) {
                eprintln!("{}", text.trim_end());
            }
            if thrift.as_mut().is_some_and(|(thrift, _)| thrift.poll(device, clock.epoch_ns())) {
                server.import(device);
            }
            server.poll(device);
            if !moved && device.next_event().is_none_or(|event| event > clock.now()) {
                break;
            }
        }
        interfaces.flush();
        controllers.transmit(&mut server);
        if let Some((server, controllers)) = &mut thrift {
            controllers.transmit(server);
        }
        // Executed requests free buffer space, so further bytes of controllers are parsed.
        server.poll(device);
    }
}

/// Waits until a descriptor is ready. Under dilated time, the shim intercepts calls with a timeout, which
/// would delay each packet by some microseconds; hence none is passed.
fn wait(polled: &mut [PollFd<'_>]) -> Result<(), Failure> {
    match rustix::event::poll(polled, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Failure::run(format!("waiting for packets: {error}"))),
    }
}

/// Returns a stream that becomes readable at Ctrl-C, SIGTERM and SIGHUP. A second signal ends the process at
/// once.
fn stop_signal() -> Result<UnixStream, Failure> {
    let (mut to, from) = UnixStream::pair().map_err(Failure::run)?;
    let mut stopped = false;
    signals::handle(move || {
        if stopped {
            signals::exit();
        }
        stopped = true;
        // The reader may have been closed already.
        let _ = to.write_all(b".");
    })
    .map_err(Failure::run)?;
    Ok(from)
}
