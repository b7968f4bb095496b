//! Files that set up a switch, as users have them: command text of `simple_switch_CLI`, and the tutorials' runtime JSON.

pub mod commands;
pub mod runtime;
pub(crate) mod values;
