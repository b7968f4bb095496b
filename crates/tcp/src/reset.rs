use belljar_wire::tcp::{Flags, Repr, Seq};

/// Reset in response to a segment without a connection (RFC 9293, section 3.10.7.1), unless none is due.
/// `payload_len` is the segment's payload length in bytes.
pub fn reset_for(segment: &Repr, payload_len: usize) -> Option<Repr> {
    // "An incoming segment containing a RST is discarded."
    if segment.has(Flags::RST) {
        return None;
    }
    let mut reset =
        Repr { src_port: segment.dst_port, dst_port: segment.src_port, flags: Flags::RST, ..Repr::default() };
    if segment.has(Flags::ACK) {
        // "If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>"
        reset.seq = segment.ack;
    } else {
        // "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>"
        reset.seq = Seq(0);
        reset.ack = segment.seq.wrapping_add(segment.sequence_len(payload_len));
        reset.flags |= Flags::ACK;
    }
    Some(reset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_follow_the_rfc() {
        let syn = Repr { src_port: 1, dst_port: 2, seq: Seq(99), flags: Flags::SYN, ..Repr::default() };
        let reset = reset_for(&syn, 0).unwrap();
        assert_eq!((reset.src_port, reset.dst_port), (2, 1));
        assert_eq!((reset.seq, reset.ack, reset.flags), (Seq(0), Seq(100), Flags::RST | Flags::ACK));

        let data = Repr { seq: Seq(5), ack: Seq(77), flags: Flags::ACK, ..Repr::default() };
        let reset = reset_for(&data, 10).unwrap();
        assert_eq!((reset.seq, reset.flags), (Seq(77), Flags::RST));

        assert_eq!(reset_for(&Repr { flags: Flags::RST, ..Repr::default() }, 0), None);
    }
}
