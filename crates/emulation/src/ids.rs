//! Users and groups of an emulation without root. A user namespace has a single id of each kind, or the
//! subordinate ids that `/etc/subuid` and `/etc/subgid` grant to its user, mapped by the machine's
//! `newuidmap` and `newgidmap`.

use crate::error::{Doing, Error, Result};
use nix::unistd::{Gid, Uid, User};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Number of ids that an emulation maps at most: the whole range that distributions assign.
const WANTED: u32 = 65_535;
const PROGRAMS: [&str; 2] = ["newuidmap", "newgidmap"];

/// Returns first id and length of the longest range of subordinate ids of a user in `file`.
fn lent(file: &str, user: Uid) -> Option<(u32, u32)> {
    let name = User::from_uid(user).ok().flatten().map(|found| found.name);
    let text = fs::read_to_string(file).ok()?;
    let ranges = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        let own = name.as_deref() == Some(owner) || owner == user.to_string();
        let range = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        own.then_some(range)
    });
    ranges.max_by_key(|(_, count)| *count)
}

/// Ranges of subordinate users and groups for an unprivileged emulation; `None` without ranges or without
/// the programs that map them.
fn ranges() -> Option<[(u32, u32); 2]> {
    let user = Uid::effective();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&str| std::env::split_paths(&search).any(|place| place.join(program).is_file());
    let ranges = [lent("/etc/subuid", user)?, lent("/etc/subgid", user)?];
    (PROGRAMS.iter().all(is_there) && ranges.iter().all(|(_, count)| *count > 0)).then_some(ranges)
}

/// True if an emulation of this unprivileged user has several users.
pub fn are_several() -> bool {
    ranges().is_some()
}

/// Process outside of the user namespace that this process is about to make, which maps the namespace's
/// ids.
pub struct Mapper(Option<Child>);

impl Mapper {
    /// Starts the process, if there are subordinate ids.
    pub fn start() -> Mapper {
        let Some(ranges) = ranges() else { return Mapper(None) };
        let (user, group) = (Uid::effective().as_raw(), Gid::effective().as_raw());
        let maps =
            [user, group].into_iter().zip(ranges).zip(PROGRAMS).map(|((own, (first, count)), program)| {
                format!("{program} {} 0 {own} 1 1 {first} {}", std::process::id(), count.min(WANTED))
            });
        let script = format!("read go && {}", maps.collect::<Vec<_>>().join(" && "));
        let mut shell = Command::new("/bin/sh");
        let spawned = shell
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Mapper(spawned.ok())
    }

    /// Maps the ids of this process's new user namespace: the subordinate ids, or a single id of each kind.
    pub fn map(self, user: Uid, group: Gid) -> Result<()> {
        if let Some(mut child) = self.0 {
            let _ = child.stdin.take().map(|mut stdin| stdin.write_all(b"go\n"));
            if child.wait().doing("waiting for newuidmap")?.success() {
                return Ok(());
            }
            if !fs::read_to_string("/proc/self/uid_map").unwrap_or_default().is_empty() {
                return Err(Error::new(
                    "newgidmap refuses the groups of /etc/subgid: repair that file, or remove the user's line",
                ));
            }
        }
        fs::write("/proc/self/setgroups", "deny").doing("denying the change of groups")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1")).doing("mapping the user")?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1")).doing("mapping the group")
    }
}

/// True if the namespace of this process has more than one user.
pub fn has_several_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let counts = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    counts.sum::<u64>() > 1
}

/// Changes the owner of all files below a directory to the namespace's root, which is the user that runs
/// Belljar.
pub fn take_over(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // Files whose owner cannot be changed are skipped.
        let _ = std::os::unix::fs::lchown(&path, Some(0), Some(0));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            take_over(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_lent_the_longest_range_of_its_name_or_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("subuid");
        let own = Uid::effective();
        fs::write(&file, format!("nobody-else:1:9\n{own}:100:5\n{own}:200:70\nbroken\n{own}:x:99\n"))
            .unwrap();
        assert_eq!(lent(file.to_str().unwrap(), own), Some((200, 70)));
        assert_eq!(lent(folder.path().join("none").to_str().unwrap(), own), None);
    }
}
