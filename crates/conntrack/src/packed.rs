//! The attachment of a packet as a number, for packets that carry no other form of it.
//!
//! The lower three bits are the kind, or the relation to the connection; 0 is [`Attached::None`].

use crate::conn::{Attached, ConnKey, CtInfo, CtZone, Template};
use crate::helper::Helper;

const UNTRACKED: u64 = 1;
const TEMPLATE: u64 = 2;
/// First kind with a connection.
const CONN: u64 = 3;
/// Relations by number.
const INFOS: [CtInfo; 5] =
    [CtInfo::Established, CtInfo::Related, CtInfo::New, CtInfo::EstablishedReply, CtInfo::RelatedReply];
/// Bits of a slot: more than a table can have.
const SLOT_BITS: u32 = 29;

impl Attached {
    /// The attachment as a number; 0 for [`Attached::None`].
    pub fn to_bits(self) -> u64 {
        match self {
            Attached::None => 0,
            Attached::Untracked => UNTRACKED,
            Attached::Template(template) => {
                let helper = match template.helper {
                    None => 0,
                    Some(Helper::Ftp) => 1,
                    Some(Helper::Tftp) => 2,
                };
                let events = template.event_mask.map_or(0, |mask| 1 << 16 | u64::from(mask));
                let zone = u64::from(template.zone.id) | u64::from(template.zone.directions) << 16;
                TEMPLATE | zone << 3 | helper << 24 | events << 32
            }
            Attached::Conn { key, info } => {
                let kind = CONN + u64::from(info.number());
                kind | u64::from(key.slot) << 3 | u64::from(key.generation) << (3 + SLOT_BITS)
            }
        }
    }
    /// The attachment of a number from [`to_bits`](Self::to_bits).
    pub fn from_bits(bits: u64) -> Attached {
        match bits & 7 {
            0 => Attached::None,
            UNTRACKED => Attached::Untracked,
            TEMPLATE => Attached::Template(Template {
                zone: CtZone { id: (bits >> 3) as u16, directions: (bits >> 19) as u8 & 3 },
                helper: match bits >> 24 & 3 {
                    1 => Some(Helper::Ftp),
                    2 => Some(Helper::Tftp),
                    _ => None,
                },
                event_mask: (bits >> 48 & 1 != 0).then_some((bits >> 32) as u16),
            }),
            kind => {
                let slot = (bits >> 3) as u32 & ((1 << SLOT_BITS) - 1);
                let key = ConnKey { slot, generation: (bits >> (3 + SLOT_BITS)) as u32 };
                Attached::Conn { key, info: INFOS[(kind - CONN) as usize] }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attachment_survives() {
        let mut all = vec![Attached::None, Attached::Untracked];
        for (helper, event_mask) in
            [(None, None), (Some(Helper::Tftp), Some(0)), (Some(Helper::Ftp), Some(7))]
        {
            let zone = CtZone { id: 0xffff, directions: CtZone::REPLY };
            all.push(Attached::Template(Template { zone, helper, event_mask }));
        }
        for info in INFOS {
            let key = ConnKey { slot: (1 << SLOT_BITS) - 1, generation: u32::MAX };
            all.push(Attached::Conn { key, info });
        }
        for attached in all {
            assert_eq!(Attached::from_bits(attached.to_bits()), attached);
        }
    }
}
