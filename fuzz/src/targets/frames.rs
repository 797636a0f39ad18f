//! The target `frames`: the bytes on a connection of the TCP fabric after the greeting, at both
//! ends.

use latchwork_verbs::{LocalBuffer, Region, RegionKey, WorkRequest};
use latchwork_verbs_tcp::wire::{
    DATA_MAX, FRAME_MAX, FromAgent, FromClient, HEADER, WireRequest, begin_batch, begin_reply,
    end_batch, end_reply, peek, put_lease, put_ping, put_pong, put_request, put_time,
};

use super::target::FuzzTarget;
use crate::{Mutator, class_of};

/// The frames of a connection. An odd first byte selects the frames that a client reads, an even
/// byte those that an agent reads.
pub const TARGET: FuzzTarget = FuzzTarget { name: "frames", run, mutate, tried: 50_000 };

/// Reads frames up to the first invalid frame, and encodes each frame again.
///
/// - A valid frame has exactly one encoding.
/// - The reader takes no bytes beyond the input, and expects no frame beyond the maximum length.
///
/// # Panics
/// When one of these does not hold.
pub fn run(data: &[u8]) -> String {
    let Some((end, mut bytes)) = data.split_first() else { return "empty".to_owned() };
    let from_agent = end % 2 == 1;
    // The kinds of the last two frames. More frames make no new class.
    let mut kinds = [String::new(), String::new()];
    let class = |kinds: &[String; 2], end: &str| {
        format!("{}: {}{}: {end}", if from_agent { "agent" } else { "client" }, kinds[0], kinds[1])
    };
    for _ in 0..16 {
        if let Some(length) = peek(bytes, |_, _, _| {}) {
            assert!(length >= HEADER, "a peek of {length} bytes");
        }
        match if from_agent { of_agent(bytes) } else { of_client(bytes) } {
            Ok(Some((what, again))) => {
                assert!(bytes.starts_with(&again), "a frame with two encodings: {again:?}");
                bytes = &bytes[again.len()..];
                kinds.rotate_left(1);
                kinds[1] = what;
            }
            Ok(None) => {
                assert!(bytes.len() < FRAME_MAX, "waits for more than any frame has");
                return class(&kinds, "more to come");
            }
            Err(error) => return class(&kinds, &class_of(&error)),
        }
    }
    class(&kinds, "and so on")
}

/// The kind of a frame, and its bytes after encoding it again. `None` for an incomplete frame.
type Frame = Option<(String, Vec<u8>)>;

fn of_agent(bytes: &[u8]) -> Result<Frame, latchwork_verbs_tcp::wire::WireError> {
    let Some((frame, used)) = FromAgent::parse(bytes)? else { return Ok(None) };
    let mut again = Vec::new();
    let what = match frame {
        FromAgent::Reply(reply) => {
            let start = begin_reply(&mut again, reply.seq, reply.expired);
            again.extend(reply.body);
            end_reply(&mut again, start, reply.undone);
            format!(" reply {}", reply.expired)
        }
        FromAgent::Pong(number, clock) => {
            put_pong(&mut again, number, clock);
            " pong".to_owned()
        }
        FromAgent::Time(clock) => {
            put_time(&mut again, clock);
            " time".to_owned()
        }
    };
    assert_eq!(used, again.len(), "a frame of another length");
    Ok(Some((what, again)))
}

fn of_client(bytes: &[u8]) -> Result<Frame, latchwork_verbs_tcp::wire::WireError> {
    let Some((frame, used)) = FromClient::parse(bytes)? else { return Ok(None) };
    let mut again = Vec::new();
    let what = match frame {
        FromClient::Batch(batch) => {
            let start = begin_batch(&mut again, batch.requests().len(), batch.region, batch.seq);
            let (mut what, mut reach) = (" batch".to_owned(), None);
            for request in batch.requests() {
                what.push_str(encode(&request, &mut again));
                let touched = request.remote().map(|(at, length)| at.saturating_add(length));
                reach = reach.max(touched);
            }
            end_batch(&mut again, start);
            assert_eq!(batch.reach(), reach, "the reach is not that of the requests");
            assert_eq!(batch.sends(), what.contains('S'), "a message is not announced");
            what
        }
        FromClient::Lease(until) => {
            put_lease(&mut again, until);
            " lease".to_owned()
        }
        FromClient::Ping(number) => {
            put_ping(&mut again, number);
            " ping".to_owned()
        }
    };
    assert_eq!(used, again.len(), "a frame of another length");
    Ok(Some((what, again)))
}

/// Appends a request, and returns the name of its kind.
fn encode(request: &WireRequest<'_>, out: &mut Vec<u8>) -> &'static str {
    let local = |len| LocalBuffer { region: RegionKey(0), offset: 0, len };
    let (request, data, what) = match *request {
        WireRequest::Read { remote, len, condition: None } => {
            (WorkRequest::Read { remote, local: local(len) }, &[][..], "r")
        }
        WireRequest::Read { remote, len, condition: Some((mask, value)) } => {
            (WorkRequest::ReadIf { remote, local: local(len), mask, value }, &[][..], "i")
        }
        WireRequest::Write { remote, data } => {
            assert!(data.len() <= DATA_MAX, "a write of {} bytes", data.len());
            (WorkRequest::Write { remote, local: local(data.len() as u32) }, data, "w")
        }
        WireRequest::CompareSwap { remote, expected, desired } => {
            (WorkRequest::CompareSwap { remote, expected, desired }, &[][..], "c")
        }
        WireRequest::FetchAdd { remote, add } => {
            (WorkRequest::FetchAdd { remote, add }, &[][..], "f")
        }
        WireRequest::Send(message) => (WorkRequest::Send(message.message()), &[][..], "S"),
    };
    let memory = Region::zeroed(data.len().max(8)).expect("some memory");
    memory.words().write_bytes(0, data);
    put_request(out, &request, |local| memory.words().slice(0..local.len as usize));
    what
}

/// Changes bytes, and mostly corrects the length of the first frame.
pub fn mutate(mutator: &mut Mutator, data: &mut Vec<u8>) {
    mutator.bytes(data);
    if data.len() > HEADER && !mutator.one_in(3) {
        // The first frame extends to the end, so that inserted or removed bytes belong to it.
        let length = (data.len() - 1) as u32;
        data[1..5].copy_from_slice(&length.to_le_bytes());
    }
}
