//! `ioctl(2)` of `/dev/net/tun`.

use super::{FEATURES, NAME_MAX, flag};
use crate::call::Call;
use crate::credentials::capability;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;
use belljar_linux_net::offload;
use belljar_objects::namespaces::NamespaceKind;

const TUNSETNOCSUM: u64 = 0x4004_54c8;
const TUNSETIFF: u64 = 0x4004_54ca;
const TUNSETPERSIST: u64 = 0x4004_54cb;
const TUNSETOWNER: u64 = 0x4004_54cc;
const TUNSETGROUP: u64 = 0x4004_54ce;
const TUNGETFEATURES: u64 = 0x8004_54cf;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUNGETIFF: u64 = 0x8004_54d2;
const TUNGETVNETHDRSZ: u64 = 0x8004_54d7;
const TUNSETVNETHDRSZ: u64 = 0x4004_54d8;
/// `IFNAMSIZ`.
const NAME_LEN: usize = 16;

impl Call<'_> {
    /// Requests on an open `/dev/net/tun` file and its interface.
    pub(crate) fn tun_ioctl(&mut self, n: usize, request: u64, argument: u64) -> SysResult {
        if request == TUNGETFEATURES {
            self.write(argument, &u32::from(FEATURES))?;
            return done(0);
        }
        if request == TUNSETIFF {
            return self.tun_set_interface(n, argument);
        }
        let network = self.host.network_of_tun(n);
        let net = self.host.stack(network);
        let tun = &net.tuns[n];
        let interface = tun.interface.ok_or(Errno::EBADFD)?;
        match request {
            TUNGETIFF => {
                let mut entry = [0u8; 40];
                let name = &net.interfaces[interface].name;
                entry[..name.len()].copy_from_slice(name.as_bytes());
                let flags = tun.flags | if tun.persistent { flag::PERSIST } else { 0 };
                entry[NAME_LEN..NAME_LEN + 2].copy_from_slice(&flags.to_ne_bytes());
                self.write_bytes(argument, &entry)?;
            }
            TUNSETPERSIST => self.host.stack_mut(network).tuns[n].persistent = argument != 0,
            TUNSETOFFLOAD if argument & !offload::KNOWN != 0 => return Err(Errno::EINVAL),
            TUNSETOFFLOAD | TUNSETNOCSUM | TUNSETOWNER | TUNSETGROUP => {}
            TUNGETVNETHDRSZ => {
                let len = tun.header_len as i32;
                self.write(argument, &len)?;
            }
            TUNSETVNETHDRSZ => {
                let len: i32 = self.read(argument)?;
                let len = usize::try_from(len).ok().filter(|len| *len >= offload::HEADER_LEN);
                self.host.stack_mut(network).tuns[n].header_len = len.ok_or(Errno::EINVAL)?;
            }
            _ => return Err(Errno::EINVAL),
        }
        done(0)
    }

    fn tun_set_interface(&mut self, n: usize, argument: u64) -> SysResult {
        self.host.processes.require_for(self.process, NamespaceKind::Net, capability::NET_ADMIN)?;
        let net = self.host.stack(self.host.network_of_tun(n));
        if net.tuns[n].interface.is_some() {
            return Err(Errno::EINVAL);
        }
        let mut entry = [0u8; 40];
        self.read_bytes(argument, &mut entry)?;
        let flags = u16::from_ne_bytes([entry[NAME_LEN], entry[NAME_LEN + 1]]);
        // `IFF_TUN` takes precedence over `IFF_TAP`.
        let flags = if flags & flag::TUN != 0 { flags & !flag::TAP } else { flags };
        let known = FEATURES | flag::TUN_EXCL;
        if flags & !known != 0 || flags & (flag::TUN | flag::TAP) == 0 {
            return Err(Errno::EINVAL);
        }
        let end = entry[..NAME_LEN].iter().position(|b| *b == 0).unwrap_or(NAME_MAX).min(NAME_MAX);
        let given = std::str::from_utf8(&entry[..end]).map_err(|_| Errno::EINVAL)?.to_owned();
        let net = self.host.stack(self.host.network_of_tun(n));
        let name = match given.as_str() {
            "" => net.interfaces.free_tun_name(flags),
            // Pattern such as `tun%d`.
            pattern if pattern.contains("%d") => {
                let free = |n: &u32| {
                    net.interfaces.by_name(pattern.replace("%d", &n.to_string()).as_bytes()).is_none()
                };
                let number = (0..).find(free).unwrap_or(0);
                pattern.replace("%d", &number.to_string())
            }
            name if name.contains(['/', ' ']) => return Err(Errno::EINVAL),
            name => name.to_owned(),
        };
        self.host.attach_tun(n, &name, flags)?;
        entry[..NAME_LEN].fill(0);
        entry[..name.len().min(NAME_MAX)].copy_from_slice(&name.as_bytes()[..name.len().min(NAME_MAX)]);
        self.write_bytes(argument, &entry)?;
        done(0)
    }
}
