//! Per-interface settings, the files of `/proc/sys/net/ipv4/conf` and `ipv6/conf`: the values written, and
//! the rules that combine the value of `all` with that of an interface (`include/linux/inetdevice.h` of
//! Linux).

use crate::interfaces::Interfaces;
use crate::sysctl::Sysctl;
use crate::sysctl::Sysctls;
use crate::{LO, Stack};
use belljar_base::Map;
use belljar_linux_abi::Errno;
use belljar_linux_abi::interface_settings;
use belljar_linux_abi::interface_settings::{CONF4, CONF6, Named, place, table};
use belljar_linux_abi::kept_settings::{KEPT_SETTINGS, KeptSetting};

/// Indices of the IPv4 settings that have an effect.
#[allow(missing_docs)]
pub mod v4 {
    use super::{CONF4, place};
    pub const ACCEPT_REDIRECTS: usize = place(CONF4, "accept_redirects");
    pub const ARP_ACCEPT: usize = place(CONF4, "arp_accept");
    pub const ARP_ANNOUNCE: usize = place(CONF4, "arp_announce");
    pub const ARP_FILTER: usize = place(CONF4, "arp_filter");
    pub const ARP_IGNORE: usize = place(CONF4, "arp_ignore");
    pub const FORWARDING: usize = place(CONF4, "forwarding");
    pub const IGNORE_LINKDOWN: usize = place(CONF4, "ignore_routes_with_linkdown");
    pub const PROMOTE_SECONDARIES: usize = place(CONF4, "promote_secondaries");
    pub const PROXY_ARP: usize = place(CONF4, "proxy_arp");
    pub const RP_FILTER: usize = place(CONF4, "rp_filter");
    pub const SEND_REDIRECTS: usize = place(CONF4, "send_redirects");
}

/// Indices of the IPv6 settings that have an effect.
#[allow(missing_docs)]
pub mod v6 {
    use super::{CONF6, place};
    pub const ACCEPT_DAD: usize = place(CONF6, "accept_dad");
    pub const ACCEPT_RA: usize = place(CONF6, "accept_ra");
    pub const ACCEPT_RA_DEFRTR: usize = place(CONF6, "accept_ra_defrtr");
    pub const ACCEPT_RA_MTU: usize = place(CONF6, "accept_ra_mtu");
    pub const ACCEPT_RA_PINFO: usize = place(CONF6, "accept_ra_pinfo");
    pub const AUTOCONF: usize = place(CONF6, "autoconf");
    pub const DAD_TRANSMITS: usize = place(CONF6, "dad_transmits");
    pub const DISABLE: usize = place(CONF6, "disable_ipv6");
    pub const FORWARDING: usize = place(CONF6, "forwarding");
    pub const HOP_LIMIT: usize = place(CONF6, "hop_limit");
    pub const IGNORE_LINKDOWN: usize = place(CONF6, "ignore_routes_with_linkdown");
    pub const MAX_ADDRESSES: usize = place(CONF6, "max_addresses");
    pub const SOLICITATIONS: usize = place(CONF6, "router_solicitations");
    pub const TEMP_PREFERRED: usize = place(CONF6, "temp_prefered_lft");
    pub const TEMP_VALID: usize = place(CONF6, "temp_valid_lft");
    pub const USE_TEMPADDR: usize = place(CONF6, "use_tempaddr");
}

/// A file below `/proc/sys/net/ipv4/conf` or `ipv6/conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceFileSetting {
    /// True for IPv6.
    pub v6: bool,
    /// Index of the setting in the family's table.
    pub setting: usize,
    /// The directory of the file.
    pub scope: Scope,
}

/// The directory of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// `all`.
    All,
    /// `default`: the initial values of interfaces created later.
    Default,
    /// An interface, by its number.
    Interface(usize),
}

/// The settings written so far.
#[derive(Clone, Debug, Default)]
pub struct InterfaceSettings {
    /// Values by family (true for IPv6), index and directory.
    written: Map<(bool, usize, Scope), i32>,
}

impl InterfaceSettings {
    /// True if no setting has been written, so that packets skip the lookups.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.written.is_empty()
    }
    /// The value of a setting.
    pub fn get(&self, v6: bool, setting: usize, scope: Scope) -> i32 {
        let initial = &table(v6)[setting];
        let default = if scope == Scope::All { initial.all } else { initial.default };
        self.written.get(&(v6, setting, scope)).copied().unwrap_or(default)
    }
    /// The maximum of an IPv4 setting's values for `all` and for the interface (`IN_DEV_MAXCONF`).
    pub fn greatest(&self, setting: usize, interface: usize) -> i32 {
        self.of_all(setting).max(self.get(false, setting, Scope::Interface(interface)))
    }
    /// True if an IPv4 setting is nonzero for `all` or for the interface (`IN_DEV_ORCONF`).
    pub fn either(&self, setting: usize, interface: usize) -> bool {
        self.greatest(setting, interface) != 0
    }
    /// True if an IPv4 setting is nonzero both for `all` and for the interface (`IN_DEV_ANDCONF`).
    pub fn both(&self, setting: usize, interface: usize) -> bool {
        self.of_all(setting) != 0 && self.get(false, setting, Scope::Interface(interface)) != 0
    }
    fn of_all(&self, setting: usize) -> i32 {
        self.get(false, setting, Scope::All)
    }
    /// The value of an IPv6 setting for an interface; the value of `all` has no effect.
    pub fn of6(&self, setting: usize, interface: usize) -> i32 {
        self.get(true, setting, Scope::Interface(interface))
    }
    /// Initialises the settings of a new interface with the values of `default`.
    pub fn begin(&mut self, interface: usize) {
        let defaults: Vec<_> = self
            .written
            .iter()
            .filter(|((.., scope), _)| *scope == Scope::Default)
            .map(|((v6, setting, _), value)| (*v6, *setting, *value))
            .collect();
        for (v6, setting, value) in defaults {
            self.written.entry((v6, setting, Scope::Interface(interface))).or_insert(value);
        }
    }
    /// Removes the settings of a deleted interface.
    pub fn end(&mut self, interface: usize) {
        self.written.retain(|(.., scope), _| *scope != Scope::Interface(interface));
    }
    fn put(&mut self, v6: bool, setting: usize, scope: Scope, value: i32) {
        self.written.insert((v6, setting, scope), value);
    }
    /// Removes all values written for a setting, so that its host-wide value applies.
    fn clear(&mut self, v6: bool, setting: usize) {
        self.written.retain(|(family, place, _), _| (*family, *place) != (v6, setting));
    }
}

/// Index of the setting `forwarding`.
const fn forwarding(v6: bool) -> usize {
    if v6 { v6::FORWARDING } else { v4::FORWARDING }
}

impl Stack {
    /// Applies the settings of the experiment, those of `default` first, since interfaces are initialised
    /// with them.
    pub(crate) fn begin_interface_settings(&mut self) {
        let given = self.config.interface_settings.clone();
        let (of_default, others): (Vec<_>, Vec<_>) =
            given.iter().partition(|(name, _)| name.ends_with_default());
        for (name, value) in of_default {
            self.set_given(name, *value);
        }
        for number in 0..self.interfaces.len() {
            self.interface_settings.begin(number);
        }
        for (name, value) in others {
            self.set_given(name, *value);
        }
    }

    fn set_given(&mut self, name: &GivenSetting, value: i32) {
        match self.interfaces.setting_scope(&name.scope) {
            Some(scope) => {
                let _ = self.set_interface_setting(name.v6, name.setting, scope, value);
            }
            None => self.effects.note(format!(
                "sysctl {}: there is no such interface at the start",
                setting_name(name.v6, name.setting, &name.scope)
            )),
        }
    }

    /// The value of a setting, as returned by a read of its file.
    pub fn interface_setting(&self, v6: bool, setting: usize, scope: Scope) -> i32 {
        let settings = &self.interface_settings;
        match (v6, setting, scope) {
            (_, _, Scope::All) if setting == forwarding(v6) => i32::from(self.sysctls.forwards_at_all(v6)),
            (_, _, Scope::Interface(number)) if setting == forwarding(v6) => {
                i32::from(self.interface_settings.forwards(&self.sysctls, v6, number))
            }
            (_, _, Scope::Default) if setting == forwarding(v6) => {
                let written = settings.written.get(&(v6, setting, scope)).copied();
                written.unwrap_or(i32::from(self.sysctls.forwards_at_all(v6)))
            }
            (true, v6::DISABLE, _) if !self.v6.on => 1,
            _ => settings.get(v6, setting, scope),
        }
    }

    /// The text of a setting's file.
    pub fn interface_setting_text(&self, file: InterfaceFileSetting) -> String {
        format!("{}\n", self.interface_setting(file.v6, file.setting, file.scope))
    }

    /// Writes a setting's file, which holds one integer. Fails with `EINVAL` if it is malformed.
    pub fn write_interface_setting(&mut self, file: InterfaceFileSetting, text: &[u8]) -> Result<(), Errno> {
        let text = std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        let word = text.split_whitespace().next().ok_or(Errno::EINVAL)?;
        let value = word.trim_end_matches('\0').parse().map_err(|_| Errno::EINVAL)?;
        self.set_interface_setting(file.v6, file.setting, file.scope, value)
    }

    /// Writes a setting. Fails with `EACCES` for IPv6 if the experiment has no IPv6.
    pub fn set_interface_setting(
        &mut self,
        v6: bool,
        setting: usize,
        scope: Scope,
        value: i32,
    ) -> Result<(), Errno> {
        let of = &table(v6)[setting];
        if !of.works && value != of.default {
            let name = setting_name(v6, setting, &self.interfaces.scope_name(scope));
            self.effects.note(format!("sysctl {name} is accepted without effect"));
        }
        if setting == forwarding(v6) && scope == Scope::All {
            let which = if v6 { &mut self.sysctls.forwarding6 } else { &mut self.sysctls.forwarding };
            *which = value != 0;
            self.interface_settings.clear(v6, setting);
            return Ok(());
        }
        if (v6, setting) == (true, v6::DISABLE) {
            return self.disable_ipv6(scope, value != 0);
        }
        self.interface_settings.put(v6, setting, scope, value);
        Ok(())
    }

    /// Disables or enables IPv6 on one interface or on all.
    fn disable_ipv6(&mut self, scope: Scope, off: bool) -> Result<(), Errno> {
        if !self.v6.on {
            if off {
                return Ok(());
            }
            self.effects.note("sysctl disable_ipv6: the experiment has no IPv6 (belljar: {ipv6: true})");
            return Err(Errno::EACCES);
        }
        let numbers = match scope {
            Scope::All => {
                self.interface_settings.put(true, v6::DISABLE, Scope::All, i32::from(off));
                self.interface_settings.put(true, v6::DISABLE, Scope::Default, i32::from(off));
                0..self.interfaces.len()
            }
            Scope::Default => {
                self.interface_settings.put(true, v6::DISABLE, Scope::Default, i32::from(off));
                return Ok(());
            }
            Scope::Interface(number) => number..number + 1,
        };
        for number in numbers {
            let before = self.interface_settings.disables6(number);
            self.interface_settings.put(true, v6::DISABLE, Scope::Interface(number), i32::from(off));
            if before == off || number == LO || !self.interfaces[number].up {
                continue;
            }
            match off {
                true => self.interface_is_down6(number),
                false => self.interface_is_up6(number),
            }
        }
        Ok(())
    }

    /// Writes a host-wide setting; `ip_forward` overrides the `forwarding` settings of the interfaces.
    pub fn set_sysctl(&mut self, which: Sysctl, text: &[u8]) -> Result<(), Errno> {
        self.sysctls.set(which, text)?;
        if let Sysctl::Kept(number) = which {
            let KeptSetting { name, default, .. } = KEPT_SETTINGS[usize::from(number)];
            if self.sysctls.kept.get(&number).is_some_and(|value| *value != default) {
                self.effects.note(format!("sysctl {name} is accepted without effect"));
            }
        }
        if which == Sysctl::IpForward {
            self.interface_settings.clear(false, v4::FORWARDING);
        }
        Ok(())
    }
}

/// A setting of the experiment, with the interface by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenSetting {
    /// True for IPv6.
    pub v6: bool,
    /// `all`, `default` or the name of an interface.
    pub scope: String,
    /// Index of the setting in the family's table.
    pub setting: usize,
}

impl GivenSetting {
    fn ends_with_default(&self) -> bool {
        self.scope == "default"
    }
}

/// The setting with this sysctl(8) name, such as `net.ipv4.conf.eth0.rp_filter`.
pub fn by_name(name: &str) -> Option<GivenSetting> {
    interface_settings::by_name(name).map(GivenSetting::from)
}

impl From<Named<'_>> for GivenSetting {
    fn from(named: Named<'_>) -> GivenSetting {
        GivenSetting { v6: named.v6, scope: named.scope.to_owned(), setting: named.setting }
    }
}

fn setting_name(v6: bool, setting: usize, scope: &str) -> String {
    let family = if v6 { "ipv6" } else { "ipv4" };
    format!("net.{family}.conf.{scope}.{}", table(v6)[setting].name)
}

impl Interfaces {
    /// The directory of this name below `conf`.
    pub fn setting_scope(&self, name: &str) -> Option<Scope> {
        match name {
            "all" => Some(Scope::All),
            "default" => Some(Scope::Default),
            name => self.by_name(name.replace('/', ".").as_bytes()).map(Scope::Interface),
        }
    }

    fn scope_name(&self, scope: Scope) -> String {
        match scope {
            Scope::All => "all".to_owned(),
            Scope::Default => "default".to_owned(),
            Scope::Interface(number) => self[number].name.replace('.', "/"),
        }
    }
}

impl Sysctls {
    pub(crate) fn forwards_at_all(&self, v6: bool) -> bool {
        if v6 { self.forwarding6 } else { self.forwarding }
    }
}

impl InterfaceSettings {
    /// True if packets received by an interface are forwarded.
    pub fn forwards(&self, sysctls: &Sysctls, v6: bool, interface: usize) -> bool {
        let written = match self.is_plain() {
            true => None,
            false => self.written.get(&(v6, forwarding(v6), Scope::Interface(interface))),
        };
        written.map_or(sysctls.forwards_at_all(v6), |value| *value != 0)
    }

    /// True if IPv6 is disabled on an interface.
    #[inline]
    pub fn disables6(&self, interface: usize) -> bool {
        !self.is_plain() && self.of6(v6::DISABLE, interface) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ETH0;
    use crate::testing::stack;

    #[test]
    fn values_count_together() {
        let mut stack = stack();
        assert!(stack.interface_settings.is_plain());
        let own = Scope::Interface(ETH0);
        stack.set_interface_setting(false, v4::RP_FILTER, Scope::All, 1).unwrap();
        stack.set_interface_setting(false, v4::RP_FILTER, own, 2).unwrap();
        assert_eq!(stack.interface_settings.greatest(v4::RP_FILTER, ETH0), 2);
        assert_eq!(stack.interface_settings.greatest(v4::RP_FILTER, LO), 1);
        stack.set_interface_setting(false, v4::SEND_REDIRECTS, Scope::All, 0).unwrap();
        assert!(stack.interface_settings.either(v4::SEND_REDIRECTS, ETH0));
        assert!(!stack.interface_settings.both(v4::SEND_REDIRECTS, ETH0));
        stack.set_interface_setting(false, v4::SEND_REDIRECTS, own, 0).unwrap();
        assert!(!stack.interface_settings.either(v4::SEND_REDIRECTS, ETH0));
    }

    #[test]
    fn all_of_forwarding_is_that_of_each() {
        let mut stack = stack();
        let own = Scope::Interface(ETH0);
        stack.set_interface_setting(false, v4::FORWARDING, own, 1).unwrap();
        assert!(
            stack.interface_settings.forwards(&stack.sysctls, false, ETH0)
                && !stack.interface_settings.forwards(&stack.sysctls, false, LO)
                && !stack.sysctls.forwarding
        );
        stack.set_sysctl(Sysctl::IpForward, b"1").unwrap();
        assert!(
            stack.interface_settings.forwards(&stack.sysctls, false, LO)
                && stack.interface_setting(false, v4::FORWARDING, Scope::All) == 1
        );
        stack.set_interface_setting(false, v4::FORWARDING, own, 0).unwrap();
        assert!(!stack.interface_settings.forwards(&stack.sysctls, false, ETH0) && stack.sysctls.forwarding);
        stack.set_interface_setting(false, v4::FORWARDING, Scope::All, 1).unwrap();
        assert!(stack.interface_settings.forwards(&stack.sysctls, false, ETH0));
    }

    #[test]
    fn new_interfaces_begin_with_the_default() {
        let mut stack = stack();
        stack.set_interface_setting(false, v4::ARP_IGNORE, Scope::Default, 1).unwrap();
        assert_eq!(stack.interface_settings.greatest(v4::ARP_IGNORE, ETH0), 0);
        stack.interface_settings.begin(7);
        assert_eq!(stack.interface_settings.greatest(v4::ARP_IGNORE, 7), 1);
        let notes = |stack: &mut Stack| {
            let mut effects = Vec::new();
            stack.take_effects(&mut effects);
            effects.len()
        };
        assert_eq!(notes(&mut stack), 0);
        stack.set_interface_setting(false, place(CONF4, "log_martians"), Scope::All, 1).unwrap();
        assert_eq!(notes(&mut stack), 1, "it is told that this has no effect");
    }
}
