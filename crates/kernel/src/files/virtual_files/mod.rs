//! Virtual files, whose content the kernel generates: `/proc`, `/sys` and the files of `/etc` that describe
//! the host. Their content is the same on every machine and, apart from values drawn from the seed, for every
//! seed.

mod kernel_settings;
mod memory;
mod mounts;
mod namespaces;
mod processes;
mod status;
mod system;

pub(crate) use processes::is_of_interfaces;

use crate::call::Call;
use crate::credentials::capability;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey};
use crate::memory as limits;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;
use belljar_linux_net::proc::{self, NetworkFile, set_conntrack};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::Node;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::process_files::ProcessFile;
use belljar_objects::processors::Processors;
use belljar_objects::system_files::{SystemText, node_memory};
use belljar_objects::virtual_files::VirtualFile;
use std::sync::Arc;

impl Host {
    /// Content of a virtual file. `ESRCH` if its process has exited.
    pub(crate) fn virtual_content(&mut self, inode: InodeKey) -> Result<Arc<[u8]>, Errno> {
        match self.files.inode(inode).node {
            Node::Virtual(VirtualFile::Hosts) => Ok(hosts_file(self)),
            _ => Ok(made_content(self, inode)?.into()),
        }
    }
}

/// `/etc/hosts`: names that a fault of the name server concerns are left out, so that it is asked for them.
fn hosts_file(host: &Host) -> Arc<[u8]> {
    let config = &host.net.config;
    match &config.resolver {
        Some(resolver) if !resolver.faults.is_empty() => {
            let is_concerned = |name: &str| resolver.faults.of(name).is_some();
            host.config.names.file_without(config.ipv6, &config.name, &is_concerned)
        }
        _ => host.config.names.file(config.ipv6),
    }
}

/// Content of a virtual file that is made anew each time. Empty for `/etc/hosts`, which is shared.
fn made_content(host: &mut Host, inode: InodeKey) -> Result<Vec<u8>, Errno> {
    let Node::Virtual(file) = &host.files.inode(inode).node else { return Err(Errno::EINVAL) };
    match file.clone() {
        VirtualFile::System(SystemText::Text(text) | SystemText::Setting(text)) => {
            Ok(text.as_bytes().to_vec())
        }
        VirtualFile::System(SystemText::Overcommit) => Ok(limits::default_overcommit(host).to_vec()),
        VirtualFile::Bytes(make) => Ok(make()),
        VirtualFile::Hosts => Ok(Vec::new()),
        VirtualFile::Generated(which) => Ok(host.generated(which).into_bytes()),
        VirtualFile::Network(file) => {
            let network = host.network_of_caller();
            Ok(file.content(host.stack_mut(network)).into_bytes())
        }
        VirtualFile::Device(file) if Processors::is_node_memory(file) => {
            Ok(node_memory(&limits::info(host)).into_bytes())
        }
        VirtualFile::Device(file) => Ok(host.config.processors.content(file).into_bytes()),
        VirtualFile::Kernel(setting) => Ok(host.kernel_setting(setting).into_bytes()),
        VirtualFile::InterfaceSetting(setting) => {
            Ok(host.stack(host.network_of_caller()).interface_setting_text(setting).into_bytes())
        }
        VirtualFile::Interface(number, file) => {
            Ok(proc::interface_file(host.stack(host.network_of_caller()), number, file)?.into_bytes())
        }
        VirtualFile::Bond(number) => {
            Ok(proc::proc_net_bonding(host.stack(host.network_of_caller()), number).into_bytes())
        }
        VirtualFile::Written(bytes) => Ok(bytes),
        VirtualFile::Process(pid, file) => {
            host.process_file(host.files.shown_namespace(inode), pid, None, file)
        }
        VirtualFile::Thread(pid, tid, file) => {
            host.process_file(host.files.shown_namespace(inode), pid, Some(tid), file)
        }
        VirtualFile::DescriptorInfo(pid, fd) => {
            host.files.descriptor_info(&host.processes, host.files.shown_namespace(inode), pid, fd)
        }
        VirtualFile::Namespace(..) => Err(Errno::EINVAL),
    }
}

impl Call<'_> {
    /// `read(2)` of a virtual file.
    pub(crate) fn read_virtual(
        &mut self,
        file: FileKey,
        inode: InodeKey,
        content: Option<Arc<[u8]>>,
        buffers: &GuestBuffers,
        offset: Option<u64>,
    ) -> SysResult {
        let start = offset.unwrap_or(self.host.files.open(file).offset);
        match self.memory_behind(inode)? {
            Some((process, ProcessFile::Pagemap)) => {
                return self.read_pagemap(file, process, buffers, start, offset.is_none());
            }
            Some((process, _)) => return self.read_memory(file, process, buffers, start, offset.is_none()),
            None => {}
        }
        let content = match content {
            Some(content) if start > 0 => content,
            _ => {
                let made = self.host.virtual_content(inode)?;
                if let FileKind::Virtual { content, .. } = &mut self.host.files.open(file).kind {
                    *content = Some(made.clone());
                }
                made
            }
        };
        let from = content.len().min(start as usize);
        let len = (content.len() - from).min(total_len(buffers) as usize);
        self.scatter(buffers, &content[from..from + len])?;
        if offset.is_none() {
            self.host.files.open(file).offset = start + len as u64;
        }
        done(len as u64)
    }
    /// `write(2)` of a virtual file: settings and writable process files parse the text, `EACCES` for other
    /// files.
    pub(crate) fn write_virtual(
        &mut self,
        file: FileKey,
        inode: InodeKey,
        buffers: &GuestBuffers,
        offset: Option<u64>,
    ) -> SysResult {
        if let Some((process, told)) = self.memory_behind(inode)? {
            if told == ProcessFile::Pagemap {
                return Err(Errno::EINVAL);
            }
            let start = offset.unwrap_or(self.host.files.open(file).offset);
            return self.write_memory(file, process, buffers, start, offset.is_none());
        }
        let (len, open) = (total_len(buffers), file);
        let data = self.gather(buffers, 0, 4_096)?;
        let Node::Virtual(file) = &mut self.host.files.inode(inode).node else { return Err(Errno::EINVAL) };
        match file {
            VirtualFile::System(SystemText::Setting(_) | SystemText::Overcommit)
            | VirtualFile::Written(_) => {
                *file = VirtualFile::Written(data);
            }
            VirtualFile::Network(NetworkFile::Tunable(setting)) => {
                let setting = *setting;
                let network = self.network();
                self.host.stack_mut(network).set_sysctl(setting, &data)?;
            }
            VirtualFile::Network(NetworkFile::Conntrack(name)) => {
                let name = *name;
                let network = self.network();
                set_conntrack(self.host.stack_mut(network), name, &data)?;
            }
            VirtualFile::Kernel(setting) => {
                let setting = *setting;
                self.host.set_kernel_setting(setting, &data)?;
            }
            VirtualFile::InterfaceSetting(setting) => {
                let setting = *setting;
                let network = self.network();
                self.host.stack_mut(network).write_interface_setting(setting, &data)?;
            }
            VirtualFile::Process(pid, ProcessFile::Comm) => {
                let pid = *pid;
                self.host.threads.set_comm(&self.host.processes, pid, pid, &data)?;
            }
            VirtualFile::Thread(pid, tid, ProcessFile::Comm) => {
                let (pid, tid) = (*pid, *tid);
                self.host.threads.set_comm(&self.host.processes, pid, tid, &data)?;
            }
            VirtualFile::Process(pid, file @ (ProcessFile::OomScoreAdj | ProcessFile::OomAdj))
            | VirtualFile::Thread(pid, _, file @ (ProcessFile::OomScoreAdj | ProcessFile::OomAdj)) => {
                let (pid, old_scale) = (*pid, *file == ProcessFile::OomAdj);
                self.host.processes.set_oom_adjustment(self.process, pid, old_scale, &data)?;
            }
            VirtualFile::Process(pid, ProcessFile::TimerSlack) => {
                let pid = *pid;
                self.host.processes.set_timer_slack(pid, &data)?;
            }
            VirtualFile::Process(pid, ProcessFile::CoredumpFilter) => {
                let pid = *pid;
                self.host.processes.set_coredump_filter(pid, &data)?;
            }
            VirtualFile::Process(_, ProcessFile::Loginuid) => {}
            VirtualFile::Process(pid, what @ (ProcessFile::SetGroups | ProcessFile::IdMap(_))) => {
                let process = *self.host.processes.by_pid.get(pid).ok_or(Errno::ESRCH)?;
                let what = *what;
                let start = offset.unwrap_or(self.host.files.open(open).offset);
                if start != 0 {
                    return Err(Errno::EINVAL);
                }
                let processes = &mut self.host.processes;
                match what {
                    ProcessFile::IdMap(kind) => processes.write_id_map(self.process, process, kind, &data)?,
                    _ => processes.write_setgroups(self.process, process, &data)?,
                }
                self.host.files.open(open).offset += if offset.is_none() { len } else { 0 };
            }
            VirtualFile::Process(pid, ProcessFile::TimeOffsets) => {
                let process = *self.host.processes.by_pid.get(pid).ok_or(Errno::ESRCH)?;
                let number = self.host.processes[process.0].attributes.time.of_children;
                let owner = self.host.processes.namespaces.owner(NamespaceKind::Time, number).unwrap_or(0);
                self.host.processes.require_in(self.process, owner, capability::SYS_TIME)?;
                let now = self.host.net.clock.monotonic_ns();
                return done(self.host.processes.time_namespaces.write(number, &data, now)? as u64);
            }
            _ => return Err(Errno::EACCES),
        }
        done(len)
    }
}
