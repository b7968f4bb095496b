//! Configuration of BIRD 2 for an autonomous system.

use super::{Role, System};
use std::fmt::Write;

/// Script that writes the configuration and becomes the daemon.
pub(super) fn script(system: &System) -> String {
    let (network, address) = (system.network, system.address());
    let mut out = format!(
        "ip addr add {address}/32 dev lo\nmkdir -p /run/bird /etc/bird\ncat > /etc/bird/bird.conf <<END\n"
    );
    let _ = writeln!(out, "log stderr all;\nrouter id {address};\nprotocol device {{ }}");
    let _ = writeln!(out, "protocol static {{ ipv4; route {network}/24 blackhole; }}");
    let _ = writeln!(
        out,
        "protocol kernel {{ ipv4 {{ export filter {{ if source != RTS_BGP then reject; krt_prefsrc = {address}; accept; }}; }}; }}"
    );
    for role in [Role::Provider, Role::Peer, Role::Customer] {
        let _ = writeln!(
            out,
            "filter from_{} {{ bgp_local_pref = {}; accept; }}",
            role.noun(),
            role.preference()
        );
    }
    out.push_str("filter to_customer { if source = RTS_STATIC || source = RTS_BGP then accept; reject; }\n");
    let _ = writeln!(
        out,
        "filter to_others {{ if source = RTS_STATIC then accept; if source = RTS_BGP && bgp_local_pref = {} then accept; reject; }}",
        Role::Customer.preference()
    );
    for session in &system.sessions {
        let export = if session.role == Role::Customer { "to_customer" } else { "to_others" };
        let _ = writeln!(
            out,
            "protocol bgp as_{other} {{ local {own} as {number}; neighbor {far} as {other}; connect delay time 1; ipv4 {{ import filter from_{role}; export filter {export}; }}; }}",
            other = session.number,
            own = session.own,
            number = system.number,
            far = session.other,
            role = session.role.noun(),
        );
    }
    out.push_str("END\nexec bird -f\n");
    out
}
