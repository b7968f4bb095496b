//! Messages on PCI devices.

use super::{GENERAL, HOSTS, NETWORK, errors};

/// Asserts that a file has an error whose message and help contain these texts.
#[track_caller]
fn check(text: &str, expected: &str, help: &str) {
    let all = errors(text);
    let is_found = all.iter().any(|(message, own)| message.contains(expected) && own.contains(help));
    assert!(is_found && all.iter().all(|(message, _)| !message.starts_with('-')), "{all:#?}");
}

/// A file with a host that has a device with these keys, and with these nics.
#[track_caller]
fn device(keys: &str, nics: &str, expected: &str, help: &str) {
    let hosts = format!("{{ a: {{ processes: [], devices: [ {{ {keys} }} ] }}, b: {{ processes: [] }} }}");
    let links = "[ { between: [nic0, b] } ]";
    check(&format!("{GENERAL}\nhosts: {hosts}\nnics: {nics}\nlinks: {links}\n"), expected, help);
}

#[test]
fn devices_of_hosts() {
    let nics = "{ nic0: {} }";
    device(
        "pci: nic1, driver: e1000",
        nics,
        "there is no device 'nic1' among nics and simulators",
        "did you mean 'nic0'?",
    );
    device(
        "pci: printer, driver: e1000",
        nics,
        "there is no device 'printer' among nics and simulators",
        "add it to nics or simulators",
    );
    device("pci: nic0", nics, "'driver'", "devices: [ { pci: nic0, driver: e1000 } ]");
    device("pci: nic0, driver: tulip", nics, "'driver'", "e1000");
    device(
        "pci: nic0, driver: e1000, latency: 1 ns",
        nics,
        "'latency' must be more than 1 ns",
        "leave it out: it is 500 ns then",
    );
    device(
        "pci: nic0, driver: e1000, ring: 12",
        nics,
        "'ring' must be a multiple of 8 of at least 8, not 12",
        "",
    );
    device("pci: nic0, driver: e1000, mtu: 60", nics, "'mtu' must be at least 68, not 60", "");
    device(
        "pci: nic0, driver: e1000, interrupt_interval: 20 ms",
        nics,
        "'interrupt_interval' must be at most 16.776 ms",
        "the controller's register holds no more",
    );
    device("pci: nic0, driver: e1000, interrupts: polled", nics, "'interrupts'", "msi");
    device(
        "pci: nic0, driver: corundum",
        nics,
        "driver 'corundum' does not drive 'nic0': nics are of the e1000 family",
        "write driver: e1000, or name a simulator",
    );
    device(
        "pci: nic0, driver: corundum, interrupts: msi",
        nics,
        "'interrupts' is not valid with driver 'corundum', whose device has MSI and no moderation",
        "leave it out",
    );
    device(
        "pci: nic0, driver: corundum, mtu: 9000",
        nics,
        "'mtu' must be at most 2034 with driver 'corundum', not 9000",
        "the device's buffers hold frames of 2048 bytes",
    );
    device(
        "pci: nic0, driver: corundum, ring: 24",
        nics,
        "'ring' must be a power of two with driver 'corundum', not 24",
        "write 32",
    );
}

#[test]
fn controllers_have_one_host_and_one_link() {
    let file = |hosts: &str, links: &str, expected: &str, help: &str| {
        check(&format!("{GENERAL}\nhosts: {hosts}\nnics: [nic0]\nlinks: {links}\n"), expected, help);
    };
    let driven = "{ a: { processes: [], devices: [ { pci: nic0, driver: e1000 } ] }, b: { processes: [] } }";
    let alone = "{ a: { processes: [] }, b: { processes: [] } }";
    let help = "devices: [ { pci: nic0, driver: e1000 } ], and one link, between: [nic0, ...]";
    file(
        alone,
        "[ { between: [nic0, b] }, { between: [a, b] } ]",
        "nic 'nic0' is the device of no host",
        help,
    );
    file(
        driven,
        "[ { between: [nic0, b] }, { between: [nic0, b] } ]",
        "nic 'nic0' is at the ends of 2 links: it has one port",
        help,
    );
    file(driven, "[ { between: [a, b] } ]", "nic 'nic0' is at the ends of 0 links: it has one port", help);
    let both = "{ a: { processes: [], devices: [ { pci: nic0, driver: e1000 } ] }, b: { processes: [], devices: [ { pci: nic0, driver: e1000 } ] } }";
    file(both, "[ { between: [nic0, b] } ]", "nic 'nic0' is the device of 2 hosts", help);
    file(
        driven,
        "[ { between: [\"nic0:pci\", b] } ]",
        "'pci' is the port to the host of nic 'nic0'",
        "write nic0:eth1",
    );
}

#[test]
fn devices_of_simulators_have_drivers_of_their_own() {
    check(
        &format!(
            "{GENERAL}\nhosts: {{ b: {{ processes: [] }} }}\nnics: [nic0]\nsimulators: {{ m: {{ command: /bin/true, devices: [ {{ pci: nic0, driver: e1000 }} ] }} }}\nlinks: [ {{ between: [nic0, b] }} ]\n"
        ),
        "'driver' is not valid for a device of a simulator, which has a driver of its own",
        "leave it out",
    );
}

#[test]
fn memories_are_for_simulators() {
    let file = |memories: &str, device: &str, expected: &str, help: &str| {
        let simulators = format!("{{ m: {{ command: /bin/true, devices: [ {device} ] }} }}");
        check(
            &format!("{GENERAL}\n{NETWORK}\n{HOSTS}\nmemories: {memories}\nsimulators: {simulators}\n"),
            expected,
            help,
        );
    };
    let memories = "{ mem0: { size: 1 MiB } }";
    file("{ mem0: {} }", "{ memory: mem0 }", "'size'", "memories: { mem0: { size: 1 GiB } }");
    file(
        "[mem0]",
        "{ memory: mem0 }",
        "nothing is said of memory 'mem0'",
        "say how large it is, memories: { mem0: { size: 1 GiB } }",
    );
    file("{ mem0: { size: 0 B } }", "{ memory: mem0 }", "'size' must not be 0", "size: 1 GiB");
    file(memories, "{ memory: mem1 }", "there is no memory 'mem1'", "did you mean 'mem0'?");
    file(
        memories,
        "{ memory: store }",
        "there is no memory 'store'",
        "add it: memories: { store: { size: 1 GiB } }",
    );
    file(memories, "{ memory: mem0, mtu: 1500 }", "'mtu' is not valid beside 'memory'", "leave it out");
    file(
        "{ mem0: { size: 1 B }, mem1: { size: 1 B } }",
        "{ memory: mem0 }",
        "memory 'mem1' is the device of no simulator",
        "devices: [ { memory: mem1 } ]",
    );
    let hosts = "{ a: { network_node_id: 0, processes: [], devices: [ { memory: mem0 } ] } }";
    let text = format!("{GENERAL}\n{NETWORK}\nhosts: {hosts}\nmemories: {memories}\n");
    check(
        &text,
        "'memory' is not valid for a device of a host, whose memory is this machine's",
        "leave it out: memories are for simulators",
    );
    let text = format!(
        "{GENERAL}\nhosts: {{ a: {{ processes: [] }} }}\nmemories: {memories}\nlinks: [ {{ name: l, between: [a, mem0] }} ]\n"
    );
    check(
        &text,
        "link 'l' ends at memory 'mem0', which is no part of a network",
        "a simulator has it, devices: [ { memory: mem0 } ]",
    );
}
