//! Messages on PCI devices.

use super::{Experiment, GENERAL, around};

/// Asserts that a file has an error with these parts of its message and help.
#[track_caller]
fn check(text: &str, expected: &str, help: &str) {
    let error = Experiment::parse_in("test.yaml", text, &around()).expect_err("an error");
    assert!(error.position.is_some() && error.message.contains(expected), "{error:?}");
    assert!(error.help.as_deref().unwrap_or_default().contains(help), "{error:?}");
}

/// A file with a host that has a device with these keys, and these nics.
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
        "the latency of a PCI connection must be more than 1 ns",
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
