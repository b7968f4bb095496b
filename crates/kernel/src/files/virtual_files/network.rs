//! Content of `/etc/hosts`.

use crate::config::HostConfig;
use std::fmt::Write;

/// `/etc/hosts`: the names and addresses of all hosts of the experiment.
pub(super) fn hosts(config: &HostConfig, ipv6: bool) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n");
    for (name, address) in config.names.iter() {
        if name != "localhost" {
            let _ = writeln!(text, "{address}\t{name}");
        }
    }
    if ipv6 {
        text += "::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n";
        for (name, address) in config.names6.iter().filter(|(name, _)| name != "localhost") {
            let _ = writeln!(text, "{address}\t{name}");
        }
    }
    text
}
