//! Queueing disciplines by kind.

pub(crate) mod bands;
mod class_table;
mod codel;
mod deficit;
mod ets;
mod fair;
mod fifo;
mod fq_codel;
mod htb;
mod htb_tree;
mod ingress;
mod netem;
mod netem_loss;
mod one_class;
mod prio;
mod prng;
mod red;
mod round;
mod tbf;

use crate::attributes::Attributes;
use crate::error::{TcError, error};
use crate::node::{Discipline, Node, Setup};
use belljar_linux_abi::Errno;
pub(crate) use fifo::Fifo;
pub(crate) use ingress::{MIN_EGRESS, MIN_INGRESS};

/// Creates a discipline of a kind; `None` if there is no such kind.
pub(crate) fn make(
    kind: &[u8],
    options: Option<Attributes<'_>>,
    setup: &mut Setup<'_>,
) -> Option<Result<Box<dyn Discipline>, TcError>> {
    fn boxed<D: Discipline + 'static>(made: Result<D, TcError>) -> Result<Box<dyn Discipline>, TcError> {
        made.map(|made| Box::new(made) as Box<dyn Discipline>)
    }
    Some(match kind {
        b"noqueue" => boxed(fifo::NoQueue::new(options)),
        b"pfifo" | b"bfifo" | b"pfifo_head_drop" => boxed(Fifo::new(kind, options, setup)),
        b"pfifo_fast" => boxed(bands::Bands::new(setup)),
        b"prio" => boxed(prio::Prio::new(options, setup)),
        b"tbf" => boxed(tbf::Tbf::new(options, setup)),
        b"netem" => boxed(netem::Netem::new(options, setup)),
        b"htb" => boxed(htb::Htb::new(options, setup)),
        b"codel" => boxed(codel::Codel::new(options, setup)),
        b"fq_codel" => boxed(fq_codel::FqCodel::new(options, setup)),
        b"red" => boxed(red::Red::new(options, setup)),
        b"sfq" => boxed(fair::Sfq::new(options, setup)),
        b"drr" => boxed(deficit::Drr::new(options, setup)),
        b"ets" => boxed(ets::Ets::new(options, setup)),
        b"ingress" => boxed(ingress::Ingress::new(false, setup)),
        b"clsact" => boxed(ingress::Ingress::new(true, setup)),
        _ => return None,
    })
}

/// Error of a kind that does not exist.
pub(crate) const UNKNOWN_KIND: TcError = error(Errno::ENOENT, "Specified qdisc kind is unknown");

/// Default discipline below a class: a `pfifo` as long as the interface's queue.
pub(crate) fn default_child(parent: u32, setup: &Setup<'_>) -> Node {
    Node::hidden(parent, Box::new(Fifo::packets(setup.device.queue_len)))
}
