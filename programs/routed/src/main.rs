//! `belljar-routed`: routing protocols of `belljar-routing` as a daemon of Linux. It knows sockets, netlink and the real
//! clock, and nothing of Belljar: the same binary runs on a machine, in a network namespace, and on a simulated host.
//!
//! | module | content |
//! |---|---|
//! | `cli` | the command line |
//! | `daemon` | OLSR and AODV: sockets, timers and routes around the protocol |
//! | `bridge` | the bridge: frames between interfaces around the protocol |
//! | `updater` | changing routes, in this process or by one that has the permission to |
//! | `netlink` | interfaces and routes of the kernel |
//! | `control` | the socket by which a daemon shows its state |
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a program has no callers")]

mod bridge;
mod cli;
mod clock;
mod control;
mod daemon;
mod error;
mod netlink;
mod signals;
mod updater;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Olsr(options) => daemon::olsr(&options),
        Command::Aodv(options) => daemon::aodv(&options),
        Command::Bridge(options) => bridge::run(&options),
        Command::Updater(options) => updater::run(&options.socket, options.owner),
        Command::Show(options) => control::show(&options.control, options.json),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error::warn(error);
            ExitCode::FAILURE
        }
    }
}
