//! Files of a machine.

use crate::cpio::Archive;
use crate::modules::Modules;
use crate::{Error, Setup, programs, script};
use belljar_config::MachineNic;
use std::net::IpAddr;
use std::path::Path;

impl Setup<'_> {
    /// Builds the initramfs: the host's root, or, without one, its programs with their dependencies and the
    /// files named by the experiment; and busybox, modules and the start script.
    pub(crate) fn initramfs(&self, names: &[(String, IpAddr)]) -> Result<Vec<u8>, Error> {
        let machine = self.machine;
        let mut archive = Archive::default();
        match &self.host.root {
            Some(root) => programs::root(&mut archive, &root.directory)?,
            None => {
                let own = machine.programs.iter().map(|program| &program.path);
                own.chain(&machine.files).try_for_each(|path| programs::add(&mut archive, path))?;
                let mut text =
                    |path: &str, text: &str| put(&mut archive, path, 0o644, text.as_bytes().to_vec());
                text(
                    "/etc/passwd",
                    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
                )?;
                text("/etc/group", "root:x:0:\nnogroup:x:65534:\n")?;
                text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")?;
            }
        }
        // The root may contain a link here.
        put(&mut archive, "/etc/hosts", 0o644, script::hosts(&self.host.name, names).into_bytes())?;
        let busybox =
            std::fs::read(&machine.busybox).map_err(|error| Error::with(&machine.busybox, &error))?;
        put(&mut archive, "/belljar/busybox", 0o755, busybox)?;
        let nic = match machine.nic {
            MachineNic::E1000 => "e1000",
            MachineNic::VirtioNet => "virtio_net",
        };
        let modules = Modules::of(&machine.modules)?.closure(&["virtio_pci", "virtio_console", nic])?;
        let order: Vec<String> = modules.iter().map(|module| module.name.clone()).collect();
        for module in modules {
            put(&mut archive, &format!("/belljar/modules/{}.ko", module.name), 0o644, module.content)?;
        }
        put(&mut archive, &format!("{}/init", script::FOLDER), 0o755, self.script(&order).into_bytes())?;
        Ok(archive.bytes())
    }
}

fn put(archive: &mut Archive, path: &str, permissions: u32, content: Vec<u8>) -> Result<(), Error> {
    let path = Path::new(path);
    archive
        .file(path, permissions, content)
        .map_err(|_| Error(format!("{} is too long for an initramfs", path.display())))
}
