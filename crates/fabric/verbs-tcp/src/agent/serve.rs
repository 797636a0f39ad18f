//! [`serve`]: serves the frames of one connection.

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

/// Replies are written when they have this many bytes. With the reply to the longest frame behind
/// them, this is the memory of a connection for replies. The agent reads nothing more from a client
/// that does not read its replies.
const OUT_MAX: usize = 256 << 10;

/// The number of frames whose memory is prefetched while earlier frames are executed: about the
/// cache misses that a core has in flight at once.
const FRAMES_AHEAD: usize = 8;
const _: () = assert!(OUT_MAX <= FRAME_MAX && FRAMES_AHEAD > 0);

/// Serves until the client closes the connection, which is no error. A violation of the protocol, a
/// failure of the socket, or a client that does not read its replies ends the connection with an
/// error.
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
            // The replies of frames before an error are also written.
            write(stream, &mut out, hosted.limits.write_time).await?;
            more = executed?;
        }
        input.settle();
    }
}

/// Executes the frames in the buffer until the replies have `OUT_MAX` bytes. True when more frames
/// may be there.
fn execute_all(
    input: &mut Buffer,
    ground: &mut Ground,
    out: &mut Vec<u8>,
    lease: &mut u64,
    hosted: &Hosted,
) -> Result<bool, Reject> {
    // The clock is read once for all frames that have arrived. A frame can take effect later than
    // this time, by the time of the rest of the chunk. Clients allow for that.
    let now = hosted.now();
    put_time(out, now);
    let mut barriers = Barriers::default();
    // The bytes not executed yet, the bytes not prefetched yet, and the number of frames between
    // the two.
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
    // The barriers end before a reply is sent, so later requests see the effects that the replies
    // report.
    barriers.finish();
    end
}

/// Refuses a batch behind the end of its lease. The client may have reported the batch as failed by
/// now, so the batch must not take effect.
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
    // The socket mostly takes all bytes at once, and then no timer is set.
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
    // Long replies are rare, and a connection may be long-lived.
    out.shrink_to(OUT_MAX);
    strict_assert!(
        out.is_empty() && out.capacity() <= 2 * OUT_MAX,
        "a long-lived connection keeps a long reply"
    );
    Ok(())
}

/// Whether the error only means that the client closed the connection or was lost.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | UnexpectedEof
    )
}
