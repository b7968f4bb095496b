/// Explicit congestion notification codepoint: the low two bits of the IPv4 TOS byte or the IPv6 traffic
/// class (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ecn {
    /// Not ECN-capable transport.
    #[default]
    NotEct,
    /// ECN-capable transport, codepoint 01; L4S traffic (RFC 9331).
    Ect1,
    /// ECN-capable transport, codepoint 10, as classic TCP sends it.
    Ect0,
    /// Congestion experienced: set by a queue on the path.
    Ce,
}

impl Ecn {
    /// Codepoint in the low two bits of `tos`.
    pub const fn from_tos(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Codepoint as two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        }
    }

    /// True if the transport is ECN-capable: ECT(0), ECT(1) or CE.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}
