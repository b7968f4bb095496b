//! Terminal settings and state, `ioctl_tty(2)`.

use crate::call::Call;
use crate::ids::FileKey;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::terminal::{Termios, Termios2, Winsize};
use belljar_linux_abi::{Errno, c};

/// Requests that `libc` does not define for this target.
const TIOCGPKT: u64 = 0x8004_5438;
const TIOCGPTLCK: u64 = 0x8004_5439;
const TIOCGEXCL: u64 = 0x8004_5440;
const TIOCSIG: u64 = 0x4004_5436;
const TCSETS2: u64 = 0x402c_542b;
const TCSETSW2: u64 = 0x402c_542c;
const TCSETSF2: u64 = 0x402c_542d;
/// Requests of System V, which take a `struct termio`.
const TCGETA: u64 = 0x5405;
const TCSETA: u64 = 0x5406;
const TCSETAF: u64 = 0x5408;
/// Size of `struct termio` in bytes, and number of its control characters.
const TERMIO_LEN: usize = 18;
const NCC: usize = 8;
/// `CBAUD` codes of `struct termios` and their speeds in bits per second.
const SPEEDS: [(u32, u32); 20] = [
    (c::B0, 0),
    (c::B50, 50),
    (c::B75, 75),
    (c::B110, 110),
    (c::B134, 134),
    (c::B150, 150),
    (c::B200, 200),
    (c::B300, 300),
    (c::B600, 600),
    (c::B1200, 1_200),
    (c::B1800, 1_800),
    (c::B2400, 2_400),
    (c::B4800, 4_800),
    (c::B9600, 9_600),
    (c::B19200, 19_200),
    (c::B38400, 38_400),
    (c::B57600, 57_600),
    (c::B115200, 115_200),
    (c::B230400, 230_400),
    (c::B460800, 460_800),
];

/// Converts settings to a `struct termio`: the low halves of the flags and the first control characters.
fn termio(termios: &Termios) -> [u8; TERMIO_LEN] {
    let mut bytes = [0; TERMIO_LEN];
    let flags = [termios.iflag, termios.oflag, termios.cflag, termios.lflag];
    for (place, flag) in bytes.chunks_exact_mut(2).zip(flags) {
        place.copy_from_slice(&(flag as u16).to_ne_bytes());
    }
    bytes[8] = termios.line;
    bytes[9..9 + NCC].copy_from_slice(&termios.cc[..NCC]);
    bytes
}

/// Applies a `struct termio` to settings; the high halves of the flags are kept.
fn with_termio(old: Termios, bytes: &[u8; TERMIO_LEN]) -> Termios {
    let flag = |at: usize, old: u32| {
        old & 0xffff_0000 | u32::from(u16::from_ne_bytes([bytes[2 * at], bytes[2 * at + 1]]))
    };
    let mut cc = old.cc;
    cc[..NCC].copy_from_slice(&bytes[9..9 + NCC]);
    Termios {
        iflag: flag(0, old.iflag),
        oflag: flag(1, old.oflag),
        cflag: flag(2, old.cflag),
        lflag: flag(3, old.lflag),
        line: bytes[8],
        cc,
    }
}

impl Call<'_> {
    /// `ioctl(2)` of either end of a pseudo-terminal.
    pub(crate) fn terminal_ioctl(&mut self, file: FileKey, request: u64, argument: u64) -> SysResult {
        let (key, master) = self.host.files.open(file).kind.terminal().ok_or(Errno::ENOTTY)?;
        if !self.host.files.ptys[key].pair.master_open {
            return Err(if request == c::TIOCSPGRP { Errno::ENOTTY } else { Errno::EIO });
        }
        match request {
            c::TCGETS | c::TCGETS2 | c::TCSETS..=c::TCSETSF | TCSETS2..=TCSETSF2 | TCGETA..=TCSETAF => {
                self.settings_ioctl(key, master, request, argument)
            }
            c::TIOCGPGRP | c::TIOCSPGRP | c::TIOCGSID | c::TIOCSCTTY | c::TIOCNOTTY => {
                self.session_ioctl(key, master, request, argument)
            }
            c::TIOCGPTN | c::TIOCSPTLCK | c::TIOCPKT | c::TIOCGPTPEER if master => {
                self.master_ioctl(key, request, argument)
            }
            TIOCGPKT | TIOCGPTLCK | TIOCSIG if master => self.master_ioctl(key, request, argument),
            c::TIOCGWINSZ => {
                let size = self.host.files.ptys[key].pair.size;
                self.write(argument, &size)?;
                done(0)
            }
            c::TIOCSWINSZ => {
                let size: Winsize = self.read(argument)?;
                if std::mem::replace(&mut self.host.files.ptys[key].pair.size, size) != size {
                    self.host.signal_foreground(key, c::SIGWINCH);
                }
                done(0)
            }
            c::FIONREAD | c::TIOCOUTQ => {
                let pair = &self.host.files.ptys[key].pair;
                let count = match (request, master) {
                    (c::TIOCOUTQ, _) => 0,
                    (_, true) => pair.shown_len(),
                    (_, false) => pair.available(),
                };
                self.write(argument, &(count as i32))?;
                done(0)
            }
            c::TCFLSH => self.flush_terminal(key, master, argument),
            c::TCXONC => {
                match argument as i32 {
                    c::TCOOFF => self.host.set_terminal_stopped(key, true),
                    c::TCOON => self.host.set_terminal_stopped(key, false),
                    c::TCIOFF | c::TCION => {}
                    _ => return Err(Errno::EINVAL),
                }
                done(0)
            }
            // Output is delivered at once, so there is nothing to drain; breaks have no effect.
            c::TCSBRK | c::TCSBRKP | c::TIOCSBRK | c::TIOCCBRK => done(0),
            c::TIOCSTI => {
                let byte: u8 = self.read(argument)?;
                self.host.files.ptys[key].pair.feed(&[byte]);
                self.host.pump_typed(key);
                let queue = self.host.files.ptys[key].queue;
                self.host.notify(queue);
                done(0)
            }
            c::TIOCEXCL | c::TIOCNXCL => {
                self.host.files.ptys[key].pair.exclusive = request == c::TIOCEXCL;
                done(0)
            }
            TIOCGEXCL => {
                let exclusive = i32::from(self.host.files.ptys[key].pair.exclusive);
                self.write(argument, &exclusive)?;
                done(0)
            }
            c::TIOCGETD => {
                self.write(argument, &0i32)?;
                done(0)
            }
            c::TIOCSETD if self.read::<i32>(argument)? == 0 => done(0),
            c::TIOCSETD => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTTY),
        }
    }

    /// `TCGETS`, `TCSETS` and relatives. Both ends access the slave's settings.
    fn settings_ioctl(&mut self, key: usize, master: bool, request: u64, argument: u64) -> SysResult {
        let current = self.host.files.ptys[key].pair.termios;
        let speed = SPEEDS.iter().find(|(code, _)| *code == current.cflag & c::CBAUD).map_or(38_400, |s| s.1);
        let new: Termios = match request {
            c::TCGETS => {
                self.write(argument, &current)?;
                return done(0);
            }
            c::TCGETS2 => {
                self.write(argument, &Termios2 { base: current, ispeed: speed, ospeed: speed })?;
                return done(0);
            }
            TCGETA => {
                self.write_bytes(argument, &termio(&current))?;
                return done(0);
            }
            TCSETA..=TCSETAF => {
                let mut bytes = [0; TERMIO_LEN];
                self.host.read_guest(self.process, argument, &mut bytes)?;
                with_termio(current, &bytes)
            }
            TCSETS2 | TCSETSW2 | TCSETSF2 => {
                let both: Termios2 = self.read(argument)?;
                let code = SPEEDS.iter().find(|(_, bits)| *bits == both.ospeed).map_or(c::B38400, |s| s.0);
                let cflag = if both.base.cflag & c::CBAUD == c::BOTHER {
                    both.base.cflag & !c::CBAUD | code
                } else {
                    both.base.cflag
                };
                Termios { cflag, ..both.base }
            }
            _ => self.read(argument)?,
        };
        if !master && let Some(answer) = self.background_access(key, c::SIGTTOU) {
            return answer;
        }
        let pty = &mut self.host.files.ptys[key];
        let queue = pty.queue;
        if pty.pair.set_termios(new, matches!(request, c::TCSETSF | TCSETSF2 | TCSETAF)) {
            self.host.notify(queue);
        }
        self.host.pump_typed(key);
        self.host.notify(queue);
        done(0)
    }

    fn session_ioctl(&mut self, key: usize, master: bool, request: u64, argument: u64) -> SysResult {
        let process = &self.host.processes[self.process.0];
        let (sid, own) = (process.sid, process.terminal == Some(key));
        let session = self.host.files.ptys[key].session;
        match request {
            c::TIOCGPGRP | c::TIOCGSID if !master && !own => Err(Errno::ENOTTY),
            c::TIOCGPGRP => {
                let foreground = self.host.files.ptys[key].foreground;
                let foreground = self.host.processes.shown_pid(self.process, foreground);
                self.write(argument, &foreground)?;
                done(0)
            }
            c::TIOCGSID => {
                let session = session.ok_or(Errno::ENOTTY)?;
                let session = self.host.processes.shown_pid(self.process, session);
                self.write(argument, &session)?;
                done(0)
            }
            c::TIOCSPGRP => {
                if own && let Some(answer) = self.background_access(key, c::SIGTTOU) {
                    return answer;
                }
                if !own || session != Some(sid) {
                    return Err(Errno::ENOTTY);
                }
                let pgid: i32 = self.read(argument)?;
                if pgid < 0 {
                    return Err(Errno::EINVAL);
                }
                let pgid = self.host.processes.meant_pid(self.process, pgid);
                let members = self.host.processes.group_members(pgid);
                let first = members.first().ok_or(Errno::ESRCH)?;
                if self.host.processes[first.0].sid != sid {
                    return Err(Errno::EPERM);
                }
                self.host.files.ptys[key].foreground = pgid;
                done(0)
            }
            c::TIOCSCTTY => {
                self.host.files.claim_terminal(&mut self.host.processes, self.process, key, argument == 1)?;
                done(0)
            }
            _ if !own => Err(Errno::ENOTTY),
            _ => {
                self.host.give_up_terminal(self.process);
                done(0)
            }
        }
    }

    fn master_ioctl(&mut self, key: usize, request: u64, argument: u64) -> SysResult {
        let pty = &mut self.host.files.ptys[key];
        let answer = match request {
            c::TIOCGPTN => pty.number as i32,
            TIOCGPTLCK => i32::from(pty.pair.locked),
            TIOCGPKT => i32::from(pty.pair.is_packet_mode()),
            c::TIOCSPTLCK => {
                self.host.files.ptys[key].pair.locked = self.read::<i32>(argument)? != 0;
                return done(0);
            }
            c::TIOCPKT => {
                let on = self.read::<i32>(argument)? != 0;
                self.host.files.ptys[key].pair.set_packet_mode(on);
                return done(0);
            }
            TIOCSIG => {
                let allowed = [c::SIGINT, c::SIGQUIT, c::SIGTSTP];
                let signal = argument as i32;
                if !allowed.contains(&signal) {
                    return Err(Errno::EINVAL);
                }
                self.host.signal_foreground(key, signal);
                return done(0);
            }
            _ => {
                let flags = argument as i32;
                let number = pty.number;
                let kind = self.host.files.open_slave(
                    &mut self.host.processes,
                    self.process,
                    key,
                    number,
                    flags | c::O_NOCTTY,
                )?;
                let inode = kind.inode().ok_or(Errno::EIO)?;
                let file = self.host.open_inode_file(kind, None, inode, flags);
                return done(self.host.install_fd(self.process, file, flags & c::O_CLOEXEC != 0, 0)?);
            }
        };
        self.write(argument, &answer)?;
        done(0)
    }

    fn flush_terminal(&mut self, key: usize, master: bool, argument: u64) -> SysResult {
        let which = argument as i32;
        if !(c::TCIFLUSH..=c::TCIOFLUSH).contains(&which) {
            return Err(Errno::EINVAL);
        }
        if !master && let Some(answer) = self.background_access(key, c::SIGTTOU) {
            return answer;
        }
        // The input of one end is the output of the other.
        let (input, output) = (which != c::TCOFLUSH, which != c::TCIFLUSH);
        let (typed, shown) = if master { (output, input) } else { (input, output) };
        let pty = &mut self.host.files.ptys[key];
        pty.pair.flush(typed, shown);
        let queue = pty.queue;
        self.host.notify(queue);
        done(0)
    }
}
