//! Receiving from the agent: a reply completes its batch, and a long silence of the agent ends the
//! connection.

use std::collections::VecDeque;
use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::{Ordering, fence};
use latchwork_strict::strict_assert;
use latchwork_verbs::{Completion, Message, WORD};

use super::{Again, Lane, State};
use crate::client::flights::{Expect, Flight, Sent};
use crate::client::locals::Locals;
use crate::wire::{BatchReply, FromAgent, put_ping};

/// The shortest and the longest wait before a message that found a full inbox is sent again. The
/// wait doubles with each attempt.
const FULL_FIRST: Duration = Duration::from_micros(20);
const FULL_MAX: Duration = Duration::from_millis(1);
const _: () = assert!(FULL_FIRST.as_nanos() > 0 && FULL_FIRST.as_nanos() < FULL_MAX.as_nanos());

impl Lane {
    pub(super) fn receive(
        &mut self,
        now: Time,
        locals: &Locals,
        done: &mut VecDeque<Completion>,
    ) -> Result<(), String> {
        let State::Up(link) = &mut self.state else { return Ok(()) };
        if !link.fill().map_err(|error| error.to_string())? {
            return self.mind_silence(now);
        }
        // The clock is read after the socket, so this time is not before the time at which the
        // agent sent the bytes.
        let here = self.times.clock.now();
        (self.heard, self.pinged) = (here, false);
        strict_assert!(here >= now, "the clock goes back");
        // The buffer is taken out of the link, so that replies can borrow from it. The end of this
        // function puts it back.
        let mut input = std::mem::replace(&mut link.input, crate::buffer::Buffer::new());
        let end = loop {
            match FromAgent::parse(input.bytes()) {
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.to_string()),
                Ok(Some((frame, used))) => {
                    let end = match frame {
                        FromAgent::Time(clock) | FromAgent::Pong(_, clock) => {
                            self.stamp = (clock, here);
                            Ok(())
                        }
                        FromAgent::Reply(reply) => self.reply(now, reply, locals, done),
                    };
                    if let Err(why) = end {
                        break Err(why.into());
                    }
                    input.consume(used);
                }
            }
        };
        input.settle();
        if let State::Up(link) = &mut self.state {
            link.input = input;
        }
        end
    }

    fn mind_silence(&mut self, now: Time) -> Result<(), String> {
        let State::Up(link) = &mut self.state else { return Ok(()) };
        let silent = now - self.heard;
        if self.sent.is_empty() && !self.pinged {
            return Ok(());
        }
        if silent >= self.times.patience {
            return Err("the agent is silent".into());
        }
        if silent >= self.times.patience / 4 && !self.pinged {
            put_ping(&mut link.out, self.next_seq);
            self.pinged = true;
        }
        Ok(())
    }

    fn reply(
        &mut self,
        now: Time,
        reply: BatchReply<'_>,
        locals: &Locals,
        done: &mut VecDeque<Completion>,
    ) -> Result<(), &'static str> {
        let Lane { sent, flights, messages, again, .. } = self;
        let front = sent.front().ok_or("a reply to nothing")?;
        if front.seq != reply.seq {
            // The connection is closed, and the outcome of all batches on it is unknown.
            return Err("a reply to another batch");
        }
        if reply.expired {
            // This frame took no effect, and all earlier replies are final. But the client does not
            // know whether the agent executes the later batches of this connection. So the client
            // closes the connection. Once the next connection is made, none of these batches takes
            // effect any more.
            return Err("the agent had no time for a batch before its lease ended");
        }
        let number = front.flight;
        let flight = &mut flights[number];
        strict_assert!(flight.open > 0, "a reply to a flight that waits for none");
        take_reply(front, reply, flight, locals, messages, again, now)?;
        sent.pop_front();
        if flight.is_done() {
            let (token, result) = (flight.token, Ok(flight.outcome));
            done.push_back(Completion { token, result });
            flights.remove(number);
        }
        Ok(())
    }
}

/// Handles the reply to the frame `sent` of `flight`.
#[inline]
fn take_reply(
    sent: &Sent,
    reply: BatchReply<'_>,
    flight: &mut Flight,
    locals: &Locals,
    messages: &mut VecDeque<Message>,
    again: &mut Again,
    now: Time,
) -> Result<(), &'static str> {
    let mut body = reply.body;
    let mut take = |len: usize| {
        let (head, rest) = body.split_at_checked(len).ok_or("a reply that is too short")?;
        body = rest;
        Ok::<_, &'static str>(head)
    };
    for (i, expect) in sent.expects().iter().enumerate() {
        let undone = reply.undone >> i & 1 == 1;
        match *expect {
            Expect::Data { optional: true, .. } if undone => {}
            Expect::Delivery => {
                let message = messages.pop_front().ok_or("a reply to no message")?;
                if undone {
                    again.messages.push_back((sent.flight, message));
                    again.wait = (again.wait * 2).clamp(FULL_FIRST, FULL_MAX);
                    strict_assert!(
                        again.wait >= FULL_FIRST && again.wait <= FULL_MAX,
                        "a full inbox is tried again too soon or too late"
                    );
                    again.due = now + again.wait;
                    flight.open += 1;
                } else {
                    again.wait = Duration::ZERO;
                }
            }
            _ if undone => return Err("a request undone that is always done"),
            Expect::Done => {}
            Expect::Old => {
                let old = take(WORD)?.try_into().map_err(|_| "not a word")?;
                strict_assert!(
                    flight.atomics < flight.outcome.old.len(),
                    "more atomics than a batch may have"
                );
                flight.outcome.old[flight.atomics] = u64::from_le_bytes(old);
                flight.atomics += 1;
            }
            Expect::Data { local, .. } => {
                let data = take(local.len as usize)?;
                // A thread that sees a byte of the data also sees this worker's earlier writes.
                // This matters for optimistic readers of the frame that the READ fills.
                fence(Ordering::Release);
                locals.words(local).write_bytes(0, data);
            }
        }
    }
    flight.open -= 1;
    if body.is_empty() { Ok(()) } else { Err("a reply that is too long") }
}
