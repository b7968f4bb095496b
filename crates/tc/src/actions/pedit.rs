//! `pedit`: changes bytes of a packet (`net/sched/act_pedit.c`, tc-pedit(8)).

use super::{Counts, checked, general};
use crate::attributes::{Attributes, Out, word, words};
use crate::buffer::Buffer;
use crate::error::{TcError, error, invalid};
use belljar_linux_abi::Errno;

const TM: u16 = 1;
const PARMS: u16 = 2;
const PARMS_EX: u16 = 4;
const KEYS_EX: u16 = 5;
const HTYPE: u16 = 1;
const CMD: u16 = 2;
/// Lengths of `struct tc_pedit_sel` without keys and of `struct tc_pedit_key` in bytes.
const SEL: usize = 24;
const KEY: usize = 24;
/// `TCA_PEDIT_KEY_EX_HDR_TYPE_*`: the header to which an offset is relative.
const ETHERNET: u16 = 1;
const TCP: u16 = 4;
const UDP: u16 = 5;

/// Change of a word.
#[derive(Clone, Copy, Debug)]
struct Key {
    fields: [u32; 6],
    header: u16,
    /// True if the value is added, false if it is set.
    adds: bool,
}

/// Changes of words.
#[derive(Debug)]
pub(crate) struct Pedit {
    action: i32,
    flags: u8,
    keys: Vec<Key>,
    extended: bool,
}

impl Pedit {
    pub(super) fn new(options: Attributes<'_>) -> Result<Pedit, TcError> {
        let (parms, extended) = match (options.get(PARMS), options.get(PARMS_EX)) {
            (_, Some(parms)) => (parms, true),
            (Some(parms), _) => (parms, false),
            _ => return Err(invalid("Missing required pedit parameters")),
        };
        if parms.len() < SEL {
            return Err(Errno::EINVAL.into());
        }
        let (count, flags) = (usize::from(parms[20]), parms[21]);
        if count == 0 {
            return Err(invalid("Pedit requires keys to be passed"));
        }
        let given = parms.get(SEL..SEL + count * KEY);
        let given = given.ok_or(invalid("Length of the pedit keys is too short"))?;
        let mut keys: Vec<Key> = given
            .chunks_exact(KEY)
            .map(|key| Key { fields: std::array::from_fn(|n| word(key, n * 4)), header: 0, adds: false })
            .collect();
        if extended && let Some(list) = options.nested(KEYS_EX) {
            for (key, (_, value)) in keys.iter_mut().zip(list.iter()) {
                let value = Attributes(value);
                key.header = value.u16(HTYPE)?.ok_or(Errno::EINVAL)?;
                key.adds = value.u16(CMD)?.ok_or(Errno::EINVAL)? != 0;
                if key.header > UDP {
                    return Err(Errno::EINVAL.into());
                }
            }
        }
        if keys.iter().any(|key| key.fields[4] != 0 || key.fields[2] % 4 != 0) {
            return Err(error(Errno::EOPNOTSUPP, "offsets must be fixed and on 32 bit boundaries"));
        }
        Ok(Pedit { action: checked(word(parms, 8))?, flags, keys, extended })
    }
    pub(super) fn execute(&self, buffer: &mut Buffer) -> i32 {
        let network = buffer.network_offset();
        let transport = buffer.transport_offset().map(|at| network + at);
        for key in &self.keys {
            let [mask, value, offset, ..] = key.fields;
            let base = match key.header {
                ETHERNET if buffer.framed => Some(0),
                ETHERNET => None,
                TCP | UDP => transport,
                _ => Some(network),
            };
            let at = base.and_then(|base| base.checked_add_signed(offset as i32 as isize));
            let bytes = buffer.packet.bytes_mut();
            let Some(field) = at.and_then(|at| bytes.get_mut(at..at + 4)) else { continue };
            let former = u32::from_ne_bytes([field[0], field[1], field[2], field[3]]);
            let value = if key.adds { former.wrapping_add(value) & !mask } else { value };
            field.copy_from_slice(&(former & mask ^ value).to_ne_bytes());
        }
        self.action
    }
    pub(super) fn dump(&self, counts: Counts, times: &[u8], out: &mut Out) {
        let mut parms = general(counts, self.action);
        parms.extend([self.keys.len() as u8, self.flags, 0, 0]);
        parms.extend(self.keys.iter().flat_map(|key| words(key.fields)));
        if self.extended {
            out.nest(KEYS_EX, |out| {
                for key in &self.keys {
                    out.nest(6, |out| {
                        out.u16(HTYPE, key.header);
                        out.u16(CMD, u16::from(key.adds));
                    });
                }
            });
            out.put(PARMS_EX, &parms);
        } else {
            out.put(PARMS, &parms);
        }
        out.put(TM, times);
    }
}
