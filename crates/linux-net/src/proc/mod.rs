//! Texts of the files in `/proc/net`, in Linux's columns, generated from a stack.

mod bonding;
mod conntrack;
mod files;
mod interfaces;
mod multicast;
mod snmp;
mod sockets;
mod v6;

pub use bonding::{bond_named, bond_names, proc_net_bonding};
pub use conntrack::set_conntrack;
pub use files::{NetworkFile, network_files, tunable};
pub use interfaces::{
    InterfaceFile, congestion_algorithms, interface_file, proc_net_arp, proc_net_route, resolv_conf,
};
pub use snmp::{proc_net_netstat, proc_net_snmp};
pub use sockets::{CLOSE, ESTABLISHED, LISTEN, proc_net_sockstat, proc_net_sockstat6};
pub use sockets::{proc_net_dev, proc_net_raw, proc_net_tcp, proc_net_udp, tcp_sockets, udp_sockets};
pub use v6::{proc_if_inet6, proc_igmp6, proc_ipv6_route, proc_snmp6};
