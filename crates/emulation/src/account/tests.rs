use super::*;
use belljar_net::link::ImpairmentCounts;
use belljar_packetio::Count;
use belljar_results::Statistics;

fn frames(frames: u64) -> Count {
    Count { frames, bytes: 0 }
}

/// Ports of a link on which 40 frames in 10 packets came from the first.
fn ports() -> [Counters; 2] {
    let from = Counters { received: frames(40), packets: 10, dropped_kernel: 2, ..Counters::default() };
    [from, Counters { sent: frames(30), failed: 3, failed_down: 1, ..Counters::default() }]
}

fn line() -> LineCounters {
    LineCounters {
        drops: [(DropReason::PacketLoss, 4), (DropReason::EgressFull, 3)].into_iter().collect(),
        overflowed: 1,
        impaired: ImpairmentCounts { duplicated: 5, ..ImpairmentCounts::default() },
        ..LineCounters::default()
    }
}

fn relayed() -> PacketAccount {
    let left = Remainder { offered: Some(13), unread: 1, unsent: 0 };
    let mut account = of_ports(ports(), [left, Remainder { unsent: 2, ..Remainder::default() }], 2 + 2);
    add_line(&mut account, &line());
    account.drop_for(INTERFACE_DOWN, 1);
    account.held += 2;
    account
}

#[test]
fn a_relayed_direction_balances() {
    let account = relayed();
    assert_eq!((account.received, account.sent, account.held), (13, 30, 5));
    assert_eq!(account.originated, [("segments", 30), ("duplicates", 5)].into_iter().collect());
    let dropped =
        [("missed", 4), ("packet_loss", 4), ("egress_full", 3), ("overflow", 1), ("interface_down", 1)];
    assert_eq!(account.dropped, dropped.into_iter().collect());
    assert_eq!(account.imbalance(), 0);
}

#[test]
fn every_uncounted_drop_is_a_warning() {
    let reasons: Vec<&'static str> = relayed().dropped.keys().copied().collect();
    for reason in reasons {
        let mut account = relayed();
        let lost = account.dropped.remove(reason).unwrap_or_default();
        assert_eq!(account.imbalance(), lost as i64, "{reason}");
        let mut statistics = Statistics::default();
        statistics.add_account("l: a to b", &account);
        statistics.check_accounts();
        let (warning, count) = statistics.warnings.first_key_value().expect("a warning");
        assert!(warning.contains("at l: a to b: its account does not balance: received 13"), "{warning}");
        assert_eq!((statistics.warnings.len(), *count), (1, lost));
    }
}

#[test]
fn a_port_without_counts_of_the_kernel_has_those_that_it_read() {
    let [from, to] = ports();
    let account = of_ports([from, to], [Remainder::default(); 2], 2);
    assert_eq!(account.received, 12);
}

#[test]
fn a_direct_link_counts_its_queue() {
    let queue = QueueCounters { drops: 3, queued: 2, ..QueueCounters::default() };
    let near = InterfaceCounters { sent: (20, 0), discarded: 1, queue, ..InterfaceCounters::default() };
    let mut far = InterfaceCounters { received: 20, ..InterfaceCounters::default() };
    let account = direct(&near, &far, MISSED);
    assert_eq!((account.received, account.sent, account.held), (26, 20, 2));
    assert_eq!(account.dropped, [("egress_full", 3), ("missed", 1)].into_iter().collect());
    assert_eq!(account.imbalance(), 0);
    far.received = 19;
    assert_eq!(direct(&near, &far, MISSED).imbalance(), 1);
}
