//! User that the experiment assigns to a process, looked up in the host's own `/etc/passwd` and `/etc/group`.

use super::load::ExecError;
use crate::credentials::Credentials;
use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::{Errno, c};
use belljar_objects::accounts::{Account, groups_of};

/// Maximum bytes read of a user or group file.
const LONGEST: u64 = 16 << 20;

impl Host {
    /// Makes `process` run as `user`, a name or a number, with the user's groups; sets the account's
    /// variables in the environment unless the experiment has set them.
    pub(super) fn run_as(
        &mut self,
        process: ProcessKey,
        user: &str,
        environment: &mut Vec<Vec<u8>>,
    ) -> Result<(), ExecError> {
        let accounts = self.read_text(process, b"/etc/passwd")?;
        let number = user.parse::<u32>().ok();
        let account =
            accounts.lines().filter_map(Account::parse).find(|a| a.name == user || number == Some(a.uid));
        let credentials = match (&account, number) {
            (Some(account), _) => {
                let mut groups = groups_of(account.name, &self.read_text(process, b"/etc/group")?);
                groups.push(account.gid);
                groups.sort_unstable();
                groups.dedup();
                Credentials::of_user(account.uid, account.gid, groups)
            }
            (None, Some(uid)) => Credentials::of_user(uid, uid, Vec::new()),
            (None, None) => {
                let reason = format!("the host has no user '{user}' in its /etc/passwd");
                return Err(ExecError::new(Errno::EINVAL, reason));
            }
        };
        self.process(process).credentials = credentials;
        if let Some(account) = account {
            for (name, value) in account.variables().iter().filter(|(_, value)| !value.is_empty()) {
                let prefix = format!("{name}=");
                if !environment.iter().any(|entry| entry.starts_with(prefix.as_bytes())) {
                    environment.push(format!("{prefix}{value}").into_bytes());
                }
            }
        }
        Ok(())
    }

    /// Reads a text file of the host; empty if it does not exist.
    fn read_text(&mut self, process: ProcessKey, path: &[u8]) -> Result<String, Errno> {
        let found = self.resolve(process, c::AT_FDCWD, path, crate::files::tree::Walk::FOLLOW)?;
        let Ok(inode) = found.inode() else { return Ok(String::new()) };
        let size = self.files.inode(inode).content().map_or(0, |content| content.size).min(LONGEST);
        let native = self.native_of(inode)?;
        let mut bytes = vec![0; size as usize];
        let read = self.machine.read_at(native, 0, &mut bytes)?;
        bytes.truncate(read);
        if self.files.inode(inode).opens == 0 {
            self.files.close_native(&mut *self.machine, inode);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
