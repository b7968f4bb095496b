use crate::ids::{EpollKey, PipeKey, SocketKey};

/// What is behind an open file. Each subsystem adds what it needs.
#[derive(Clone, Debug)]
pub enum FileKind {
    /// The reading end of a pipe.
    PipeReader(PipeKey),
    /// The writing end of a pipe.
    PipeWriter(PipeKey),
    /// A socket of any family.
    Socket(SocketKey),
    /// An epoll instance.
    Epoll(EpollKey),
}
