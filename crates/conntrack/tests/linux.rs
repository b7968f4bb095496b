//! Packets whose effects Linux 6.18 recorded (`linux/record.py`), on our tracker.

use belljar_base::{Seed, SimDuration, SimTime};
use belljar_conntrack::{
    Attached, Conntrack, EventGroups, Helper, InetHook, Manip, NatFlags, NatRange, Reporter, Template,
    TrackContext, TrackVerdict, proc,
};
use belljar_wire::{ipv4, ipv6, tcp, udp};
use std::net::{Ipv4Addr, Ipv6Addr};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 9);

/// Translation of a hook: packet and the side where it comes from in, range out.
type Rule = fn(InetHook, &[u8], usize) -> Option<NatRange>;

/// The router of the recording.
struct Router {
    ct: Conntrack,
    now: SimTime,
    rule: Option<Rule>,
    /// True if datagrams to port 54 mark their connection.
    marks: bool,
}

fn destination_port(packet: &[u8]) -> u16 {
    packet.get(22..24).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn is_from_client(packet: &[u8]) -> bool {
    packet[12..15] == [10, 0, 1]
}

/// True for packets to addresses of the router.
fn is_local(packet: &[u8]) -> bool {
    match packet[0] >> 4 {
        4 => packet[18] == 9 || packet[19] == 254,
        _ => packet[29] == 9 || packet[39] == 0xfe,
    }
}

fn count_hop(packet: &mut [u8]) -> bool {
    match packet[0] >> 4 {
        4 => ipv4::decrement_ttl(packet),
        _ => ipv6::decrement_hop_limit(packet),
    }
}

fn nat6_rule(hook: InetHook, packet: &[u8], side: usize) -> Option<NatRange> {
    let address = |net, host| Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host);
    let from_client = packet[8..14] == address(1, 0).octets()[..6];
    match hook {
        InetHook::Prerouting if side == 1 && packet[6] == 6 && packet[42..44] == 8080u16.to_be_bytes() => {
            Some(NatRange::address(address(1, 1).into()).with_ports(80, 80))
        }
        InetHook::Postrouting if side == 0 && from_client => Some(NatRange::address(address(9, 9).into())),
        _ => None,
    }
}

fn nat_rule(hook: InetHook, packet: &[u8], side: usize) -> Option<NatRange> {
    match hook {
        InetHook::Prerouting if side == 1 && packet[9] == 6 && destination_port(packet) == 8080 => {
            Some(NatRange::address(CLIENT.into()).with_ports(80, 80))
        }
        InetHook::Postrouting if side == 0 && is_from_client(packet) => {
            Some(NatRange::address(OUTSIDE.into()))
        }
        _ => None,
    }
}

fn ftp_rule(hook: InetHook, packet: &[u8], side: usize) -> Option<NatRange> {
    match hook {
        InetHook::Prerouting if side == 1 && destination_port(packet) == 21 => {
            Some(NatRange::address(CLIENT.into()))
        }
        InetHook::Postrouting if side == 0 && is_from_client(packet) => {
            Some(NatRange::address(Ipv4Addr::new(10, 0, 9, 200).into()))
        }
        _ => None,
    }
}

fn choice_rule(hook: InetHook, packet: &[u8], _side: usize) -> Option<NatRange> {
    let range = |min: [u8; 4], max: [u8; 4]| NatRange {
        flags: NatFlags::MAP_IPS,
        min_address: Ipv4Addr::from(min).into(),
        max_address: Ipv4Addr::from(max).into(),
        ..NatRange::default()
    };
    let outside = range([10, 0, 9, 10], [10, 0, 9, 37]);
    match (hook, destination_port(packet)) {
        (InetHook::Postrouting, 53) => Some(outside),
        (InetHook::Postrouting, 54) => Some(outside.with_flags(NatFlags::PERSISTENT)),
        (InetHook::Postrouting, 56) => {
            Some(range([10, 0, 77, 0], [10, 0, 77, 255]).with_flags(NatFlags::NETMAP))
        }
        (InetHook::Prerouting, 57) => Some(range([10, 0, 1, 20], [10, 0, 1, 99])),
        _ => None,
    }
}

impl Router {
    fn new(rule: Option<Rule>) -> Router {
        let ct = Conntrack::new(Seed(1).stream(&["test", "linux"]));
        Router { ct, now: SimTime::from_secs(1_000), rule, marks: false }
    }

    /// Forwards a packet from a side, 0 for the clients' and 1 for the servers'; `ct state invalid` is
    /// dropped.
    fn forward(&mut self, side: usize, mut packet: Vec<u8>) -> Option<Vec<u8>> {
        let context = |hook| TrackContext { hook, now: self.now, checksum_verified: false };
        let (first, last) = (context(InetHook::Prerouting), context(InetHook::Postrouting));
        let controls = packet[0] >> 4 == 4 && packet[9] == 6 && destination_port(&packet) == 21;
        let helper = controls.then_some(Helper::Ftp);
        let template = Attached::Template(Template { helper, ..Template::default() });
        let tracked = self.ct.track(&packet, template, &first);
        if side == 0 && packet[9] == 17 && destination_port(&packet) == 54 && self.marks {
            self.ct.set_mark(tracked.attached, 7);
        }
        let attached = tracked.attached;
        let mut accepted = tracked.verdict == TrackVerdict::Accept
            && self.translate(&mut packet, attached, InetHook::Prerouting, side) == TrackVerdict::Accept
            && attached.state_bits() != 1
            && !is_local(&packet)
            && count_hop(&mut packet)
            && self.translate(&mut packet, attached, InetHook::Postrouting, side) == TrackVerdict::Accept;
        if accepted {
            let confirmed = self.ct.confirm(&mut packet, attached, &last);
            accepted = confirmed.verdict == TrackVerdict::Accept;
        } else {
            self.ct.release(attached);
        }
        accepted.then_some(packet)
    }

    fn translate(
        &mut self,
        packet: &mut [u8],
        attached: Attached,
        hook: InetHook,
        side: usize,
    ) -> TrackVerdict {
        let Some(rule) = self.rule else { return TrackVerdict::Accept };
        if self.ct.nat_wanted(packet, attached, hook)
            && let Some(range) = rule(hook, packet, side)
        {
            self.ct.setup_nat(attached, &range, Manip::of(hook), self.now);
        }
        self.ct.translate(packet, attached, hook, None, self.now)
    }
}

fn segment(
    original: bool,
    letters: &str,
    numbers: [u32; 4],
    options: impl Iterator<Item = Vec<u8>>,
) -> Vec<u8> {
    let [seq, ack, window, len] = numbers;
    let (source, target) = if original { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let (sport, dport): (u16, u16) = if original { (5000, 80) } else { (80, 5000) };
    let bit = |letter| match letter {
        'F' => 1,
        'S' => 2,
        'R' => 4,
        'P' => 8,
        'A' => 16,
        'U' => 32,
        _ => 0,
    };
    let mut options: Vec<u8> = options.flatten().collect();
    options.resize(options.len().next_multiple_of(4), 1);
    let mut bytes = Vec::new();
    bytes.extend(sport.to_be_bytes());
    bytes.extend(dport.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([(((20 + options.len()) / 4) << 4) as u8, letters.chars().map(bit).sum::<u8>()]);
    bytes.extend((window as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    bytes.resize(bytes.len() + len as usize, b'x');
    tcp::fill_checksum(source.into(), target.into(), &mut bytes);
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet.extend_from_slice(&bytes);
    ipv4::Repr::new(source, target, 6, bytes.len()).emit(&mut packet);
    packet
}

/// Option of the recording.
fn option(word: &str) -> Vec<u8> {
    let number: u32 = word[1..].parse().unwrap_or(0);
    match &word[..1] {
        "w" => vec![1, 3, 3, number as u8],
        "p" => vec![1, 1, 4, 2],
        _ => {
            let left = number.wrapping_sub(50);
            [vec![1, 1, 5, 10], left.to_be_bytes().to_vec(), number.to_be_bytes().to_vec()].concat()
        }
    }
}

/// State, timeout and marks of the one entry, as in the recording.
fn state(router: &Router) -> Option<(String, u64, String)> {
    let text = proc::nf_conntrack(&router.ct, router.now);
    let line = text.lines().next()?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let mut marks = String::new();
    for (mark, letter) in [("[UNREPLIED]", 'U'), ("[ASSURED]", 'A')] {
        if line.contains(mark) {
            marks.push(letter);
        }
    }
    if marks.is_empty() {
        marks.push('.');
    }
    Some((fields[5].into(), fields[4].parse().unwrap(), marks))
}

#[test]
fn tcp_states_timeouts_and_verdicts_are_those_of_linux() {
    let mut router = Router::new(None);
    let (mut steps, mut flow, mut settings) = (0, Vec::new(), Vec::new());
    for (number, line) in include_str!("linux/tcp.txt").lines().enumerate() {
        flow.push(line);
        if let Some(setting) = line.strip_prefix("flow") {
            router = Router::new(None);
            if let Some((name, value)) = setting.trim().split_once(' ') {
                settings.retain(|(known, _)| *known != name);
                settings.push((name, value));
            }
            for (name, value) in &settings {
                router.ct.set_setting(&format!("nf_conntrack_{name}"), value).unwrap();
            }
            flow.clear();
            continue;
        }
        let (sent, expected) = line.split_once(" = ").unwrap();
        let words: Vec<&str> = sent.split(' ').collect();
        let numbers = [2, 3, 4, 5].map(|n| words[n].parse().unwrap());
        let original = words[0] == ">";
        let packet = segment(original, words[1], numbers, words[6..].iter().map(|word| option(word)));
        let passed = router.forward(usize::from(!original), packet).is_some();
        let expected: Vec<&str> = expected.split(' ').collect();
        let context = || format!("line {}: {flow:#?}", number + 1);
        assert_eq!(passed, expected[0] == "pass", "{}", context());
        match state(&router) {
            None => assert_eq!(expected[1], "-", "{}", context()),
            Some((state, left, marks)) => {
                assert_eq!(
                    (state.as_str(), Some(&marks.as_str())),
                    (expected[1], expected.get(3)),
                    "{}",
                    context()
                );
                // The recording took some milliseconds for each packet.
                let recorded: u64 = expected[2].parse().unwrap();
                assert!((recorded..=recorded + 1).contains(&left), "{left}: {}", context());
            }
        }
        steps += 1;
    }
    assert!(steps > 4_000);
}

#[test]
fn translated_packets_are_those_of_linux() {
    replay(include_str!("linux/nat.txt"), nat_rule);
}

#[test]
fn translated_packets_of_ipv6_are_those_of_linux() {
    replay(include_str!("linux/nat6.txt"), nat6_rule);
}

#[test]
fn announcements_of_ftp_are_those_of_linux() {
    replay(include_str!("linux/ftp.txt"), ftp_rule);
}

#[test]
fn chosen_addresses_are_those_of_linux() {
    let mut router = Router::new(Some(choice_rule));
    let mut count = 0;
    for (n, line) in include_str!("linux/choice.txt").lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [source, target, new_source, new_target] =
            [1, 2, 3, 4].map(|n| words[n].parse::<Ipv4Addr>().unwrap());
        let port = match words[0] {
            "range" => 53,
            "persistent" => 54,
            "netmap" => 56,
            _ => 57,
        };
        let mut datagram = Vec::new();
        let sport = 3_000 + (n / 4) as u16;
        udp::Repr::append((source.into(), sport), (target.into(), port), b"query", &mut datagram);
        let mut packet = vec![0; ipv4::HEADER_LEN];
        packet.extend_from_slice(&datagram);
        ipv4::Repr::new(source, target, 17, datagram.len()).emit(&mut packet);
        let left = router.forward(usize::from(port == 57), packet).unwrap();
        assert_eq!(
            (&left[12..16], &left[16..20]),
            (&new_source.octets()[..], &new_target.octets()[..]),
            "{line}"
        );
        count += 1;
    }
    assert_eq!(count, 600);
}

#[test]
fn notifications_are_those_of_linux() {
    replay(include_str!("linux/events.txt"), nat_rule);
}

/// Message without identifier, timeout and port, which differ between runs.
fn normalized(mut message: Vec<u8>) -> Vec<u8> {
    message[12..16].fill(0);
    let mut at = 20;
    while at < message.len() {
        let word = |at: usize| u16::from_ne_bytes([message[at], message[at + 1]]);
        let (len, kind) = (usize::from(word(at)), word(at + 2));
        if matches!(kind, 7 | 12) {
            message[at + 4..at + 8].fill(0);
        }
        at += len.next_multiple_of(4);
    }
    message
}

fn replay(recorded: &str, rule: Rule) {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let mut router = Router::new(Some(rule));
    let (mut entries, mut events) = (Vec::new(), Vec::new());
    if recorded.contains("event") {
        router.marks = true;
        router.ct.listen(EventGroups::CONNECTIONS);
        router.ct.set_setting("nf_conntrack_acct", "1").unwrap();
    }
    for (number, line) in recorded.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "wait" => router.now += SimDuration::from_millis(words[1].parse().unwrap()),
            "entry" => entries.push(words[1..].join(" ")),
            "event" => {
                assert!(!events.is_empty(), "line {}: no event", number + 1);
                let own: Vec<u8> = events.remove(0);
                assert_eq!(own, bytes(words[1]), "line {}", number + 1);
            }
            "flush" => {
                router.ct.flush(Reporter::default(), router.now, |_| true);
                events.extend(router.ct.take_events().into_iter().map(|event| normalized(event.message)));
                // Linux removes them in the order of its hash table.
                events.sort();
            }
            side => {
                assert_eq!(events.len(), 0, "line {}: {events:x?}", number + 1);
                let left = router.forward(side.parse().unwrap(), bytes(words[1]));
                events.extend(router.ct.take_events().into_iter().map(|event| normalized(event.message)));
                let expected = (words[2] != "-").then(|| bytes(words[3]));
                assert_eq!(left, expected, "line {}: {line}", number + 1);
            }
        }
    }
    let text = proc::nf_conntrack(&router.ct, router.now);
    let mut own: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    // Timeouts are those of the recording to a second; a packet may hold a reference more.
    let without_timeout = |line: &String| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.remove(4);
        words.pop();
        words.join(" ")
    };
    own.sort();
    let (mut own, mut entries): (Vec<_>, Vec<_>) =
        (own.iter().map(without_timeout).collect(), entries.iter().map(without_timeout).collect());
    own.sort();
    entries.sort();
    assert_eq!(own, entries);
}
