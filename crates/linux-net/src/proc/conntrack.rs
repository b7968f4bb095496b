//! `/proc/net/nf_conntrack*`, `/proc/net/stat/nf_conntrack`, and the settings of `/proc/sys/net/netfilter`.

use belljar_conntrack::proc;
use belljar_conntrack::{Conntrack, Settings};
use belljar_linux_abi::Errno;
use belljar_netstack::Stack;
use belljar_netstack::ip::filtering::with_conntrack;

/// Text made of the connections; `empty` while nothing is tracked.
fn text(net: &Stack, empty: &str, make: impl FnOnce(&Conntrack) -> String) -> String {
    net.hooks.rules().map_or(empty.into(), |rules| make(rules.netfilter.conntrack()))
}

pub(super) fn connections(net: &Stack) -> String {
    text(net, "", |conntrack| proc::nf_conntrack(conntrack, net.clock.now()))
}

pub(super) fn expectations(net: &Stack) -> String {
    text(net, "", |conntrack| proc::nf_conntrack_expect(conntrack, net.clock.now()))
}

/// Value of a setting.
pub(super) fn setting(net: &Stack, name: &str) -> String {
    let value = match net.hooks.rules() {
        Some(rules) => rules.netfilter.conntrack().setting(name),
        None => Settings::default().get(name),
    };
    format!("{}\n", value.unwrap_or(0))
}

/// Changes a setting of connection tracking to a value as written to its file.
pub fn set_conntrack(net: &mut Stack, name: &str, value: &[u8]) -> Result<(), Errno> {
    let value = str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
    with_conntrack(net, |conntrack| conntrack.set_setting(name, value))
}
