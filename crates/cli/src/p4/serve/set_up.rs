//! Set-up of the switch and its server from the command line.

use super::{Arguments, DEVICE_ID};
use crate::failure::Failure;
use belljar_emulation::p4::SwitchPlan;
use belljar_p4::{Program, SwitchConfig, SwitchDevice};
use belljar_p4c::ProgramFile;
use belljar_p4files::{commands, runtime};
use belljar_p4runtime::{Server, pipeline_config};
use std::path::Path;
use std::sync::Arc;

/// Creates the switch, loads its program, and applies the configuration files.
pub fn from_arguments(arguments: &Arguments) -> Result<(SwitchDevice, Server<SwitchDevice>), Failure> {
    let ports = arguments.interface.iter().map(|attachment| attachment.port + 1).max().unwrap_or(0);
    let config = SwitchConfig {
        name: arguments.name.clone(),
        ports,
        cpu_port: arguments.cpu_port,
        ..SwitchConfig::default()
    };
    let (mut device, mut server) = (SwitchDevice::new(config), Server::new(arguments.device_id));
    let Some(path) = &arguments.program else { return Ok((device, server)) };
    let file = ProgramFile::read(path).map_err(Failure::usage)?;
    let program = Program::from_text(&file.json).map_err(|error| Failure::usage(error.in_file(path)))?;
    device.know(Arc::new(program));
    let (origin, p4info) = match &arguments.p4info {
        Some(path) => (path, Some(read(path)?)),
        None => (path, file.p4info.map(String::into_bytes)),
    };
    install(&mut device, &mut server, &file.json, p4info.as_deref())
        .map_err(|error| Failure::usage(format!("{}: {error}", origin.display())))?;
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

/// Makes a switch of an emulation, whose program is compiled and whose files have been read.
pub fn from_plan(plan: &SwitchPlan) -> Result<(SwitchDevice, Server<SwitchDevice>), Failure> {
    let config = SwitchConfig {
        name: plan.name.clone(),
        ports: plan.interfaces.iter().map(|(port, _)| port + 1).max().unwrap_or(0),
        cpu_port: plan.cpu_port,
        nanoseconds: plan.nanoseconds,
        ..SwitchConfig::default()
    };
    let device_id = plan.management.as_ref().map_or(DEVICE_ID, |management| management.device_id);
    let (mut device, mut server) = (SwitchDevice::new(config), Server::new(device_id));
    let Some(json) = &plan.json else { return Ok((device, server)) };
    install(&mut device, &mut server, json, plan.p4info.as_deref()).map_err(Failure::run)?;
    if let Some(switch) = device.switch() {
        plan.setup.iter().try_for_each(|setup| setup.apply(switch)).map_err(Failure::run)?;
    }
    server.import(&mut device);
    Ok((device, server))
}

/// Installs a program: with P4Info, in text or binary, as a controller would.
fn install(
    device: &mut SwitchDevice,
    server: &mut Server<SwitchDevice>,
    json: &str,
    p4info: Option<&[u8]>,
) -> Result<(), String> {
    let Some(p4info) = p4info else {
        device.install(device.load(json).map_err(|error| error.to_string())?);
        return Ok(());
    };
    let config = pipeline_config(json, p4info)?;
    server.install(device, config).map_err(|refusal| refusal.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    belljar_inputs::read(path)
        .map_err(|error| Failure::usage(format!("{}: cannot be read: {error}", path.display())))
}
