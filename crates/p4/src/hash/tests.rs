use super::*;

fn hash(name: &str, bytes: &[u8]) -> u64 {
    Hasher::new(Algorithm::by_name(name).unwrap()).hash(bytes)
}

#[test]
fn crcs_have_their_published_check_values() {
    let check = b"123456789";
    assert_eq!(hash("crc8", check), 0xf4);
    assert_eq!(hash("crc16", check), 0xbb3d);
    assert_eq!(hash("crc32", check), 0xcbf4_3926);
    assert_eq!(hash("crcCCITT", check), 0x29b1);
    let mut custom = Hasher::new(Algorithm::CustomCrc(64));
    custom.set_crc(CrcParameters {
        width: 64,
        polynomial: 0x42f0_e1eb_a9ea_3693,
        initial: 0,
        xor_out: 0,
        reflect_in: false,
        reflect_out: false,
    });
    assert_eq!(custom.hash(check), 0x6c40_df5f_0b49_7347, "CRC-64/ECMA-182");
    for name in Algorithm::NAMES {
        assert!(Algorithm::by_name(name).is_some(), "{name}");
    }
}

#[test]
fn sums_and_others() {
    // The example header of RFC 1071 and of Wikipedia.
    let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert_eq!(hash("csum16", &header), 0xb861);
    assert_eq!(hash("csum16", &[1]), 0xfeff);
    assert_eq!(hash("xor16", &[1, 2, 3]), 0x0202);
    assert_eq!(hash("xor32", &[1, 2, 3, 4, 5]), 0x0402_0304);
    assert_eq!(hash("identity", &[1, 2]), 0x0102);
    assert_eq!(hash("xxh64", b""), 0xef46_db37_51d8_e999);
    let mut turns = Hasher::new(Algorithm::RoundRobin);
    assert_eq!([turns.hash(b"x"), turns.hash(b"x")], [0, 1]);
}

#[test]
fn toeplitz_is_that_of_receive_side_scaling() {
    // Microsoft's RSS verification suite: 66.9.149.187:2794 to 161.142.100.80:1766.
    let key: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    let mut hasher = Hasher::new(Algorithm::Toeplitz);
    assert!(hasher.set_toeplitz_key(&key));
    assert_eq!(hasher.hash(&[66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6]), 0x51cc_c178);
}
