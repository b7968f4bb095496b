//! Byte stream under a connection: two buffers that serve HTTP/2 as a socket.

use bytes::{Bytes, BytesMut};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Capacity per direction in bytes. The transport stops reading while the input is full; HTTP/2 waits while
/// the output is full.
const CAPACITY: usize = 256 * 1024;

#[derive(Default)]
struct Buffers {
    input: BytesMut,
    input_ended: bool,
    output: BytesMut,
}

/// Pipe with two ends. HTTP/2 owns one clone, the transport side the other.
#[derive(Clone, Default)]
pub struct Pipe(Arc<Mutex<Buffers>>);

impl Pipe {
    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes received from the peer.
    pub fn receive(&self, bytes: &[u8]) {
        self.buffers().input.extend_from_slice(bytes);
    }

    /// Marks the end of the input.
    pub fn end_input(&self) {
        self.buffers().input_ended = true;
    }

    /// Number of bytes that `receive` should be given at most.
    pub fn room(&self) -> usize {
        CAPACITY.saturating_sub(self.buffers().input.len())
    }

    /// Number of input bytes not yet read by HTTP/2, and of output bytes not yet sent.
    pub fn level(&self) -> (usize, usize) {
        let buffers = self.buffers();
        (buffers.input.len(), buffers.output.len())
    }

    /// Takes up to `limit` bytes to be sent to the peer.
    pub fn transmit(&self, limit: usize) -> Bytes {
        let mut buffers = self.buffers();
        let length = limit.min(buffers.output.len());
        buffers.output.split_to(length).freeze()
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut buffers = self.buffers();
        if buffers.input.is_empty() && !buffers.input_ended {
            return Poll::Pending;
        }
        let length = to.remaining().min(buffers.input.len());
        to.put_slice(&buffers.input.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut buffers = self.buffers();
        let length = bytes.len().min(CAPACITY.saturating_sub(buffers.output.len()));
        if length == 0 && !bytes.is_empty() {
            return Poll::Pending;
        }
        buffers.output.extend_from_slice(&bytes[..length]);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
