//! EEPROM of the controller: 64 words behind a Microwire port, bit-banged by drivers in register EECD.

/// Number of words.
const WORDS: u8 = 64;
/// Bits of a word address.
const ADDRESS_BITS: u32 = 6;
/// Sum of all words.
const SUM: u16 = 0xbaba;
/// Opcode of a read, after the start bit.
const READ: u16 = 0b10;

/// Bits of EECD.
mod wire {
    pub const CLOCK: u32 = 1;
    pub const SELECT: u32 = 1 << 1;
    pub const IN: u32 = 1 << 2;
    pub const OUT: u32 = 1 << 3;
    /// Request bit; access is always granted.
    pub const REQUEST: u32 = 1 << 6;
    pub const GRANT: u32 = 1 << 7;
    pub const PRESENT: u32 = 1 << 8;
    /// Writable bits, including the write enable of a flash memory.
    pub const WRITABLE: u32 = 0x77;
}

/// State of the Microwire port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// Waiting for the start bit.
    Idle,
    /// Receiving opcode and address; `bits` have arrived.
    Command { bits: u32, value: u16 },
    /// Shifting out a word; `left` bits remain.
    Reading { address: u8, word: u16, left: u32 },
    /// Ignoring another instruction: writes are not supported.
    Other,
}

/// EEPROM, read-only: write instructions are ready at once and do nothing.
#[derive(Clone, Debug)]
pub struct Eeprom {
    mac: [u8; 6],
    wires: u32,
    port: Port,
    out: bool,
}

impl Eeprom {
    /// Creates an EEPROM that contains a hardware address.
    pub fn new(mac: [u8; 6]) -> Eeprom {
        Eeprom { mac, wires: 0, port: Port::Idle, out: true }
    }

    /// Hardware address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Word at an address.
    pub fn word(&self, address: u8) -> u16 {
        let content = |address: u8| match address {
            0..=2 => {
                let at = 2 * usize::from(address);
                u16::from_le_bytes([self.mac[at], self.mac[at + 1]])
            }
            // Initialization control 1: the signature; the identifiers are loaded from the EEPROM.
            0x0a => 0x4003,
            // Subsystem: the PRO/1000 MT desktop adapter.
            0x0b => 0x001e,
            0x0c | 0x0e => super::VENDOR,
            0x0d => super::DEVICES[0],
            // Initialization control 2, at 0x0f, is 0: no flow control, no wake-up.
            _ => 0,
        };
        match address {
            0x3f => (0..0x3f).fold(SUM, |sum, address| sum.wrapping_sub(content(address))),
            _ => content(address),
        }
    }

    /// Value of EECD.
    pub fn control(&self) -> u32 {
        let out = if self.out { wire::OUT } else { 0 };
        let grant = if self.wires & wire::REQUEST != 0 { wire::GRANT } else { 0 };
        self.wires | out | grant | wire::PRESENT
    }

    /// Write of EECD, which drives the wires.
    pub fn set_control(&mut self, value: u32) {
        let before = std::mem::replace(&mut self.wires, value & wire::WRITABLE);
        if self.wires & wire::SELECT == 0 {
            (self.port, self.out) = (Port::Idle, true);
        } else if before & wire::SELECT != 0 && !before & self.wires & wire::CLOCK != 0 {
            self.clock(self.wires & wire::IN != 0);
        }
    }

    /// Rising clock edge: shifts one bit in and one out.
    fn clock(&mut self, bit: bool) {
        match self.port {
            Port::Idle if bit => self.port = Port::Command { bits: 0, value: 0 },
            Port::Idle | Port::Other => {}
            Port::Command { bits, value } => {
                let (bits, value) = (bits + 1, value << 1 | u16::from(bit));
                self.port = match value >> ADDRESS_BITS {
                    _ if bits < 2 + ADDRESS_BITS => Port::Command { bits, value },
                    READ => {
                        // A 0 bit precedes the word.
                        self.out = false;
                        let address = value as u8 % WORDS;
                        Port::Reading { address, word: self.word(address), left: 16 }
                    }
                    _ => Port::Other,
                };
            }
            Port::Reading { address, word, left } => {
                // Subsequent words follow without a gap.
                let (address, word, left) = match left {
                    0 => ((address + 1) % WORDS, self.word((address + 1) % WORDS), 15),
                    left => (address, word, left - 1),
                };
                self.out = word >> left & 1 != 0;
                self.port = Port::Reading { address, word, left };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(eeprom: &mut Eeprom, bit: bool) -> bool {
        let wires = wire::REQUEST | wire::SELECT | if bit { wire::IN } else { 0 };
        eeprom.set_control(wires);
        eeprom.set_control(wires | wire::CLOCK);
        let out = eeprom.control() & wire::OUT != 0;
        eeprom.set_control(wires);
        out
    }

    fn command(eeprom: &mut Eeprom, value: u16, bits: u32) {
        eeprom.set_control(wire::REQUEST);
        eeprom.set_control(wire::REQUEST | wire::SELECT);
        (0..bits).rev().for_each(|n| {
            pulse(eeprom, value >> n & 1 != 0);
        });
    }

    #[test]
    fn words_come_over_the_wires() {
        let mut eeprom = Eeprom::new([2, 3, 4, 5, 6, 7]);
        assert_eq!(eeprom.control() & (wire::GRANT | wire::PRESENT), wire::PRESENT);
        eeprom.set_control(wire::REQUEST);
        assert_eq!(eeprom.control() & wire::GRANT, wire::GRANT);
        let mut sum = 0_u16;
        for address in 0..0x40_u8 {
            // Zeros may precede the start bit.
            command(&mut eeprom, 0b110 << 6 | u16::from(address), 12);
            assert_eq!(eeprom.control() & wire::OUT, 0);
            let word = (0..16).fold(0, |word, _| word << 1 | u16::from(pulse(&mut eeprom, false)));
            assert_eq!(word, eeprom.word(address));
            sum = sum.wrapping_add(word);
        }
        assert_eq!(sum, SUM);
        assert_eq!((eeprom.word(0), eeprom.word(0x0d)), (0x0302, 0x100e));
        // Two words in one transfer.
        command(&mut eeprom, 0b110 << 6 | 1, 9);
        let words = (0..32).fold(0_u32, |word, _| word << 1 | u32::from(pulse(&mut eeprom, false)));
        assert_eq!(words, 0x0504_0706);
    }

    #[test]
    fn nothing_is_written() {
        let mut eeprom = Eeprom::new([2, 3, 4, 5, 6, 7]);
        command(&mut eeprom, 0b10011 << 4, 9);
        command(&mut eeprom, 0b101 << 6 | 1, 9);
        (0..16).for_each(|_| {
            pulse(&mut eeprom, true);
        });
        eeprom.set_control(0);
        eeprom.set_control(wire::SELECT);
        assert_eq!(eeprom.control() & wire::OUT, wire::OUT);
        assert_eq!(eeprom.word(1), 0x0504);
    }
}
