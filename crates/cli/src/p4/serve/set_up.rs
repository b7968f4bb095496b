//! Set-up of the switch and its server from the command line.

use super::Arguments;
use crate::failure::Failure;
use belljar_p4::{Program, SwitchConfig, SwitchDevice};
use belljar_p4c::ProgramFile;
use belljar_p4files::{commands, runtime};
use belljar_p4info::proto::P4Info;
use belljar_p4runtime::Server;
use belljar_p4runtime::proto::ForwardingPipelineConfig;
use std::fs;
use std::path::Path;

/// Creates the switch, loads its program, and applies the configuration files.
pub fn switch(arguments: &Arguments) -> Result<(SwitchDevice, Server<SwitchDevice>), Failure> {
    let ports = arguments.interface.iter().map(|attachment| attachment.port + 1).max().unwrap_or(0);
    let config = SwitchConfig {
        name: arguments.name.clone(),
        ports,
        cpu_port: arguments.cpu_port,
        ..SwitchConfig::default()
    };
    let mut device = SwitchDevice::new(config);
    let mut server = Server::new(arguments.device_id);
    let Some(path) = &arguments.program else { return Ok((device, server)) };
    let file = ProgramFile::read(path).map_err(Failure::usage)?;
    // Loaded here first, so that errors name the file.
    Program::from_text(&file.json).map_err(|error| Failure::usage(error.in_file(path)))?;
    let json = file.json.into_bytes();
    let given = match (&arguments.p4info, file.p4info) {
        (Some(path), _) => Some((path, read(path)?)),
        (None, Some(text)) => Some((path, text.into_bytes())),
        (None, None) => None,
    };
    match given {
        Some((path, bytes)) => {
            let p4info = Some(p4info(path, &bytes)?);
            let config = ForwardingPipelineConfig { p4info, p4_device_config: json, cookie: None };
            let installed = server.install(&mut device, config);
            installed.map_err(|refusal| Failure::usage(format!("{}: {refusal}", path.display())))?;
        }
        None => device.install(device.load(&file.json).map_err(Failure::usage)?),
    }
    if let Some(switch) = device.switch() {
        if let Some(path) = &arguments.runtime {
            runtime::apply_file(switch, path).map_err(Failure::usage)?;
        }
        if let Some(path) = &arguments.commands {
            print!("{}", commands::apply_file(switch, path).map_err(Failure::usage)?);
        }
    }
    server.import(&mut device);
    Ok((device, server))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::usage(format!("{}: cannot be read: {error}", path.display())))
}

/// Parses P4Info in text or binary format.
fn p4info(path: &Path, bytes: &[u8]) -> Result<P4Info, Failure> {
    let info = P4Info::from_file_content(bytes);
    info.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
