//! TFTP (RFC 1350): the server answers a request from a port of its own choice (`nf_conntrack_tftp.c`).

use super::Helper;
use crate::conn::{ConnKey, CtStatus};
use crate::conntrack::{Conntrack, TrackVerdict};
use crate::expect::Expectation;
use crate::parse::Datagram;
use crate::tuple::TupleDirection;
use belljar_base::SimTime;

/// Read and write request (RFC 1350, section 5).
const REQUESTS: [[u8; 2]; 2] = [[0, 1], [0, 2]];

impl Conntrack {
    /// Expects the answer to a request of a client.
    pub(super) fn help_tftp(
        &mut self,
        packet: &[u8],
        datagram: &Datagram,
        key: ConnKey,
        now: SimTime,
    ) -> TrackVerdict {
        let payload = datagram.transport_of(packet).get(8..).unwrap_or_default();
        let is_request = payload.get(..2).is_some_and(|code| REQUESTS.iter().any(|known| known == code));
        if !is_request {
            return TrackVerdict::Accept;
        }
        let Some(conn) = self.table.get(key) else { return TrackVerdict::Accept };
        // From any port of the server to the client's address as the server knows it.
        let mut tuple = *conn.reply();
        tuple.source_port = 0;
        let translated = conn.status().intersects(CtStatus::NAT_MASK);
        let expectation = Expectation {
            tuple,
            has_source: true,
            has_source_port: false,
            zone: conn.zone(),
            master: key,
            helper: Helper::Tftp,
            permanent: false,
            direction: TupleDirection::Reply,
            saved_port: translated.then_some(conn.original().source_port),
            id: 0,
            timeout: 0,
        };
        match self.expect(expectation, now) {
            Ok(()) => TrackVerdict::Accept,
            Err(_) => TrackVerdict::Drop,
        }
    }
}
