//! [`serve`]: executes the frames of one connection and sends the replies.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use latchwork_strict::strict_assert;
use latchwork_verbs_shm::Barriers;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::counters::Reject;
use super::execute::Ground;
use super::hosted::Hosted;
use crate::buffer::Buffer;
use crate::wire::{Batch, FRAME_MAX, FromClient, begin_reply, end_reply, put_pong, put_time};

/// The number of bytes of replies at which the agent writes the replies to the socket. The memory
/// of a connection for replies is this number plus the longest reply. The agent reads no further
/// frames from a client that does not read its replies.
const OUT_MAX: usize = 256 << 10;

/// The number of frames whose memory is prefetched while earlier frames are executed. A core has
/// about this number of cache misses in flight at once.
const FRAMES_AHEAD: usize = 8;
const _: () = assert!(OUT_MAX <= FRAME_MAX && FRAMES_AHEAD > 0);

/// Serves a connection until the client closes it, which is no error. Three events end the
/// connection with an error: a violation of the protocol, a failure of the socket, and a client
/// that does not read its replies.
pub(crate) async fn serve<S>(
    hosted: &Hosted,
    mut ground: Ground,
    stream: &mut S,
) -> Result<(), Reject>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut input = Buffer::new();
    let mut out = Vec::new();
    let mut lease = 0;
    loop {
        let read = stream.read(input.room(FRAME_MAX)).await;
        match read {
            Ok(0) => return Ok(()),
            Ok(count) => input.filled(count),
            // The client has closed the connection, so it does not need the remaining replies.
            Err(error) if is_end(&error) => return Ok(()),
            Err(error) => return Err(Reject::Broken(error.to_string())),
        }
        let mut more = true;
        while more {
            let executed = execute_all(&mut input, &mut ground, &mut out, &mut lease, hosted);
            // Also after an error, the replies to the frames before the error are written.
            write(stream, &mut out, hosted.limits.write_time).await?;
            more = executed?;
        }
        input.settle();
    }
}

/// Executes the frames in the buffer until the replies have `OUT_MAX` bytes. True when the buffer
/// may have more whole frames.
fn execute_all(
    input: &mut Buffer,
    ground: &mut Ground,
    out: &mut Vec<u8>,
    lease: &mut u64,
    hosted: &Hosted,
) -> Result<bool, Reject> {
    // The clock is read once for all frames in the buffer. So a frame can take effect later than
    // this time, by the time that the frames before it take. The clients' batch leases have a
    // margin for this delay.
    let now = hosted.now();
    put_time(out, now);
    let mut barriers = Barriers::default();
    // The bytes that are not executed yet, the bytes that are not prefetched yet, and the number of
    // frames that are prefetched and not executed.
    let bytes = input.bytes();
    let (mut rest, mut ahead, mut frames) = (bytes, bytes, 0_usize);
    let end = loop {
        if out.len() >= OUT_MAX {
            break Ok(true);
        }
        while frames < FRAMES_AHEAD
            && let Some(len) = ground.fetch_ahead(ahead)
        {
            (ahead, frames) = (ahead.get(len..).unwrap_or_default(), frames + 1);
        }
        let used = match FromClient::parse(rest) {
            Ok(None) => break Ok(false),
            Err(error) => break Err(Reject::Broken(error.to_string())),
            Ok(Some((FromClient::Lease(until), used))) => {
                *lease = until;
                used
            }
            Ok(Some((FromClient::Ping(number), used))) => {
                put_pong(out, number, now);
                used
            }
            Ok(Some((FromClient::Batch(batch), used))) => {
                if now > *lease {
                    refuse(&batch, out);
                } else if let Err(violation) = ground.execute(&batch, &mut barriers, out) {
                    break Err(Reject::Broken(violation.0.into()));
                }
                used
            }
        };
        rest = &rest[used..];
        frames = frames.saturating_sub(1);
    };
    let used = bytes.len() - rest.len();
    strict_assert!(used <= bytes.len(), "more is executed than has arrived");
    input.consume(used);
    // The last memory fence comes before the replies are sent. So requests after a reply see the
    // effects that the reply reports.
    barriers.finish();
    end
}

/// Refuses a batch that arrived after the end of its batch lease. The client may already have
/// reported the batch as failed, so the batch must not take effect.
fn refuse(batch: &Batch<'_>, out: &mut Vec<u8>) {
    let start = begin_reply(out, batch.seq, true);
    end_reply(out, start, 0);
}

async fn write<S>(stream: &mut S, out: &mut Vec<u8>, limit: Duration) -> Result<(), Reject>
where
    S: AsyncWrite + Unpin,
{
    let all = async {
        stream.write_all(out).await?;
        stream.flush().await
    };
    // The socket mostly takes all bytes at once. Only when it does not, a timer is set.
    let all = async {
        let mut all = pin!(all);
        match poll_fn(|cx| Poll::Ready(all.as_mut().poll(cx))).await {
            Poll::Ready(end) => Ok(end),
            Poll::Pending => timeout(limit, all).await,
        }
    };
    match all.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if is_end(&error) => {}
        Ok(Err(error)) => return Err(Reject::Broken(error.to_string())),
        Err(_) => return Err(Reject::Broken("it does not read what it is sent".into())),
    }
    out.clear();
    // The memory of a long reply is released, because long replies are rare and a connection may
    // exist for long.
    out.shrink_to(OUT_MAX);
    strict_assert!(
        out.is_empty() && out.capacity() <= 2 * OUT_MAX,
        "a long-lived connection keeps a long reply"
    );
    Ok(())
}

/// Whether the error means only that the client closed the connection or is unreachable.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | UnexpectedEof
    )
}
