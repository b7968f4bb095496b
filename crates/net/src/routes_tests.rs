use super::*;

fn net(text: &str) -> Prefix {
    text.parse::<InterfaceAddress>().unwrap().network()
}
fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn changes_are_recorded_where_they_are_wanted() {
    let mut table = RouteTable::default();
    let by = |interface| Route::by(interface, None, protocol::STATIC);
    table.insert(net("10.1.0.0/16"), 5, by(1));
    assert_eq!(table.take_changes(), []);
    table.record_changes();
    let change = |prefix: &str, route| RouteChange { prefix: net(prefix), metric: 5, route };
    table.insert(net("10.1.0.0/16"), 5, by(1));
    assert_eq!(table.take_changes(), [], "it was there");
    table.insert(net("10.1.0.0/16"), 5, by(2));
    table.insert(
        net("10.2.0.0/16"),
        5,
        Route { hops: vec![NextHop::new(1, None), NextHop::new(2, None)], ..by(1) },
    );
    table.remove(net("10.3.0.0/16"), 5);
    assert_eq!(table.take_changes().len(), 2);
    table.retain(|_, _, route| {
        route.hops.retain(|hop| hop.interface != 2);
        !route.hops.is_empty()
    });
    assert_eq!(table.take_changes(), [change("10.1.0.0/16", None), change("10.2.0.0/16", Some(by(1)))]);
    table.remove(net("10.2.0.0/16"), 5);
    assert_eq!(table.take_changes(), [change("10.2.0.0/16", None)]);
}

#[test]
fn prefixes_know_their_addresses() {
    assert_eq!(net("10.1.2.3/24").to_string(), "10.1.2.0/24");
    assert_eq!(net("10.1.2.3/24").broadcast(), Some(ip("10.1.2.255")));
    assert_eq!((net("10.0.0.5/31").broadcast(), net("1.2.3.4").broadcast()), (None, None));
    assert_eq!(net("10.0.0.5/31").stations().collect::<Vec<_>>(), [ip("10.0.0.4"), ip("10.0.0.5")]);
    assert_eq!(net("10.0.0.0/30").stations().collect::<Vec<_>>(), [ip("10.0.0.1"), ip("10.0.0.2")]);
    assert_eq!(net("0.0.0.0/0"), Prefix::ALL);
    assert!(
        net("10.0.0.0/8").overlaps(&net("10.9.0.0/16")) && !net("10.0.0.0/9").overlaps(&net("10.128.0.0/9"))
    );
    for wrong in ["10.0.0.0/33", "10.0.0/8", "10.0.0.1/", ""] {
        assert!(wrong.parse::<InterfaceAddress>().is_err(), "{wrong}");
    }
}

#[test]
fn ipv6_has_the_same_table_with_longer_prefixes() {
    let net = |text: &str| text.parse::<InterfaceAddress<Ipv6Addr>>().unwrap().network();
    assert_eq!(net("2001:db8:1:2::7/64").to_string(), "2001:db8:1:2::/64");
    assert_eq!(net("2001:db8::1").bits(), 128);
    assert!("2001:db8::/129".parse::<InterfaceAddress<Ipv6Addr>>().is_err());
    let mut table: RouteTable<Ipv6Addr> = RouteTable::default();
    let hop = |n| Route::by(n, None, protocol::BOOT);
    assert!(table.lookup("::2".parse().unwrap(), || 0, |_| true).is_none());
    for (n, text) in ["::/0", "2001:db8::/32", "2001:db8::1/128"].into_iter().enumerate() {
        table.insert(net(text), 1_024, hop(n));
    }
    let to = |text: &str| {
        table.lookup(text.parse().unwrap(), || 0, |_| true).map(|(_, hop)| hop.unwrap().interface)
    };
    assert_eq!([to("fe80::1"), to("2001:db8::2"), to("2001:db8::1")], [Some(0), Some(1), Some(2)]);
}

#[test]
fn the_longest_prefix_then_the_least_metric_wins() {
    let mut table = RouteTable::default();
    table.insert(Prefix::ALL, 0, Route::by(1, Some(ip("10.0.0.1")), protocol::BOOT));
    table.insert(net("10.2.0.0/16"), 20, Route::by(2, None, protocol::BOOT));
    table.insert(net("10.2.0.0/16"), 10, Route::by(3, None, protocol::BOOT));
    table.insert(net("10.2.7.0/24"), 90, Route::by(4, None, protocol::BOOT));
    let to = |table: &RouteTable, text: &str, down: usize| {
        table.lookup(ip(text), || 0, |hop| hop.interface != down).map(|(_, hop)| hop.unwrap().interface)
    };
    assert_eq!(
        [to(&table, "10.2.7.1", 0), to(&table, "10.2.8.1", 0), to(&table, "11.0.0.1", 0)],
        [Some(4), Some(3), Some(1)]
    );
    assert_eq!(
        [to(&table, "10.2.7.1", 4), to(&table, "10.2.8.1", 3), to(&table, "11.0.0.1", 1)],
        [Some(3), Some(2), None]
    );
    assert!(table.remove(net("10.2.7.0/24"), 90).is_some() && table.remove(net("10.2.7.0/24"), 90).is_none());
    assert_eq!(to(&table, "10.2.7.1", 0), Some(3));
    table.retain(|_, metric, _| metric == 0);
    assert_eq!((to(&table, "10.2.7.1", 0), table.iter().count()), (Some(1), 1));
}

#[test]
fn routes_for_a_type_of_service_come_first() {
    let of = |tos, interface| Route { tos, ..Route::by(interface, None, protocol::STATIC) };
    let mut few = RouteTable::default();
    for (tos, metric, interface) in [(0, 1, 1), (0x10, 9, 2), (0xb8, 0, 3)] {
        few.insert(net("10.1.0.0/16"), metric, of(tos, interface));
    }
    let mut many = few.clone();
    for n in 0..2 * FEW as u8 {
        many.insert(net(&format!("192.168.{n}.0/24")), 0, of(0, 9));
    }
    for table in [few, many] {
        // Only the bits of RFC 1349 count for the type of service.
        for (tos, by) in [(0, 1), (0x10, 2), (0xb3, 2), (0xb8, 1), (0x08, 1)] {
            let found = table.lookup_entry(ip("10.1.2.3"), tos, || 0, |_| true);
            assert_eq!(found.and_then(|(_, _, hop)| hop).map(|hop| hop.interface), Some(by), "{tos:#x}");
        }
        let mut table = table.clone();
        assert!(table.get(net("10.1.0.0/16"), 9).is_none());
        assert!(table.remove(net("10.1.0.0/16"), Rank::new(0x10, 9)).is_some());
        assert!(table.get(net("10.1.0.0/16"), 1).is_some());
    }
}

#[test]
fn routes_that_are_alike_are_tried_in_their_order() {
    let by = |interface| Route::by(interface, None, protocol::STATIC);
    let prefix = net("10.1.0.0/16");
    let mut table = RouteTable::default();
    table.record_changes();
    table.insert(prefix, 5, by(1));
    table.insert_beside(prefix, 5, by(2), true);
    table.insert_beside(prefix, 5, by(3), false);
    let order = |table: &RouteTable| -> Vec<usize> {
        table.all_alike(prefix, 5.into()).map(|route| route.hops[0].interface).collect()
    };
    assert_eq!(order(&table), [3, 1, 2]);
    let found = |table: &RouteTable, down: usize| {
        let found = table.lookup(ip("10.1.2.3"), || 0, |hop| hop.interface != down);
        found.and_then(|(_, hop)| hop).map(|hop| hop.interface)
    };
    assert_eq!((found(&table, 0), found(&table, 3)), (Some(3), Some(1)));
    // The first route is replaced or removed, unless one is given.
    table.insert(prefix, 5, by(4));
    assert_eq!(order(&table), [4, 1, 2]);
    table.remove_this(prefix, 5, &by(1)).unwrap();
    table.remove(prefix, 5).unwrap();
    assert_eq!(order(&table), [2]);
    let now: Vec<_> = table
        .take_changes()
        .into_iter()
        .map(|change| change.route.map(|route| route.hops[0].interface))
        .collect();
    assert_eq!(now, [Some(1), Some(3), Some(4), Some(2)], "the first one each time");
    table.insert_beside(prefix, 5, by(6), false);
    table.take_changes();
    table.retain(|_, _, route| route.hops[0].interface != 6);
    assert_eq!(table.take_changes().last().unwrap().route, Some(by(2)));
    table.retain(|_, _, _| false);
    assert!(table.is_empty() && found(&table, 0).is_none());
}

#[test]
fn a_few_routes_are_found_as_many_are() {
    let mut few = RouteTable::default();
    few.insert(Prefix::ALL, 5, Route::by(1, None, protocol::BOOT));
    few.insert(net("10.0.0.0/8"), 0, Route::by(2, None, protocol::BOOT));
    few.insert(net("10.1.0.0/16"), 9, Route::by(3, None, protocol::BOOT));
    few.insert(net("10.1.0.0/16"), 2, Route::by(4, None, protocol::BOOT));
    let blocked = Route { kind: RouteKind::Prohibit, ..Route::by(0, None, protocol::STATIC) };
    few.insert(net("10.1.7.0/24"), 0, blocked);
    let mut many = few.clone();
    for n in 0..2 * FEW as u8 {
        many.insert(net(&format!("192.168.{n}.0/24")), 0, Route::by(9, None, protocol::BOOT));
    }
    assert!(!few.few.is_empty() && many.few.is_empty());
    for to in ["10.1.7.1", "10.1.8.1", "10.2.0.0", "11.0.0.1", "0.0.0.0"].map(ip) {
        for down in 0..5 {
            let found = |table: &RouteTable| {
                table
                    .lookup_entry(to, 0, || 0, |hop| hop.interface != down)
                    .map(|(prefix, _, hop)| (prefix, hop))
            };
            assert_eq!(found(&few), found(&many), "{to} without {down}");
        }
    }
    few.insert(Prefix::ALL, 5, Route::by(7, None, protocol::BOOT));
    let by = few.lookup(ip("1.1.1.1"), || 0, |_| true).and_then(|(_, hop)| hop).map(|hop| hop.interface);
    assert_eq!(by, Some(7));
}

#[test]
fn flows_spread_over_equal_next_hops_and_stay_on_theirs() {
    let hop = |interface| NextHop::new(interface, None);
    let route = Route { hops: vec![hop(1), hop(2), hop(3)], ..Route::by(0, None, protocol::STATIC) };
    let mut table = RouteTable::default();
    table.insert(Prefix::ALL, 0, route);
    let by = |hash, down| {
        table.lookup(ip("1.1.1.1"), || hash, |hop| hop.interface != down).unwrap().1.unwrap().interface
    };
    assert_eq!([by(0, 0), by(1, 0), by(2, 0), by(3, 0)], [1, 2, 3, 1]);
    assert_eq!([by(0, 2), by(1, 2), by(2, 2)], [1, 3, 1]);
}

#[test]
fn equal_next_hops_stay_apart() {
    let hop = |interface| NextHop::<Ipv4Addr>::new(interface, None);
    let hops = NextHop::repeated([(hop(1), 2), (hop(1), 1), (hop(2), 1), (hop(1), 1)]);
    let runs: Vec<_> =
        hops.chunk_by(|one, next| one == next).map(|run| (run[0].interface, run.len())).collect();
    assert_eq!(runs, [(1, 2), (1, 1), (2, 1), (1, 1)]);
}

#[test]
fn gateways_of_host_scope_are_not_used() {
    let gateway = Ipv4Addr::new(10, 0, 0, 1);
    let by = NextHop::new(1, Some(gateway));
    assert_eq!(by.next(), Some(gateway.into()));
    assert_eq!(NextHop { scope: 254, ..by }.next(), None);
}
