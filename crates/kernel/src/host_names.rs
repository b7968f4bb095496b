//! Names and addresses of all hosts of the experiment, and `/etc/hosts` with them.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

/// Names of all hosts. The text of `/etc/hosts` is made when the first host reads it, and shared: programs read
/// its length and its content often, and it has a line for each host.
#[derive(Debug, Default)]
pub struct HostNames {
    v4: Vec<(String, Ipv4Addr)>,
    v6: Vec<(String, Ipv6Addr)>,
    /// The file of hosts without IPv6, and of those with it.
    files: [OnceLock<Arc<[u8]>>; 2],
}

impl HostNames {
    /// Names with their IPv4 and IPv6 addresses.
    pub fn new(v4: Vec<(String, Ipv4Addr)>, v6: Vec<(String, Ipv6Addr)>) -> HostNames {
        HostNames { v4, v6, files: Default::default() }
    }

    /// Content of `/etc/hosts` on a host with or without IPv6.
    pub(crate) fn file(&self, ipv6: bool) -> Arc<[u8]> {
        self.files[usize::from(ipv6)].get_or_init(|| self.text(ipv6).into_bytes().into()).clone()
    }

    /// Content of `/etc/hosts` on a host whose lookups of some names are to reach the name server, since a fault concerns them. The
    /// names `own` and `localhost` stay.
    pub(crate) fn file_without(
        &self,
        ipv6: bool,
        own: &str,
        is_concerned: &dyn Fn(&str) -> bool,
    ) -> Arc<[u8]> {
        let text = self.text(ipv6);
        let stays = |line: &&str| {
            let mut names = line.split_whitespace().skip(1);
            let is_local =
                |name: &str| name == own || name.starts_with("localhost") || name.starts_with("ip6-");
            names.any(|name| is_local(name) || !is_concerned(name))
        };
        let kept: String = text.lines().filter(stays).flat_map(|line| [line, "\n"]).collect();
        kept.into_bytes().into()
    }

    fn text(&self, ipv6: bool) -> String {
        let mut text = String::from("127.0.0.1\tlocalhost\n");
        for (name, address) in self.v4.iter().filter(|(name, _)| name != "localhost") {
            let _ = writeln!(text, "{address}\t{name}");
        }
        if ipv6 {
            text +=
                "::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n";
            for (name, address) in self.v6.iter().filter(|(name, _)| name != "localhost") {
                let _ = writeln!(text, "{address}\t{name}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_share_one_file_for_each_family() {
        let names = HostNames::new(
            vec![("a".into(), Ipv4Addr::new(11, 0, 0, 1)), ("localhost".into(), Ipv4Addr::LOCALHOST)],
            vec![("a".into(), "fd00::1".parse().unwrap())],
        );
        assert_eq!(&*names.file(false), b"127.0.0.1\tlocalhost\n11.0.0.1\ta\n");
        assert!(names.file(true).ends_with(b"ff02::2\tip6-allrouters\nfd00::1\ta\n"));
        assert!(Arc::ptr_eq(&names.file(false), &names.file(false)));
        assert!(!Arc::ptr_eq(&names.file(false), &names.file(true)));
        let all = names.file_without(true, "b", &|_| true);
        assert!(!all.ends_with(b"fd00::1\ta\n") && all.ends_with(b"ff02::2\tip6-allrouters\n"));
        assert_eq!(names.file_without(true, "a", &|_| true), names.file(true));
        assert_eq!(names.file_without(false, "b", &|name| name == "c"), names.file(false));
    }
}
