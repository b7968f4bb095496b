//! `belljar-routed`: the routing protocols of `belljar-routing` as a Linux daemon. It uses sockets, netlink
//! and the real clock, and does not depend on the simulator: the same binary runs on a machine, in a network
//! namespace, and on a simulated host.
//!
//! | module | content |
//! |---|---|
//! | `cli` | the command line |
//! | `daemon` | OLSR and AODV: sockets, timers and routes around the protocol |
//! | `bridge` | the bridge: frames between interfaces around the protocol |
//! | `updater` | changes of routes, in this process or by a privileged one |
//! | `plane` | data planes: how packets are forwarded |
//! | `settings` | configuration files |
//! | `netlink` | interfaces and routes of the kernel |
//! | `control` | the socket over which a daemon reports its state |
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a program has no callers")]

mod bridge;
mod cli;
mod clock;
mod control;
mod daemon;
mod error;
mod netlink;
mod plane;
mod redirects;
mod settings;
mod signals;
mod tun;
mod updater;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    match carry_out(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error::warn(error);
            ExitCode::FAILURE
        }
    }
}

fn carry_out(command: &Command) -> Result<(), error::Error> {
    match command {
        Command::Olsr(options) => daemon::olsr(options),
        Command::Aodv(options) => daemon::aodv(options),
        Command::Bridge(options) => bridge::run(options),
        Command::Updater(options) => updater::run(options),
        Command::Forward(options) => plane::forward(options),
        Command::Show(options) => control::show(&options.control, options.json),
        Command::Run(options) => {
            let settings = settings::Settings::read(&options.file)?;
            carry_out(&settings.command()?.command).map_err(|error| settings.locate(error))
        }
    }
}
