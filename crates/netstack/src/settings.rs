//! Reading and writing of settings: `/proc/sys/net`, and the settings of the experiment.

use crate::conf::{GivenSetting, InterfaceFileSetting, Scope, forwarding, setting_name, v4, v6};
use crate::sysctl::Sysctl;
use crate::{LO, Stack};
use belljar_linux_abi::Errno;
use belljar_linux_abi::interface_settings::table;
use belljar_linux_abi::kept_settings::{KEPT_SETTINGS, KeptSetting};

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
                let written = settings.written(v6, setting, scope);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ETH0;
    use crate::testing::stack;
    use belljar_linux_abi::interface_settings::{CONF4, place};

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
