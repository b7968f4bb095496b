//! Socket options that may change at any time.

use crate::congestion::Start;
use crate::connection::Connection;
use crate::sender::Sender;
use crate::{CongestionAlgorithm, Keepalive, congestion};
use belljar_base::{SimDuration, SimTime};

impl Connection {
    /// `TCP_NODELAY`.
    pub fn set_nodelay(&mut self, on: bool) {
        self.tx.settings.nodelay = on;
    }

    /// `TCP_CORK`, and `MSG_MORE` for the duration of a call. While set, a segment that is not full is
    /// withheld, for at most about 200 ms.
    pub fn set_cork(&mut self, on: bool, _now: SimTime) {
        self.tx.settings.cork = on;
    }

    /// Records that a writer waits for the handshake; the ACK that completes it is then sent with the data.
    pub fn set_write_pending(&mut self, pending: bool) {
        self.write_pending = pending;
    }

    /// `TCP_QUICKACK`: `on` disables delayed ACKs until the flow becomes interactive again.
    pub fn set_quickack(&mut self, on: bool, _now: SimTime) {
        if !on {
            return self.delack.leave_quick();
        }
        self.delack.enter_quick(self.rcv.window, self.rcv.mss);
        if self.delack.scheduled && self.state.is_synchronised() {
            self.pending.ack = true;
        }
    }

    /// `SO_KEEPALIVE` with its times; `None` disables it.
    pub fn set_keepalive(&mut self, keepalive: Option<Keepalive>, now: SimTime) {
        self.settings.keepalive = keepalive;
        self.start_keepalive(now);
    }

    /// `TCP_USER_TIMEOUT`; `None` stands for 0, the kernel's default.
    pub fn set_user_timeout(&mut self, timeout: Option<SimDuration>) {
        self.tx.settings.user_timeout = timeout;
    }

    /// `TCP_MAXSEG`, effective until the handshake is complete.
    pub fn set_max_segment(&mut self, most: Option<u16>) {
        self.tx.config.max_segment = most;
    }

    /// `TCP_SYNCNT`.
    pub fn set_syn_retries(&mut self, retries: u8) {
        self.tx.config.syn_retries = retries;
    }

    /// `TCP_CONGESTION`: changes the congestion control algorithm.
    pub fn set_congestion(&mut self, algorithm: CongestionAlgorithm, now: SimTime) {
        if self.tx.config.congestion != algorithm {
            self.tx.config.congestion = algorithm;
            let synchronised = self.may_exchange();
            self.tx.start_congestion_control(synchronised, now);
        }
    }

    /// `SO_MAX_PACING_RATE`, in bytes per second; enables pacing.
    pub fn set_max_pacing_rate(&mut self, rate: Option<u64>) {
        self.tx.pacing.max_rate = rate;
    }

    /// The congestion control algorithm in use.
    pub fn congestion(&self) -> CongestionAlgorithm {
        self.tx.config.congestion
    }

    /// `SO_RCVBUF` as `getsockopt` returns it, in bytes; disables autotuning.
    pub fn set_receive_buffer(&mut self, bytes: u32) {
        self.rcv.set_limit(bytes);
    }

    /// `SO_SNDBUF` as `getsockopt` returns it, in bytes; disables autotuning.
    pub fn set_send_buffer(&mut self, bytes: u32) {
        self.tx.snd.limit = bytes as usize;
        self.tx.snd.limit_locked = true;
        self.wake_writer();
    }

    /// `SO_RCVLOWAT`: the number of bytes that `READABLE` requires, at least 1.
    pub fn set_receive_low_water(&mut self, bytes: usize) {
        self.settings.receive_low_water = bytes.max(1);
    }
}

impl Sender {
    /// Starts the configured algorithm with the present window and round trip. `synchronised` is true once
    /// ECN has been negotiated.
    pub(crate) fn start_congestion_control(&mut self, synchronised: bool, now: SimTime) {
        let start = Start {
            random: self.config.timestamp_offset,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            cwnd: self.window.cwnd,
            mss: self.snd.mss,
            next: self.snd.nxt,
            now,
        };
        let algorithm = match self.config.congestion {
            // Linux: without ECN at both endpoints DCTCP behaves as Reno.
            CongestionAlgorithm::Dctcp if synchronised && !self.ecn.enabled => CongestionAlgorithm::Reno,
            algorithm => algorithm,
        };
        self.congestion = congestion::instantiate(algorithm, &start);
    }
}
