//! Events of an emulation's switch: files and commands that the experiment applies at a time.

use crate::failure::Failure;
use belljar_config::topology::P4Setup;
use belljar_emulation::p4::{EVENT_REFUSED, SwitchPlan};
use belljar_p4::SwitchDevice;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Events of a switch, and the pipe by which the emulation orders each at its time.
pub struct Events {
    /// Pipe of lines with the numbers of events.
    pub pipe: File,
    /// Events by number, with their times in seconds.
    events: Vec<(f64, Vec<P4Setup>)>,
    /// Bytes of an incomplete line.
    rest: String,
}

impl Events {
    /// Opens the pipe of a plan; `None` if the switch has no events.
    pub fn open(plan: &SwitchPlan) -> Result<Option<Self>, Failure> {
        let Some(path) = &plan.orders else { return Ok(None) };
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let pipe = File::options().read(true).custom_flags(flags).open(path);
        let pipe = pipe.map_err(|error| Failure::run(format!("opening '{}': {error}", path.display())))?;
        Ok(Some(Self { pipe, events: plan.events.clone(), rest: String::new() }))
    }

    /// Applies the events that have been ordered. A refused event is logged.
    pub fn apply(&mut self, device: &mut SwitchDevice) {
        let mut buffer = [0; 256];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => self.rest.push_str(&String::from_utf8_lossy(&buffer[..length])),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        while let Some((line, rest)) = self.rest.split_once('\n') {
            let number: Option<usize> = line.parse().ok();
            self.rest = rest.to_owned();
            let Some((at, setups)) = number.and_then(|number| self.events.get(number)) else { continue };
            if let Err(failure) = P4Setup::apply_event(setups, device.switch()) {
                eprintln!("{EVENT_REFUSED}at {at:.6} s: {failure}");
            }
        }
    }
}
