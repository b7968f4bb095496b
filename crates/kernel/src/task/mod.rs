//! Processes and threads: creation, end, waiting, groups and sessions.

mod create;
