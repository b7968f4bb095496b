//! Debug registers of a traced thread: hardware breakpoints and watchpoints that a tracer sets in `struct user`.

use belljar_linux_abi::Errno;

/// First address outside a program's memory, `TASK_SIZE_MAX`.
const ADDRESSES_END: u64 = 0x7fff_ffff_f000;
/// Bits of DR6 that are always set.
const STATUS_RESERVED: u64 = 0xffff_0ff0;
/// Kinds of breakpoints in DR7.
const EXECUTE: u64 = 0;
const WRITE: u64 = 1;

/// Debug registers.
#[derive(Clone, Debug, Default)]
pub struct DebugRegisters {
    addresses: [u64; 4],
    /// DR6 without its reserved bits.
    status: u64,
    control: u64,
    /// Instruction whose breakpoint was reported last; it is executed when the thread resumes there.
    pub passed: Option<u64>,
    /// Values at the watchpoints.
    values: [u64; 4],
}

/// Enabled watchpoint.
#[derive(Clone, Copy, Debug)]
pub struct Watchpoint {
    /// Number of the register.
    pub number: usize,
    /// Address.
    pub addr: u64,
    /// Length in bytes.
    pub len: usize,
}

impl DebugRegisters {
    /// Value of DR`n`.
    pub fn get(&self, n: usize) -> u64 {
        match n {
            0..=3 => self.addresses[n],
            6 => self.status | STATUS_RESERVED,
            7 => self.control,
            _ => 0,
        }
    }
    /// Sets DR`n`. Reads of memory cannot be watched: `EINVAL`.
    pub fn set(&mut self, n: usize, value: u64) -> Result<(), Errno> {
        match n {
            0..=3 if value >= ADDRESSES_END => return Err(Errno::EINVAL),
            0..=3 => {
                let addresses = std::mem::replace(&mut self.addresses[n], value);
                if self.check(self.control).is_err() {
                    self.addresses[n] = addresses;
                    return Err(Errno::EINVAL);
                }
            }
            6 => self.status = value & !STATUS_RESERVED,
            7 => {
                self.check(value)?;
                self.control = value;
            }
            _ if value != 0 => return Err(Errno::EIO),
            _ => {}
        }
        Ok(())
    }
    fn check(&self, control: u64) -> Result<(), Errno> {
        for n in (0..4).filter(|n| is_enabled(control, *n)) {
            let (kind, len) = kind_of(control, n);
            let fits = match kind {
                EXECUTE => len == 1,
                WRITE => self.addresses[n].is_multiple_of(len as u64),
                _ => false,
            };
            if !fits {
                return Err(Errno::EINVAL);
            }
        }
        Ok(())
    }
    /// True if a breakpoint or watchpoint is enabled.
    pub fn any(&self) -> bool {
        (0..4).any(|n| is_enabled(self.control, n))
    }
    /// Number of the register with a breakpoint at this instruction.
    pub fn breakpoint_at(&self, rip: u64) -> Option<usize> {
        (0..4).find(|n| {
            is_enabled(self.control, *n)
                && kind_of(self.control, *n).0 == EXECUTE
                && self.addresses[*n] == rip
        })
    }
    /// Enabled watchpoints.
    pub fn watchpoints(&self) -> impl Iterator<Item = Watchpoint> + use<> {
        let (control, addresses) = (self.control, self.addresses);
        (0..4).filter(move |n| is_enabled(control, *n)).filter_map(move |number| {
            let (kind, len) = kind_of(control, number);
            (kind == WRITE).then_some(Watchpoint { number, addr: addresses[number], len })
        })
    }
    /// Compares the values at the watchpoints with those at the last comparison, and records in DR6 which have
    /// changed; true if one has. `read` reads memory of the thread.
    pub fn compare(&mut self, read: impl Fn(u64, &mut [u8])) -> bool {
        let mut changed = false;
        for watchpoint in self.watchpoints() {
            let mut bytes = [0; 8];
            read(watchpoint.addr, &mut bytes[..watchpoint.len]);
            let value = u64::from_le_bytes(bytes);
            if std::mem::replace(&mut self.values[watchpoint.number], value) != value {
                self.met(watchpoint.number);
                changed = true;
            }
        }
        changed
    }
    /// Records in DR6 that a breakpoint or watchpoint was met.
    pub fn met(&mut self, number: usize) {
        self.status |= 1 << number;
    }
}

fn is_enabled(control: u64, n: usize) -> bool {
    control >> (2 * n) & 3 != 0
}
/// Kind and length of a breakpoint.
fn kind_of(control: u64, n: usize) -> (u64, usize) {
    let bits = control >> (16 + 4 * n);
    (bits & 3, [1, 2, 8, 4][(bits >> 2 & 3) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_checked_as_linux_does() {
        let mut registers = DebugRegisters::default();
        assert_eq!(registers.set(0, 1 << 63), Err(Errno::EINVAL));
        assert_eq!(registers.set(4, 1), Err(Errno::EIO));
        assert_eq!(registers.set(0, 0x1001), Ok(()));
        // A breakpoint has length 1; a watchpoint is aligned; reads cannot be watched.
        assert_eq!(registers.set(7, 1 | 0xc << 16), Err(Errno::EINVAL));
        assert_eq!(registers.set(7, 1 | 0xd << 16), Err(Errno::EINVAL));
        assert_eq!(registers.set(7, 1 | 0x3 << 16), Err(Errno::EINVAL));
        assert_eq!(registers.set(7, 1), Ok(()));
        assert_eq!(registers.breakpoint_at(0x1001), Some(0));
        assert_eq!((registers.set(0, 0x1000), registers.set(7, 1 | 0xd << 16)), (Ok(()), Ok(())));
        let found: Vec<_> = registers.watchpoints().map(|w| (w.number, w.addr, w.len)).collect();
        assert_eq!((found, registers.breakpoint_at(0x1000)), (vec![(0, 0x1000, 4)], None));
        registers.met(0);
        assert_eq!((registers.get(6), registers.get(0)), (0xffff_0ff1, 0x1000));
    }
}
