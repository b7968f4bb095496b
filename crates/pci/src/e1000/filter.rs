//! Receive filters: exact addresses, multicast table, VLAN table.

use super::registers::{ADDRESSES, bits, reg};

/// True if a frame passes the filters in the registers read by `get`.
pub fn accepts(frame: &[u8], get: impl Fn(u64) -> u32) -> bool {
    let Some(to) = frame.first_chunk::<6>() else { return false };
    accepts_address(*to, &get) && accepts_vlan(frame, &get)
}

fn accepts_address(to: [u8; 6], get: &impl Fn(u64) -> u32) -> bool {
    let rctl = get(reg::RCTL);
    let is_multicast = to[0] & 1 != 0;
    if to == [0xff; 6] && rctl & bits::BROADCAST != 0 {
        return true;
    }
    if rctl & if is_multicast { bits::MULTICAST_ALL } else { bits::UNICAST_ALL } != 0 {
        return true;
    }
    // Bits 16 and 17 would select matching of the source address.
    let is_own = |pair: u64| {
        let (low, high) = (get(reg::RAL + 8 * pair).to_le_bytes(), get(reg::RAH + 8 * pair));
        let address = [low[0], low[1], low[2], low[3], high as u8, (high >> 8) as u8];
        high & (bits::ADDRESS_VALID | 3 << 16) == bits::ADDRESS_VALID && address == to
    };
    (0..ADDRESSES).any(is_own) || (is_multicast && is_in_table(to, rctl, get))
}

/// Lookup in the multicast table by twelve bits of the address, selected by RCTL.
fn is_in_table(to: [u8; 6], rctl: u32, get: &impl Fn(u64) -> u32) -> bool {
    let upper = u32::from(to[4]) | u32::from(to[5]) << 8;
    let shift = [4, 3, 2, 0][(rctl >> 12 & 3) as usize];
    let hash = upper >> shift & 0xfff;
    get(reg::MTA.start + 4 * u64::from(hash >> 5)) >> (hash & 31) & 1 != 0
}

fn accepts_vlan(frame: &[u8], get: &impl Fn(u64) -> u32) -> bool {
    let rctl = get(reg::RCTL);
    let Some(tag) = vlan_tag(frame, get(reg::VET)).filter(|_| rctl & bits::VLAN_FILTER != 0) else {
        return true;
    };
    let id = u64::from(tag & 0xfff);
    let is_listed = get(reg::VFTA.start + 4 * (id >> 5)) >> (id & 31) & 1 != 0;
    let has_cfi = tag & 0x1000 != 0;
    is_listed && (rctl & bits::CFI_FILTER == 0 || has_cfi == (rctl & bits::CFI != 0))
}

/// VLAN tag of a frame, if its Ethernet type is `vet`.
pub fn vlan_tag(frame: &[u8], vet: u32) -> Option<u16> {
    let tag = frame.get(12..16)?;
    (u32::from(u16::from_be_bytes([tag[0], tag[1]])) == vet & 0xffff)
        .then(|| u16::from_be_bytes([tag[2], tag[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Map;

    fn frame(to: [u8; 6], vlan: Option<u16>) -> Vec<u8> {
        let tag = vlan.map(|tag| [&[0x81, 0][..], &tag.to_be_bytes()].concat()).unwrap_or_default();
        [&to[..], &[2, 0, 0, 0, 0, 7], &tag, &[8, 0], &[0; 46]].concat()
    }

    #[test]
    fn addresses_pass_by_what_registers_say() {
        let passes = |to, registers: &[(u64, u32)]| {
            let registers: Map<u64, u32> = registers.iter().copied().collect();
            accepts(&frame(to, None), |register| registers.get(&register).copied().unwrap_or(0))
        };
        let (own, group) = ([2, 0, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0x12, 0x34]);
        // The fifth register pair works as the first does.
        let pair = [(reg::RAL + 32, 2), (reg::RAH + 32, 0x8000_0100)];
        assert!(passes(own, &pair) && !passes([2, 0, 0, 0, 0, 2], &pair));
        assert!(!passes(own, &[(reg::RAL, 2), (reg::RAH, 0x0000_0100)]));
        assert!(
            passes(own, &[(reg::RCTL, bits::UNICAST_ALL)])
                && !passes(group, &[(reg::RCTL, bits::UNICAST_ALL)])
        );
        assert!(passes(group, &[(reg::RCTL, bits::MULTICAST_ALL)]));
        assert!(passes([0xff; 6], &[(reg::RCTL, bits::BROADCAST)]) && !passes([0xff; 6], &[]));
        // 0x3412 by twelve of its bits, starting at the fifth, fourth, third and first bit.
        for (offset, hash) in [(0, 0x341), (1, 0x682), (2, 0xd04), (3, 0x412)] {
            let table = (reg::MTA.start + 4 * (hash >> 5), 1 << (hash & 31));
            assert!(passes(group, &[table, (reg::RCTL, offset << 12)]), "{offset}");
            assert!(!passes(group, &[table, (reg::RCTL, ((offset + 1) % 4) << 12)]), "{offset}");
        }
    }

    #[test]
    fn vlans_pass_by_their_table() {
        let passes = |vlan, rctl| {
            let registers: Map<u64, u32> = [
                (reg::RCTL, bits::UNICAST_ALL | rctl),
                (reg::VET, 0x8100),
                (reg::VFTA.start + 4 * (100 >> 5), 1 << (100 & 31)),
            ]
            .into();
            accepts(&frame([2; 6], vlan), |register| registers.get(&register).copied().unwrap_or(0))
        };
        let filter = bits::VLAN_FILTER;
        assert!(passes(Some(100), filter) && passes(Some(0xe064), filter) && passes(None, filter));
        assert!(!passes(Some(101), filter) && passes(Some(101), 0));
        let cfi = filter | bits::CFI_FILTER;
        assert!(
            passes(Some(100), cfi) && !passes(Some(0x1064), cfi) && passes(Some(0x1064), cfi | bits::CFI)
        );
    }
}
