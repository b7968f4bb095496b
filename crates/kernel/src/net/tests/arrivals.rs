//! Arrivals from the graph are independent of the synchronisation windows in which the host runs.

use super::*;
use belljar_base::Seed;
use belljar_net::DropReason;
use belljar_netstack::socket::SocketKind;

/// Datagrams sent by A to port 7 of B.
fn datagrams(count: usize) -> Vec<Packet> {
    let mut wire = Wire::new();
    let a = wire.hosts[A].udp4();
    let mut packets = Vec::new();
    for n in 0..count {
        wire.hosts[A].send_to(a, &vec![n as u8; 200 + 37 * (n % 11)], at(B, 7)).unwrap();
        let mut departures = Vec::new();
        wire.hosts[A].host.net.take_departures(&mut departures);
        packets.extend(departures.into_iter().map(|departure| departure.packet));
    }
    packets
}

/// Runs B with packets that arrive at random times in random order, in windows of at most `window`
/// microseconds. Returns for each received packet its arrival time at the socket and its first byte, and the
/// interface's drop count at each of ten points in time.
fn received(bandwidth_down: Option<u64>, window: u64) -> (Vec<(SimTime, u8)>, Vec<u64>) {
    let nic = NicConfig { bandwidth_down, router_queue_packets: 6, ..NicConfig::default() };
    let mut wire = Wire::with_nic(&nic);
    let test = &mut wire.hosts[B];
    let b = test.udp4();
    test.bind(b, at(B, 7)).unwrap();
    let (mut arriving, mut windows) = (Seed(1).stream(&["arriving"]), Seed(window).stream(&["windows"]));
    let mut packets: Vec<(SimTime, u64, Packet)> = (0..)
        .zip(datagrams(150))
        .map(|(n, packet)| (SimTime::from_nanos(1_000 * arriving.below(100_000)), n, packet))
        .collect();
    let host = &mut test.host;
    let (mut now, mut dropped) = (SimTime::ZERO, Vec::new());
    for tenth in 1..=20 {
        let sample = SimTime::from_nanos(10_000_000 * tenth);
        while now < sample {
            let limit = sample.min(now + SimDuration::from_nanos(1_000 * (1 + windows.below(window))));
            // The packets of a window are delivered before it starts; they come from several hosts.
            let (coming, later) = packets.into_iter().partition(|(at, ..)| *at < limit);
            packets = later;
            for (time, sequence, packet) in coming {
                let source = HostId(sequence as u32 % 3);
                host.net.deliver(
                    EventKey { time, class: EventClass::Arrival, source, sequence },
                    None,
                    packet,
                );
            }
            host.fire_until(SimTime::from_picos(limit.as_picos() - 1));
            host.net.take_arrivals(limit);
            host.net.plan_arrivals();
            assert!(host.next_event().is_none_or(|next| next >= limit));
            now = limit;
        }
        dropped.push(host.net.interface_counters().dropped(DropReason::RouterFull));
    }
    let queues = host.net.sockets.iter().filter_map(|(_, socket)| match &socket.kind {
        SocketKind::Udp(udp) => Some(&udp.queue),
        _ => None,
    });
    let mut came = Vec::new();
    for datagram in queues.flatten() {
        came.push((datagram.arrived, datagram.packet[datagram.payload.start]));
    }
    (came, dropped)
}

#[test]
fn windows_make_no_difference_to_what_comes_in() {
    for bandwidth in [None, Some(1_000_000_000), Some(3_000_000)] {
        let (came, dropped) = received(bandwidth, 200_000);
        let lost = *dropped.last().unwrap() as usize;
        assert_eq!((came.len() + lost, lost > 10), (150, bandwidth == Some(3_000_000)));
        assert!(came.iter().map(|(at, _)| *at).is_sorted());
        for window in [3, 70, 900, 15_000] {
            assert_eq!(
                received(bandwidth, window),
                (came.clone(), dropped.clone()),
                "{bandwidth:?}, {window}"
            );
        }
    }
}

#[test]
fn what_comes_while_the_host_is_down_is_lost() {
    let mut wire = Wire::new();
    let host = &mut wire.hosts[B].host;
    let key = |sequence, ms| {
        let time = SimTime::ZERO + millis(ms);
        EventKey { time, class: EventClass::Arrival, source: HostId(0), sequence }
    };
    let mut packets = datagrams(3).into_iter();
    let mut next = || packets.next().unwrap();
    host.crash(belljar_machine::CrashFiles::Kept);
    host.net.deliver(key(1, 5), None, next());
    assert_eq!(host.next_event(), Some(SimTime::ZERO + millis(5)));
    host.net.deliver(key(2, 3), None, next());
    host.fire_until(SimTime::ZERO + millis(6));
    assert_eq!(host.net.interface_counters().dropped(DropReason::HostDown), 2);
    host.restart();
    host.net.deliver(key(3, 7), None, next());
    host.fire_until(SimTime::ZERO + millis(8));
    let counters = host.net.interface_counters();
    assert_eq!((counters.dropped(DropReason::HostDown), counters.packets_in), (2, 1));
}
