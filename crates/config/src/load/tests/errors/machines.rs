//! Errors of hosts that are whole machines.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// An ELF image that consists of a header and program headers of these types.
fn image(types: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56 * types.len()];
    bytes[..4].copy_from_slice(b"\x7fELF");
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = types.len() as u8;
    for (n, kind) in types.iter().enumerate() {
        bytes[64 + 56 * n..][..4].copy_from_slice(&kind.to_le_bytes());
    }
    bytes
}

/// Programs and a kernel with modules, as far as loading examines them.
fn folder() -> Folder {
    let folder = Folder::new("machines");
    for directory in ["boot", "lib/modules/6.1/kernel/drivers/net", "root"] {
        std::fs::create_dir_all(folder.0.join(directory)).unwrap();
    }
    let programs = [
        ("qemu-system-x86_64", Vec::new()),
        ("busybox", image(&[1, 1])),
        ("dynamic", image(&[1, 3])),
        ("script", b"#!/bin/sh".to_vec()),
        ("short", b"\x7fELF".to_vec()),
    ];
    for (name, content) in programs {
        folder.write(name, content);
        std::fs::set_permissions(folder.0.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder.write("boot/vmlinuz-6.1", "");
    folder.write("boot/vmlinuz-6.2", "");
    folder.write("lib/modules/6.1/kernel/drivers/net/virtio_net.ko", "");
    folder
}

fn load_as(
    folder: &Folder,
    machine: &str,
    more: &str,
    kernel: Option<&str>,
) -> Result<Experiment, (String, String)> {
    let text = format!(
        "{GENERAL}\n{NETWORK}\nswitches: [s]\nlinks: [{{ between: [a, s] }}]\nhosts: {{ a: {{ machine: {machine}, {more} }} }}\n"
    );
    let around = PathContext {
        base_dir: folder.0.clone(),
        current_dir: folder.0.clone(),
        search_path: vec![folder.0.clone(), "/bin".into()],
        kernel: kernel.map(|name| folder.0.join(name)),
        ..around()
    };
    let place = format!("{}/", folder.0.display());
    Experiment::parse_in("e.yaml", &text, &around).map_err(|error| {
        (error.message.replace(&place, ""), error.help.unwrap_or_default().replace(&place, ""))
    })
}

fn load(folder: &Folder, machine: &str, more: &str) -> Result<Experiment, (String, String)> {
    load_as(folder, machine, more, Some("boot/vmlinuz-6.1"))
}

#[test]
fn a_machine_runs_what_its_host_is_to_run() {
    let folder = folder();
    let loaded = load(&folder, "qemu", "processes: [{ path: sh, args: -c true }]").unwrap();
    let host = &loaded.hosts[0];
    let machine = host.machine.as_ref().unwrap();
    assert_eq!((machine.nic, machine.shift, machine.memory), (crate::MachineNic::VirtioNet, 0, 256 << 20));
    assert!(machine.modules.ends_with("lib/modules/6.1") && machine.kernel.ends_with("boot/vmlinuz-6.1"));
    assert_eq!(machine.programs[0].path, PathBuf::from("/bin/sh"));
    assert_eq!(host.processes.len(), 1);
    assert!(host.processes[0].path.ends_with("qemu-system-x86_64"));
    assert_eq!(host.processes[0].expected_final_state, FinalState::Exited(85));
    // The resolved experiment loads as the same one.
    let again = Experiment::parse_in("again.yaml", &loaded.to_yaml(), &around()).unwrap();
    assert_eq!(again.hosts, loaded.hosts);
    let idle = load(&folder, "{ type: qemu, nic: e1000, memory: 1 GiB }", "processes: []").unwrap();
    assert_eq!(idle.hosts[0].processes[0].expected_final_state, FinalState::Running);
}

#[test]
fn what_a_machine_is_made_of() {
    let folder = folder();
    let told = |machine: &str, message: &str, help: &str| {
        assert_eq!(load(&folder, machine, "").unwrap_err(), (message.to_owned(), help.to_owned()));
    };
    told("gem5", "'gem5' is not a value of 'machine'", "use one of qemu");
    told("{ type: qemu, kernels: x }", "'kernels' is not a key of 'machine'", "did you mean 'kernel'?");
    told("{ kernel: boot/vmlinuz-6.1 }", "'machine' has no 'type'", "add type: qemu");
    let qemu = "there is no program 'none' in PATH";
    told("{ type: qemu, qemu: none }", qemu, "install it, or give its path with a '/'");
    let busybox = "apt install busybox-static, or name another: machine: {type: qemu, busybox: PATH}";
    told(
        "{ type: qemu, busybox: dynamic }",
        "dynamic is not linked statically, and a machine starts without libraries",
        busybox,
    );
    told("{ type: qemu, busybox: script }", "script is no ELF image", busybox);
    told("{ type: qemu, busybox: short }", "short is damaged", busybox);
    let looked = "looked for none";
    told("{ type: qemu, kernel: none }", "there is no 'none'", looked);
    told("{ type: qemu, files: [none] }", "there is no 'none'", looked);
    told(
        "{ type: qemu, kernel: boot }",
        "'kernel' is no file: boot",
        "name the kernel's image, such as DIR/boot/vmlinuz-VERSION",
    );
    told(
        "{ type: qemu, kernel: boot/vmlinuz-6.2 }",
        "the modules of boot/vmlinuz-6.2 are neither beside it nor in /lib/modules",
        "name the folder: modules: DIR/lib/modules/VERSION",
    );
    told(
        "{ type: qemu, modules: boot }",
        "there are no modules in boot",
        "name the folder in which 'kernel' lies: DIR/lib/modules/VERSION",
    );
    told(
        "{ type: qemu, memory: 1 MiB }",
        "'memory' is too little for Linux",
        "at least 64 MiB; the default is 256 MiB",
    );
    told("{ type: qemu, shift: 11 }", "'shift' must be at most 10, not 11", "");
    told("{ type: qemu, quantum: 10 ns }", "'quantum' must be 1 us or more", "");
}

#[test]
fn what_is_not_installed() {
    let folder = folder();
    std::fs::remove_file(folder.0.join("qemu-system-x86_64")).unwrap();
    // This machine may have it in the search path.
    if let Err((message, help)) = load(&folder, "qemu", "") {
        assert_eq!(message, "there is no program 'qemu-system-x86_64' in PATH");
        assert_eq!(help, "apt install qemu-system-x86, or name it: machine: {type: qemu, qemu: PATH}");
    }
    folder.write("qemu-system-x86_64", "");
    std::fs::set_permissions(folder.0.join("qemu-system-x86_64"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let (message, help) = load_as(&folder, "qemu", "", Some("boot/none")).unwrap_err();
    assert_eq!(message, "there is no kernel boot/none, which BELLJAR_KERNEL names");
    assert_eq!(help, "name an image, such as DIR/boot/vmlinuz-VERSION");
    // This machine may have one.
    if let Err((message, help)) = load_as(&folder, "qemu", "", None) {
        assert_eq!(message, "there is no kernel with modules in /boot and /lib/modules");
        assert_eq!(
            help,
            "unpack one, which installs nothing: apt-get download the package that linux-image-amd64 depends on, dpkg -x IT.deb DIR, and write machine: {type: qemu, kernel: DIR/boot/vmlinuz-VERSION}, or set BELLJAR_KERNEL to it"
        );
    }
}

#[test]
fn what_a_machine_cannot_have() {
    let folder = folder();
    let told = |more: &str, message: &str, help: &str| {
        assert_eq!(load(&folder, "qemu", more).unwrap_err(), (message.to_owned(), help.to_owned()));
    };
    for event in [
        "connection_reset: [a, all]",
        "disk_fault: a, full: true",
        "kill: sh, hosts: a",
        "memory: a, limit: 64 MiB",
        "call_faults: all, results: short, share: 1",
    ] {
        told(
            &format!("processes: [] }} }}\nevents: [ {{ at: 1 s, {event} }} ]\nx-rest: {{ rest: {{ y: z"),
            "host 'a' is a machine, whose kernel is its own",
            "name hosts without 'machine'",
        );
    }
    let place = "is not valid for host 'a', which is a machine";
    for (key, value, help) in [
        ("network_node_id", "0", "a machine sends Ethernet frames: put it at the end of a link"),
        ("cpu", "{ syscall: 1 us }", "its processor takes the time that its instructions take"),
        ("memory", "512 MiB", "its memory is QEMU's: machine: {type: qemu, memory: 512 MiB}"),
        ("cpu_count", "2", "its processors are QEMU's: args: [-smp, \"2\"]"),
        ("clock", "{ offset: 1 s }", "its clock is its own: set it in the machine"),
        ("setup", "[true]", "its processes start one after the other: put the commands first"),
    ] {
        told(&format!("{key}: {value}"), &format!("'{key}' {place}"), help);
    }
    told(
        "processes: [{ path: sh, user: daemon }]",
        "'sh' is to run as a user, and processes of a machine run as root",
        "leave 'user' out, or start it by su in the machine",
    );
    told(
        "processes: [{ path: sh, start_time: never }]",
        "'sh' is to be started by an event, which cannot reach into a machine",
        "give it a 'start_time'",
    );
    told(
        "processes: [{ model: { type: sink, port: 1 } }]",
        "traffic models such as 'sink' cannot run in a machine",
        "give them to another host",
    );
    let (message, help) = load(&folder, "{ type: qemu, files: [boot] }", "root: root").unwrap_err();
    assert_eq!(message, "'files' is not valid beside 'root'");
    assert_eq!(help, "put the files into the root");
    told(
        "devices: [{ pci: nic0, driver: e1000 }]",
        &format!("'devices' {place}"),
        "its controllers are QEMU's",
    );
}
