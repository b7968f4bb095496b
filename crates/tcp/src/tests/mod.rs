//! Two endpoints and a link between them in virtual time, and single endpoints against hand-made segments.

mod basics;
mod checks;
mod close;
mod faults;
mod flow;
mod garbage;
mod loss;
mod mtu;
mod solo;
mod throughput;
mod tso;
mod util;
