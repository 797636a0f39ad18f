//! The steps of a batch with drawn times: arrival, requests, pieces.

use std::rc::Rc;
use std::time::Duration;

use latchwork_strict::strict_assert;
use latchwork_verbs::WorkRequestKind;

use crate::drawn::Drawn;
use crate::event::Event;
use crate::flight::{Begin, Fate, Flight};
use crate::world::World;

impl World {
    /// Schedules the arrival of a batch.
    pub(crate) fn submit_drawn(&self, drawn: &Drawn, key: u32, extra: Duration) {
        let slowness = self.with(key, |flight| flight.slowness());
        let mut delay = drawn.draw_one_way(&self.kernel) * slowness + extra;
        if !drawn.reorder_batches {
            let lane = self.with(key, |flight| Rc::clone(&flight.lane));
            let arrival = lane.last_arrival.get().max(self.kernel.now() + delay);
            lane.last_arrival.set(arrival);
            strict_assert!(arrival >= self.kernel.now(), "a batch arrives in the past");
            delay = arrival - self.kernel.now();
        }
        self.schedule(delay, key, Event::Arrive);
    }

    /// Schedules the beginning of every request of a batch for which no earlier request must take
    /// effect first.
    pub(crate) fn advance(&self, drawn: &Drawn, key: u32) {
        let mut from = 0;
        while let Some((request, kind)) = self.with(key, |flight| flight.ready(from)) {
            from = request + 1;
            if !self.held_back_by_earlier(drawn, key, kind) {
                self.with(key, |flight| flight.scheduled(request));
                strict_assert!(
                    self.with(key, |flight| request < flight.len()),
                    "a request outside its batch"
                );
                let pause = drawn.draw_spread(&self.kernel);
                self.schedule(pause, key, Event::Begin { request });
            }
        }
    }

    /// Whether a request of an earlier batch on the same queue pair must take effect before a
    /// request of kind `kind`.
    fn held_back_by_earlier(&self, drawn: &Drawn, key: u32, kind: WorkRequestKind) -> bool {
        if drawn.reorder_batches {
            return false;
        }
        let flights = self.flights.borrow();
        let order = flights[key as usize].lane.flights.borrow();
        let mut earlier = order.iter().take_while(|&&other| other != key);
        earlier.any(|&other| flights[other as usize].holds_back_followers(kind))
    }

    pub(crate) fn begin(&self, drawn: &Drawn, key: u32, request: usize) {
        let kernel = &self.kernel;
        let whole = self.config.whole_write;
        let begin = match self.with(key, |flight| flight.decide(request, whole)) {
            Fate::Never => return self.done(drawn, key, request),
            Fate::Torn => {
                self.with(key, |flight| flight.tear_at_random(request, kernel));
                return self.done(drawn, key, request);
            }
            Fate::Partly => {
                let some =
                    |flight: &mut Flight| flight.begin_partly(request, drawn.pieces_max, kernel);
                match self.with(key, some) {
                    None => return self.done(drawn, key, request),
                    Some(pieces) => Begin::Pieces(pieces),
                }
            }
            Fate::Whole => self.with(key, |flight| flight.begin(request, drawn.pieces_max, kernel)),
        };
        match begin {
            Begin::Done => {}
            Begin::Pieces(pieces) => {
                for piece in 0..pieces {
                    let pause = drawn.draw_spread(kernel);
                    self.schedule(pause, key, Event::Place { request, piece });
                }
                return;
            }
            Begin::Deliver(message) => {
                if !self.deliver(key, message) {
                    let retry = self.config.inbox_retry;
                    return self.schedule(retry, key, Event::Begin { request });
                }
            }
        }
        self.took_effect(key, request);
        self.done(drawn, key, request);
    }

    pub(crate) fn place(&self, drawn: &Drawn, key: u32, request: usize, piece: usize) {
        if self.with(key, |flight| flight.place(request, piece, &self.kernel)) {
            self.took_effect(key, request);
            self.done(drawn, key, request);
        }
    }

    /// Marks a request that has taken effect or never will, and schedules the requests that waited
    /// for it.
    fn done(&self, drawn: &Drawn, key: u32, request: usize) {
        self.with(key, |flight| flight.done(request));
        strict_assert!(
            self.with(key, |flight| request < flight.len()),
            "a request outside its batch"
        );
        if self.with(key, |flight| flight.is_done()) {
            self.leave_target(key);
        }
        if drawn.reorder_batches {
            return self.advance(drawn, key);
        }
        let lane = self.with(key, |flight| Rc::clone(&flight.lane));
        let order: Vec<u32> = lane.flights.borrow().iter().copied().collect();
        order.into_iter().for_each(|other| self.advance(drawn, other));
    }
}
