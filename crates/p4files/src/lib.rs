//! Files that configure and test a P4 switch: command files of `simple_switch_CLI` ([`commands`]), the
//! tutorials' runtime JSON ([`runtime`]), and packet tests in STF ([`stf`]).
#![forbid(unsafe_code)]

pub mod commands;
pub mod runtime;
pub mod stf;
pub(crate) mod values;
