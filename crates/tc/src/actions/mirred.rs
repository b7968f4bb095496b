//! `mirred`: passes a packet or a copy of it to another interface (`net/sched/act_mirred.c`, tc-mirred(8)).

use super::{Counts, Kind, Making, Outcome, checked, general};
use crate::action::verdict;
use crate::attributes::{Attributes, Out, word, words};
use crate::buffer::{Buffer, Redirection};
use crate::error::{TcError, error, invalid};
use crate::node::Redirected;
use belljar_linux_abi::Errno;
use belljar_net::Packet;

const TM: u16 = 1;
const PARMS: u16 = 2;
/// `TCA_EGRESS_REDIR` to `TCA_INGRESS_MIRROR`.
const EGRESS_REDIRECT: u32 = 1;
const INGRESS_REDIRECT: u32 = 3;
const INGRESS_MIRROR: u32 = 4;

/// Destination of packets.
#[derive(Debug)]
pub(crate) struct Mirred {
    action: i32,
    direction: u32,
    index: u32,
    interface: usize,
}

impl Mirred {
    pub(super) fn new(options: Attributes<'_>, making: Making<'_>) -> Result<Mirred, TcError> {
        let parms = options.array::<28>(PARMS)?;
        let parms = parms.ok_or(invalid("Missing required mirred parameters"))?;
        let (direction, index) = (word(&parms, 20), word(&parms, 24));
        if !(EGRESS_REDIRECT..=INGRESS_MIRROR).contains(&direction) {
            return Err(invalid("Unknown mirred option"));
        }
        let action = checked(word(&parms, 8))?;
        let (index, interface) = match (index, making.former) {
            (0, Some(Kind::Mirred(former))) => (former.index, former.interface),
            (0, _) => return Err(invalid("Specified device does not exist")),
            (index, _) => {
                let found = (making.devices)(index);
                (index, found.ok_or(error(Errno::ENODEV, "Specified device does not exist"))?)
            }
        };
        Ok(Mirred { action, direction, index, interface })
    }
    pub(super) fn execute(&self, buffer: &mut Buffer, (at, is_ingress): (usize, bool)) -> Outcome {
        let moves = [EGRESS_REDIRECT, INGRESS_REDIRECT].contains(&self.direction);
        let ingress = [INGRESS_REDIRECT, INGRESS_MIRROR].contains(&self.direction);
        let leaves = moves && self.action == verdict::STOLEN;
        let mut sent = match leaves {
            true => {
                let packet = std::mem::replace(&mut buffer.packet, Packet::new(Vec::new()));
                Buffer { packet, ..*buffer }
            }
            false => buffer.copy(),
        };
        sent.measure();
        if moves {
            sent.redirection = Some(Redirection { interface: at, ingress: is_ingress });
        }
        let redirected = Some(Redirected { buffer: sent, interface: self.interface, ingress, copy: !leaves });
        Outcome { verdict: self.action, redirected, overlimit: false }
    }
    pub(super) fn dump(&self, counts: Counts, times: &[u8], out: &mut Out) {
        let mut parms = general(counts, self.action);
        parms.extend(words([self.direction, self.index]));
        out.put(PARMS, &parms);
        out.put(TM, times);
    }
}
