/// Parameters of a CRC of 8, 16, 32 or 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParameters {
    /// Width in bits.
    pub width: u32,
    /// Polynomial, without its leading term.
    pub polynomial: u64,
    /// Initial register value.
    pub initial: u64,
    /// Final XOR value.
    pub xor_out: u64,
    /// True if the CRC processes each byte with its least significant bit first.
    pub reflect_in: bool,
    /// True if the CRC reverses the register bits before the final XOR.
    pub reflect_out: bool,
}

/// CRC algorithms with fixed parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixed {
    Crc8,
    Crc16,
    Crc32,
    Crc64,
    Ccitt,
}

impl Fixed {
    pub fn parameters(self) -> CrcParameters {
        match self {
            Fixed::Crc8 => custom(8),
            Fixed::Crc16 => custom(16),
            Fixed::Crc32 => custom(32),
            Fixed::Crc64 => custom(64),
            Fixed::Ccitt => CrcParameters {
                width: 16,
                polynomial: 0x1021,
                initial: 0xffff,
                xor_out: 0,
                reflect_in: false,
                reflect_out: false,
            },
        }
    }
}

/// Default parameters of a custom CRC.
pub(crate) fn custom(width: u32) -> CrcParameters {
    let (polynomial, ones, reflect) = match width {
        8 => (0x07, 0, false),
        16 => (0x8005, 0, true),
        32 => (0x04c1_1db7, 0xffff_ffff, true),
        _ => (0x1b, 0, true),
    };
    CrcParameters {
        width,
        polynomial,
        initial: ones,
        xor_out: ones,
        reflect_in: reflect,
        reflect_out: reflect,
    }
}

/// CRC with its lookup table.
#[derive(Clone, Debug)]
pub(crate) struct Crc {
    parameters: CrcParameters,
    table: Box<[u64; 256]>,
}

impl Crc {
    pub fn new(parameters: CrcParameters) -> Crc {
        let width = parameters.width.clamp(8, 64);
        let top = 1u64 << (width - 1);
        let mut table = Box::new([0; 256]);
        for (byte, entry) in table.iter_mut().enumerate() {
            let mut register = (byte as u64) << (width - 8);
            for _ in 0..8 {
                register =
                    if register & top != 0 { register << 1 ^ parameters.polynomial } else { register << 1 };
            }
            *entry = register & mask(width);
        }
        Crc { parameters: CrcParameters { width, ..parameters }, table }
    }

    pub fn of(&self, bytes: &[u8]) -> u64 {
        let CrcParameters { width, initial, xor_out, reflect_in, reflect_out, .. } = self.parameters;
        let mut register = initial & mask(width);
        for byte in bytes {
            let byte = if reflect_in { byte.reverse_bits() } else { *byte };
            let index = (register >> (width - 8)) as u8 ^ byte;
            register = (register << 8 ^ self.table[usize::from(index)]) & mask(width);
        }
        if reflect_out {
            register = register.reverse_bits() >> (64 - width);
        }
        (register ^ xor_out) & mask(width)
    }
}

fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}
