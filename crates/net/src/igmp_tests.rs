use super::*;
use belljar_base::Seed;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

fn igmp() -> Igmp {
    Igmp::new(Seed(1).stream(&["igmp"]))
}

/// Runs the timers up to `until`; returns the messages sent, with their times.
fn run(igmp: &mut Igmp, until: SimTime) -> Vec<(SimTime, IgmpMessage)> {
    let mut sent = Vec::new();
    while let Some(at) = igmp.next_timeout().filter(|at| *at <= until) {
        igmp.on_timeout(at);
        while let Some(message) = igmp.poll() {
            assert_eq!(checksum::internet(&message.bytes), 0);
            sent.push((at, message));
        }
    }
    sent
}

fn seconds(n: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs(n)
}

#[test]
fn joining_and_leaving_is_reported_twice() {
    let mut igmp = igmp();
    igmp.set(SimTime::ZERO, 1, GROUP, SourceFilter::everybody());
    let sent = run(&mut igmp, seconds(10));
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].0, SimTime::ZERO + FIRST_DELAY);
    assert!(sent[1].0 <= sent[0].0 + FIRST_DELAY + REPORT_INTERVAL);
    for (_, message) in &sent {
        assert_eq!((message.interface, message.to), (1, REPORTS));
        assert_eq!(message.bytes[0], kind::V3_REPORT);
        assert_eq!(message.bytes[7..], [1, record::TO_EXCLUDE, 0, 0, 0, 239, 1, 2, 3]);
    }
    assert!(igmp.is_member(1, GROUP) && !igmp.is_member(2, GROUP));
    igmp.set(seconds(10), 1, GROUP, SourceFilter::nobody());
    assert!(!igmp.is_member(1, GROUP));
    let sent = run(&mut igmp, seconds(20));
    assert_eq!(sent.iter().map(|(_, m)| m.bytes[8]).collect::<Vec<_>>(), [record::TO_INCLUDE; 2]);
    assert_eq!((igmp.next_timeout(), igmp.iter().count()), (None, 0));
}

#[test]
fn queries_are_answered_in_the_version_that_they_have() {
    let mut igmp = igmp();
    igmp.set(SimTime::ZERO, 1, GROUP, SourceFilter::everybody());
    run(&mut igmp, seconds(10));
    let query = |len: usize| {
        let mut bytes = vec![0; len];
        (bytes[0], bytes[1]) = (kind::QUERY, 50);
        let sum = checksum::internet(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    };
    igmp.input(seconds(10), 1, &query(12));
    let sent = run(&mut igmp, seconds(15));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1.bytes[8], record::IS_EXCLUDE);
    igmp.input(seconds(20), 1, &query(8));
    let sent = run(&mut igmp, seconds(25));
    assert_eq!((sent.len(), sent[0].1.to, sent[0].1.bytes[0]), (1, GROUP, kind::V2_REPORT));
    // On a link with a version 2 router the leave message is of version 2 as well.
    igmp.set(seconds(30), 1, GROUP, SourceFilter::nobody());
    let sent = run(&mut igmp, seconds(40));
    assert!(sent.iter().all(|(_, m)| m.bytes[0] == kind::V2_LEAVE && m.to == ALL_ROUTERS));
}

#[test]
fn listeners_add_up() {
    let ip = |n: u8| Ipv4Addr::new(10, 0, 0, n);
    let include = |n: &[u8]| SourceFilter { include: true, sources: n.iter().map(|n| ip(*n)).collect() };
    let exclude = |n: &[u8]| SourceFilter { include: false, ..include(n) };
    let union = |filters: &[SourceFilter]| SourceFilter::union(filters.iter());
    assert_eq!(union(&[include(&[1]), include(&[2])]), include(&[1, 2]));
    assert_eq!(union(&[exclude(&[1, 2]), exclude(&[2, 3]), include(&[4])]), exclude(&[2]));
    assert_eq!(union(&[exclude(&[1, 2]), include(&[2])]), exclude(&[1]));
    assert!(union(&[]).is_nobody());
    assert!(exclude(&[1]).takes(ip(2)) && !exclude(&[1]).takes(ip(1)) && include(&[1]).takes(ip(1)));

    let mut igmp = igmp();
    igmp.set(SimTime::ZERO, 1, GROUP, include(&[1]));
    assert!(igmp.takes(1, GROUP, ip(1)) && !igmp.takes(1, GROUP, ip(2)));
    let sent = run(&mut igmp, seconds(5));
    assert_eq!(sent[0].1.bytes[8..], [record::ALLOW, 0, 0, 1, 239, 1, 2, 3, 10, 0, 0, 1]);
}
