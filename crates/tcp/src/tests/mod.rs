//! Two ends and a link between them in virtual time, and single ends against segments made by hand.

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
