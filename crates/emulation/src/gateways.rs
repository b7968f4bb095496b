//! Gateways: links that end at interfaces of this machine. The interfaces are opened in the network
//! namespace in which the command was started, and which the emulation has left; a line connects them with
//! the other end.

use crate::error::{Error, Result};
use crate::files::in_user_namespace;
use belljar_base::HostId;
use belljar_config::Experiment;
use belljar_config::topology::{DeviceKind, Gateway};
use belljar_packetio::{Attachment, Namespace, Port};
use std::fs::File;
use std::os::fd::AsFd;

/// Network namespace of the machine, if it is reachable.
pub struct Machine(Option<File>);

impl Machine {
    /// Opens the namespace of a process that has not left it; `process` is its id in the `/proc` of the
    /// machine.
    pub fn of(process: u32) -> Machine {
        Machine(File::open(format!("/proc/{process}/ns/net")).ok())
    }

    /// Opens the interface of a gateway. `None` if the node is not a gateway; fails if the interface cannot
    /// be reached.
    pub fn open(&self, experiment: &Experiment, id: HostId) -> Result<Option<Box<dyn Port>>> {
        let (Some(device), Some(settings)) = (experiment.device(id), of(experiment, id)) else {
            return Ok(None);
        };
        let failed = |why: String| Error::new(format!("gateway '{}': {why}", device.name));
        let Ok(attachment) = settings.interface.parse::<Attachment>();
        let mtu = experiment.topology.links[device.interfaces[0].link].mtu;
        let address = settings.address.map(|address| (address.ip, address.len));
        let namespace = match (&settings.namespace, &self.0, &attachment) {
            (_, _, Attachment::Unix(_)) => Namespace::Current,
            _ if in_user_namespace() => {
                return Err(failed(format!(
                    "without root '{}' cannot be opened from an emulation: run as root, or use 'unix:PATH'",
                    settings.interface
                )));
            }
            (Some(name), ..) => Namespace::Name(name.clone()),
            (None, Some(own), _) => Namespace::Fd(own.as_fd()),
            (None, None, _) => return Err(failed("this machine's network cannot be reached".into())),
        };
        attachment.open_for(&namespace, address, mtu).map(Some).map_err(failed)
    }
}

/// Settings of a node that is a gateway.
pub fn of(experiment: &Experiment, id: HostId) -> Option<&Gateway> {
    match &experiment.device(id)?.kind {
        DeviceKind::Gateway(settings) => Some(settings),
        _ => None,
    }
}
