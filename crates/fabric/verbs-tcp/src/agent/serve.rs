//! [`serve`]: the frames of one connection.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use latchwork_verbs_shm::Barriers;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::counters::Reject;
use super::execute::Ground;
use super::hosted::Hosted;
use crate::buffer::Buffer;
use crate::wire::{Batch, FRAME_MAX, FromClient, begin_reply, end_reply, put_pong, put_time};

/// Replies that are collected at most before they are written. With the longest frame behind it,
/// this is what a connection takes for replies; a client that does not read them is not read from.
const OUT_MAX: usize = 256 << 10;

/// Frames whose memory is fetched while those before them are executed: about as many cache misses
/// as a core has under way at once.
const FRAMES_AHEAD: usize = 8;

/// Serves until the client leaves, which is no error, or does what it must not.
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
            // A client that is gone. What it was sent, it does not want any more.
            Err(error) if is_end(&error) => return Ok(()),
            Err(error) => return Err(Reject::Broken(error.to_string())),
        }
        let mut more = true;
        while more {
            let executed = execute_all(&mut input, &mut ground, &mut out, &mut lease, hosted);
            // Also what was done before something was wrong.
            write(stream, &mut out, hosted.limits.write_time).await?;
            more = executed?;
        }
        input.settle();
    }
}

/// Executes the frames that are there until there are replies enough; true when more are there.
fn execute_all(
    input: &mut Buffer,
    ground: &mut Ground,
    out: &mut Vec<u8>,
    lease: &mut u64,
    hosted: &Hosted,
) -> Result<bool, Reject> {
    // One look at the clock for all that has arrived. What takes effect later than it says does so
    // by as much as the rest of a chunk takes, and clients allow for that.
    let now = hosted.now();
    put_time(out, now);
    let mut barriers = Barriers::default();
    // What is not executed yet; what is not fetched ahead yet, and how many frames are between the
    // two.
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
    input.consume(used);
    // Before any of the replies is sent: what they report is seen by whatever is executed after
    // them.
    barriers.finish();
    end
}

/// The client may have told its user by now that the batch failed: it must not take effect any
/// more.
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
    // Mostly the socket takes all of it, and no alarm is set.
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
    // A long reply is rare, and a connection may be for ever.
    out.shrink_to(OUT_MAX);
    Ok(())
}

/// Ways for a connection to end that say nothing bad about the client.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | UnexpectedEof
    )
}
