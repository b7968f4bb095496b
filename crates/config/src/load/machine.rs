//! The `machine` of a host: a whole machine in QEMU instead of simulated processes.

use super::hosts::Context;
use crate::error::Problem;
use crate::model::{FinalState, MachineNic, PlacementSetting, Process, Root, WholeMachine};
use crate::yaml::section::{self, Section};
use crate::yaml::{Node, Value};
use crate::{PathContext, Signal};
use belljar_base::{Map, SimDuration, SimTime};
use std::path::{Path, PathBuf};

const KEYS: &[&str] = &[
    "type",
    "qemu",
    "args",
    "kernel",
    "modules",
    "kernel_args",
    "busybox",
    "memory",
    "nic",
    "shift",
    "quantum",
    "files",
];
const TYPES: &[(&str, ())] = &[("qemu", ())];
const NICS: &[(&str, MachineNic)] = &[("e1000", MachineNic::E1000), ("virtio-net", MachineNic::VirtioNet)];
const MEMORY: u64 = 256 << 20;
const LEAST_MEMORY: u64 = 64 << 20;
/// Upper bound on the virtual clock's shift: QEMU's limit.
const MOST_SHIFT: u64 = 10;
const QUANTUM: SimDuration = SimDuration::from_micros(10);
/// Debian's folders of kernels and their modules.
const BOOT: &str = "/boot";
const MODULES: &str = "/lib/modules";
const KERNEL_PREFIX: &str = "vmlinuz-";

/// Keys of a host that are invalid with `machine`, with the reasons.
const EXCLUDED: &[(&str, &str)] = &[
    ("network_node_id", "a machine sends Ethernet frames: put it at the end of a link"),
    ("cpu_count", "its processors are QEMU's: args: [-smp, \"2\"]"),
    ("memory", "its memory is QEMU's: machine: {type: qemu, memory: 512 MiB}"),
    ("cpu", "its processor takes the time that its instructions take"),
    ("clock", "its clock is its own: set it in the machine"),
    ("devices", "its controllers are QEMU's"),
    ("setup", "its processes start one after the other: put the commands first"),
];

/// Loads a machine. The host's `programs` run in it; the host's own process is QEMU.
pub(super) fn read(
    node: &Node,
    host: &Section<'_>,
    context: &Context<'_>,
    root: Option<&Root>,
    mut programs: Vec<Process>,
) -> Result<(WholeMachine, Process), Problem> {
    for (key, why) in EXCLUDED {
        if let Some(entry) = host.entry(key) {
            return Err(Problem::at(
                entry.key_span,
                format!("'{key}' is not valid for {}, which is a machine", host.place),
            )
            .help(*why));
        }
    }
    check_keys(host)?;
    check_programs(node, &programs)?;
    for program in &mut programs {
        program.arg0 = program.path.to_string_lossy().into_owned();
    }
    // `machine: qemu` is short for `machine: {type: qemu}`.
    let mapping = matches!(node.value, Value::Mapping(_));
    let empty = Node { span: node.span, value: Value::Mapping(Vec::new()) };
    let s = Section::new(if mapping { node } else { &empty }, "'machine'", KEYS, false)?;
    match mapping {
        true => section::choice(s.required("type", "type: qemu")?, "type", TYPES)?,
        false => section::choice(node, "machine", TYPES)?,
    }
    let qemu =
        program(&s, node, context.around, "qemu", "qemu-system-x86_64", "apt install qemu-system-x86")?;
    let busybox = program(&s, node, context.around, "busybox", "busybox", "apt install busybox-static")?;
    check_static(&busybox).map_err(|what| {
        s.get("busybox")
            .unwrap_or(node)
            .problem(what)
            .help("apt install busybox-static, or name another: machine: {type: qemu, busybox: PATH}")
    })?;
    let kernel = match s.get("kernel") {
        Some(given) => file(given, "kernel", context.around)?,
        None => default_kernel(node, context.around)?,
    };
    let modules = match s.get("modules") {
        Some(given) => directory(given, "modules", context.around)?,
        None => modules_of(&kernel).ok_or_else(|| {
            s.get("kernel")
                .unwrap_or(node)
                .problem(format!(
                    "the modules of {} are neither beside it nor in {MODULES}",
                    kernel.display()
                ))
                .help("name the folder: modules: DIR/lib/modules/VERSION")
        })?,
    };
    let files = match s.get("files") {
        Some(list) if root.is_some() => {
            return Err(list
                .problem("'files' is not valid beside 'root'")
                .help("put the files into the root"));
        }
        Some(list) => section::list(list, "files")?
            .iter()
            .map(|item| existing(item, "a path of 'files'", context.around))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let memory = match s.get("memory") {
        Some(node) => match section::bytes(node, "memory")? {
            bytes if bytes < LEAST_MEMORY => {
                return Err(node
                    .problem("'memory' is too little for Linux")
                    .help("at least 64 MiB; the default is 256 MiB"));
            }
            bytes => bytes,
        },
        None => MEMORY,
    };
    let shift = s.read("shift", |n, k| section::whole(n, k, MOST_SHIFT))?.unwrap_or(0) as u8;
    let quantum = match s.get("quantum") {
        Some(node) => match section::duration(node, "quantum")? {
            zero if zero.as_nanos() < 1_000 => return Err(node.problem("'quantum' must be 1 us or more")),
            quantum => quantum,
        },
        None => QUANTUM,
    };
    // Debian's cloud kernel has no e1000 driver.
    let virtio_only = || !has_module(&modules, "e1000") && has_module(&modules, "virtio_net");
    let nic = s.read("nic", |n, k| section::choice(n, k, NICS))?;
    let nic = nic.unwrap_or(if virtio_only() { MachineNic::VirtioNet } else { MachineNic::E1000 });
    let process = process(&qemu, &programs);
    let machine = WholeMachine {
        qemu,
        args: s.read("args", super::process::args)?.unwrap_or_default(),
        kernel,
        modules,
        kernel_args: s.read("kernel_args", super::process::args)?.unwrap_or_default(),
        busybox,
        memory,
        nic,
        shift,
        quantum,
        files,
        programs,
    };
    Ok((machine, process))
}

/// Refuses keys below those of the host that act on ordinary hosts only.
fn check_keys(host: &Section) -> Result<(), Problem> {
    if let Some(shared) = host.get("host_options").and_then(|options| options.entry("shared")) {
        let message = format!("'shared' is not valid for {}, which is a machine", host.place);
        return Err(Problem::at(shared.key_span, message)
            .help("its kernel has files of its own: copy some in by 'files', or by a 'root'"));
    }
    if let Some(order) = host.get("host_options").and_then(|options| options.entry("scheduling")) {
        let message = format!("'scheduling' is not valid for {}, which is a machine", host.place);
        return Err(Problem::at(order.key_span, message).help("its kernel schedules: leave it out"));
    }
    let processes = host.get("processes").map(|node| section::list(node, "processes")).transpose()?;
    match processes.unwrap_or_default().iter().find_map(|process| process.entry("arg0")) {
        Some(arg0) => {
            let message = format!("'arg0' is not valid for {}, which is a machine", host.place);
            Err(Problem::at(arg0.key_span, message).help("its processes have their path: leave 'arg0' out"))
        }
        None => Ok(()),
    }
}

/// Refuses settings that are valid for processes of ordinary hosts only.
fn check_programs(node: &Node, programs: &[Process]) -> Result<(), Problem> {
    for program in programs {
        let name = program.program_name();
        if program.user.as_deref().is_some_and(|user| !matches!(user, "root" | "0")) {
            return Err(node
                .problem(format!("'{name}' is to run as a user, and processes of a machine run as root"))
                .help("leave 'user' out, or start it by su in the machine"));
        }
        if program.start_time == SimTime::MAX {
            return Err(node
                .problem(format!("'{name}' is to be started by an event, which cannot reach into a machine"))
                .help("give it a 'start_time'"));
        }
    }
    Ok(())
}

/// QEMU as the host's process: when the machine is done, a device whose statuses are odd ends it.
fn process(qemu: &Path, programs: &[Process]) -> Process {
    let stays = programs.is_empty() || programs.iter().any(|p| p.expected_final_state == FinalState::Running);
    Process {
        path: qemu.to_owned(),
        arg0: qemu.to_string_lossy().into_owned(),
        args: Vec::new(),
        environment: Map::new(),
        user: None,
        start_time: SimTime::ZERO,
        shutdown_time: None,
        shutdown_signal: Signal::TERM,
        expected_final_state: if stays {
            FinalState::Running
        } else {
            FinalState::Exited(WholeMachine::DONE)
        },
        must_start: false,
        placement: PlacementSetting::Auto,
        is_setup: false,
        written: None,
    }
}

fn program(
    s: &Section<'_>,
    node: &Node,
    around: &PathContext,
    key: &str,
    name: &str,
    install: &str,
) -> Result<PathBuf, Problem> {
    match s.get(key) {
        Some(given) => {
            let written = section::string(given, key)?;
            around.program(written).map_err(|(message, help)| given.problem(message).maybe_help(help))
        }
        None => around.program(name).map_err(|(message, _)| {
            node.problem(message).help(format!("{install}, or name it: machine: {{type: qemu, {key}: PATH}}"))
        }),
    }
}

/// A path that exists.
fn existing(node: &Node, key: &str, around: &PathContext) -> Result<PathBuf, Problem> {
    let written = section::string(node, key)?;
    let expanded = around.expand(written).map_err(|message| node.problem(message))?;
    let places = around.candidates(&expanded);
    let looked = || places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(" and ");
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        node.problem(format!("there is no '{written}'")).help(format!("looked for {}", looked()))
    })
}

fn file(node: &Node, key: &str, around: &PathContext) -> Result<PathBuf, Problem> {
    let found = existing(node, key, around)?;
    match found.is_file() {
        true => Ok(found),
        false => Err(node
            .problem(format!("'{key}' is no file: {}", found.display()))
            .help("name the kernel's image, such as DIR/boot/vmlinuz-VERSION")),
    }
}

fn directory(node: &Node, key: &str, around: &PathContext) -> Result<PathBuf, Problem> {
    let found = existing(node, key, around)?;
    match found.join("kernel").is_dir() {
        true => Ok(found),
        false => Err(node
            .problem(format!("there are no modules in {}", found.display()))
            .help("name the folder in which 'kernel' lies: DIR/lib/modules/VERSION")),
    }
}

/// Checks by its program headers that a program has no interpreter.
fn check_static(path: &Path) -> Result<(), String> {
    const PT_INTERP: u32 = 3;
    let name = path.display();
    let image = belljar_inputs::read(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        Some(
            image
                .get(at..at.checked_add(bytes)?)?
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | usize::from(*byte)),
        )
    };
    if !image.starts_with(b"\x7fELF") {
        return Err(format!("{name} is no ELF image"));
    }
    let headers = || Some((number(32, 8)?, number(54, 2)?, number(56, 2)?));
    let Some((start, size, count)) = headers() else { return Err(format!("{name} is damaged")) };
    let dynamic = (0..count).any(|n| number(start.saturating_add(n * size), 4) == Some(PT_INTERP as usize));
    if dynamic {
        Err(format!("{name} is not linked statically, and a machine starts without libraries"))
    } else {
        Ok(())
    }
}

/// The kernel in BELLJAR_KERNEL, or this machine's newest.
fn default_kernel(node: &Node, around: &PathContext) -> Result<PathBuf, Problem> {
    match &around.kernel {
        Some(kernel) if kernel.is_file() => Ok(around.current_dir.join(kernel)),
        Some(kernel) => Err(node
            .problem(format!("there is no kernel {}, which BELLJAR_KERNEL names", kernel.display()))
            .help("name an image, such as DIR/boot/vmlinuz-VERSION")),
        None => newest_kernel().ok_or_else(|| {
            node.problem(format!("there is no kernel with modules in {BOOT} and {MODULES}")).help(
                "unpack one, which installs nothing: apt-get download the package that linux-image-amd64 depends on, dpkg -x IT.deb DIR, \
                 and write machine: {type: qemu, kernel: DIR/boot/vmlinuz-VERSION}, or set BELLJAR_KERNEL to it",
            )
        }),
    }
}

/// The newest of the machine's kernels that has modules.
fn newest_kernel() -> Option<PathBuf> {
    let entries = std::fs::read_dir(BOOT).ok()?;
    let kernels = entries.flatten().map(|entry| entry.path()).filter(|path| modules_of(path).is_some());
    kernels.max_by_key(|path| version_key(version_of(path).unwrap_or_default()))
}

/// Sort key of a version.
fn version_key(version: &str) -> (Vec<u64>, String) {
    let numbers = version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    (numbers.collect(), version.to_owned())
}

/// The version in a kernel's file name.
fn version_of(kernel: &Path) -> Option<&str> {
    kernel.file_name()?.to_str()?.strip_prefix(KERNEL_PREFIX)
}

/// The folder of a kernel's modules: relative to the kernel, as in its package, or this machine's.
fn modules_of(kernel: &Path) -> Option<PathBuf> {
    let version = version_of(kernel)?;
    let beside = kernel.parent()?.parent().map(|top| top.join("lib/modules").join(version));
    let places = beside.into_iter().chain([Path::new(MODULES).join(version)]);
    places.into_iter().find(|place| place.join("kernel").is_dir())
}

/// True if the driver exists as a module file.
fn has_module(modules: &Path, name: &str) -> bool {
    let folder = match name {
        "e1000" => "kernel/drivers/net/ethernet/intel/e1000",
        _ => "kernel/drivers/net",
    };
    ["ko", "ko.xz"].iter().any(|ending| modules.join(folder).join(format!("{name}.{ending}")).exists())
}
