use super::*;

/// A host on the graph with IPv6 enabled, with these additional lines.
#[track_caller]
fn host(lines: &str, expected: &str, help: &str) {
    let host = format!("hosts:\n  a:\n    processes: []\n    network_node_id: 0\n    {lines}\n");
    check(&format!("{GENERAL}\n{NETWORK}\nbelljar: {{ ipv6: true }}\n{host}"), expected, help);
}

/// Two hosts and a router on links with IPv6 enabled; the interfaces of host a and of the router.
#[track_caller]
fn interfaces(host: &str, router: &str, expected: &str, help: &str) {
    check(
        &format!(
            "{GENERAL}\nbelljar: {{ ipv6: true }}\nhosts: {{ a: {{ processes: [], {host} }}, b: {{ processes: [] }} }}\n\
             routers: {{ r: {{ {router} }} }}\nlinks: [ {{ between: [a, r] }}, {{ between: [b, r] }} ]\n"
        ),
        expected,
        help,
    );
}

#[test]
fn addresses_on_the_graph() {
    const OTHER: &str = "use an address such as 2001:db8::5, or leave 'ip6_addr' out to have one assigned";
    host("ip6_addr: 10.0.0.1", "8:15 '10.0.0.1' is not an IPv6 address", "write it such as 2001:db8::5");
    for (address, kind) in [
        ("::", "the unspecified address"),
        ("::1", "a loopback address"),
        ("ff02::1", "a multicast address"),
        ("fe80::1", "link-local, which interfaces have anyway"),
        ("::ffff:1.2.3.4", "an IPv4 address in disguise"),
    ] {
        let message = format!("8:15 host 'a' cannot have the address {address}: it is {kind}");
        host(&format!("ip6_addr: \"{address}\""), &message, OTHER);
    }
    host(
        "ipv6: maybe",
        "8:11 'ipv6' must be true or false, not 'maybe'",
        "write false or true, without quotes",
    );
    host(
        "ipv6: false\n    ip6_addr: 2001:db8::5",
        "9:15 host 'a' cannot have an IPv6 address: IPv6 is off",
        "switch it on: belljar: { ipv6: true }",
    );
    host(
        "ip6_addr: \"2001:db8::b00:2\"\n  b: { network_node_id: 0, processes: [] }",
        "8:15 hosts 'a' and 'b' both have the address 2001:db8::b00:2",
        "use another address, or leave 'ip6_addr' out to have one assigned",
    );
}

#[test]
fn ipv6_where_it_is_off() {
    const ON: &str = "switch it on: belljar: { ipv6: true }";
    let graph = |line: &str, expected: &str| {
        let text = format!(
            "{GENERAL}\n{NETWORK}\nhosts: {{ a: {{ network_node_id: 0, processes: [], {line} }} }}\n"
        );
        check(&text, expected, ON);
    };
    graph("ipv6: true", "3:56 host 'a' cannot have IPv6: IPv6 is off");
    graph("ip6_addr: 2001:db8::5", "3:60 host 'a' cannot have an IPv6 address: IPv6 is off");
    let link = |section: &str, expected: &str| {
        let text = format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\nlinks: [ {{ between: [a, r] }}, {{ between: [b, r] }} ]\n{section}\n"
        );
        check(&text, expected, ON);
    };
    link(
        "routers: { r: { interfaces: { eth0: \"2001:db8:1::1/64\" } } }",
        "4:37 'r' cannot have an IPv6 address: IPv6 is off",
    );
    link(
        "routers: { r: { interfaces: { eth0: { advertise: true } } } }",
        "4:50 nothing can be announced: IPv6 is off",
    );
}

#[test]
fn interfaces_on_links() {
    interfaces(
        "interfaces: { eth0: \"2001:db8:1::1\" }",
        "",
        "3:50 '2001:db8:1::1' is not an IPv6 address with the length of its network",
        "write it such as 2001:db8:1::1/64",
    );
    interfaces(
        "interfaces: { eth0: \"fe80::1/64\" }",
        "",
        "3:50 no interface can have the address fe80::1: it is link-local, which interfaces have anyway",
        "",
    );
    interfaces(
        "interfaces: { eth0: \"2001:db8:1::/64\" }",
        "",
        "3:50 2001:db8:1:: stands for the routers of the whole network 2001:db8:1::/64",
        "take another address of it",
    );
    interfaces(
        "interfaces: { eth0: { advertise: true } }",
        "",
        "3:63 only routers announce themselves by 'advertise'",
        "run radvd on a host that is to do so",
    );
    interfaces(
        "",
        "interfaces: { eth0: slaac }",
        "4:37 only hosts make themselves addresses by 'slaac'",
        "give a router's interface an address such as 2001:db8:1::1/64",
    );
    interfaces(
        "interfaces: { eth0: \"2001:db8:1::1/64\" }",
        "interfaces: { eth0: \"2001:db8:1::1/64\" }",
        "4:29 'a:eth0' and 'r:eth0' both have the address 2001:db8:1::1",
        "they are on one network: give one of them another address",
    );
}

#[test]
fn routes_of_ipv6() {
    interfaces(
        "routes: [ { to: \"2001:db8:2::/64\" } ]",
        "",
        "3:40 this route leads nowhere",
        "add via or dev: { to: 2001:db8:2::/64, via: 2001:db8:1::fe }",
    );
    interfaces(
        "routes: [ { to: \"2001:db8:2::5/64\", dev: eth0 } ]",
        "",
        "3:46 2001:db8:2::5/64 is an address within a network",
        "write 2001:db8:2::/64",
    );
    interfaces(
        "routes: [ { to: default, via: \"2001:db8:9::1\" } ]",
        "",
        "3:60 2001:db8:9::1 is on no network of this node's interfaces",
        "a next hop must be reached without another one",
    );
    interfaces(
        "routes: [ { to: \"2001:db8::/64\", via: 10.0.0.1 } ]",
        "",
        "3:68 '10.0.0.1' is not an IPv6 address",
        "write it such as 2001:db8::5",
    );
    interfaces(
        "routes: [ { to: \"2001:db8::/264\", dev: eth0 } ]",
        "",
        "3:46 '2001:db8::/264' is not a network",
        "write it such as 2001:db8:2::/64, or default",
    );
}
