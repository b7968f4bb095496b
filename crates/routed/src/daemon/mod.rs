//! Daemon of a protocol over IPv4: sockets, routes and timers around its state machine.

mod data_plane;
mod interfaces;
mod run;
mod socket;
mod status;

use crate::cli;
use crate::error::{Error, warn};
use belljar_base::Seed;
use belljar_routing::aodv::{self, Aodv};
use belljar_routing::olsr::{self, Olsr};
use interfaces::Interfaces;
use run::{Daemon, Settings};
pub use socket::bind_port;
use std::io::Read;

/// Route protocol numbers (`rtm_protocol`), by which each protocol recognises its own routes. No other
/// program uses numbers near them.
const OLSR_ROUTES: u8 = 150;
const AODV_ROUTES: u8 = 151;
/// UDP ports of the protocols.
pub const PROTOCOL_PORTS: [u16; 2] = [olsr::PORT, aodv::PORT];

/// The given random seed, or one from the machine.
pub fn seed(given: Option<u64>) -> Seed {
    let mut bytes = [0; 8];
    let drawn = given
        .is_none()
        .then(|| std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)));
    if let Some(Err(error)) = drawn {
        warn(format_args!(
            "/dev/urandom cannot be read ({error}): the random delays are the same in each run"
        ));
    }
    Seed(given.unwrap_or(u64::from_le_bytes(bytes)))
}

/// `belljar-routed olsr`.
pub fn olsr(options: &cli::Olsr) -> Result<(), Error> {
    let interfaces = Interfaces::find(&options.network.common.interfaces)?;
    let main_address = interfaces.main_address(options.network.main_address)?;
    let config = olsr::Config {
        willingness: options.willingness,
        tc_redundancy: options.tc_redundancy,
        hysteresis: options.hysteresis.then(Default::default),
        triggered: !options.no_triggered,
        networks: options.hna.clone(),
        ..olsr::Config::new(main_address, seed(options.network.common.seed))
            .with_hello_interval(options.hello_interval)
            .with_tc_interval(options.tc_interval)
    };
    let settings = Settings {
        network: &options.network,
        port: options.network.port.unwrap_or(olsr::PORT),
        routes: OLSR_ROUTES,
        source: None,
        tun: None,
        mesh: false,
    };
    Daemon::start(settings, interfaces, |_| Olsr::new(config))?.run()
}

/// `belljar-routed aodv`.
pub fn aodv(options: &cli::Aodv) -> Result<(), Error> {
    let interfaces = Interfaces::find(&options.network.common.interfaces)?;
    let main_address = interfaces.main_address(options.network.main_address)?;
    let config = aodv::Config {
        hello_interval: Some(options.hello_interval).filter(|interval| !interval.is_zero()),
        active_route_timeout: options.active_route_timeout,
        node_traversal_time: options.node_traversal_time,
        net_diameter: options.net_diameter.max(1),
        acknowledge: options.rrep_ack,
        local_repair: options.local_repair,
        after_reboot: options.after_reboot,
        ..aodv::Config::new(main_address, seed(options.network.common.seed))
    };
    let settings = Settings {
        network: &options.network,
        port: options.network.port.unwrap_or(aodv::PORT),
        routes: AODV_ROUTES,
        source: Some(main_address),
        tun: Some(options.tun.as_str()),
        mesh: options.mesh,
    };
    Daemon::start(settings, interfaces, |now| Aodv::new(now, config))?.run()
}
