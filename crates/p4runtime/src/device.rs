//! The v1model switch as a [`Device`], and its notifications for controllers.

use crate::grpc::Code;
use crate::pipeline::{Device, Handle};
use crate::proto::ForwardingPipelineConfig;
use crate::{Refusal, Server};
use belljar_base::SimTime;
use belljar_p4::{Notification, Switch, SwitchDevice};
use belljar_p4info::proto::P4Info;

impl Device for SwitchDevice {
    type Pipeline = Switch;

    fn load(&self, config: &[u8]) -> Result<Switch, Refusal> {
        let json = std::str::from_utf8(config)
            .map_err(|_| Refusal::invalid("the device configuration is not text: it must be BMv2's JSON"))?;
        self.load(json).map_err(|error| Refusal::invalid(format!("the device configuration: {error}")))
    }

    fn now(&self) -> SimTime {
        self.now()
    }

    fn pipeline(&mut self) -> Option<&mut Switch> {
        self.switch()
    }

    fn install(&mut self, switch: Switch) {
        self.install(switch);
    }

    fn packet_out(&mut self, frame: Vec<u8>) -> Result<(), Refusal> {
        let port = self
            .cpu_port()
            .ok_or_else(|| Refusal::new(Code::FailedPrecondition, "the switch has no CPU port"))?;
        self.receive(self.now(), port, frame);
        Ok(())
    }
}

/// Request that installs a program; the P4Info is in text or binary form.
pub fn pipeline_config(json: &str, p4info: &[u8]) -> Result<ForwardingPipelineConfig, String> {
    let p4info = P4Info::from_file_content(p4info)?;
    let p4_device_config = json.as_bytes().to_vec();
    Ok(ForwardingPipelineConfig { p4info: Some(p4info), p4_device_config, cookie: None })
}

impl Server<SwitchDevice> {
    /// Passes the switch's notifications to controllers, stamped with `now` in ns since the epoch. Returns
    /// the log messages of the program.
    pub fn tell_notifications(&mut self, device: &mut SwitchDevice, now: u64) -> Vec<String> {
        let mut logs = Vec::new();
        while let Some(notification) = device.switch().and_then(Switch::notification) {
            match notification {
                Notification::Digest { name, list, samples } => self.digest(&name, list, samples, now),
                Notification::IdleTimeout { table, entries } => {
                    let table = device
                        .switch()
                        .map(|switch| switch.program().table_name(table).to_string())
                        .unwrap_or_default();
                    let handles: Vec<Handle> = entries.into_iter().map(Handle::from).collect();
                    self.idle_timeouts(&table, &handles, device, now);
                }
                Notification::PacketIn(frame) => self.packet_in(&frame),
                Notification::Log(text) => logs.push(text),
            }
        }
        logs
    }
}
