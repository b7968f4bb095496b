//! Transfers over links that lose, reorder and duplicate segments: every byte arrives. A failure reports the
//! seed; `run(seed)` replays it.

use super::util::{Link, World};
use crate::{Config, CongestionAlgorithm, EcnPolicy, MtuProbing, State, TcpError};
use belljar_base::{Seed, SimDuration, SimTime};

/// Transfer over a random link, with random configurations, in both directions at once.
fn run(seed: u64) {
    let mut dice = Seed(seed).stream(&["faults"]);
    let rate = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000][dice.below(4) as usize];
    let delay = SimDuration::from_micros([50, 1_000, 10_000, 75_000][dice.below(4) as usize]);
    let mut link = Link::new(rate, delay);
    link.queue = [usize::MAX, 20_000, 100_000][dice.below(3) as usize];
    link.loss = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3][dice.below(6) as usize];
    link.duplicate = [0.0, 0.02, 0.2][dice.below(3) as usize];
    link.damage = [0.0, 0.0, 0.02][dice.below(3) as usize];
    link.mark_above = [usize::MAX, 20_000][dice.below(2) as usize];
    link.reorder = [0.0, 0.05, 0.5][dice.below(3) as usize];
    link.reorder_by = delay.saturating_mul(1 + dice.below(4)).max(SimDuration::from_micros(100));
    // If the link drops long segments silently, both ends must be able to detect it.
    let black_hole = link.loss < 0.1 && dice.chance(0.2);
    if black_hole {
        link.swallows_above = 200 + dice.below(1300) as usize;
    }
    let mut config = || Config {
        mtu_probing: MtuProbing {
            mode: if black_hole { 1 + dice.below(2) as u8 } else { dice.below(3) as u8 },
            base_mss: [1024, 1024, 512, 100][dice.below(4) as usize],
            interval: SimDuration::from_secs([600, 1][dice.below(2) as usize]),
            ..MtuProbing::default()
        },
        mss: [1460, 536, 1460, 8960, 88][dice.below(5) as usize],
        frto: [2, 2, 0][dice.below(3) as usize],
        compressed_acks: [44, 44, 0][dice.below(3) as usize],
        slow_start_after_idle: !dice.chance(0.2),
        limit_output: [4 << 20, 4 << 20, 3000][dice.below(3) as usize],
        sack: !dice.chance(0.2),
        timestamps: !dice.chance(0.2),
        window_scaling: !dice.chance(0.2),
        ecn: [EcnPolicy::Accept, EcnPolicy::Ask, EcnPolicy::Never][dice.below(3) as usize],
        timestamp_offset: dice.next_u32(),
        congestion: CongestionAlgorithm::ALL[dice.below(4) as usize],
        receive_buffer: [None, None, Some(2304), Some(4608), Some(65_536)][dice.below(5) as usize],
        send_buffer: [None, None, Some(4608), Some(65_536)][dice.below(4) as usize],
        retries2: 60,
        orphan_retries: 60,
        syn_retries: 20,
        synack_retries: 20,
        ..Config::default()
    };
    let configs = [config(), config()];
    let limits = [0, 1].map(|end: usize| {
        let config: &Config = &configs[end];
        let [receive, send] = [(config.receive_buffer, config.rmem[2]), (config.send_buffer, config.wmem[2])]
            .map(|(fixed, greatest)| fixed.unwrap_or(greatest) as usize);
        (receive, send)
    });
    // Half of the connections start with data in the SYN, a third of those with an invalid cookie.
    let in_syn = dice.below(3000) as usize;
    let mut world = match dice.below(6) {
        0..3 => World::new(link, configs, seed),
        kind => World::opened_fast(link, configs, seed, in_syn, kind != 3),
    };
    world.tracing = true;
    // If one exchange in two fails, timeouts of minutes are common, so little data is sent.
    let scale =
        if world.link.loss >= 0.1 { 20_000 } else { [300, 30_000, 1_000_000][dice.below(3) as usize] };
    for end in &mut world.ends {
        end.to_send = dice.below(scale).max(end.written);
        end.closes = true;
        end.tcp.set_nodelay(dice.chance(0.5));
        if scale <= 30_000 && dice.chance(0.3) {
            // A slow program: windows close and reopen.
            end.at_once = 1 + dice.below(4000) as usize;
            end.pause = SimDuration::from_micros(1 + dice.below(300_000));
        }
    }
    let limit = SimTime::from_secs(200_000);
    world.run_while(limit, |w| {
        for (this, end) in w.ends.iter().enumerate() {
            let ((receive, send), (peers, _)) = (limits[this], limits[1 - this]);
            // Linux fills a buffer completely once it is allocated, and continues one that was sent in part.
            assert!(end.tcp.unacknowledged_bytes() <= send + peers + 65_536, "the send buffer {w:#?}");
            assert!(end.tcp.readable_bytes() + end.tcp.rcv.held() <= receive, "the receive buffer {w:#?}");
        }
        w.states().iter().any(|s| !matches!(s, State::Closed | State::TimeWait)) || has_unread(w)
    });
    for i in 0..2 {
        // The peer's TIME-WAIT may end before the last ACK arrives; a retransmitted FIN then causes a reset.
        let error = world.ends[i].tcp.error();
        assert!(matches!(error, None | Some(TcpError::Reset)), "end {i} {error:?} {world:#?}");
        assert_eq!(world.ends[i].received, world.ends[1 - i].to_send, "end {i} {world:#?}");
    }
}

/// True if bytes have arrived that a slow program has not read.
fn has_unread(world: &World) -> bool {
    world.ends.iter().any(|end| end.tcp.readable_bytes() > 0)
}

/// Manual run over many seeds: `BELLJAR_SEEDS=100000 cargo test -p belljar-tcp --release -- --ignored
/// many_seeds`.
#[test]
#[ignore = "goes on for minutes"]
fn many_seeds() {
    let seeds = std::env::var("BELLJAR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20_000);
    for seed in 1000..seeds {
        if let Err(cause) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(cause);
        }
    }
}

#[test]
fn every_byte_arrives_whatever_the_link_does() {
    for seed in 0..1000 {
        if let Err(cause) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(cause);
        }
    }
}
