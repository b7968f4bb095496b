//! Compatibility with Shadow's command line: `belljar shadow ...`, or a link named `shadow`, runs an
//! experiment as `shadow ...` does, for scripts and tools that start Shadow themselves. Shadow's options for
//! sections of the experiment become `--set`; its short options become Belljar's.

use belljar_results::Scratch;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// Options of Shadow that set a key of section `experimental`. The key has the option's name, with `_` for
/// `-`.
const EXPERIMENTAL: &[&str] = &[
    "interface-qdisc",
    "max-unapplied-cpu-latency",
    "native-preemption-enabled",
    "native-preemption-native-interval",
    "native-preemption-sim-interval",
    "report-errors-to-stderr",
    "runahead",
    "scheduler",
    "socket-recv-autotune",
    "socket-recv-buffer",
    "socket-send-autotune",
    "socket-send-buffer",
    "strace-logging-mode",
    "unblocked-syscall-latency",
    "unblocked-vdso-latency",
    "use-cpu-pinning",
    "use-dynamic-runahead",
    "use-memory-manager",
    "use-new-tcp",
    "use-object-counters",
    "use-preload-libc",
    "use-preload-openssl-crypto",
    "use-preload-openssl-rng",
    "use-sched-fifo",
    "use-syscall-counters",
    "use-worker-spinning",
];

/// Options of Shadow that set a key of section `host_option_defaults`, with the key. The host log level has
/// another name than the simulator's.
const HOST_DEFAULTS: &[(&str, &str)] = &[
    ("host-log-level", "log_level"),
    ("pcap-capture-size", "pcap_capture_size"),
    ("pcap-enabled", "pcap_enabled"),
];

/// Short options of Shadow with a value, and Belljar's equivalents.
const SHORT: &[(&str, &str)] =
    &[("-d", "--output"), ("-e", "--template-directory"), ("-l", "--log-level"), ("-p", "--parallelism")];

/// Shadow's name of the results folder.
const DEFAULT_OUTPUT: &str = "--default-output=shadow.data";

/// Version of Shadow whose command line and format of experiments are understood.
const SHADOW: &str = "3.3.0";

/// Answers options of Shadow that run nothing: `--version`, `--show-build-info` and `--shm-cleanup`. `None` for all else, and for
/// commands of Belljar.
pub fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    let rest = match is_shadow(arguments) {
        true if is_named_shadow(arguments) => &arguments[1..],
        true => &arguments[2..],
        false => return None,
    };
    let version = || format!("Shadow {SHADOW} \u{2014} Belljar {}", env!("CARGO_PKG_VERSION"));
    let option = |names: &[&str]| rest.iter().any(|argument| names.iter().any(|name| argument == name));
    if option(&["--version", "-V"]) {
        println!("{}", version());
        return Some(ExitCode::SUCCESS);
    }
    let name = ["--show-build-info", "--shm-cleanup"].into_iter().find(|name| option(&[name]))?;
    if rest.len() > 1 {
        eprintln!("error: '{name}' takes no other arguments\n = help: leave out the others");
        return Some(ExitCode::from(2));
    }
    match name {
        // On standard error, as Shadow does.
        "--show-build-info" => {
            let commands =
                if cfg!(feature = "all-commands") { "all commands" } else { "the quick build's commands" };
            let kind = if cfg!(debug_assertions) { "debug" } else { "release" };
            eprintln!("{}", version());
            eprintln!("Built for {} Linux, {kind}, with {commands}", std::env::consts::ARCH);
            eprintln!("For what differs from Shadow, see docs/guide/coming-from-shadow.md");
        }
        // Shared memory has no names here and ends with its run; folders for temporary files may be left.
        _ => Scratch::sweep(&std::env::temp_dir()),
    }
    Some(ExitCode::SUCCESS)
}

/// True if this program was called by the name `shadow`.
fn is_named_shadow(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|path| Path::new(path).file_name() == Some(OsStr::new("shadow")))
}

/// True if the command line is Shadow's.
fn is_shadow(arguments: &[OsString]) -> bool {
    is_named_shadow(arguments) || arguments.get(1).is_some_and(|command| command == "shadow")
}

/// Translates Shadow's options in the arguments of `shadow` and of `belljar run`. Other commands' arguments
/// are returned unchanged.
pub fn translated(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_shadow = is_shadow(&arguments);
    if is_named_shadow(&arguments) {
        arguments.insert(1, "run".into());
    } else if is_shadow {
        arguments[1] = "run".into();
    } else if arguments.get(1).is_none_or(|command| command != "run") {
        return arguments;
    }
    let rest = arguments.split_off(2);
    if is_shadow {
        arguments.push(DEFAULT_OUTPUT.into());
    }
    let mut given = rest.into_iter();
    while let Some(argument) = given.next() {
        // An argument that is not UTF-8 is a file name.
        let Some(text) = argument.to_str() else {
            arguments.push(argument);
            continue;
        };
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(OsString::from(value))),
            None => (text, None),
        };
        if let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == option) {
            arguments.push((*long).into());
            arguments.extend(value);
            continue;
        }
        match key_of(option) {
            // The value follows as the next argument; if it is missing, the parser reports it.
            Some(key) => match value.or_else(|| given.next()) {
                Some(value) => {
                    let mut set = OsString::from(key + "=");
                    set.push(value);
                    arguments.extend(["--set".into(), set]);
                }
                None => arguments.push(argument),
            },
            None => arguments.push(argument),
        }
    }
    arguments
}

/// Returns the key of the experiment that an option of Shadow sets.
fn key_of(option: &str) -> Option<String> {
    let name = option.strip_prefix("--")?;
    if EXPERIMENTAL.contains(&name) {
        return Some(format!("experimental.{}", name.replace('-', "_")));
    }
    let (_, key) = HOST_DEFAULTS.iter().find(|(known, _)| *known == name)?;
    Some(format!("host_option_defaults.{key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str]) -> Vec<String> {
        let given = arguments.iter().map(OsString::from).collect();
        translated(given).into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn shadow_runs_experiments() {
        assert_eq!(run(&["/usr/bin/shadow", "a.yaml"]), ["/usr/bin/shadow", "run", DEFAULT_OUTPUT, "a.yaml"]);
        assert_eq!(run(&["belljar", "shadow", "a.yaml"]), ["belljar", "run", DEFAULT_OUTPUT, "a.yaml"]);
        assert_eq!(run(&["belljar", "doctor", "-d"]), ["belljar", "doctor", "-d"]);
        assert_eq!(run(&["belljar"]), ["belljar"]);
    }

    #[test]
    fn options_of_sections_set_their_keys() {
        assert_eq!(
            run(&[
                "shadow",
                "-d",
                "out",
                "-p",
                "2",
                "--use-new-tcp=true",
                "--strace-logging-mode",
                "standard",
                "-"
            ])[3..],
            [
                "--output",
                "out",
                "--parallelism",
                "2",
                "--set",
                "experimental.use_new_tcp=true",
                "--set",
                "experimental.strace_logging_mode=standard",
                "-"
            ]
        );
        assert_eq!(
            run(&["shadow", "--pcap-enabled", "true"])[3..],
            ["--set", "host_option_defaults.pcap_enabled=true"]
        );
        assert_eq!(run(&["shadow", "--runahead"])[3..], ["--runahead"]);
    }
}
