//! `belljar channel-proxy`.

use crate::failure::Failure;
use belljar_cosim::{Address, Net, Parameters, Setup, SyncMode, establish, proxy};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Carries channels of simulators to another machine, where a second proxy stands. Simulated time does not
/// change on the way: each message keeps its stamp. An address is that of a simulator's peer: where the simulator connects,
/// the proxy listens.
#[derive(clap::Args)]
#[command(
    after_help = "Example, for a simulator 'switch' on machine A and a NIC on machine B:\n  A: belljar channel-proxy --listen 0.0.0.0:9000 listen:switch.sock:switch.shm:sync=true\n  B: belljar channel-proxy --connect a.example:9000 connect:nic.sock:sync=true"
)]
pub struct Arguments {
    /// Wait for the other proxy here
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        required_unless_present = "connect",
        conflicts_with = "connect"
    )]
    listen: Option<String>,
    /// The other proxy, which listens
    #[arg(long, value_name = "ADDRESS:PORT")]
    connect: Option<String>,
    /// Seconds to wait for the simulators and for the other proxy
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// The channels' adapter URLs, in the same order as the other proxy's
    #[arg(required = true)]
    channels: Vec<Address>,
}

/// Interval between attempts to connect to the other proxy.
const LOOK: Duration = Duration::from_millis(20);

/// Runs until the simulators of one side have disconnected.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.channels.len() > usize::from(u8::MAX) {
        return Err(Failure::usage("a proxy carries up to 255 channels"));
    }
    let setup = |address: &Address| {
        let name = address.socket.display().to_string();
        let usual = Parameters::new::<Net>(&name, address.role, &address.socket);
        let sync = if address.sync { SyncMode::Required } else { SyncMode::Off };
        Setup::<Net>::new(Parameters { sync, ..usual })
    };
    // Listening channels have their sockets before the proxy waits for anything.
    let setups = arguments.channels.iter().map(setup).collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    let stream = meet(arguments)?;
    let patience = Duration::from_secs(arguments.patience);
    let channels =
        establish::<Net, belljar_cosim::Error>(setups, patience, || Ok(())).map_err(Failure::run)?;
    proxy::run(channels, stream).map_err(Failure::run)?;
    Ok(ExitCode::SUCCESS)
}

/// Connects to the other proxy, or accepts its connection.
fn meet(arguments: &Arguments) -> Result<TcpStream, Failure> {
    let mut looks = Duration::from_secs(arguments.patience).as_millis() / LOOK.as_millis();
    let listener = match &arguments.listen {
        Some(at) => {
            let failed = |error| Failure::run(format!("{at}: {error}"));
            let listener = TcpListener::bind(at).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            // With port 0 the system chooses the port, which the user must pass to the other proxy.
            println!("{}", listener.local_addr().map_err(failed)?);
            Some(listener)
        }
        None => None,
    };
    let other = arguments.connect.as_deref().unwrap_or_default();
    loop {
        let met = match &listener {
            Some(listener) => listener.accept().map(|(stream, _)| stream),
            None => TcpStream::connect(other),
        };
        match met {
            Ok(stream) => {
                stream.set_nonblocking(false).map_err(Failure::run)?;
                // The other proxy establishes its channels before it sends its hello.
                let patience = Duration::from_secs(arguments.patience.saturating_mul(2).clamp(1, 86_400));
                stream.set_read_timeout(Some(patience)).map_err(Failure::run)?;
                return Ok(stream);
            }
            Err(error) if looks == 0 => {
                let what = arguments.listen.as_deref().unwrap_or(other);
                return Err(Failure::run(format!(
                    "{what}: no other proxy within {} s ({error})",
                    arguments.patience
                )));
            }
            Err(_) => looks -= 1,
        }
        std::thread::sleep(LOOK);
    }
}
