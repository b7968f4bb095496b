//! Errors of inventories.

use super::*;
use crate::Inventory;

fn experiment() -> Experiment {
    let text = format!(
        "{GENERAL}\n{NETWORK}\nhosts: {{ one: {{ network_node_id: 0, processes: [] }}, two: {{ network_node_id: 0, processes: [] }} }}\n"
    );
    Experiment::parse_in("e.yaml", &text, &around()).unwrap()
}

#[track_caller]
fn told(text: &str, expected: &str, help: &str) {
    let error = Inventory::parse("m.yaml", text, &around(), &experiment()).unwrap_err();
    let place = error.position.map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
    assert_eq!(format!("{place} {}", error.message), expected);
    assert_eq!(error.help.as_deref().unwrap_or_default(), help);
}

#[test]
fn machines_and_their_hosts() {
    let text = "machines: { b: { address: u@h, hosts: [two], port: 2222, ip_addr: 192.0.2.1 }, one: { address: h } }";
    let found = Inventory::parse("m.yaml", text, &around(), &experiment()).unwrap();
    let places: Vec<_> =
        found.machines.iter().map(|machine| (&*machine.name, machine.hosts.clone())).collect();
    assert_eq!(places, [("b", vec![1]), ("one", vec![0])]);
    assert_eq!((found.machines[0].port, &*found.machines[1].directory), (Some(2222), "/var/tmp"));
}

#[test]
fn mistakes() {
    const EXAMPLE: &str = "machines: { alpha: { address: user@192.0.2.1, hosts: [server] } }";
    told("", "- this inventory is empty", &format!("write {EXAMPLE}"));
    told("files: []", "1:1 an inventory has no 'machines'", &format!("add {EXAMPLE}"));
    told(
        "machines: { a/b: { address: h } }",
        "1:13 a machine cannot have the name 'a/b'",
        "names of files begin with it: leave '/' out",
    );
    told("machines: { one: {} }", "1:18 machine 'one' has no 'address'", "add address: user@192.0.2.1");
    told(
        "machines: { one: { address: '-x' } }",
        "1:29 '-x' is no destination for ssh",
        "write it as for ssh, such as user@192.0.2.1",
    );
    told(
        "machines: { m: { address: h } }",
        "1:16 machine 'm' has no 'hosts', and the experiment has no host of its name",
        "add hosts: [...], the hosts that run there",
    );
    told(
        "machines: { m: { address: h, hosts: [tow] } }",
        "1:38 the experiment has no host 'tow'",
        "did you mean 'two'?",
    );
    told(
        "machines: { m: { address: h, hosts: [one] } }",
        "1:1 no machine has host 'two' of the experiment",
        "add it to the 'hosts' of a machine, or name a machine 'two'",
    );
    told(
        "machines: { m: { address: h, hosts: [one] }, n: { address: h, hosts: [one] } }",
        "1:49 host 'one' is on machine 'm' already",
        "leave it out of one of them",
    );
    let one = |more: &str, expected: &str, help: &str| {
        told(&format!("machines: {{ m: {{ address: h, hosts: [one, two], {more} }} }}"), expected, help);
    };
    let kinds = "must be a string, but is a mapping";
    told("machines: { m: { address: h, hosts: [{}] } }", &format!("1:38 a name of 'hosts' {kinds}"), "");
    one("ssh_options: [{}]", &format!("1:63 an item of 'ssh_options' {kinds}"), "");
    told(
        "machines: { m: { address: h, hosts: [one, two] } }\nfiles: [{}]",
        &format!("2:9 a path of 'files' {kinds}"),
        "",
    );
    one("ip_addr: x", "1:58 'x' is not an IP address", "write it such as 192.0.2.1 or 2001:db8::1");
    one("directory: tmp", "1:60 'tmp' must be an absolute path without spaces", "such as /var/tmp");
    one("identity: none", "1:59 there is no key 'none'", "make one with ssh-keygen, or leave it out");
    told(
        "machines: { m: { address: h, hosts: [one, two] } }\nfiles: [none]",
        "2:9 there is no file 'none'",
        "looked for /nowhere/experiment/none and /nowhere/none",
    );
    let folder = Folder::new("inventory");
    let error = Inventory::load(&folder.0.join("none"), &experiment()).unwrap_err();
    assert_eq!(error.message, "the inventory cannot be read: no such file or directory");
}
