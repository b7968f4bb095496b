//! PHY: a Marvell 88E1011 behind register MDIC, with a link partner of 1 Gbit/s, full duplex.

/// Registers defined by IEEE 802.3, and those of the 88E1011.
mod reg {
    pub const CONTROL: u8 = 0x00;
    pub const STATUS: u8 = 0x01;
    pub const IDENTIFIER: u8 = 0x02;
    pub const MODEL: u8 = 0x03;
    pub const ADVERTISEMENT: u8 = 0x04;
    pub const PARTNER: u8 = 0x05;
    pub const EXPANSION: u8 = 0x06;
    pub const NEXT_PAGE: u8 = 0x07;
    pub const CONTROL_1000: u8 = 0x09;
    pub const STATUS_1000: u8 = 0x0a;
    pub const EXTENDED_STATUS: u8 = 0x0f;
    pub const SPECIFIC_CONTROL: u8 = 0x10;
    pub const SPECIFIC_STATUS: u8 = 0x11;
    pub const INTERRUPT_STATUS: u8 = 0x13;
    pub const EXTENDED_CONTROL: u8 = 0x14;
    pub const ERRORS: u8 = 0x15;
}

/// Bits of register CONTROL.
mod control {
    pub const RESET: u16 = 1 << 15;
    pub const LOOPBACK: u16 = 1 << 14;
    pub const POWER_DOWN: u16 = 1 << 11;
    pub const RESTART: u16 = 1 << 9;
}

/// Bits of MDIC.
mod mdic {
    pub const WRITE: u32 = 1;
    pub const READ: u32 = 2;
    pub const READY: u32 = 1 << 28;
    pub const INTERRUPT: u32 = 1 << 29;
    pub const ERROR: u32 = 1 << 30;
}

/// Address on the management bus.
const ADDRESS: u32 = 1;
const REGISTERS: usize = 32;
/// Values after a reset.
const DEFAULTS: [(u8, u16); 6] = [
    // Autonegotiation, 1 Gbit/s, full duplex.
    (reg::CONTROL, 0x1140),
    // All modes of 10 and 100 Mbit/s; no flow control.
    (reg::ADVERTISEMENT, 0x01e1),
    (reg::NEXT_PAGE, 0x2001),
    (reg::CONTROL_1000, 0x0300),
    (reg::SPECIFIC_CONTROL, 0x0068),
    (reg::EXTENDED_CONTROL, 0x0060),
];
/// Bits of INTERRUPT_STATUS for link changes and autonegotiation.
const CHANGES: u16 = 0x0c00;

/// PHY. Autonegotiation is instantaneous.
#[derive(Clone, Debug)]
pub struct Phy {
    registers: [u16; REGISTERS],
    /// True if the cable has a carrier.
    carrier: bool,
    /// True if the link was down since the last read of STATUS, which reports it once.
    was_down: bool,
}

impl Phy {
    /// Creates a PHY after power-up.
    pub fn new(carrier: bool) -> Phy {
        let mut phy = Phy { registers: [0; REGISTERS], carrier, was_down: !carrier };
        phy.reset();
        phy
    }

    /// Hardware or register reset.
    pub fn reset(&mut self) {
        self.registers = [0; REGISTERS];
        DEFAULTS.iter().for_each(|(register, value)| self.registers[usize::from(*register)] = *value);
    }

    /// True if the link is up.
    pub fn has_link(&self) -> bool {
        self.carrier && self.is_on()
    }

    /// True unless powered down, when no frame passes in either direction.
    pub fn is_on(&self) -> bool {
        self.registers[usize::from(reg::CONTROL)] & control::POWER_DOWN == 0
    }

    /// True if transmitted frames are looped back.
    pub fn loops_back(&self) -> bool {
        self.registers[usize::from(reg::CONTROL)] & control::LOOPBACK != 0
    }

    /// Sets the carrier of the cable.
    pub fn set_carrier(&mut self, on: bool) {
        if self.carrier != on {
            self.registers[usize::from(reg::INTERRUPT_STATUS)] |= CHANGES;
        }
        self.carrier = on;
        self.was_down |= !on;
    }

    /// Write of MDIC; returns its new value, and whether completion raises an interrupt.
    pub fn access(&mut self, value: u32) -> (u32, bool) {
        let (register, address, operation) =
            ((value >> 16 & 0x1f) as u8, value >> 21 & 0x1f, value >> 26 & 3);
        let kept = value & !(mdic::READY | mdic::ERROR);
        let answer = match operation {
            _ if address != ADDRESS => kept | mdic::ERROR,
            mdic::READ => kept & !0xffff | u32::from(self.read(register)),
            mdic::WRITE => {
                self.write(register, value as u16);
                kept
            }
            _ => kept | mdic::ERROR,
        };
        (answer | mdic::READY, value & mdic::INTERRUPT != 0)
    }

    fn read(&mut self, register: u8) -> u16 {
        let link = self.has_link();
        match register {
            reg::STATUS => {
                let linked = link && !std::mem::take(&mut self.was_down);
                // All modes of 10 and 100 Mbit/s, autonegotiation, extended registers; then the current
                // state.
                0x7949 | if linked { 0x0004 } else { 0 } | if link { 0x0020 } else { 0 }
            }
            reg::IDENTIFIER => 0x0141,
            reg::MODEL => 0x0c20,
            // 10 and 100 Mbit/s acknowledged, no flow control; 1 Gbit/s, both receivers OK.
            reg::PARTNER if link => 0x41e1,
            reg::EXPANSION if link => 0x000f,
            reg::STATUS_1000 if link => 0x3800,
            reg::PARTNER | reg::STATUS_1000 => 0,
            reg::EXPANSION => 0x0004,
            reg::EXTENDED_STATUS => 0x3000,
            // 1 Gbit/s, full duplex, resolved, linked; on a cable shorter than 50 m.
            reg::SPECIFIC_STATUS if link => 0xac00,
            reg::SPECIFIC_STATUS | reg::ERRORS => 0,
            reg::INTERRUPT_STATUS => std::mem::take(&mut self.registers[usize::from(register)]),
            register => self.registers[usize::from(register) % REGISTERS],
        }
    }

    fn write(&mut self, register: u8, value: u16) {
        match register {
            reg::CONTROL if value & control::RESET != 0 => self.reset(),
            reg::CONTROL => {
                self.registers[0] = value & !control::RESTART;
                self.was_down |= !self.has_link();
            }
            reg::STATUS
            | reg::IDENTIFIER
            | reg::MODEL
            | reg::PARTNER
            | reg::EXPANSION
            | reg::STATUS_1000
            | reg::EXTENDED_STATUS
            | reg::SPECIFIC_STATUS
            | reg::INTERRUPT_STATUS
            | reg::ERRORS => {}
            register => self.registers[usize::from(register) % REGISTERS] = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(phy: &mut Phy, register: u8) -> u16 {
        let (answer, _) = phy.access(mdic::READ << 26 | ADDRESS << 21 | u32::from(register) << 16);
        assert_eq!(answer & (mdic::READY | mdic::ERROR), mdic::READY);
        answer as u16
    }
    fn write(phy: &mut Phy, register: u8, value: u16) {
        let asked = mdic::WRITE << 26 | ADDRESS << 21 | u32::from(register) << 16 | u32::from(value);
        assert_eq!(phy.access(asked), (asked | mdic::READY, false));
    }

    #[test]
    fn it_is_an_88e1011_with_a_link() {
        let mut phy = Phy::new(true);
        assert_eq!((read(&mut phy, 2), read(&mut phy, 3)), (0x0141, 0x0c20));
        assert_eq!(read(&mut phy, 1) & 0x24, 0x24);
        write(&mut phy, 0, 0x9140);
        write(&mut phy, 2, 7);
        assert_eq!((read(&mut phy, 0), read(&mut phy, 2)), (0x1140, 0x0141));
        // No PHY at another address.
        let (answer, interrupts) = phy.access(mdic::INTERRUPT | mdic::READ << 26 | 2 << 21);
        assert!(answer & mdic::ERROR != 0 && interrupts);
    }

    #[test]
    fn a_link_that_was_lost_is_shown_once() {
        let mut phy = Phy::new(true);
        phy.set_carrier(false);
        assert_eq!((read(&mut phy, 1) & 0x24, read(&mut phy, 0x11)), (0, 0));
        phy.set_carrier(true);
        assert_eq!([read(&mut phy, 1) & 0x24, read(&mut phy, 1) & 0x24], [0x20, 0x24]);
        write(&mut phy, 0, 0x1940);
        assert!(!phy.has_link() && read(&mut phy, 5) == 0);
        write(&mut phy, 0, 0x5140);
        assert!(phy.has_link() && phy.loops_back());
        assert_eq!((read(&mut phy, 0x13), read(&mut phy, 0x13)), (0x0c00, 0));
    }
}
