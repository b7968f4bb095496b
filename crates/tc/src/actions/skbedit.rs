//! `skbedit`: changes the priority or the mark of a packet (`net/sched/act_skbedit.c`, tc-skbedit(8)).

use super::{Counts, checked, general};
use crate::attributes::{Attributes, Out, word};
use crate::buffer::Buffer;
use crate::error::TcError;
use belljar_linux_abi::Errno;

const TM: u16 = 1;
const PARMS: u16 = 2;
const PRIORITY: u16 = 3;
const QUEUE_MAPPING: u16 = 4;
const MARK: u16 = 5;
const PTYPE: u16 = 7;
const MASK: u16 = 8;
const FLAGS: u16 = 9;
/// `SKBEDIT_F_INHERITDSFIELD`: the priority is that of the DS field.
const INHERIT: u64 = 0x20;

/// New values.
#[derive(Debug)]
pub(crate) struct Skbedit {
    action: i32,
    priority: Option<u32>,
    mark: Option<u32>,
    mask: Option<u32>,
    inherit: bool,
}

impl Skbedit {
    pub(super) fn new(options: Attributes<'_>) -> Result<Skbedit, TcError> {
        let parms = options.array::<20>(PARMS)?.ok_or(Errno::EINVAL)?;
        let inherit = options.u64(FLAGS)?.is_some_and(|flags| flags & INHERIT != 0);
        let (priority, mark) = (options.u32(PRIORITY)?, options.u32(MARK)?);
        // Interfaces have one queue, and packets no type to be changed.
        if options.get(QUEUE_MAPPING).is_some() || options.get(PTYPE).is_some() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if priority.is_none() && mark.is_none() && !inherit {
            return Err(Errno::EINVAL.into());
        }
        Ok(Skbedit { action: checked(word(&parms, 8))?, priority, mark, mask: options.u32(MASK)?, inherit })
    }
    pub(super) fn execute(&self, buffer: &mut Buffer) -> i32 {
        if let Some(priority) = self.priority {
            buffer.priority = priority;
        }
        if self.inherit {
            buffer.priority = buffer.traffic_class().map_or(0, |class| u32::from(class >> 2));
        }
        if let Some(mark) = self.mark {
            let mask = self.mask.unwrap_or(u32::MAX);
            buffer.packet.set_mark(buffer.packet.mark() & !mask | mark & mask);
        }
        self.action
    }
    pub(super) fn dump(&self, counts: Counts, times: &[u8], out: &mut Out) {
        out.put(PARMS, &general(counts, self.action));
        if let Some(priority) = self.priority {
            out.u32(PRIORITY, priority);
        }
        if let Some(mark) = self.mark {
            out.u32(MARK, mark);
        }
        if let Some(mask) = self.mask {
            out.u32(MASK, mask);
        }
        if self.inherit {
            out.u64(FLAGS, INHERIT);
        }
        out.put(TM, times);
    }
}
