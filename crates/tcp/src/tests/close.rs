//! Opening and closing in all orders.

use super::solo::{OURS, PEERS, Solo};
use super::util::{Link, World, address};
use crate::{Config, Connection, Disposition, Ecn, Events, Flags, Readiness, Repr, State, TcpError};
use belljar_base::{SimDuration, SimTime};
use belljar_wire::tcp::Packet;

const MS: fn(u64) -> SimDuration = SimDuration::from_millis;

fn established() -> World {
    let mut world = World::simple();
    world.run_for(MS(100));
    assert_eq!(world.states(), [State::Established; 2]);
    world
}

#[test]
fn the_active_closer_waits_sixty_seconds() {
    let mut world = established();
    world.ends[0].tcp.close(world.now);
    assert_eq!(world.states()[0], State::FinWait1);
    world.run_for(MS(100));
    assert_eq!(world.states(), [State::FinWait2, State::CloseWait]);
    assert!(world.ends[1].events.contains(Events::READ_CLOSED | Events::READABLE));
    assert!(world.ends[1].tcp.is_read_closed());
    world.ends[1].tcp.close(world.now);
    assert_eq!(world.states()[1], State::LastAck);
    let closed_at = world.now;
    world.run_for(MS(100));
    assert_eq!(world.states(), [State::TimeWait, State::Closed]);
    world.run_until(closed_at + SimDuration::from_secs(60));
    assert_eq!(world.states()[0], State::TimeWait);
    world.run_for(MS(100));
    assert!(world.ends.iter().all(|end| end.tcp.is_finished() && end.tcp.error().is_none()));
}

#[test]
fn both_close_at_once() {
    let mut world = established();
    for end in 0..2 {
        world.ends[end].tcp.close(world.now);
    }
    world.flush(0);
    world.flush(1);
    world.step(SimTime::MAX);
    let mut seen = Vec::new();
    world.run_while(SimTime::from_secs(1), |w| {
        seen.push(w.states());
        w.states() != [State::TimeWait; 2]
    });
    assert!(seen.iter().any(|states| states.contains(&State::Closing)), "{seen:?}");
    world.run_for(SimDuration::from_secs(61));
    assert_eq!(world.states(), [State::Closed; 2]);
}

#[test]
fn half_closed_connections_carry_data_the_other_way() {
    let mut world = established();
    world.ends[0].closes = true;
    world.run_for(MS(100));
    assert_eq!(world.states(), [State::FinWait2, State::CloseWait]);
    world.ends[1].to_send = 500_000;
    world.run_for(SimDuration::from_secs(2));
    assert_eq!(world.ends[0].received, 500_000);
    assert_eq!(world.states(), [State::FinWait2, State::CloseWait]);
    world.ends[1].closes = true;
    world.run_for(MS(100));
    assert_eq!(world.states(), [State::TimeWait, State::Closed]);
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut world = established();
    let mut lost = 0;
    world.filter = Box::new(move |_, end, repr, _| {
        lost += u32::from(end == 0 && repr.has(Flags::FIN));
        end == 0 && repr.has(Flags::FIN) && lost <= 2
    });
    world.ends[0].to_send = 1000;
    world.ends[0].closes = true;
    world.ends[1].closes = true;
    world.run_for(SimDuration::from_secs(5));
    assert_eq!(world.states()[0], State::TimeWait);
    assert_eq!(world.ends[1].received, 1000);
}

#[test]
fn closing_with_unread_data_resets() {
    let mut world = established();
    world.ends[1].reads = false;
    world.ends[0].to_send = 100;
    world.run_for(MS(100));
    world.ends[1].tcp.close(world.now);
    world.run_for(MS(100));
    assert_eq!(world.states(), [State::Closed; 2]);
    assert!(world.ends[1].tcp.is_finished());
    assert_eq!(world.ends[0].tcp.take_error(), Some(TcpError::Reset));
    assert_eq!(world.ends[0].tcp.take_error(), None);
    assert!(world.ends[0].tcp.readiness().contains(Readiness::HANG_UP | Readiness::READABLE));
}

#[test]
fn data_for_nobody_is_answered_with_a_reset() {
    let mut world = established();
    world.ends[1].tcp.close(world.now);
    world.run_for(MS(100));
    world.ends[0].to_send = 100;
    world.run_for(MS(100));
    assert_eq!(world.states(), [State::Closed; 2]);
    // The peer's FIN was received, so the error is EPIPE, as on Linux.
    assert_eq!(world.ends[0].tcp.take_error(), Some(TcpError::BrokenPipe));
}

#[test]
fn an_orphan_waits_sixty_seconds_for_fin() {
    let mut world = established();
    world.ends[0].tcp.close(world.now);
    world.run_for(MS(50));
    assert_eq!(world.states()[0], State::FinWait2);
    world.run_for(SimDuration::from_secs(59));
    assert_eq!(world.states()[0], State::FinWait2);
    world.run_for(SimDuration::from_secs(2));
    assert!(world.ends[0].tcp.is_finished());
    // Without `close` there is no limit.
    let mut world = established();
    world.ends[0].tcp.shutdown_write(world.now);
    world.run_for(SimDuration::from_secs(1000));
    assert_eq!(world.states()[0], State::FinWait2);
}

#[test]
fn abort_resets_at_once() {
    let mut world = established();
    world.ends[0].tcp.abort(world.now);
    assert!(!world.ends[0].tcp.is_finished(), "the reset is still to be sent");
    world.run_for(MS(100));
    assert!(world.ends[0].tcp.is_finished());
    assert_eq!(world.ends[1].tcp.take_error(), Some(TcpError::Reset));
}

#[test]
fn simultaneous_open() {
    let configs = Config::default();
    let now = SimTime::ZERO;
    let ends = [
        Connection::connect(configs.clone(), address(0), address(1), 7, now),
        Connection::connect(configs, address(1), address(0), u32::MAX, now),
    ];
    let mut world = World::with(Link::new(10_000_000, MS(10)), ends, now, 3);
    world.tracing = true;
    for end in &mut world.ends {
        end.to_send = 10_000;
    }
    world.run_for(MS(15));
    assert_eq!(world.states(), [State::SynReceived; 2]);
    world.run_for(MS(500));
    assert_eq!(world.states(), [State::Established; 2]);
    assert!(world.ends.iter().all(|end| end.received == 10_000 && end.events.contains(Events::CONNECTED)));
}

#[test]
fn time_wait_makes_room_for_a_newer_syn() {
    for modern in [false, true] {
        let mut solo = if modern { Solo::modern() } else { Solo::plain() };
        solo.tcp.close(solo.now);
        assert!(solo.sent_one().0.has(Flags::FIN));
        solo.feed(&solo.segment(Flags::ACK | Flags::FIN, PEERS + 1, OURS + 2), b"");
        assert_eq!(solo.tcp.state(), State::TimeWait);
        assert_eq!(solo.sent_one().0.ack.0, PEERS + 2);
        // A retransmitted FIN: its ACK was lost. TIME-WAIT restarts.
        let before = solo.tcp.next_timer().unwrap();
        solo.now += MS(1000);
        solo.feed(&solo.segment(Flags::ACK | Flags::FIN, PEERS + 1, OURS + 2), b"");
        assert_eq!(solo.sent_one().0.ack.0, PEERS + 2);
        assert_eq!(solo.tcp.next_timer().unwrap(), before + MS(1000));
        // An old SYN is challenged; a newer one reopens the connection.
        solo.feed(&solo.segment(Flags::SYN, PEERS, 0), b"");
        assert_eq!(solo.sent_one().0.flags, Flags::ACK);
        let newer = if modern {
            solo.stamp = Some(701);
            solo.segment(Flags::SYN, PEERS - 1000, 0)
        } else {
            solo.segment(Flags::SYN, PEERS + 1000, 0)
        };
        assert_eq!(solo.tcp.on_segment(&newer, b"", Ecn::NotEct, solo.now), Disposition::Reopen);
    }
}

#[test]
fn refused_and_reset_connects() {
    let mut solo = Solo::connecting(Config::default());
    // A reset that acknowledges another number does not belong to this connection.
    solo.feed(&solo.segment(Flags::RST | Flags::ACK, 0, OURS + 2), b"");
    assert_eq!(solo.tcp.state(), State::SynSent);
    solo.sent();
    solo.feed(&solo.segment(Flags::RST | Flags::ACK, 0, OURS + 1), b"");
    assert_eq!(solo.tcp.take_error(), Some(TcpError::Refused));
    assert!(solo.tcp.is_finished());
    // An ACK of a number never sent belongs to an old connection and is answered with a reset.
    let mut solo = Solo::connecting(Config::default());
    solo.feed(&solo.segment(Flags::ACK, 77, OURS + 500), b"");
    let (reset, _) = solo.sent_one();
    assert_eq!((reset.flags, reset.seq.0), (Flags::RST, OURS + 500));
    assert_eq!(solo.tcp.state(), State::SynSent);
}

#[test]
fn a_repeated_syn_is_answered_again() {
    let mut client = Connection::connect(Config::default(), address(0), address(1), 5, SimTime::ZERO);
    let mut bytes = Vec::new();
    client.poll_transmit(SimTime::ZERO, 0, &mut bytes).unwrap();
    let syn = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap());
    let mut server =
        Connection::accept_syn(Config::default(), address(1), address(0), &syn, 9, SimTime::ZERO);
    let mut now = SimTime::ZERO;
    for _ in 0..2 {
        bytes.clear();
        server.poll_transmit(SimTime::ZERO, 0, &mut bytes).unwrap();
        let reply = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap());
        assert_eq!((reply.flags, reply.seq.0, reply.ack.0), (Flags::SYN | Flags::ACK, 9, 6));
        assert!(server.poll_transmit(SimTime::ZERO, 0, &mut bytes).is_none());
        // At most one per half second.
        now += SimDuration::from_millis(500);
        for _ in 0..2 {
            assert_eq!(server.on_segment(&syn, b"", Ecn::NotEct, now), Disposition::Consumed);
        }
    }
    // A final ACK with a wrong number is answered with a reset.
    let ack = Repr { flags: Flags::ACK, seq: crate::Seq(6), ack: crate::Seq(77), ..syn };
    server.poll_transmit(SimTime::ZERO, 0, &mut bytes).unwrap();
    assert_eq!(server.on_segment(&ack, b"", Ecn::NotEct, SimTime::ZERO), Disposition::Consumed);
    bytes.clear();
    server.poll_transmit(SimTime::ZERO, 0, &mut bytes).unwrap();
    let reset = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap());
    assert_eq!((reset.flags, reset.seq.0), (Flags::RST, 77));
    assert_eq!(server.state(), State::SynReceived);
}
