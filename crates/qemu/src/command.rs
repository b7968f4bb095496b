//! Command line and environment of QEMU.

use crate::{Cable, FOLDER, Setup};
use belljar_config::MachineNic;

/// First descriptor opened by the clock library.
const FIRST_SOCKET: usize = 3;
/// I/O port that ends QEMU with a non-zero status when written.
pub const EXIT_PORT: u16 = 0x501;

impl Setup<'_> {
    /// Arguments of QEMU, without `argv[0]`.
    pub fn arguments(&self) -> Vec<String> {
        let machine = self.machine;
        let mut all: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| all.extend([option.to_owned(), value]);
        add("-machine", "q35,usb=off".into());
        add("-cpu", "Nehalem".into());
        add("-accel", "tcg,thread=single".into());
        add("-icount", format!("shift={},sleep=on", machine.shift));
        add("-m", format!("{}k", machine.memory / 1024));
        add("-rtc", format!("base={},clock=vm", self.date()));
        add("-display", "none".into());
        add("-chardev", "file,id=console,path=console.txt".into());
        add("-serial", "chardev:console".into());
        add("-device", format!("isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1"));
        // Precedes all other virtio devices, because the kernel names ports by their device number
        // (`/dev/vport0p1`).
        let ports = 2 * machine.programs.len() + 1;
        add("-device", format!("virtio-serial-pci,max_ports={}", ports.max(2)));
        for place in 0..machine.programs.len() {
            for (n, stream) in ["stdout", "stderr"].into_iter().enumerate() {
                let port = 2 * place + n + 1;
                let path = self.output(place, stream).replace(',', ",,");
                add("-chardev", format!("file,id=stream{port},path={path}"));
                add("-device", format!("virtserialport,chardev=stream{port},nr={port}"));
            }
        }
        for (n, cable) in self.cables.iter().enumerate() {
            add("-netdev", format!("dgram,id=cable{n},local.type=fd,local.str={}", FIRST_SOCKET + n));
            add("-device", nic(machine.nic, n, cable));
        }
        add("-kernel", format!("{FOLDER}/kernel"));
        add("-initrd", format!("{FOLDER}/initramfs.cpio"));
        let own = "console=ttyS0 rdinit=/belljar/init panic=-1 quiet tsc=reliable cryptomgr.notests";
        let given = machine.kernel_args.iter().map(|arg| format!(" {arg}"));
        let ipv6 = if self.host.ipv6 { "" } else { " ipv6.disable=1" };
        add("-append", format!("{own}{ipv6}{}", given.collect::<String>()));
        all.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
        all.extend(machine.args.iter().cloned());
        all
    }

    /// Environment variables of QEMU.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        let names: Vec<&str> = self.cables.iter().map(|cable| cable.name.as_str()).collect();
        [
            ("BELLJAR_INTERFACES", names.join(",")),
            ("BELLJAR_QUANTUM", self.machine.quantum.as_nanos().to_string()),
            ("LD_PRELOAD", format!("./{FOLDER}/clock.so")),
        ]
    }

    /// Start date of the machine's real-time clock in QEMU's format.
    fn date(&self) -> String {
        let date = jiff::Timestamp::from_second(self.start_date as i64).unwrap_or_default();
        date.strftime("%Y-%m-%dT%H:%M:%S").to_string()
    }
}

fn nic(kind: MachineNic, n: usize, cable: &Cable) -> String {
    let mac: Vec<String> = cable.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let mac = mac.join(":");
    match kind {
        MachineNic::E1000 => format!("e1000,netdev=cable{n},mac={mac},romfile="),
        // Without ioeventfd, the processor that rings the doorbell processes the queues synchronously.
        MachineNic::VirtioNet => {
            format!("virtio-net-pci,netdev=cable{n},mac={mac},ioeventfd=off,romfile=,host_mtu={}", cable.mtu)
        }
    }
}
