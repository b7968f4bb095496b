//! Changes by the experiment of a host's network that somebody on the host has to be told of.

use crate::host::Host;
use belljar_net::NicChange;

impl Host {
    /// A link loses its carrier, and with it its neighbours, or finds it.
    pub fn set_carrier(&mut self, link: usize, carrier: bool) {
        self.net.set_carrier(link, carrier);
        if !self.net.is_down {
            let interface = self.net.interfaces.at_link(link);
            self.administer(0, |admin| admin.link_changed(interface));
            self.net.flush_network();
            self.carry_out_effects();
        }
    }
    /// Changes how a link sends.
    pub fn change_nic(&mut self, link: usize, change: &NicChange) {
        self.net.change_nic(link, change);
        self.carry_out_effects();
    }
    /// Changes what `eth0` can send and receive, in bits per second; the inner `None` is unlimited.
    pub fn set_bandwidths(&mut self, up: Option<Option<u64>>, down: Option<Option<u64>>) {
        self.net.set_bandwidths(up, down);
        self.carry_out_effects();
    }
}
