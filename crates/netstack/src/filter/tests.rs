use super::*;

fn filter(program: &[(u16, u8, u8, u32)]) -> Result<SocketFilter, Errno> {
    SocketFilter::new(
        program
            .iter()
            .map(|(code, jt, jf, k)| Instruction { code: *code, jt: *jt, jf: *jf, k: *k })
            .collect(),
    )
}

/// The program that tcpdump makes of "udp port 53" over Ethernet (IPv4 only).
const PORT_53: &[(u16, u8, u8, u32)] = &[
    (0x28, 0, 0, 12),
    (0x15, 0, 10, 0x800),
    (0x30, 0, 0, 23),
    (0x15, 0, 8, 17),
    (0x28, 0, 0, 20),
    (0x45, 6, 0, 0x1fff),
    (0xb1, 0, 0, 14),
    (0x48, 0, 0, 14),
    (0x15, 2, 0, 53),
    (0x48, 0, 0, 16),
    (0x15, 0, 1, 53),
    (0x06, 0, 0, 262_144),
    (0x06, 0, 0, 0),
];

fn datagram(protocol: u8, port: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 8];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[23] = protocol;
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

#[test]
fn a_filter_of_tcpdump_finds_its_packets() {
    let filter = filter(PORT_53).unwrap();
    let run = |packet: &[u8]| filter.run(packet, &Metadata::default());
    assert_eq!(run(&datagram(17, 53)), 262_144);
    assert_eq!(run(&datagram(17, 54)), 0);
    assert_eq!(run(&datagram(6, 53)), 0);
    // Cut short: a load beyond the end drops.
    assert_eq!(run(&datagram(17, 53)[..36]), 0);
}

#[test]
fn arithmetic_memory_and_metadata() {
    let value = |program: &[(u16, u8, u8, u32)]| {
        let metadata = Metadata {
            protocol: 0x806,
            packet_type: 4,
            interface: 2,
            network_offset: 14,
            ..Metadata::default()
        };
        filter(program).unwrap().run(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x45], &metadata)
    };
    // (3 + 4) * 6 by way of M[3] and X
    assert_eq!(
        value(&[
            (0, 0, 0, 3),
            (4, 0, 0, 4),
            (2, 0, 0, 3),
            (0x61, 0, 0, 3),
            (0, 0, 0, 6),
            (0x2c, 0, 0, 0),
            (0x16, 0, 0, 0)
        ]),
        42
    );
    let ancillary = |n: u32| value(&[(0x20, 0, 0, 0xffff_f000 + n), (0x16, 0, 0, 0)]);
    assert_eq!([ancillary(0), ancillary(4), ancillary(8), ancillary(36)], [0x806, 4, 2, 0]);
    // SKF_NET_OFF
    assert_eq!(value(&[(0x30, 0, 0, 0xfff0_0000), (0x16, 0, 0, 0)]), 0x45);
    assert_eq!(value(&[(0x80, 0, 0, 0), (0x16, 0, 0, 0)]), 15);
    // Division by X that is zero drops.
    assert_eq!(value(&[(0, 0, 0, 3), (0x3c, 0, 0, 0), (0x16, 0, 0, 0)]), 0);
}

#[test]
fn what_linux_refuses_is_refused() {
    let refused: [&[(u16, u8, u8, u32)]; 9] = [
        &[],
        &[(0, 0, 0, 1)],                                                 // no ret at the end
        &[(0x15, 1, 0, 0), (6, 0, 0, 0)],                                // a jump over the end
        &[(5, 0, 0, 9), (6, 0, 0, 0)],                                   // the same
        &[(0x60, 0, 0, 1), (6, 0, 0, 0)],                                // memory that nobody wrote
        &[(0x60, 0, 0, 16), (6, 0, 0, 0)],                               // no such word
        &[(0x34, 0, 0, 0), (6, 0, 0, 0)],                                // division by 0
        &[(0x64, 0, 0, 32), (6, 0, 0, 0)],                               // a shift by 32
        &[(0x15, 0, 1, 0), (2, 0, 0, 0), (0x60, 0, 0, 0), (6, 0, 0, 0)], // written on one way only
    ];
    for program in refused {
        assert_eq!(filter(program), Err(Errno::EINVAL), "{program:?}");
    }
    assert!(filter(&[(0x15, 1, 0, 0), (2, 0, 0, 0), (6, 0, 0, 0)]).is_ok());
    assert_eq!(
        SocketFilter::new(vec![Instruction { code: 6, jt: 0, jf: 0, k: 1 }; 4_097]),
        Err(Errno::EINVAL)
    );
}
