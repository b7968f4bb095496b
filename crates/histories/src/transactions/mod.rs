//! Transactions: histories judged by Adya's anomalies, as Elle does (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from
//! Experimental Observations", 2020).
//!
//! Each write of a key has a value of its own, so a read identifies the transaction that wrote its value. From the reads follows, in part, the order of each
//! key's versions, and from both follow dependencies between transactions: `ww` (overwrites a version of), `wr` (reads a version of) and `rw` (a version that it read
//! is overwritten by). The order of each process and of real time are further edges. A cycle is an anomaly, and its edges say which one. Only what is certain
//! becomes an edge: an anomaly that is reported is there, whatever order the database chose.

mod anomaly;
mod check;
mod cycles;
mod explain;
mod graph;
mod observed;
mod parse;
mod pattern;
mod reads;
#[cfg(test)]
mod tests;
mod versions;

pub use anomaly::{Anomaly, Level};
pub use check::check_transactions;
pub use parse::Kind;
