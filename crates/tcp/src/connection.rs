use crate::{
    Config, CongestionAlgorithm, Ecn, Events, Info, Keepalive, Readiness, Repr, Seq, State, TcpError,
};
use belljar_base::{SimDuration, SimTime};
use std::net::SocketAddr;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// The connection dealt with it.
    Consumed,
    /// A SYN that may start a new connection in place of this one, which is in TIME-WAIT: forget
    /// this connection and treat the SYN as one for no connection.
    Reopen,
}

/// What the caller needs to know of a segment that it is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    /// The bytes of payload.
    pub payload_len: usize,
    /// The codepoint for the IP header.
    pub ecn: Ecn,
}

/// One end of a TCP connection. See the [crate's documentation](crate) for what to call when.
pub struct Connection {}

#[allow(unused_variables)]
impl Connection {
    /// An active open from `local` to `remote`: SYN-SENT, the SYN is waiting to be transmitted.
    /// `isn` is the initial sequence number.
    pub fn connect(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        isn: u32,
        now: SimTime,
    ) -> Connection {
        todo!()
    }
    /// A passive open by `syn`, which arrived at `local` from `remote`: SYN-RECEIVED, the SYN-ACK
    /// is waiting to be transmitted. `syn` must have SYN and neither ACK nor RST.
    pub fn accept_syn(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Repr,
        isn: u32,
        now: SimTime,
    ) -> Connection {
        todo!()
    }

    /// A segment of this connection arrived, its checksum verified.
    pub fn on_segment(&mut self, segment: &Repr, payload: &[u8], ecn: Ecn, now: SimTime) -> Disposition {
        todo!()
    }
    /// The time of [`next_timer`](Self::next_timer) has come; harmless when it has not.
    pub fn on_timer(&mut self, now: SimTime) {
        todo!()
    }
    /// When `on_timer` must be called.
    pub fn next_timer(&self) -> Option<SimTime> {
        todo!()
    }
    /// ICMP destination unreachable or the like was received for this connection; `hard` ends
    /// it if the handshake is not complete (protocol or port unreachable).
    pub fn on_unreachable(&mut self, error: TcpError, now: SimTime) {
        todo!()
    }
    /// ICMP "fragmentation needed": the path carries packets of `mtu` bytes (IP header included).
    pub fn on_path_mtu(&mut self, mtu: u16, now: SimTime) {
        todo!()
    }

    /// Appends the next segment (TCP header with checksum, payload) to `out`; `None` when there
    /// is nothing to send now. `queued_bytes` is what this connection has waiting in the device's
    /// queue: as TCP small queues do, data is withheld while that is about a millisecond's worth
    /// or more (call again when the device has sent some); ACKs and resets never are.
    pub fn poll_transmit(
        &mut self,
        now: SimTime,
        queued_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<SegmentMeta> {
        todo!()
    }

    /// Puts bytes into the send buffer; gives how many fitted. 0 when [`can_send`](Self::can_send) is false.
    pub fn send(&mut self, data: &[u8], now: SimTime) -> usize {
        todo!()
    }
    /// Whether `send` may ever take bytes: not after `shutdown_write`, `close` or an error.
    pub fn can_send(&self) -> bool {
        todo!()
    }
    /// Moves received bytes to `out`; gives how many.
    pub fn recv(&mut self, out: &mut [u8], now: SimTime) -> usize {
        todo!()
    }
    /// Copies received bytes, from `offset` on, without consuming them (`MSG_PEEK`).
    pub fn peek(&self, offset: usize, out: &mut [u8]) -> usize {
        todo!()
    }
    /// Drops up to `n` received bytes (`MSG_TRUNC`); gives how many.
    pub fn discard(&mut self, n: usize, now: SimTime) -> usize {
        todo!()
    }
    /// Bytes that `recv` would give (`SIOCINQ`).
    pub fn readable_bytes(&self) -> usize {
        todo!()
    }
    /// Bytes that `send` would take.
    pub fn writable_bytes(&self) -> usize {
        todo!()
    }
    /// Bytes sent or to be sent that the peer has not acknowledged (`SIOCOUTQ`).
    pub fn unacknowledged_bytes(&self) -> usize {
        todo!()
    }
    /// Bytes that were never sent (`SIOCOUTQNSD`).
    pub fn unsent_bytes(&self) -> usize {
        todo!()
    }
    /// Whether a read with nothing readable is the end of the file (peer's FIN, `shutdown_read`, or closed).
    pub fn is_read_closed(&self) -> bool {
        todo!()
    }
    /// Whether everything sent, FIN included, has been acknowledged.
    pub fn all_sent_acknowledged(&self) -> bool {
        todo!()
    }

    /// `shutdown(SHUT_WR)`: FIN after what is buffered.
    pub fn shutdown_write(&mut self, now: SimTime) {
        todo!()
    }
    /// `shutdown(SHUT_RD)`: reads give end of file once the buffer is empty; as on Linux data that arrives later is still acknowledged and readable.
    pub fn shutdown_read(&mut self) {
        todo!()
    }
    /// `close(2)` by the last owner: FIN, or a reset if received data was not read. The connection
    /// goes on as an orphan until [`is_finished`](Self::is_finished).
    pub fn close(&mut self, now: SimTime) {
        todo!()
    }
    /// A reset and CLOSED at once: `SO_LINGER` with time 0, or the listening socket was closed.
    pub fn abort(&mut self, now: SimTime) {
        todo!()
    }

    /// The state.
    pub fn state(&self) -> State {
        todo!()
    }
    /// CLOSED with nothing left to transmit: the caller may forget an orphan.
    pub fn is_finished(&self) -> bool {
        todo!()
    }
    /// `SO_ERROR`: the error is given once.
    pub fn take_error(&mut self) -> Option<TcpError> {
        todo!()
    }
    /// The error that `take_error` would give.
    pub fn error(&self) -> Option<TcpError> {
        todo!()
    }
    /// What happened since the last call.
    pub fn take_events(&mut self) -> Events {
        todo!()
    }
    /// What a poll would report. Notes that somebody waits for `WRITABLE` if it is not set.
    pub fn readiness(&mut self) -> Readiness {
        todo!()
    }
    /// `TCP_INFO`.
    pub fn info(&self, now: SimTime) -> Info {
        todo!()
    }
    /// Our address.
    pub fn local(&self) -> SocketAddr {
        todo!()
    }
    /// The peer's.
    pub fn remote(&self) -> SocketAddr {
        todo!()
    }
    /// The next sequence number that will be sent.
    pub fn send_next(&self) -> Seq {
        todo!()
    }

    /// `TCP_NODELAY`.
    pub fn set_nodelay(&mut self, on: bool) {
        todo!()
    }
    /// `TCP_CORK`, and `MSG_MORE` for the span of a call.
    pub fn set_cork(&mut self, on: bool, now: SimTime) {
        todo!()
    }
    /// `TCP_QUICKACK`.
    pub fn set_quickack(&mut self, on: bool, now: SimTime) {
        todo!()
    }
    /// `SO_KEEPALIVE` with its times; `None` turns it off.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>, now: SimTime) {
        todo!()
    }
    /// `TCP_USER_TIMEOUT`; `None` is Linux's 0.
    pub fn set_user_timeout(&mut self, timeout: Option<SimDuration>) {
        todo!()
    }
    /// `TCP_CONGESTION`.
    pub fn set_congestion(&mut self, algorithm: CongestionAlgorithm, now: SimTime) {
        todo!()
    }
    /// `SO_RCVBUF` as `getsockopt` shows it; turns autotuning off.
    pub fn set_receive_buffer(&mut self, bytes: u32) {
        todo!()
    }
    /// `SO_SNDBUF` as `getsockopt` shows it; turns autotuning off.
    pub fn set_send_buffer(&mut self, bytes: u32) {
        todo!()
    }
    /// `SO_RCVLOWAT`: `READABLE` needs so many bytes (at least 1).
    pub fn set_receive_low_water(&mut self, bytes: usize) {
        todo!()
    }
    /// The present size of the receive buffer, `SO_RCVBUF`.
    pub fn receive_buffer(&self) -> u32 {
        todo!()
    }
    /// The present size of the send buffer, `SO_SNDBUF`.
    pub fn send_buffer(&self) -> u32 {
        todo!()
    }
}
