//! Init program of the machine: a script for busybox's shell that configures the network, runs the host's
//! processes and powers the machine off when they have ended.

use crate::{Setup, command};
use belljar_base::SimTime;
use belljar_config::{FinalState, GUEST_PATH, Process, WholeMachine};
use std::fmt::Write;
use std::net::IpAddr;

/// Folder of the machine's auxiliary files.
pub const FOLDER: &str = "/belljar";

/// Constant first part of the script.
const HEAD: &str = "#!/belljar/busybox sh
box=/belljar/busybox
$box mkdir -p /proc /sys /dev /tmp /run /var /root /belljar/bin
$box mount -t proc proc /proc
$box mount -t sysfs sys /sys
$box mount -t devtmpfs dev /dev 2>/dev/null
$box --install -s /belljar/bin
export HOME=/root LANG=C.UTF-8 TZ=UTC
hide() { \"$@\" >/dev/null 2>&1; }
leave() { sync; printf \"$1\" | dd of=/dev/port bs=1 seek=$exit_port count=1 2>/dev/null; poweroff -f; }
fail() { echo \"belljar: $*\"; leave '\\001'; }
mkdir -p /dev/pts /dev/shm
hide mount -t devpts devpts /dev/pts
hide mount -t tmpfs tmpfs /dev/shm
hide mount -t tmpfs tmpfs /tmp
hide mount -t tmpfs tmpfs /run
[ -e /bin/sh ] || { mkdir -p /bin; ln -s $box /bin/sh; }
";

/// Shell functions. `interface MAC NAME` renames an interface; `at CENTISECONDS` waits until the machine has
/// been up for that time.
const FUNCTIONS: &str = "interface() {
    for found in /sys/class/net/*; do
        [ \"$(cat $found/address)\" = $1 ] && ip link set ${found##*/} name $2
    done
    [ -e /sys/class/net/$2 ] || fail \"there is no controller for $2\"
}
carrier() {
    for i in $(seq 100); do
        [ \"$(cat /sys/class/net/$1/carrier 2>/dev/null)\" = 1 ] && return
        sleep 0.1
    done
    echo \"belljar: $1 has no carrier\"
}
at() {
    read up idle </proc/uptime
    left=$(($1 - ${up%.*} * 100 - 1${up#*.} + 100))
    [ $left -le 0 ] || sleep $((left / 100)).$(printf %02d $((left % 100)))
}
";

impl Setup<'_> {
    /// Builds the script. `modules` are loaded in order.
    pub(crate) fn script(&self, modules: &[String]) -> String {
        let mut out = HEAD.replace(
            "#!/belljar/busybox sh\n",
            &format!(
                "#!/belljar/busybox sh\nexport PATH={GUEST_PATH}:/belljar/bin\nexit_port={}\n",
                command::EXIT_PORT
            ),
        );
        out += FUNCTIONS;
        for module in modules {
            line(
                &mut out,
                format_args!(
                    "insmod /belljar/modules/{module}.ko || fail 'module {module} cannot be loaded'"
                ),
            );
        }
        // Output written before the port exists would be lost.
        if let ports @ 1.. = 2 * self.machine.programs.len() {
            line(
                &mut out,
                format_args!("for i in $(seq 100); do [ -c /dev/vport0p{ports} ] && break; sleep 0.1; done"),
            );
            line(&mut out, format_args!("[ -c /dev/vport0p{ports} ] || fail 'there is no port for output'"));
        }
        self.network(&mut out);
        self.programs(&mut out);
        out
    }

    fn network(&self, out: &mut String) {
        line(out, format_args!("hostname {}", quoted(&self.host.name)));
        for (name, value) in &self.host.options.sysctls {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            line(out, format_args!("echo {} >{path} || fail '{name} cannot be set'", quoted(value)));
        }
        line(out, format_args!("ip link set lo up"));
        // The final names may still be in use by other interfaces.
        for (n, cable) in self.cables.iter().enumerate() {
            line(out, format_args!("interface {} cable{n}", mac(&cable.mac)));
        }
        for cable in &self.cables {
            let name = quoted(&cable.name);
            line(out, format_args!("interface {} {name}", mac(&cable.mac)));
            // Addresses are usable at once, as on other hosts.
            line(
                out,
                format_args!(
                    "[ ! -e /proc/sys/net/ipv6 ] || echo 0 >/proc/sys/net/ipv6/conf/{name}/accept_dad"
                ),
            );
            for (address, length) in &cable.addresses {
                line(out, format_args!("ip addr add {address}/{length} dev {name}"));
            }
            line(out, format_args!("ip link set {name} mtu {} up", cable.mtu));
        }
        for cable in &self.cables {
            line(out, format_args!("carrier {}", quoted(&cable.name)));
        }
        for route in &self.routes {
            // busybox's ip does not support multipath routes: the first next hop is used.
            let Some((gateway, interface)) = route.hops.first() else { continue };
            let via = gateway.iter().map(|gateway| format!("via {gateway} ")).collect::<String>();
            let family = if route.to.contains(':') { "-6 " } else { "" };
            let metric = if route.metric == 0 { String::new() } else { format!(" metric {}", route.metric) };
            line(
                out,
                format_args!("ip {family}route add {} {via}dev {}{metric}", route.to, quoted(interface)),
            );
        }
        if self.host.forwarding {
            line(out, format_args!("echo 1 >/proc/sys/net/ipv4/ip_forward"));
            line(
                out,
                format_args!("[ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"),
            );
        }
    }

    /// Starts all programs, waits for those expected to end, and powers the machine off unless others are
    /// expected to keep running.
    fn programs(&self, out: &mut String) {
        let programs = &self.machine.programs;
        line(out, format_args!("echo belljar: up after $(cut -d' ' -f1 /proc/uptime) s"));
        for (place, program) in programs.iter().enumerate() {
            let (stdout, stderr) = (2 * place + 1, 2 * place + 2);
            line(out, format_args!("("));
            line(out, format_args!("    at {}", centiseconds(program.start_time)));
            for (name, value) in &program.environment {
                line(out, format_args!("    export {name}={}", quoted(value)));
            }
            let words: Vec<String> = program.args.iter().map(|arg| format!(" {}", quoted(arg))).collect();
            line(out, format_args!("    exec {}{}", quoted(&program.path.to_string_lossy()), words.concat()));
            line(
                out,
                format_args!(") </dev/null >/dev/vport0p{stdout} 2>/dev/vport0p{stderr} & p{place}=$!"),
            );
            if let Some(shutdown) = program.shutdown_time {
                let signal = program.shutdown_signal.number();
                line(out, format_args!("( at {}; kill -{signal} $p{place} ) &", centiseconds(shutdown)));
            }
        }
        // Programs expected to keep running are monitored too: their end is a failure.
        let stay =
            programs.is_empty() || programs.iter().any(|p| p.expected_final_state == FinalState::Running);
        for (place, program) in programs.iter().enumerate() {
            if program.expected_final_state == FinalState::Running {
                let name = quoted(&program.program_name());
                line(
                    out,
                    format_args!(
                        "while kill -0 $p{place} 2>/dev/null; do sleep 1; done && fail {name} has ended, and was to run &"
                    ),
                );
            }
        }
        let ending =
            programs.iter().enumerate().filter(|(_, p)| p.expected_final_state != FinalState::Running);
        for (place, program) in ending {
            line(out, format_args!("wait $p{place}; status=$?"));
            line(
                out,
                format_args!("echo belljar: {} ended with status $status", quoted(&program.program_name())),
            );
            if let Some(expected) = expected(program) {
                let told = format!("{} was to end with status {expected}", program.program_name());
                line(out, format_args!("[ $status = {expected} ] || fail {}", quoted(&told)));
            }
        }
        match stay {
            true => line(out, format_args!("while :; do sleep 86400; done")),
            // QEMU ends with the status 2 n + 1.
            false => line(out, format_args!("leave '\\{:03o}'", (WholeMachine::DONE - 1) / 2)),
        }
    }
}

/// Expected exit status of a program in the shell's encoding.
fn expected(program: &Process) -> Option<i32> {
    match program.expected_final_state {
        FinalState::Exited(status) => Some(status),
        FinalState::Signaled(signal) => Some(128 + signal.number()),
        FinalState::Running | FinalState::Any => None,
    }
}

/// Contents of the machine's `/etc/hosts`.
pub fn hosts(own: &str, names: &[(String, IpAddr)]) -> String {
    let mut out = format!("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {own}-loopback\n");
    for (name, address) in names {
        line(&mut out, format_args!("{address} {name}"));
    }
    out
}

fn centiseconds(time: SimTime) -> u64 {
    time.as_nanos() / 10_000_000
}

fn mac(bytes: &[u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// Quotes a shell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("strings take all");
}
