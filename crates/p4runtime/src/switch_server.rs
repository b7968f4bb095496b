//! P4Runtime server of a v1model switch as a trait object.
//!
//! `Server` is generic and large. With [`switch_server`] it is compiled once, in this crate, and not in its
//! callers.

use crate::proto::ForwardingPipelineConfig;
use crate::{Connections, Server};
use belljar_base::{SimDuration, SimTime};
use belljar_p4::SwitchDevice;

/// P4Runtime server of a [`SwitchDevice`], with the methods of [`Server`].
pub trait SwitchServer: Connections + Send {
    /// Sets the processing time of a write.
    fn set_write_time(&mut self, time: SimDuration);
    /// Installs a program without a controller. The error is a message.
    fn install(&mut self, device: &mut SwitchDevice, config: ForwardingPipelineConfig) -> Result<(), String>;
    /// Imports entries that were not written through this server.
    fn import(&mut self, device: &mut SwitchDevice);
    /// Passes the switch's notifications to controllers, stamped with `now` in ns since the epoch. Returns
    /// the log messages of the program.
    fn tell_notifications(&mut self, device: &mut SwitchDevice, now: u64) -> Vec<String>;
    /// Executes received requests.
    fn poll(&mut self, device: &mut SwitchDevice);
    /// Time at which [`poll`](Self::poll) is due.
    fn next_event(&self) -> Option<SimTime>;
}

/// Creates the server of the switch with a P4Runtime device id.
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
