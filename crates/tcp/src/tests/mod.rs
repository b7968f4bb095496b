//! Two ends and a link between them in virtual time.

mod util;

mod basics;
mod faults;
mod throughput;
