//! User and group databases of a host, `passwd(5)` and `group(5)`.

/// Entry of `/etc/passwd`, `passwd(5)`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Account<'a> {
    pub name: &'a str,
    pub uid: u32,
    pub gid: u32,
    pub home: &'a str,
    pub shell: &'a str,
}

impl<'a> Account<'a> {
    /// Parses one line; `None` unless it has seven fields with numeric ids.
    pub fn parse(line: &'a str) -> Option<Account<'a>> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields[..] else { return None };
        Some(Account { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, home, shell })
    }
    /// Environment variables that `login(1)` would set for the account.
    pub fn variables(&self) -> [(&'static str, &'a str); 4] {
        [("HOME", self.home), ("LOGNAME", self.name), ("SHELL", self.shell), ("USER", self.name)]
    }
}

/// Supplementary group ids of `user` according to the text of `/etc/group`.
pub fn groups_of(user: &str, file: &str) -> Vec<u32> {
    let gid_of_member = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members] = fields[..] else { return None };
        members.split(',').any(|member| member == user).then(|| gid.parse().ok()).flatten()
    };
    file.lines().filter_map(gid_of_member).collect()
}
