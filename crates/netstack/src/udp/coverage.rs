//! Checksum coverage of UDP-Lite: RFC 3828, udplite(7).

use super::HEADER_LEN;

/// Checksum coverage options of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// `UDPLITE_SEND_CSCOV`: number of bytes covered in sent segments, header included; 0 for all.
    pub send: Option<u16>,
    /// `UDPLITE_RECV_CSCOV`: minimum number of covered bytes in received segments; 0 requires full coverage.
    pub receive: Option<u16>,
}

impl Coverage {
    /// Converts an option's value as Linux does: the header is always covered, and no datagram exceeds 65,535
    /// bytes.
    pub fn from_option(value: i32) -> u16 {
        match value {
            0 => 0,
            value => value.clamp(HEADER_LEN as i32, i32::from(u16::MAX)) as u16,
        }
    }

    /// The length field of a sent segment of `len` bytes, and the number of bytes that its checksum covers.
    pub fn of_sent(self, len: usize) -> (u16, usize) {
        match self.send {
            Some(0) => (0, len),
            Some(send) if usize::from(send) < len => (send, usize::from(send)),
            _ => (len as u16, len),
        }
    }

    /// True if a socket accepts a segment of `len` bytes of which `covered` are covered.
    pub fn takes(self, covered: usize, len: usize) -> bool {
        self.receive.is_none_or(|least| covered == len || (least != 0 && covered >= usize::from(least)))
    }
}

/// Number of covered bytes of a received UDP-Lite segment of `len` bytes, from its length field, where 0
/// means all (RFC 3828, section 3.1); `None` if the field is not valid.
pub fn covered_bytes(field: u16, len: usize) -> Option<usize> {
    match usize::from(field) {
        0 => Some(len),
        covered => (HEADER_LEN..=len).contains(&covered).then_some(covered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_brought_into_their_range() {
        let taken: Vec<u16> = [0, 1, 7, 8, 20, 70_000, -3].map(Coverage::from_option).to_vec();
        assert_eq!(taken, [0, 8, 8, 8, 20, 65_535, 8]);
    }

    #[test]
    fn field_and_covered_bytes() {
        let with = |send| Coverage { send, receive: None };
        assert_eq!(with(None).of_sent(108), (108, 108));
        assert_eq!(with(Some(0)).of_sent(108), (0, 108));
        assert_eq!(with(Some(20)).of_sent(108), (20, 20));
        assert_eq!(with(Some(108)).of_sent(108), (108, 108));
        assert_eq!(with(Some(500)).of_sent(108), (108, 108));
        let read = [0, 7, 8, 108, 109].map(|field| covered_bytes(field, 108));
        assert_eq!(read, [Some(108), None, Some(8), Some(108), None]);
    }

    #[test]
    fn receivers_refuse_less_than_they_ask_for() {
        let with = |receive| Coverage { send: None, receive };
        assert!(with(None).takes(8, 108));
        assert!(!with(Some(0)).takes(107, 108) && with(Some(0)).takes(108, 108));
        assert!(!with(Some(20)).takes(19, 108) && with(Some(20)).takes(20, 108));
        assert!(with(Some(200)).takes(108, 108));
    }
}
