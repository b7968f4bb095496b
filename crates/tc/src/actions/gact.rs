//! `gact`: a verdict, or another one at random or for every n-th packet (`net/sched/act_gact.c`).

use super::{Counts, Making, checked, general};
use crate::attributes::{Attributes, Out, half, word};
use crate::error::{TcError, invalid};
use belljar_base::Stream;
use belljar_linux_abi::Errno;

const TM: u16 = 1;
const PARMS: u16 = 2;
const PROB: u16 = 3;
/// `PGACT_NETRAND` and `PGACT_DETERM`.
const RANDOM: u16 = 1;
const EVERY: u16 = 2;

/// Verdict with an alternative.
#[derive(Debug)]
pub(crate) struct Gact {
    action: i32,
    /// Type of the alternative, its value and its verdict.
    other: Option<(u16, u16, i32)>,
    packets: u32,
    stream: Stream,
}

impl Gact {
    pub(super) fn new(options: Attributes<'_>, making: Making<'_>) -> Result<Gact, TcError> {
        let parms = options.array::<20>(PARMS)?.ok_or(Errno::EINVAL)?;
        let mut other = None;
        if let Some(prob) = options.array::<8>(PROB)? {
            let (kind, value, action) = (half(&prob, 0), half(&prob, 2), word(&prob, 4) as i32);
            if kind > EVERY {
                return Err(Errno::EINVAL.into());
            }
            if action & !crate::action::verdict::OPERAND == crate::action::verdict::GOTO_CHAIN {
                return Err(invalid("goto chain not allowed on fallback"));
            }
            other = Some((kind, value.max(1), action)).filter(|_| kind != 0);
        }
        Ok(Gact { action: checked(word(&parms, 8))?, other, packets: 0, stream: making.stream })
    }
    pub(super) fn execute(&mut self) -> i32 {
        self.packets = self.packets.wrapping_add(1);
        match self.other {
            Some((RANDOM, value, other)) if self.stream.below(u64::from(value)) == 0 => other,
            Some((EVERY, value, other)) if self.packets.is_multiple_of(u32::from(value)) => other,
            _ => self.action,
        }
    }
    pub(super) fn dump(&self, counts: Counts, times: &[u8], out: &mut Out) {
        out.put(PARMS, &general(counts, self.action));
        if let Some((kind, value, action)) = self.other {
            let mut prob = kind.to_ne_bytes().to_vec();
            prob.extend(value.to_ne_bytes());
            prob.extend(action.to_ne_bytes());
            out.put(PROB, &prob);
        }
        out.put(TM, times);
    }
}
