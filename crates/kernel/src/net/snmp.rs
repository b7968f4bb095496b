//! `/proc/net/snmp` and `/proc/net/netstat`: counters in the columns of Linux, those that nothing here
//! counts as zero.

use super::socket::SocketKind;
use super::tcp::Role;
use crate::host::Host;
use belljar_tcp::State;

/// Two lines, names and values, of the counters that are known; others of `names` are zero.
fn table(group: &str, names: &str, known: &[(&str, u64)]) -> String {
    let value = |name: &str| known.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
    let values: Vec<String> = names
        .split_whitespace()
        .map(|name| if name == "MaxConn" { "-1".to_owned() } else { value(name).to_string() })
        .collect();
    format!("{group}: {names}\n{group}: {}\n", values.join(" "))
}

impl Host {
    /// `/proc/net/snmp`.
    pub(crate) fn proc_net_snmp(&self) -> String {
        let c = &self.net.counters;
        let established = self.net.sockets.iter().filter(|(_, socket)| match &socket.kind {
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
        let delivered = c.ip_in.saturating_sub(c.malformed + c.not_for_us + c.unknown_protocol);
        let mut text = table(
            "Ip",
            ip,
            &[
                ("Forwarding", if self.net.sysctls.forwarding { 1 } else { 2 }),
                ("DefaultTTL", u64::from(self.net.sysctls.default_ttl)),
                ("InReceives", c.ip_in),
                ("InHdrErrors", c.malformed),
                ("InAddrErrors", c.not_for_us),
                ("ForwDatagrams", c.forwarded - self.net.v6.counters.forwarded),
                ("InUnknownProtos", c.unknown_protocol),
                ("InDelivers", delivered),
                ("OutRequests", c.ip_out),
                ("OutTransmits", c.ip_out),
            ],
        );
        let icmp = "InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs \
                    InRedirects InEchos InEchoReps InTimestamps InTimestampReps InAddrMasks InAddrMaskReps \
                    OutMsgs OutErrors OutRateLimitGlobal OutRateLimitHost OutDestUnreachs OutTimeExcds \
                    OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps \
                    OutTimestampReps OutAddrMasks OutAddrMaskReps";
        text += &table("Icmp", icmp, &[("InMsgs", c.icmp_in)]);
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
        let udp = "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors \
                   IgnoredMulti MemErrors";
        for (group, c) in ["Udp", "UdpLite"].into_iter().zip(&c.udp) {
            let known = [
                ("InDatagrams", c.received),
                ("NoPorts", c.no_port),
                ("InErrors", c.wrong + c.buffer_full),
                ("OutDatagrams", c.sent),
                ("RcvbufErrors", c.buffer_full),
                ("InCsumErrors", c.wrong_checksum),
            ];
            text += &table(group, udp, &known);
        }
        text
    }

    /// `/proc/net/netstat`.
    pub(crate) fn proc_net_netstat(&self) -> String {
        let c = &self.net.counters;
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
        text += &table("IpExt", ip, &[]);
        text
    }
}
