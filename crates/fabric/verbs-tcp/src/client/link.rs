//! [`Link`]: an established connection on the worker's side: a non-blocking socket, and a buffer
//! for each direction.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use latchwork_strict::strict_assert;
use rustix::event::{PollFd, PollFlags};
use rustls::ClientConnection;

use super::connect::Connected;
use crate::buffer::Buffer;
use crate::wire::FRAME_MAX;

/// The largest number of reads from the socket in one call. The number is small, because the worker
/// has other work.
const READS_MAX: usize = 4;
const _: () = assert!(READS_MAX > 0, "nothing is ever read");

/// An established connection.
pub(crate) struct Link {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Encoded frames. The first `written` bytes have been written to the socket.
    pub(crate) out: Vec<u8>,
    written: usize,
    pub(crate) input: Buffer,
}

impl Link {
    pub(crate) fn new(connected: Connected) -> Self {
        let Connected { socket, tls, .. } = connected;
        Link { socket, tls, out: Vec::new(), written: 0, input: Buffer::new() }
    }

    /// The number of encoded bytes that have not been written to the socket.
    pub(crate) fn waiting(&self) -> usize {
        strict_assert!(self.written <= self.out.len(), "more was written than there was");
        self.out.len() - self.written
    }

    /// The socket events for which a doze waits: bytes to read, and also room to write if frames
    /// wait.
    pub(crate) fn awaits(&self) -> PollFd<'_> {
        let write = if self.waiting() > 0 { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::new(&self.socket, PollFlags::IN | write)
    }

    /// Writes as much of `out` as the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            let taken = match &mut self.tls {
                None => self.socket.write(rest),
                Some(tls) => tls.writer().write(rest),
            };
            match taken {
                Ok(0) if self.tls.is_some() => {
                    // The TLS library takes no more plaintext until encrypted bytes have been
                    // written to the socket.
                    if !self.flush_tls()? {
                        return Ok(());
                    }
                }
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        strict_assert!(self.written <= self.out.len() / 2, "written bytes are kept for ever");
        self.flush_tls().map(drop)
    }

    /// Writes encrypted bytes. False when the socket takes no more.
    fn flush_tls(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads the bytes that have arrived, in at most `READS_MAX` reads. True when any bytes were
    /// read.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let mut some = false;
        for _ in 0..READS_MAX {
            let room = self.input.room(FRAME_MAX);
            let len = room.len();
            let read = match &mut self.tls {
                None => self.socket.read(room),
                Some(tls) => read_tls(tls, &mut self.socket, room),
            };
            match read {
                Ok(0) if len > 0 => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.filled(count);
                    some = true;
                    // The read did not fill the room, so these were probably all bytes. A further
                    // read is not worth its cost.
                    if count < len && self.tls.is_none() || len == 0 {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The bytes that were read before the error are still used. The next call gets this
                // error again, or finds the end of the stream.
                Err(error) if some => {
                    tracing::debug!(%error, "a connection ends");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(some)
    }
}

/// Reads decrypted bytes. Without decrypted bytes, first decrypts the bytes that have arrived.
fn read_tls(
    tls: &mut ClientConnection,
    socket: &mut TcpStream,
    room: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(room) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            end => return end,
        }
        if tls.read_tls(socket)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
}
