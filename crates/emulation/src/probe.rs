//! Probe of the machine's facilities for emulations, by using them in new namespaces.

use crate::dilation::{Dilated, Dilation};
use crate::error::Result;
use crate::netlink::{Netlink, VethEnd};
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

/// Facilities of the machine for emulations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Facilities {
    /// Reason for which namespaces cannot be made; the other facilities are then unknown.
    pub namespaces: Option<String>,
    /// True if pairs of interfaces (veth) can be made.
    pub veth: bool,
    /// True if bridges can be made.
    pub bridge: bool,
    /// True if there is a token bucket filter (tbf).
    pub tbf: bool,
    /// True if directories of the machine can be overlaid.
    pub overlay: bool,
    /// True if forwarding can be enabled in a network namespace.
    pub forwarding: bool,
    /// True if programs can run on a dilated clock.
    pub dilation: bool,
}

/// Probes all facilities. The calling process is moved to new namespaces.
pub fn facilities() -> Facilities {
    let mut found = Facilities::default();
    if let Err(error) = enter() {
        found.namespaces = Some(error.to_string());
        return found;
    }
    let _ = network(&mut found);
    found.overlay = overlay();
    found.dilation = dilation();
    found.forwarding = std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").is_ok();
    found
}

fn enter() -> Result<()> {
    crate::stage::leave(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)
}

fn network(found: &mut Facilities) -> Result<()> {
    use crate::error::Doing;
    let own = File::open("/proc/thread-self/ns/net").doing("opening a network namespace")?;
    let mut netlink = Netlink::open(own.as_fd())?;
    let (near, far) = (VethEnd { name: "a", mac: None }, VethEnd { name: "b", mac: None });
    found.bridge = netlink.add_bridge("c", 300).is_ok();
    netlink.add_veth(&near, &far, own.as_fd(), 1_500)?;
    found.veth = true;
    let index = netlink.index("a")?;
    found.tbf = netlink.set_rate(index, 10_000_000, 10_000, 100_000).is_ok();
    Ok(())
}

/// Runs a program in dilated time, on the tmpfs that `overlay` has mounted. Returns true on success.
fn dilation() -> bool {
    let settings = Dilated { tdf_milli: 2_000, changes: false, apart: false, freezes: 0 };
    let Ok(dilation) = Dilation::prepare(Path::new("/tmp"), &[], &[], settings) else { return false };
    let status = Command::new(dilation.program()).args(["/bin/true", "true"]).status();
    status.is_ok_and(|status| status.success())
}

/// Mounts an overlay of `/usr` on a tmpfs. Returns true on success.
fn overlay() -> bool {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let base = Path::new("/tmp");
    let option = if crate::files::in_user_namespace() { ",userxattr" } else { "" };
    let text = format!("lowerdir=/usr,upperdir=/tmp/upper,workdir=/tmp/work{option}");
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).is_ok()
        && mount(Some("tmpfs"), base, Some("tmpfs"), MsFlags::empty(), None::<&str>).is_ok()
        && ["upper", "work", "root"].iter().all(|name| std::fs::create_dir(base.join(name)).is_ok())
        && mount(Some("overlay"), &base.join("root"), Some("overlay"), MsFlags::empty(), Some(&*text)).is_ok()
}
