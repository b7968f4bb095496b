//! Configuration of FRRouting for an autonomous system.

use super::{Role, System};
use std::fmt::Write;

/// Script that writes the configuration and starts the daemons.
pub(super) fn script(system: &System) -> String {
    let (network, address) = (system.network, system.address());
    let mut out = format!(
        "ip addr add {address}/32 dev lo\ncat > /etc/frr/frr.conf <<END\nhostname {}\n",
        system.name()
    );
    let _ =
        writeln!(out, "router bgp {}\n bgp router-id {address}\n no bgp network import-check", system.number);
    for session in &system.sessions {
        let _ = writeln!(out, " neighbor {} remote-as {}", session.other, session.number);
    }
    let _ = writeln!(out, " address-family ipv4 unicast\n  network {network}/24");
    for session in &system.sessions {
        let export = if session.role == Role::Customer { "to_customer" } else { "to_others" };
        let _ = writeln!(out, "  neighbor {} route-map from_{} in", session.other, session.role.noun());
        let _ = writeln!(out, "  neighbor {} route-map {export} out", session.other);
    }
    out.push_str(" exit-address-family\nbgp as-path access-list own permit ^$\n");
    for role in [Role::Provider, Role::Peer, Role::Customer] {
        let _ = writeln!(
            out,
            "route-map from_{} permit 10\n set local-preference {}",
            role.noun(),
            role.preference()
        );
    }
    out.push_str("route-map to_customer permit 10\nroute-map to_others permit 10\n match as-path own\n");
    let _ = writeln!(
        out,
        "route-map to_others permit 20\n match local-preference {}",
        Role::Customer.preference()
    );
    let _ = writeln!(
        out,
        "route-map source permit 10\n set src {address}\nip protocol bgp route-map source\nEND"
    );
    out.push_str("mkdir -p /run/frr && chown -R frr:frr /run/frr /etc/frr\nPATH=$PATH:/usr/lib/frr\n");
    out.push_str("zebra -d -f /etc/frr/frr.conf && bgpd -d -f /etc/frr/frr.conf\n");
    out
}
