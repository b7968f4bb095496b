//! Changes of a host's network by the experiment that are announced to programs on the host.

use crate::host::Host;
use belljar_net::NicChange;

impl Host {
    /// Sets the carrier of a link. A link that loses its carrier loses its neighbours too.
    pub fn set_carrier(&mut self, link: usize, carrier: bool) {
        self.net.set_carrier(link, carrier);
        if !self.net.is_down {
            let interface = self.net.interfaces.at_link(link);
            self.administer(0, |admin| admin.link_changed(interface));
            self.net.flush_network();
            self.carry_out_effects();
        }
    }
    /// Changes the transmit parameters of a link.
    pub fn change_nic(&mut self, link: usize, change: &NicChange) {
        self.net.change_nic(link, change);
        self.carry_out_effects();
    }
    /// Changes the send and receive rates of `eth0`, in bits per second; the inner `None` is unlimited.
    pub fn set_bandwidths(&mut self, up: Option<Option<u64>>, down: Option<Option<u64>>) {
        self.net.set_bandwidths(up, down);
        self.carry_out_effects();
    }
}
