//! `/proc/net/snmp` and `/proc/net/netstat`: counters in Linux's columns. Counters without a counterpart here
//! are zero.

use belljar_base::Map;
use belljar_netstack::Stack;
use belljar_netstack::mib::IcmpCounters;
use belljar_netstack::socket::SocketKind;
use belljar_netstack::tcp::Role;
use belljar_tcp::State;

/// Two lines, names and values, for the columns `names`; counters not in `known` are zero.
fn table(name: &str, names: &str, known: &[(&str, u64)]) -> String {
    let value = |name: &str| match name {
        "MaxConn" => "-1".to_owned(),
        _ => known.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value).to_string(),
    };
    let columns: Vec<(&str, String)> = names.split_whitespace().map(|name| (name, value(name))).collect();
    group(name, &columns)
}

/// Tables `Icmp` and `IcmpMsg`; the latter lists the types that have occurred and is omitted if there were
/// none.
fn icmp_tables(c: &IcmpCounters) -> String {
    // Types named as in Linux's `icmpmibmap`.
    let named = [
        (3, "DestUnreachs"),
        (11, "TimeExcds"),
        (12, "ParmProbs"),
        (4, "SrcQuenchs"),
        (5, "Redirects"),
        (8, "Echos"),
        (0, "EchoReps"),
        (13, "Timestamps"),
        (14, "TimestampReps"),
        (17, "AddrMasks"),
        (18, "AddrMaskReps"),
    ];
    let of = |counts: &Map<u8, u64>, kind: u8| counts.get(&kind).copied().unwrap_or(0);
    let mut columns: Vec<(String, u64)> =
        [("InMsgs", c.received), ("InErrors", c.in_errors), ("InCsumErrors", c.in_wrong_checksums)]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec();
    columns.extend(named.iter().map(|(kind, name)| (format!("In{name}"), of(&c.received_by_kind, *kind))));
    let [total, peer] = c.limited;
    let out =
        [("OutMsgs", c.sent), ("OutErrors", 0), ("OutRateLimitGlobal", total), ("OutRateLimitHost", peer)];
    columns.extend(out.map(|(name, value)| (name.to_owned(), value)));
    columns.extend(named.iter().map(|(kind, name)| (format!("Out{name}"), of(&c.sent_by_kind, *kind))));
    let mut text = group("Icmp", &columns);
    let received = c.received_by_kind.iter().map(|(kind, count)| (format!("InType{kind}"), *count));
    let sent = c.sent_by_kind.iter().map(|(kind, count)| (format!("OutType{kind}"), *count));
    let by_kind: Vec<(String, u64)> = received.chain(sent).collect();
    if !by_kind.is_empty() {
        text += &group("IcmpMsg", &by_kind);
    }
    text
}

/// Two lines, names and values, of a group.
fn group<N: AsRef<str>, V: ToString>(group: &str, columns: &[(N, V)]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_ref()).collect();
    let values: Vec<String> = columns.iter().map(|(_, value)| value.to_string()).collect();
    format!("{group}: {}\n{group}: {}\n", names.join(" "), values.join(" "))
}

/// `/proc/net/snmp`.
pub fn proc_net_snmp(net: &Stack) -> String {
    let c = &net.counters;
    let established = net.own_sockets().filter(|(_, socket)| match &socket.kind {
        SocketKind::Tcp(tcp) => match &tcp.role {
            Role::Connection(connection) => {
                matches!(connection.state(), State::Established | State::CloseWait)
            }
            _ => false,
        },
        _ => false,
    });
    let established = established.count() as u64;
    let ip = "Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos \
              InDiscards InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs \
              ReasmFails FragOKs FragFails FragCreates OutTransmits";
    let (v4, reassembly) = (&c.ip[0], &net.reassembly.counters[0]);
    let mut text = table(
        "Ip",
        ip,
        &[
            ("Forwarding", if net.sysctls.forwarding { 1 } else { 2 }),
            ("DefaultTTL", u64::from(net.sysctls.default_ttl)),
            ("InReceives", v4.received.packets),
            ("InHdrErrors", v4.in_header_errors),
            ("InAddrErrors", v4.in_address_errors),
            ("ForwDatagrams", v4.forwarded),
            ("InUnknownProtos", v4.in_unknown_protocols),
            ("InDelivers", v4.in_delivers()),
            ("OutRequests", v4.out_requests),
            ("OutNoRoutes", v4.out_no_routes),
            ("ReasmTimeout", reassembly.timeouts),
            ("ReasmReqds", v4.fragments),
            ("ReasmOKs", v4.reassembled),
            ("ReasmFails", reassembly.failed),
            ("FragOKs", v4.cut),
            ("FragFails", v4.not_cut),
            ("FragCreates", v4.fragments_created),
            ("OutTransmits", v4.sent.packets),
        ],
    );
    text += &icmp_tables(&c.icmp[0]);
    let tcp = "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets \
               CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors";
    text += &table(
        "Tcp",
        tcp,
        &[
            ("RtoAlgorithm", 1),
            ("RtoMin", 200),
            ("RtoMax", 120_000),
            ("ActiveOpens", c.tcp_active_opens),
            ("PassiveOpens", c.tcp_passive_opens),
            ("AttemptFails", c.tcp_attempt_fails),
            ("EstabResets", c.tcp_resets),
            ("CurrEstab", established),
            ("InSegs", c.tcp_in),
            ("OutSegs", c.tcp_out.saturating_sub(c.tcp_retransmitted)),
            ("RetransSegs", c.tcp_retransmitted),
            ("OutRsts", c.tcp_resets_sent),
        ],
    );
    for (name, [c, _]) in ["Udp", "UdpLite"].into_iter().zip(&c.udp) {
        text += &group(name, &c.columns());
    }
    text
}

/// `/proc/net/netstat`.
pub fn proc_net_netstat(net: &Stack) -> String {
    let c = &net.counters;
    let tcp = "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned \
               OfoPruned OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive \
               PAWSEstab BeyondWindow TSEcrRejected PAWSOldAck PAWSTimewait DelayedACKs \
               DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPHPHits TCPPureAcks \
               TCPHPAcks TCPRenoRecovery TCPSackRecovery TCPSACKReneging TCPSACKReorder TCPRenoReorder \
               TCPTSReorder TCPFullUndo TCPPartialUndo TCPDSACKUndo TCPLossUndo TCPLostRetransmit \
               TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans TCPSlowStartRetrans \
               TCPTimeouts TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail \
               TCPRcvCollapsed TCPBacklogCoalesce TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv \
               TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory TCPAbortOnTimeout \
               TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures TCPMemoryPressuresChrono \
               TCPSACKDiscard TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo TCPSpuriousRTOs TCPMD5NotFound \
               TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged TCPSackShiftFallback \
               TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter \
               TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce \
               TCPOFOQueue TCPOFODrop TCPOFOMerge TCPChallengeACK TCPSYNChallenge TCPFastOpenActive \
               TCPFastOpenActiveFail TCPFastOpenPassive TCPFastOpenPassiveFail \
               TCPFastOpenListenOverflow TCPFastOpenCookieReqd TCPFastOpenBlackhole \
               TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv \
               TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent \
               TCPHystartTrainDetect TCPHystartTrainCwnd TCPHystartDelayDetect TCPHystartDelayCwnd \
               TCPACKSkippedSynRecv TCPACKSkippedPAWS TCPACKSkippedSeq TCPACKSkippedFinWait2 \
               TCPACKSkippedTimeWait TCPACKSkippedChallenge TCPWinProbe TCPKeepAlive TCPMTUPFail \
               TCPMTUPSuccess TCPDelivered TCPDeliveredCE TCPAckCompressed TCPZeroWindowDrop \
               TCPRcvQDrop TCPWqueueTooBig TCPFastOpenPassiveAltKey TcpTimeoutRehash \
               TcpDuplicateDataRehash TCPDSACKRecvSegs TCPDSACKIgnoredDubious TCPMigrateReqSuccess \
               TCPMigrateReqFailure TCPPLBRehash TCPAORequired TCPAOBad TCPAOKeyNotFound TCPAOGood \
               TCPAODroppedIcmps";
    let named = belljar_tcp::COUNT_NAMES.iter().copied().zip(c.tcp_counts);
    let known: Vec<(&str, u64)> = [
        ("SyncookiesSent", c.cookies[0]),
        ("SyncookiesRecv", c.cookies[1]),
        ("SyncookiesFailed", c.cookies[2]),
        ("ListenOverflows", c.listen_overflows),
        ("ListenDrops", c.listen_drops),
        ("IPReversePathFilter", c.wrong_sources),
        ("TCPTimeouts", c.tcp_timeouts),
        ("TCPFastOpenActive", c.fast_open.active),
        ("TCPFastOpenActiveFail", c.fast_open.active_fail),
        ("TCPFastOpenPassive", c.fast_open.passive),
        ("TCPFastOpenPassiveFail", c.fast_open.passive_fail),
        ("TCPFastOpenListenOverflow", c.fast_open.listen_overflow),
        ("TCPFastOpenCookieReqd", c.fast_open.cookie_requests),
        ("TCPFastOpenBlackhole", c.fast_open.black_holes),
        ("TCPFastOpenPassiveAltKey", c.fast_open.alternate_key),
    ]
    .into_iter()
    .chain(named)
    .collect();
    let mut text = table("TcpExt", tcp, &known);
    let ip = "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets \
              OutOctets InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors \
              InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts ReasmOverlaps";
    let v4 = &c.ip[0];
    let [not_ect, ect1, ect0, ce] = v4.ecn;
    let known = [
        ("InNoRoutes", v4.in_no_routes),
        ("InTruncatedPkts", v4.in_truncated),
        ("InMcastPkts", v4.in_group.packets),
        ("OutMcastPkts", v4.out_group.packets),
        ("InBcastPkts", v4.in_all.packets),
        ("OutBcastPkts", v4.out_all.packets),
        ("InOctets", v4.received.octets),
        ("OutOctets", v4.sent.octets),
        ("InMcastOctets", v4.in_group.octets),
        ("OutMcastOctets", v4.out_group.octets),
        ("InBcastOctets", v4.in_all.octets),
        ("OutBcastOctets", v4.out_all.octets),
        ("InCsumErrors", v4.in_wrong_checksums),
        ("InNoECTPkts", not_ect),
        ("InECT1Pkts", ect1),
        ("InECT0Pkts", ect0),
        ("InCEPkts", ce),
        ("ReasmOverlaps", net.reassembly.counters[0].overlaps),
    ];
    text += &table("IpExt", ip, &known);
    text
}
