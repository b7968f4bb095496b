//! Kernel settings of imported nodes.

use super::draft::Member;
use belljar_linux_abi::interface_settings::{by_name, table};
use belljar_linux_abi::sysctl::{Values, values};

/// Imports a kernel setting from a line of the topology; false if it has no effect in the simulator.
pub(super) fn sysctl(member: &mut Member, line: usize, name: &str, value: &str) -> bool {
    let name = name.replace('/', ".");
    let value = value.trim().trim_matches(['"', '\'']);
    let is_v4 = matches!(&*name, "net.ipv4.ip_forward" | "net.ipv4.conf.all.forwarding");
    if is_v4 || name == "net.ipv6.conf.all.forwarding" {
        match value {
            "1" => member.forwarding = Some(true),
            "0" if is_v4 => member.forwarding = Some(false),
            "0" => {}
            _ => return false,
        }
        if is_v4 || value == "1" {
            return true;
        }
    }
    // Settings without effect are reported instead.
    let works = by_name(&name).is_none_or(|named| table(named.v6)[named.setting].works);
    let Some(values) = values(&name).filter(|values| works && values.take(value)) else { return false };
    let text = match values {
        Values::Sizes => format!("\"{}\"", value.split_whitespace().collect::<Vec<_>>().join(" ")),
        _ => value.to_owned(),
    };
    member.sysctls.insert(name, (line, text));
    true
}
