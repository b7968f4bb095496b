use super::*;
use crate::netlink::{Netlink, routes};
use std::net::Ipv4Addr;
use std::process::Command;

/// Moves the thread to a network namespace of its own; false without the permission.
fn own_namespace() -> bool {
    let own = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_ok();
    own && Command::new("ip").args(["link", "set", "lo", "up"]).status().is_ok_and(|status| status.success())
}

fn route(n: u32, gateway: Option<Ipv4Addr>) -> KernelRoute {
    let destination = Ipv4Addr::from_bits(0x0a09_0000 + n);
    KernelRoute { destination, bits: 32, gateway, interface: 1, metric: 20, source: None }
}

/// More changes than fit into one call, some of which the kernel refuses.
#[test]
fn refused_changes_leave_the_others_in_force() {
    if !own_namespace() {
        return;
    }
    let nowhere = Some(Ipv4Addr::new(203, 0, 113, 9));
    let mut sink = RouteSink::kernel(150).unwrap();
    let refused = |n: u32| n % 50 == 7;
    let set = |n| TableChange::Set(route(n, nowhere.filter(|_| refused(n))));
    sink.carry_out(&(0..200).map(set).collect::<Vec<_>>()).unwrap();
    assert_eq!(sink.len(), 196);
    let gone = route(1, None);
    Command::new("ip").args(["route", "del", &gone.destination.to_string()]).status().unwrap();
    sink.carry_out(&[
        // A route that was never set, and one that the kernel no longer has.
        TableChange::Remove(route(7, None).prefix()),
        TableChange::Remove(gone.prefix()),
        // The previous route stays.
        TableChange::Set(route(2, nowhere)),
        TableChange::Set(route(3, nowhere)),
        TableChange::Remove(route(3, None).prefix()),
    ])
    .unwrap();
    let left = |n: &u32| !refused(*n) && ![1, 3].contains(n);
    let expected: Vec<_> = (0..200).filter(left).map(|n| route(n, None)).collect();
    let mut kernel = routes(&mut Netlink::open().unwrap()).unwrap();
    kernel.sort_by_key(|route| route.destination);
    assert_eq!(kernel, expected);
    assert_eq!(sink.set.values().copied().collect::<Vec<_>>(), expected);
    sink.clear();
    assert_eq!(routes(&mut Netlink::open().unwrap()).unwrap(), []);
}
