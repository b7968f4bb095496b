//! Attributes of rtnetlink requests for changes, and the handling of each. A request is checked before
//! anything is changed: an unsupported attribute is refused, or ignored with a warning where a network works
//! without it.

use super::message::Request;
use super::refusal::{Refusal, refusal};
use crate::Admin;
use belljar_linux_abi::Errno;

/// Handling of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Supported.
    Done,
    /// Sent by the kernel only; ignored in requests.
    Ignored,
    /// Ignored, with a warning.
    Counted,
    /// The request is refused, with a warning.
    Refused,
}

use Handling::{Counted, Done, Ignored, Refused};

/// Kind of request: its subject, the length of its family header in bytes, and its attributes in order of
/// number, from 1.
pub struct RequestKind {
    what: &'static str,
    header: usize,
    attributes: &'static [(&'static str, Handling)],
    /// Attributes that this kind supports beyond the inherited `attributes`.
    done: &'static [&'static str],
}

/// `RTA_*` of Linux 6.12, rtnetlink(7).
pub const ROUTE: RequestKind = RequestKind {
    what: "routes",
    header: 12,
    done: &[],
    attributes: &[
        ("RTA_DST", Done),
        ("RTA_SRC", Ignored),
        ("RTA_IIF", Counted),
        ("RTA_OIF", Done),
        ("RTA_GATEWAY", Done),
        ("RTA_PRIORITY", Done),
        ("RTA_PREFSRC", Done),
        ("RTA_METRICS", Done),
        ("RTA_MULTIPATH", Done),
        ("RTA_PROTOINFO", Ignored),
        ("RTA_FLOW", Counted),
        ("RTA_CACHEINFO", Ignored),
        ("RTA_SESSION", Ignored),
        ("RTA_MP_ALGO", Ignored),
        ("RTA_TABLE", Done),
        ("RTA_MARK", Ignored),
        ("RTA_MFC_STATS", Ignored),
        ("RTA_VIA", Done),
        ("RTA_NEWDST", Refused),
        ("RTA_PREF", Counted),
        ("RTA_ENCAP_TYPE", Refused),
        ("RTA_ENCAP", Refused),
        ("RTA_EXPIRES", Counted),
        ("RTA_PAD", Ignored),
        ("RTA_UID", Ignored),
        ("RTA_TTL_PROPAGATE", Refused),
        ("RTA_IP_PROTO", Ignored),
        ("RTA_SPORT", Ignored),
        ("RTA_DPORT", Ignored),
        ("RTA_NH_ID", Done),
        ("RTA_FLOWLABEL", Refused),
    ],
};

/// `IFA_*`.
pub const ADDRESS: RequestKind = RequestKind {
    what: "addresses",
    header: 8,
    done: &[],
    attributes: &[
        ("IFA_ADDRESS", Done),
        ("IFA_LOCAL", Done),
        ("IFA_LABEL", Done),
        ("IFA_BROADCAST", Done),
        ("IFA_ANYCAST", Ignored),
        ("IFA_CACHEINFO", Done),
        ("IFA_MULTICAST", Ignored),
        ("IFA_FLAGS", Done),
        ("IFA_RT_PRIORITY", Done),
        ("IFA_TARGET_NETNSID", Refused),
        ("IFA_PROTO", Done),
    ],
};

/// `IFLA_*`.
pub const LINK: RequestKind = RequestKind {
    what: "interfaces",
    header: 16,
    done: &[],
    attributes: &[
        ("IFLA_ADDRESS", Done),
        ("IFLA_BROADCAST", Done),
        ("IFLA_IFNAME", Done),
        ("IFLA_MTU", Done),
        ("IFLA_LINK", Ignored),
        ("IFLA_QDISC", Ignored),
        ("IFLA_STATS", Ignored),
        ("IFLA_COST", Ignored),
        ("IFLA_PRIORITY", Ignored),
        ("IFLA_MASTER", Done),
        ("IFLA_WIRELESS", Ignored),
        ("IFLA_PROTINFO", Counted),
        ("IFLA_TXQLEN", Done),
        ("IFLA_MAP", Ignored),
        ("IFLA_WEIGHT", Ignored),
        ("IFLA_OPERSTATE", Counted),
        ("IFLA_LINKMODE", Done),
        ("IFLA_LINKINFO", Done),
        ("IFLA_NET_NS_PID", Done),
        ("IFLA_IFALIAS", Done),
        ("IFLA_NUM_VF", Ignored),
        ("IFLA_VFINFO_LIST", Refused),
        ("IFLA_STATS64", Ignored),
        ("IFLA_VF_PORTS", Refused),
        ("IFLA_PORT_SELF", Refused),
        ("IFLA_AF_SPEC", Counted),
        ("IFLA_GROUP", Done),
        ("IFLA_NET_NS_FD", Done),
        ("IFLA_EXT_MASK", Ignored),
        ("IFLA_PROMISCUITY", Ignored),
        ("IFLA_NUM_TX_QUEUES", Counted),
        ("IFLA_NUM_RX_QUEUES", Counted),
        ("IFLA_CARRIER", Done),
        ("IFLA_PHYS_PORT_ID", Ignored),
        ("IFLA_CARRIER_CHANGES", Ignored),
        ("IFLA_PHYS_SWITCH_ID", Ignored),
        ("IFLA_LINK_NETNSID", Refused),
        ("IFLA_PHYS_PORT_NAME", Ignored),
        ("IFLA_PROTO_DOWN", Done),
        ("IFLA_GSO_MAX_SEGS", Counted),
        ("IFLA_GSO_MAX_SIZE", Counted),
        ("IFLA_PAD", Ignored),
        ("IFLA_XDP", Refused),
        ("IFLA_EVENT", Ignored),
        ("IFLA_NEW_NETNSID", Ignored),
        ("IFLA_TARGET_NETNSID", Refused),
        ("IFLA_CARRIER_UP_COUNT", Ignored),
        ("IFLA_CARRIER_DOWN_COUNT", Ignored),
        ("IFLA_NEW_IFINDEX", Refused),
        ("IFLA_MIN_MTU", Ignored),
        ("IFLA_MAX_MTU", Ignored),
        ("IFLA_PROP_LIST", Refused),
        ("IFLA_ALT_IFNAME", Refused),
        ("IFLA_PERM_ADDRESS", Ignored),
        ("IFLA_PROTO_DOWN_REASON", Refused),
        ("IFLA_PARENT_DEV_NAME", Ignored),
        ("IFLA_PARENT_DEV_BUS_NAME", Ignored),
        ("IFLA_GRO_MAX_SIZE", Counted),
        ("IFLA_TSO_MAX_SIZE", Ignored),
        ("IFLA_TSO_MAX_SEGS", Ignored),
        ("IFLA_ALLMULTI", Ignored),
        ("IFLA_DEVLINK_PORT", Ignored),
        ("IFLA_GSO_IPV4_MAX_SIZE", Counted),
        ("IFLA_GRO_IPV4_MAX_SIZE", Counted),
        ("IFLA_DPLL_PIN", Ignored),
    ],
};

/// `IFLA_*` of a request for a new interface, which has a kind and may have an underlying interface.
pub const NEW_LINK: RequestKind =
    RequestKind { what: "new interfaces", done: &["IFLA_LINK", "IFLA_LINKINFO"], ..LINK };

/// `NDA_*`.
pub const NEIGHBOUR: RequestKind = RequestKind {
    what: "neighbours",
    header: 12,
    done: &[],
    attributes: &[
        ("NDA_DST", Done),
        ("NDA_LLADDR", Done),
        ("NDA_CACHEINFO", Ignored),
        ("NDA_PROBES", Counted),
        ("NDA_VLAN", Refused),
        ("NDA_PORT", Refused),
        ("NDA_VNI", Refused),
        ("NDA_IFINDEX", Refused),
        ("NDA_MASTER", Refused),
        ("NDA_LINK_NETNSID", Ignored),
        ("NDA_SRC_VNI", Refused),
        ("NDA_PROTOCOL", Counted),
        ("NDA_NH_ID", Refused),
        ("NDA_FDB_EXT_ATTRS", Refused),
        ("NDA_FLAGS_EXT", Counted),
    ],
};

impl Admin<'_> {
    /// Refuses a request with an unsupported attribute, and warns of ignored ones. Numbers above those of
    /// Linux are ignored, as Linux ignores them.
    pub(crate) fn look_through(&mut self, request: &Request<'_>, kind: &RequestKind) -> Result<(), Refusal> {
        let mut refused = false;
        for (number, _) in request.attributes(kind.header) {
            let known = usize::from(number).checked_sub(1).and_then(|at| kind.attributes.get(at));
            match known {
                Some((name, _)) if kind.done.contains(name) => {}
                Some((name, Refused)) => {
                    self.warn(format!("rtnetlink: {name} of {} is not supported and refused", kind.what));
                    refused = true;
                }
                Some((name, Counted)) => {
                    self.warn(format!("rtnetlink: {name} of {} is accepted without effect", kind.what));
                }
                _ => {}
            }
        }
        if refused { Err(refusal(Errno::EOPNOTSUPP, "attribute not supported")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_of_linux_is_in_its_place() {
        let at = |kind: &RequestKind, number: usize| kind.attributes[number - 1].0;
        assert_eq!((at(&ROUTE, 18), at(&ROUTE, 30), ROUTE.attributes.len()), ("RTA_VIA", "RTA_NH_ID", 31));
        assert_eq!((at(&ADDRESS, 8), ADDRESS.attributes.len()), ("IFA_FLAGS", 11));
        assert_eq!((at(&NEIGHBOUR, 13), NEIGHBOUR.attributes.len()), ("NDA_NH_ID", 15));
        assert_eq!((at(&LINK, 18), at(&LINK, 43)), ("IFLA_LINKINFO", "IFLA_XDP"));
        assert_eq!(
            (at(&LINK, 53), at(&LINK, 61), LINK.attributes.len()),
            ("IFLA_ALT_IFNAME", "IFLA_ALLMULTI", 65)
        );
    }
}
