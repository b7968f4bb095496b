//! `vlan`: adds, changes or removes the VLAN tag of a frame (`net/sched/act_vlan.c`, tc-vlan(8)).

use super::{Counts, checked, general};
use crate::action::verdict;
use crate::attributes::{Attributes, Out, word};
use crate::buffer::Buffer;
use crate::error::{TcError, error};
use belljar_linux_abi::Errno;

const TM: u16 = 1;
const PARMS: u16 = 2;
const PUSH_ID: u16 = 3;
const PUSH_PROTOCOL: u16 = 4;
const PUSH_PRIORITY: u16 = 6;
/// `TCA_VLAN_ACT_POP` to `TCA_VLAN_ACT_MODIFY`.
const POP: u32 = 1;
const PUSH: u32 = 2;
const MODIFY: u32 = 3;
/// EtherType of a tag.
const TAGGED: u16 = 0x8100;

/// Change of a tag.
#[derive(Debug)]
pub(crate) struct Vlan {
    action: i32,
    change: u32,
    id: u16,
    priority: Option<u8>,
}

impl Vlan {
    pub(super) fn new(options: Attributes<'_>) -> Result<Vlan, TcError> {
        let parms = options.array::<24>(PARMS)?.ok_or(Errno::EINVAL)?;
        let change = word(&parms, 20);
        let id = options.u16(PUSH_ID)?;
        match change {
            POP => {}
            PUSH | MODIFY => {
                let id = id.ok_or(Errno::EINVAL)?;
                if id >= 0xfff {
                    return Err(Errno::ERANGE.into());
                }
                if options.be16(PUSH_PROTOCOL)?.is_some_and(|protocol| protocol != TAGGED) {
                    return Err(error(Errno::EPROTONOSUPPORT, "only 802.1Q tags are supported"));
                }
            }
            _ => return Err(Errno::EINVAL.into()),
        }
        let priority = options.u8(PUSH_PRIORITY)?;
        Ok(Vlan { action: checked(word(&parms, 8))?, change, id: id.unwrap_or(0), priority })
    }
    pub(super) fn execute(&self, buffer: &mut Buffer) -> i32 {
        if !buffer.framed {
            return verdict::SHOT;
        }
        let tag = buffer.vlan();
        let former = buffer.packet.checksum();
        match (self.change, tag) {
            (POP, None) | (MODIFY, None) => return self.action,
            (POP, Some(_)) => {
                buffer.packet.buffer_mut().drain(12..16);
                buffer.len -= 4;
            }
            (MODIFY, Some(tag)) => {
                let priority = self.priority.map_or(tag & 0xe000, |priority| u16::from(priority) << 13);
                let [a, b] = (priority | tag & 0x1000 | self.id).to_be_bytes();
                if let Some(field) = buffer.packet.bytes_mut().get_mut(14..16) {
                    field.copy_from_slice(&[a, b]);
                }
            }
            _ => {
                let [a, b] = TAGGED.to_be_bytes();
                let [c, d] = (u16::from(self.priority.unwrap_or(0)) << 13 | self.id).to_be_bytes();
                buffer.packet.buffer_mut().splice(12..12, [a, b, c, d]);
                buffer.len += 4;
            }
        }
        buffer.packet.restore_checksum(former);
        self.action
    }
    pub(super) fn dump(&self, counts: Counts, times: &[u8], out: &mut Out) {
        let mut parms = general(counts, self.action);
        parms.extend(self.change.to_ne_bytes());
        out.put(PARMS, &parms);
        if self.change != POP {
            out.u16(PUSH_ID, self.id);
            out.put(PUSH_PROTOCOL, &TAGGED.to_be_bytes());
            if self.change == PUSH || self.priority.is_some() {
                out.u8(PUSH_PRIORITY, self.priority.unwrap_or(0));
            }
        }
        out.put(TM, times);
    }
}
