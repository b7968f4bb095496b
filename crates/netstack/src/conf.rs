//! Per-interface settings, the files of `/proc/sys/net/ipv4/conf` and `ipv6/conf`: the values written, and
//! the rules that combine the value of `all` with that of an interface (`include/linux/inetdevice.h` of
//! Linux).

use crate::interfaces::Interfaces;
use crate::sysctl::Sysctls;
use belljar_base::Map;
use belljar_linux_abi::interface_settings;
use belljar_linux_abi::interface_settings::{CONF4, CONF6, Named, place, table};

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
    /// The value written for a setting, if there is one.
    pub(crate) fn written(&self, v6: bool, setting: usize, scope: Scope) -> Option<i32> {
        self.written.get(&(v6, setting, scope)).copied()
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
    pub(crate) fn put(&mut self, v6: bool, setting: usize, scope: Scope, value: i32) {
        self.written.insert((v6, setting, scope), value);
    }
    /// Removes all values written for a setting, so that its host-wide value applies.
    pub(crate) fn clear(&mut self, v6: bool, setting: usize) {
        self.written.retain(|(family, place, _), _| (*family, *place) != (v6, setting));
    }
}

/// Index of the setting `forwarding`.
pub(crate) const fn forwarding(v6: bool) -> usize {
    if v6 { v6::FORWARDING } else { v4::FORWARDING }
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
    pub(crate) fn ends_with_default(&self) -> bool {
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

pub(crate) fn setting_name(v6: bool, setting: usize, scope: &str) -> String {
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

    pub(crate) fn scope_name(&self, scope: Scope) -> String {
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
