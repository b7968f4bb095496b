//! Servers of a v1model switch as trait objects.
//!
//! `Server` is generic and large. With [`control_servers`] it is compiled once, in this crate, and not in its
//! callers.

use crate::{Server, pipeline_config, thrift};
use belljar_base::{SimDuration, SimTime};
use belljar_p4::SwitchDevice;
use belljar_p4::servers::{ControlServers, P4RuntimeServer, ThriftServer};

/// Creates the servers of a switch with this P4Runtime device id and TCP port of the Thrift server.
pub fn control_servers(device_id: u64, thrift_port: u16) -> ControlServers {
    ControlServers {
        p4runtime: Box::new(Server::<SwitchDevice>::new(device_id)),
        thrift: Box::new(thrift::Server::new(device_id, thrift_port)),
    }
}

impl P4RuntimeServer for Server<SwitchDevice> {
    fn set_write_time(&mut self, time: SimDuration) {
        Server::set_write_time(self, time);
    }
    fn install(&mut self, device: &mut SwitchDevice, json: &str, p4info: &[u8]) -> Result<(), String> {
        let config = pipeline_config(json, p4info)?;
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

impl ThriftServer for thrift::Server {
    fn set_write_time(&mut self, time: SimDuration) {
        thrift::Server::set_write_time(self, time);
    }
    fn poll(&mut self, device: &mut SwitchDevice, epoch_ns: u64) -> bool {
        thrift::Server::poll(self, device, epoch_ns)
    }
    fn next_event(&self) -> Option<SimTime> {
        thrift::Server::next_event(self)
    }
}
