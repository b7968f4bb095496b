//! Policies of rtnetlink's attributes, of Linux 6.18.

use super::policy::Type::{Any, Binary, Flag, Nested, NulText, Reject, S32, Text, U8, U16, U32, U64};
use super::policy::{Attribute, Limit, Policy, plain, within};

/// Maximum length of an interface name in bytes, `IFNAMSIZ` without the NUL.
const NAME: usize = 15;
/// Maximum length of a hardware address in bytes.
const MAX_ADDR_LEN: usize = 32;
/// Largest 32-bit value.
const U32_MAX: i64 = u32::MAX as i64;
/// `MAX_TCP_HEADER` and one: the smallest size of a large segment.
const LEAST_SEGMENT: i64 = 320 + 1;

const fn mask(kind: super::policy::Type, bits: u32) -> Attribute {
    Attribute { kind, limit: Limit::Mask(bits) }
}

/// `RTA_*` of IPv4 routes.
pub(super) const ROUTE: Policy = Policy {
    max: 31,
    strict_from: 30,
    attributes: &[
        (1, plain(U32)),
        (2, plain(U32)),
        (3, plain(U32)),
        (4, plain(U32)),
        (5, plain(U32)),
        (6, plain(U32)),
        (7, plain(U32)),
        (8, plain(Nested(None))),
        (9, plain(Any(8))),
        (11, plain(U32)),
        (15, plain(U32)),
        (16, plain(U32)),
        (21, plain(U16)),
        (22, plain(Nested(None))),
        (25, plain(U32)),
        (27, plain(U8)),
        (28, plain(U16)),
        (29, plain(U16)),
        (30, plain(U32)),
    ],
};

/// `RTA_*` of IPv6 routes.
pub(super) const ROUTE6: Policy = Policy {
    max: 31,
    strict_from: 30,
    attributes: &[
        (3, plain(U32)),
        (4, plain(U32)),
        (5, plain(Any(16))),
        (6, plain(U32)),
        (7, plain(Any(16))),
        (8, plain(Nested(None))),
        (9, plain(Any(8))),
        (15, plain(U32)),
        (16, plain(U32)),
        (20, plain(U8)),
        (21, plain(U16)),
        (22, plain(Nested(None))),
        (23, plain(U32)),
        (25, plain(U32)),
        (27, plain(U8)),
        (28, plain(U16)),
        (29, plain(U16)),
        (30, plain(U32)),
        (31, plain(U32)),
    ],
};

/// `RTAX_*`, in `RTA_METRICS`.
pub(super) const METRICS: Policy = Policy { max: 17, strict_from: 0, attributes: &[] };

/// `IFA_*` of IPv4 addresses.
pub(super) const ADDRESS: Policy = Policy {
    max: 11,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(U32)),
        (3, plain(Text(NAME))),
        (4, plain(U32)),
        (6, plain(Any(16))),
        (8, plain(U32)),
        (9, plain(U32)),
        (10, plain(S32)),
        (11, plain(U8)),
    ],
};

/// `IFA_*` of IPv6 addresses.
pub(super) const ADDRESS6: Policy = Policy {
    max: 11,
    strict_from: 0,
    attributes: &[
        (1, plain(Any(16))),
        (2, plain(Any(16))),
        (6, plain(Any(16))),
        (8, plain(Any(4))),
        (9, plain(Any(4))),
        (10, plain(S32)),
        (11, plain(U8)),
    ],
};

/// `IFLA_*`.
pub(super) const LINK: Policy = Policy {
    max: 69,
    strict_from: 65,
    attributes: &[
        (1, plain(Binary(MAX_ADDR_LEN))),
        (2, plain(Binary(MAX_ADDR_LEN))),
        (3, plain(Text(NAME))),
        (4, plain(U32)),
        (5, plain(U32)),
        (10, plain(U32)),
        (13, plain(U32)),
        (14, plain(Any(28))),
        (15, plain(U32)),
        (16, plain(U8)),
        (17, plain(U8)),
        (18, plain(Nested(None))),
        (19, plain(U32)),
        (20, plain(Binary(255))),
        (22, plain(Nested(None))),
        (24, plain(Nested(None))),
        (25, plain(Nested(None))),
        (26, plain(Nested(None))),
        (27, plain(U32)),
        (28, plain(U32)),
        (29, plain(U32)),
        (30, plain(U32)),
        (31, plain(U32)),
        (32, plain(U32)),
        (33, plain(U8)),
        (34, plain(Binary(MAX_ADDR_LEN))),
        (35, plain(U32)),
        (36, plain(Binary(MAX_ADDR_LEN))),
        (37, plain(S32)),
        (39, plain(U8)),
        (40, plain(U32)),
        (41, plain(U32)),
        (43, plain(Nested(None))),
        (44, plain(U32)),
        (46, plain(S32)),
        (47, plain(U32)),
        (48, plain(U32)),
        (50, plain(U32)),
        (51, plain(U32)),
        (52, plain(Nested(None))),
        (53, plain(Text(127))),
        (54, plain(Reject)),
        (55, plain(Nested(None))),
        (49, within(S32, 1, i32::MAX as i64)),
        (56, plain(super::policy::Type::NulText(0))),
        (58, plain(U32)),
        (59, plain(Reject)),
        (60, plain(Reject)),
        (61, plain(Reject)),
        (63, within(U32, LEAST_SEGMENT, U32_MAX)),
        (64, plain(U32)),
        (66, plain(Reject)),
        (67, plain(Reject)),
    ],
};

/// `IFLA_INFO_*`, in `IFLA_LINKINFO`.
pub(super) const LINK_INFO: Policy = Policy {
    max: 5,
    strict_from: 0,
    attributes: &[
        (1, plain(Text(0))),
        (2, plain(Nested(None))),
        (4, plain(Text(0))),
        (5, plain(Nested(None))),
    ],
};

/// `VETH_INFO_*`, in `IFLA_INFO_DATA` of a veth pair.
pub(super) const VETH: Policy = Policy { max: 1, strict_from: 0, attributes: &[(1, plain(Any(16)))] };

/// `IFLA_BOND_*`, in `IFLA_INFO_DATA` of a bond.
pub(super) const BOND: Policy = Policy {
    max: 33,
    strict_from: 0,
    attributes: &[
        (1, plain(U8)),
        (2, plain(U32)),
        (3, plain(U32)),
        (4, plain(U32)),
        (5, plain(U32)),
        (6, plain(U8)),
        (7, plain(U32)),
        (8, plain(Nested(None))),
        (9, plain(U32)),
        (10, plain(U32)),
        (11, plain(U32)),
        (12, plain(U8)),
        (13, plain(U8)),
        (14, plain(U8)),
        (15, plain(U32)),
        (16, plain(U8)),
        (17, plain(U8)),
        (18, plain(U32)),
        (19, plain(U32)),
        (20, plain(U32)),
        (21, plain(U8)),
        (22, plain(U8)),
        (23, plain(Nested(None))),
        (24, plain(U16)),
        (25, plain(U16)),
        (26, plain(Any(6))),
        (27, plain(U8)),
        (28, plain(U32)),
        (29, plain(U8)),
        (30, plain(U8)),
        (31, plain(Nested(None))),
        (32, plain(U8)),
        (33, plain(U8)),
    ],
};

/// `IFLA_BR_*`, in `IFLA_INFO_DATA` of a bridge.
pub(super) const BRIDGE: Policy = Policy {
    max: 49,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(U32)),
        (3, plain(U32)),
        (4, plain(U32)),
        (5, plain(U32)),
        (6, plain(U16)),
        (7, plain(U8)),
        (8, plain(U16)),
        (9, plain(U16)),
        (20, plain(Any(6))),
        (22, plain(U8)),
        (23, plain(U8)),
        (24, plain(U8)),
        (25, plain(U8)),
        (26, plain(U32)),
        (27, plain(U32)),
        (28, plain(U32)),
        (29, plain(U32)),
        (30, plain(U64)),
        (31, plain(U64)),
        (32, plain(U64)),
        (33, plain(U64)),
        (34, plain(U64)),
        (35, plain(U64)),
        (36, plain(U8)),
        (37, plain(U8)),
        (38, plain(U8)),
        (39, plain(U16)),
        (41, plain(U8)),
        (42, plain(U8)),
        (43, plain(U8)),
        (44, plain(U8)),
        (45, plain(U8)),
        (46, plain(Any(8))),
        (48, plain(Reject)),
        (49, plain(U32)),
    ],
};

/// `IFLA_BRPORT_*`, in `IFLA_INFO_SLAVE_DATA` or `IFLA_PROTINFO` of a port.
pub(super) const BRIDGE_PORT: Policy = Policy {
    max: 44,
    strict_from: 0,
    attributes: &[
        (1, plain(U8)),
        (2, plain(U16)),
        (3, plain(U32)),
        (4, plain(U8)),
        (5, plain(U8)),
        (6, plain(U8)),
        (7, plain(U8)),
        (8, plain(U8)),
        (9, plain(U8)),
        (10, plain(U8)),
        (11, plain(U8)),
        (25, plain(U8)),
        (27, plain(U8)),
        (28, plain(U8)),
        (30, plain(U8)),
        (31, plain(U16)),
        (32, plain(U8)),
        (33, plain(U8)),
        (34, plain(U32)),
        (35, plain(U8)),
        (37, plain(U32)),
        (39, plain(U8)),
        (40, plain(U8)),
        (42, plain(U32)),
        (43, plain(U8)),
    ],
};

/// `IFLA_IPVLAN_*`, in `IFLA_INFO_DATA` of an ipvlan.
pub(super) const IPVLAN: Policy =
    Policy { max: 2, strict_from: 0, attributes: &[(1, plain(U16)), (2, plain(U16))] };

/// `IFLA_GRE_*`, in `IFLA_INFO_DATA` of a GRE tunnel.
pub(super) const GRE: Policy = Policy {
    max: 24,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(U16)),
        (3, plain(U16)),
        (4, plain(U32)),
        (5, plain(U32)),
        (6, plain(Any(4))),
        (7, plain(Any(4))),
        (8, plain(U8)),
        (9, plain(U8)),
        (10, plain(U8)),
        (14, plain(U16)),
        (15, plain(U16)),
        (16, plain(U16)),
        (17, plain(U16)),
        (18, plain(Flag)),
        (19, plain(U8)),
        (20, plain(U32)),
    ],
};

/// `IFLA_IPTUN_*`, in `IFLA_INFO_DATA` of an IP tunnel.
pub(super) const IP_TUNNEL: Policy = Policy {
    max: 20,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(Any(4))),
        (3, plain(Any(4))),
        (4, plain(U8)),
        (5, plain(U8)),
        (6, plain(U8)),
        (7, plain(U32)),
        (8, plain(Any(2))),
        (9, plain(U8)),
        (10, plain(U8)),
        (15, plain(U16)),
        (16, plain(U16)),
        (17, plain(U16)),
        (18, plain(U16)),
        (19, plain(Flag)),
        (20, plain(U32)),
    ],
};

/// `IFLA_GENEVE_*`, in `IFLA_INFO_DATA` of a Geneve tunnel.
pub(super) const GENEVE: Policy = Policy {
    max: 15,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(Any(4))),
        (3, plain(U8)),
        (4, plain(U8)),
        (5, plain(U16)),
        (6, plain(Flag)),
        (7, plain(Any(16))),
        (8, plain(U8)),
        (9, plain(U8)),
        (10, plain(U8)),
        (11, plain(U32)),
        (12, plain(U8)),
        (13, plain(U8)),
        (14, plain(Flag)),
    ],
};

/// `IFLA_VXLAN_*`, in `IFLA_INFO_DATA` of a VXLAN interface.
pub(super) const VXLAN: Policy = Policy {
    max: 33,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(Any(4))),
        (3, plain(U32)),
        (4, plain(Any(4))),
        (5, plain(U8)),
        (6, plain(U8)),
        (7, plain(U8)),
        (8, plain(U32)),
        (9, plain(U32)),
        (10, plain(Any(4))),
        (11, plain(U8)),
        (12, plain(U8)),
        (13, plain(U8)),
        (14, plain(U8)),
        (15, plain(U16)),
        (16, plain(Any(16))),
        (17, plain(Any(16))),
        (18, plain(U8)),
        (19, plain(U8)),
        (20, plain(U8)),
        (21, plain(U8)),
        (22, plain(U8)),
        (23, plain(Flag)),
        (24, plain(Flag)),
        (25, plain(U8)),
        (26, plain(U32)),
        (27, plain(Flag)),
        (28, plain(Flag)),
        (29, plain(U8)),
        (30, plain(U8)),
        (31, plain(U8)),
    ],
};

/// `NDA_*`.
pub(super) const NEIGHBOUR: Policy = Policy {
    max: 17,
    strict_from: 13,
    attributes: &[
        (1, plain(Binary(MAX_ADDR_LEN))),
        (2, plain(Binary(MAX_ADDR_LEN))),
        (3, plain(Any(16))),
        (4, plain(U32)),
        (5, plain(U16)),
        (6, plain(U16)),
        (7, plain(U32)),
        (8, plain(U32)),
        (9, plain(U32)),
        (12, plain(U8)),
        (13, plain(U32)),
        (14, plain(Nested(None))),
        (15, mask(U32, 7)),
    ],
};

/// `FRA_*`.
pub(super) const RULE: Policy = Policy {
    max: 30,
    strict_from: 25,
    attributes: &[
        (3, plain(Text(NAME))),
        (4, plain(U32)),
        (6, plain(U32)),
        (10, plain(U32)),
        (11, plain(U32)),
        (12, plain(U64)),
        (13, plain(U32)),
        (14, plain(U32)),
        (15, plain(U32)),
        (16, plain(U32)),
        (17, plain(Text(NAME))),
        (19, plain(U8)),
        (20, plain(Any(8))),
        (21, plain(U8)),
        (22, plain(U8)),
        (23, plain(Any(4))),
        (24, plain(Any(4))),
        (25, within(U8, 0, 63)),
        (26, plain(U32)),
        (27, plain(U32)),
        (28, plain(U16)),
        (29, plain(U16)),
        (30, mask(U8, 63)),
    ],
};

/// `NHA_*` of new next-hop objects.
pub(super) const NEXTHOP: Policy = Policy {
    max: 16,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(Binary(0))),
        (3, plain(U16)),
        (4, plain(Flag)),
        (5, plain(U32)),
        (6, plain(Binary(0))),
        (7, plain(U16)),
        (8, plain(Nested(None))),
        (11, plain(Flag)),
        (12, plain(Nested(None))),
        (16, within(U32, 0, 1)),
    ],
};
/// `NHA_*` of a query for one object.
pub(super) const NEXTHOP_QUERY: Policy =
    Policy { max: 14, strict_from: 0, attributes: &[(1, plain(U32)), (14, mask(U32, 0x8000_0003))] };
/// `NHA_*` of a deletion.
pub(super) const NEXTHOP_DELETION: Policy = Policy { max: 1, strict_from: 0, attributes: &[(1, plain(U32))] };
/// `NHA_*` of a dump.
pub(super) const NEXTHOP_DUMP: Policy = Policy {
    max: 14,
    strict_from: 0,
    attributes: &[
        (5, plain(U32)),
        (9, plain(Flag)),
        (10, plain(U32)),
        (11, plain(Flag)),
        (14, mask(U32, 0x8000_0003)),
    ],
};

/// `WGDEVICE_A_*`.
pub(super) const WIREGUARD: Policy = Policy {
    max: 8,
    strict_from: 0,
    attributes: &[
        (1, plain(U32)),
        (2, plain(NulText(NAME))),
        (3, within(Binary(0), 32, 32)),
        (4, within(Binary(0), 32, 32)),
        (5, plain(U32)),
        (6, plain(U16)),
        (7, plain(U32)),
        (8, plain(Nested(None))),
    ],
};
/// `WGPEER_A_*`.
pub(super) const WIREGUARD_PEER: Policy = Policy {
    max: 10,
    strict_from: 0,
    attributes: &[
        (1, within(Binary(0), 32, 32)),
        (2, within(Binary(0), 32, 32)),
        (3, plain(U32)),
        (4, within(Binary(0), 16, 65_535)),
        (5, plain(U16)),
        (6, within(Binary(0), 16, 16)),
        (7, plain(U64)),
        (8, plain(U64)),
        (9, plain(Nested(None))),
        (10, plain(U32)),
    ],
};
/// `WGALLOWEDIP_A_*`.
pub(super) const WIREGUARD_NETWORK: Policy = Policy {
    max: 4,
    strict_from: 0,
    attributes: &[(1, plain(U16)), (2, within(Binary(0), 4, 65_535)), (3, plain(U8)), (4, mask(U32, 1))],
};
