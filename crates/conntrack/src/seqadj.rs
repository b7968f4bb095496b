//! Adjustment of TCP sequence numbers, after a helper has changed the length of a payload
//! (`nf_conntrack_seqadj.c`).

/// Adjustment of one direction: sequence numbers after `position` are shifted by `after`, those before it by
/// `before`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceAdjustment {
    /// Sequence number of the last change, after the shift that was in force then.
    pub position: u32,
    /// Shift in bytes before the position.
    pub before: i32,
    /// Shift in bytes after the position.
    pub after: i32,
}

impl SequenceAdjustment {
    /// Adds a change of `growth` bytes of the payload at sequence number `seq` (`nf_ct_seqadj_set`).
    pub fn add(&mut self, seq: u32, growth: i32) {
        let later = (self.position.wrapping_sub(seq) as i32) < 0;
        if self.before == self.after || later {
            self.position = seq;
            self.before = self.after;
            self.after = self.after.wrapping_add(growth);
        }
    }

    /// Shift of a sequence number as the sender has it.
    pub fn shift(&self, seq: u32) -> i32 {
        if after(seq, self.position) { self.after } else { self.before }
    }

    /// Shift that an acknowledgment includes: that of the sequence numbers that the peer has seen.
    pub fn shift_seen(&self, ack: u32) -> i32 {
        let sent = ack.wrapping_sub(self.before as u32);
        if after(sent, self.position) { self.after } else { self.before }
    }
}

/// True if the sequence number `a` follows `b`.
const fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_after_a_change_are_shifted() {
        let mut adjustment = SequenceAdjustment::default();
        adjustment.add(1000, 5);
        assert_eq!((adjustment.shift(1000), adjustment.shift(1001)), (0, 5));
        adjustment.add(2000, -2);
        assert_eq!((adjustment.shift(1500), adjustment.shift(2001)), (5, 3));
        // An older change that is reported late is ignored.
        adjustment.add(1500, 7);
        assert_eq!(adjustment.shift(2001), 3);
        assert_eq!((adjustment.shift_seen(1505), adjustment.shift_seen(2100)), (5, 3));
    }
}
