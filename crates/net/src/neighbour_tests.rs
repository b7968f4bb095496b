use super::*;
use belljar_base::Seed;

const MAC: Address = Address([2, 0, 0, 0, 0, 9]);
const OTHER: Address = Address([2, 0, 0, 0, 0, 8]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn at(ms: u64) -> SimTime {
    SimTime::from_nanos(ms * 1_000_000)
}
fn packet(cookie: u64) -> Packet {
    let mut bytes = vec![0; 20];
    bytes[0] = 0x45;
    bytes[12..16].copy_from_slice(&OWN.octets());
    Packet::with_cookie(bytes, cookie)
}
fn neighbours() -> Neighbours {
    Neighbours::new(&mut Seed(1).stream(&["neighbours"]))
}
/// Takes all events, in short form.
fn events(n: &mut Neighbours) -> Vec<String> {
    std::iter::from_fn(|| n.poll())
        .map(|event| match event {
            NeighbourEvent::Ask { target, to, source, .. } => {
                format!("ask {target} {} {source:?}", to.map_or("all".to_owned(), |to| to.to_string()))
            }
            NeighbourEvent::Send { to, packets, .. } => format!("send {} to {to}", packets.len()),
            NeighbourEvent::Failed { packets, .. } => format!("failed {}", packets.len()),
            NeighbourEvent::Overflow { packet } => format!("overflow {}", packet.cookie()),
            NeighbourEvent::Changed(n) => format!("{:?}", n.state),
            NeighbourEvent::Forgotten(_) => "forgotten".to_owned(),
        })
        .collect()
}
/// Runs the timers up to `until`; returns the events with their times in milliseconds.
fn run(n: &mut Neighbours, until: SimTime) -> Vec<(u64, String)> {
    let mut done = Vec::new();
    while let Some(next) = n.next_timeout().filter(|next| *next <= until) {
        n.on_timeout(next);
        done.extend(events(n).into_iter().map(|event| (next.as_nanos() / 1_000_000, event)));
    }
    done
}

#[test]
fn a_neighbour_that_is_silent_is_asked_three_times_and_given_up() {
    let mut n = neighbours();
    assert!(n.resolve(at(0), 1, IP, packet(1)).is_none());
    assert!(n.resolve(at(10), 1, IP, packet(2)).is_none());
    let ask = format!("ask 10.0.0.2 all {:?}", Some(OWN));
    assert_eq!(events(&mut n), std::slice::from_ref(&ask));
    let expected = [(1_000, ask.as_str()), (2_000, &ask), (3_000, "failed 2"), (3_000, "Failed")]
        .map(|(at, what)| (at, what.to_owned()));
    assert_eq!(run(&mut n, at(60_000)), expected);
    assert_eq!(n.iter().next().map(|n| (n.state, n.address)), Some((NeighbourState::Failed, None)));
    // The next packet restarts resolution.
    assert!(n.resolve(at(70_000), 1, IP, packet(3)).is_none());
    assert_eq!(events(&mut n), [ask]);
}

#[test]
fn an_answer_sends_what_waits_and_is_confirmed_while_it_is_used() {
    let mut n = neighbours();
    n.resolve(at(0), 1, IP, packet(1));
    events(&mut n);
    n.learn(at(5), 1, IP, MAC, true, false);
    assert_eq!(events(&mut n), ["Reachable", "send 1 to 02:00:00:00:00:09"]);
    // In constant use: once the answer has expired, a unicast probe follows five seconds later.
    let mut asked = Vec::new();
    for second in 1..60 {
        assert!(n.resolve(at(second * 1_000), 1, IP, packet(2)).is_some());
        asked.extend(run(&mut n, at(second * 1_000 + 999)));
        if !asked.is_empty() {
            break;
        }
    }
    let (when, what) = &asked[0];
    assert_eq!(asked[1..], [(*when, "Probe".to_owned())]);
    assert!((20_000..50_100).contains(when) && what.contains("02:00:00:00:00:09"), "{asked:?}");
    n.learn(at(when + 1), 1, IP, MAC, true, false);
    assert_eq!(events(&mut n), ["Reachable"]);
    // Not in use: the entry becomes stale without a probe.
    let unused = run(&mut n, at(1_000_000));
    assert!(matches!(&unused[..], [(_, what)] if what == "Stale"), "{unused:?}");
    assert_eq!(n.iter().next().map(|n| n.state), Some(NeighbourState::Stale));
    assert_eq!(n.resolve(at(1_000_000), 1, IP, packet(3)).map(|(to, _)| to), Some(MAC));
    let unicast = format!("ask 10.0.0.2 {MAC} None");
    let expected = [
        (1_005_000, unicast.as_str()),
        (1_005_000, "Probe"),
        (1_006_000, &unicast),
        (1_007_000, &unicast),
        (1_008_000, "Failed"),
    ]
    .map(|(when, what)| (when, what.to_owned()));
    assert_eq!(run(&mut n, at(2_000_000)), expected);
    assert_eq!(n.iter().next().map(|n| n.state), Some(NeighbourState::Failed));
}

#[test]
fn what_is_said_in_passing_is_believed_but_not_relied_on() {
    let mut n = neighbours();
    n.learn(at(0), 1, IP, MAC, false, false);
    assert_eq!(n.iter().count(), 0, "nobody asked");
    n.learn(at(0), 1, IP, MAC, false, true);
    assert_eq!(n.iter().next().map(|n| n.state), Some(NeighbourState::Stale));
    n.learn(at(1), 1, IP, MAC, true, false);
    n.learn(at(2), 1, IP, MAC, false, true);
    assert_eq!(n.iter().next().map(|n| n.state), Some(NeighbourState::Reachable));
    // The neighbour has another hardware address.
    n.learn(at(3), 1, IP, OTHER, false, true);
    let shown = n.iter().next().unwrap();
    assert_eq!((shown.state, shown.address), (NeighbourState::Stale, Some(OTHER)));
    n.assign(at(3), 1, IP, Some(MAC), NeighbourState::Permanent).unwrap();
    n.learn(at(4), 1, IP, OTHER, true, true);
    assert_eq!(n.resolve(at(5), 1, IP, packet(1)).map(|(to, _)| to), Some(MAC));
    n.flush(1, false);
    assert_eq!(n.iter().count(), 1);
    assert!(n.remove(1, IP) && !n.remove(1, IP));
}

#[test]
fn only_so_many_packets_wait() {
    let mut n = neighbours();
    for cookie in 1..=103 {
        n.resolve(at(0), 1, IP, packet(cookie));
    }
    assert_eq!(events(&mut n)[1..], ["overflow 1", "overflow 2"]);
    n.flush(1, false);
    assert_eq!(events(&mut n), ["forgotten", "failed 101"]);
    assert_eq!(n.next_timeout(), None);
}

#[test]
fn what_the_administrator_says_needs_an_address_once() {
    let mut n = neighbours();
    let reachable = NeighbourState::Reachable;
    assert_eq!(n.assign(at(0), 1, IP, None, reachable), Err(NoAddress));
    assert_eq!(n.get(1, IP).map(|n| n.state), Some(NeighbourState::None));
    n.assign(at(0), 1, IP, Some(MAC), NeighbourState::Stale).unwrap();
    n.assign(at(0), 1, IP, None, reachable).unwrap();
    assert_eq!(n.get(1, IP).and_then(|n| n.address), Some(MAC));
    assert_eq!(events(&mut n), ["Stale", "Reachable"]);
    assert!(n.next_timeout().is_some(), "it is not reachable for ever");
    n.assign(at(1), 1, IP, None, NeighbourState::Failed).unwrap();
    assert_eq!((n.get(1, IP).and_then(|n| n.address), n.next_timeout()), (None, None));
}

#[test]
fn a_neighbour_is_found_without_a_packet_for_it() {
    let mut n = neighbours();
    n.make_use(at(0), 1, IP);
    n.make_use(at(1), 1, IP);
    assert_eq!(events(&mut n), ["ask 10.0.0.2 all None"]);
    n.learn(at(2), 1, IP, MAC, true, false);
    assert_eq!(n.resolve(at(3), 1, IP, packet(1)).map(|(to, _)| to), Some(MAC));
    assert_eq!(run(&mut n, at(100_000)).last().map(|(_, what)| what.as_str()), Some("Stale"));
    n.make_use(at(200_000), 1, IP);
    assert_eq!(n.get(1, IP).map(|n| n.state), Some(NeighbourState::Delay));
}

#[test]
fn a_neighbour_by_which_answers_come_is_not_asked() {
    let mut n = neighbours();
    n.resolve(at(0), 1, IP, packet(1));
    n.learn(at(1), 1, IP, MAC, true, false);
    events(&mut n);
    // The neighbour stays reachable while it is confirmed, and for about half a minute longer.
    for second in 1..=120 {
        n.on_timeout(at(second * 1_000));
        n.confirm(at(second * 1_000), 1, IP);
        assert!(n.resolve(at(second * 1_000), 1, IP, packet(2)).is_some());
    }
    assert_eq!(n.get(1, IP).map(|n| n.state), Some(NeighbourState::Reachable));
    assert_eq!(events(&mut n), [""; 0]);
    // After a pause, a used entry is probed only without a confirmation.
    assert_eq!(run(&mut n, at(200_000)).last().map(|(_, what)| what.as_str()), Some("Stale"));
    n.resolve(at(200_000), 1, IP, packet(3));
    n.confirm(at(201_000), 1, IP);
    n.on_timeout(at(205_000));
    assert_eq!(n.get(1, IP).map(|n| n.state), Some(NeighbourState::Reachable));
    assert_eq!(events(&mut n), ["Reachable"]);
}

#[test]
fn a_neighbour_that_the_medium_does_not_reach_has_failed_and_is_asked_anew() {
    let mut n = neighbours();
    n.resolve(at(0), 1, IP, packet(1));
    n.learn(at(1), 1, IP, MAC, true, false);
    n.assign(at(1), 1, OWN, Some(MAC), NeighbourState::Permanent).unwrap();
    events(&mut n);
    n.fail(at(2), 1, OTHER);
    n.fail(at(2), 2, MAC);
    assert_eq!(events(&mut n), [""; 0], "another station, another interface");
    n.fail(at(3), 1, MAC);
    assert_eq!(events(&mut n), ["Failed"]);
    assert_eq!(n.get(1, OWN).map(|n| n.state), Some(NeighbourState::Permanent));
    assert_eq!(n.resolve(at(4), 1, IP, packet(2)).map(|(to, _)| to), None);
    assert_eq!(events(&mut n), [format!("ask {IP} all Some({OWN})")]);
    n.learn(at(5), 1, IP, MAC, true, false);
    assert_eq!(events(&mut n), ["Reachable".to_owned(), format!("send 1 to {MAC}")]);
}
