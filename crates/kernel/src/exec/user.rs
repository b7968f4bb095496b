//! The user that the experiment lets a process run as, by the host's own `/etc/passwd` and
//! `/etc/group`.

use super::load::ExecError;
use crate::credentials::Credentials;
use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::{Errno, c};

/// Longer files than this are no lists of users.
const LONGEST: u64 = 16 << 20;

/// A line of `/etc/passwd`, `passwd(5)`.
struct Account<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
    shell: &'a str,
}

impl<'a> Account<'a> {
    fn parse(line: &'a str) -> Option<Account<'a>> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields[..] else { return None };
        Some(Account { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, home, shell })
    }
}

impl Host {
    /// Lets `process` run as `user`, a name or a number, with the user's groups; names it in the
    /// environment where the experiment has not.
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
                let mut groups = self.groups_of(process, account.name)?;
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
            let values = [
                ("HOME", account.home),
                ("LOGNAME", account.name),
                ("SHELL", account.shell),
                ("USER", account.name),
            ];
            for (name, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
                let prefix = format!("{name}=");
                if !environment.iter().any(|entry| entry.starts_with(prefix.as_bytes())) {
                    environment.push(format!("{prefix}{value}").into_bytes());
                }
            }
        }
        Ok(())
    }

    /// The supplementary groups of a user, `group(5)`.
    fn groups_of(&mut self, process: ProcessKey, user: &str) -> Result<Vec<u32>, ExecError> {
        let text = self.read_text(process, b"/etc/group")?;
        let gid_of_member = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let [_, _, gid, members] = fields[..] else { return None };
            members.split(',').any(|member| member == user).then(|| gid.parse().ok()).flatten()
        };
        Ok(text.lines().filter_map(gid_of_member).collect())
    }

    /// A file of the host; empty if there is none.
    fn read_text(&mut self, process: ProcessKey, path: &[u8]) -> Result<String, Errno> {
        let found = self.resolve(process, c::AT_FDCWD, path, crate::files::tree::Walk::FOLLOW)?;
        let Ok(inode) = found.inode() else { return Ok(String::new()) };
        let size = self.files.inode(inode).content().map_or(0, |content| content.size).min(LONGEST);
        let native = self.native_of(inode)?;
        let mut bytes = vec![0; size as usize];
        let read = self.machine.read_at(native, 0, &mut bytes)?;
        bytes.truncate(read);
        if self.files.inode(inode).opens == 0 {
            self.close_native(inode);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
