//! Interface to the control servers of a switch: state machines over byte streams, which a simulated
//! management interface or sockets drive.

use crate::SwitchDevice;
use belljar_base::{SimDuration, SimTime};

/// Transport side of a server: received and transmitted bytes of its connections. The owner of the sockets
/// calls these methods, and the server's `poll` after bytes were received or transmitted.
pub trait Connections {
    /// Registers an accepted connection; returns its number for the other methods.
    fn accept(&mut self) -> usize;
    /// Delivers bytes received on a connection, at most [`room`](Self::room).
    fn receive(&mut self, connection: usize, bytes: &[u8]);
    /// Signals that the client has closed its sending direction.
    fn end_input(&mut self, connection: usize);
    /// Number of bytes that [`receive`](Self::receive) accepts now.
    fn room(&self, connection: usize) -> usize;
    /// Takes up to `limit` bytes to be sent on a connection.
    fn transmit(&mut self, connection: usize, limit: usize) -> Vec<u8>;
    /// Number of bytes queued for [`transmit`](Self::transmit).
    fn outgoing(&self, connection: usize) -> usize;
    /// True if a connection is closed; bytes may still be queued for transmission.
    fn is_closed(&self, connection: usize) -> bool;
    /// Releases a connection. Its number may be reused.
    fn close(&mut self, connection: usize);
}

/// P4Runtime server of one switch.
pub trait P4RuntimeServer: Connections + Send {
    /// Sets the processing time of a write.
    fn set_write_time(&mut self, time: SimDuration);
    /// Installs a program, as BMv2's JSON and P4Info, without a controller. The error is a message.
    fn install(&mut self, device: &mut SwitchDevice, json: &str, p4info: &[u8]) -> Result<(), String>;
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

/// Thrift server of one switch.
pub trait ThriftServer: Connections + Send {
    /// Sets the processing time of a modifying call.
    fn set_write_time(&mut self, time: SimDuration);
    /// Executes received calls at `epoch_ns` after 1970; returns true if anything may have changed.
    fn poll(&mut self, device: &mut SwitchDevice, epoch_ns: u64) -> bool;
    /// Time at which [`poll`](Self::poll) executes the next delayed call.
    fn next_event(&self) -> Option<SimTime>;
}

/// Servers of one switch.
pub struct ControlServers {
    /// P4Runtime server.
    pub p4runtime: Box<dyn P4RuntimeServer>,
    /// Thrift server.
    pub thrift: Box<dyn ThriftServer>,
}

/// Function that creates the servers of a switch with a device id, and with the TCP port of its Thrift server.
pub type CreateServers = fn(device_id: u64, thrift_port: u16) -> ControlServers;
