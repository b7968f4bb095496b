//! The P4Runtime server of one v1model switch as a trait object.
//!
//! `Server` is generic, and large. Callers of [`switch_server`] compile none of it: it is compiled here, once.

use crate::proto::ForwardingPipelineConfig;
use crate::{Connections, Server, SwitchDevice};
use belljar_base::{SimDuration, SimTime};

/// P4Runtime server of a [`SwitchDevice`]. The methods are those of [`Server`].
pub trait SwitchServer: Connections + Send {
    /// Sets the time that a write takes.
    fn set_write_time(&mut self, time: SimDuration);
    /// Installs a program as a controller would. The error is a message.
    fn install(&mut self, device: &mut SwitchDevice, config: ForwardingPipelineConfig) -> Result<(), String>;
    /// Takes over entries that were not written through this server.
    fn import(&mut self, device: &mut SwitchDevice);
    /// Passes the switch's notifications to controllers, at a time in ns since the epoch. Returns what the program has logged.
    fn tell_notifications(&mut self, device: &mut SwitchDevice, now: u64) -> Vec<String>;
    /// Carries out the requests that have arrived.
    fn poll(&mut self, device: &mut SwitchDevice);
    /// Time at which [`poll`](Self::poll) is due.
    fn next_event(&self) -> Option<SimTime>;
}

/// Makes the server of a switch with a P4Runtime device id.
pub fn switch_server(device_id: u64) -> Box<dyn SwitchServer> {
    Box::new(Server::<SwitchDevice>::new(device_id))
}

impl SwitchServer for Server<SwitchDevice> {
    fn set_write_time(&mut self, time: SimDuration) {
        Server::set_write_time(self, time);
    }
    fn install(&mut self, device: &mut SwitchDevice, config: ForwardingPipelineConfig) -> Result<(), String> {
        Server::install(self, device, config).map_err(|refusal| refusal.to_string())
    }
    fn import(&mut self, device: &mut SwitchDevice) {
        Server::import(self, device);
    }
    fn tell_notifications(&mut self, device: &mut SwitchDevice, now: u64) -> Vec<String> {
        Server::tell_notifications(self, device, now)
    }
    fn poll(&mut self, device: &mut SwitchDevice) {
        Server::poll(self, device);
    }
    fn next_event(&self) -> Option<SimTime> {
        Server::next_event(self)
    }
}
