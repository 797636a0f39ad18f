//! [`SharedParkingSpot`]: the word on the page of a node on which one of the node's workers sleeps.
//! Other processes can wake the worker through this word.

use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::ParkingSpot;
use latchwork_strict::strict_assert;

use super::page::Page;

/// One parking spot of a page, for one worker.
pub(crate) struct SharedParkingSpot {
    pub(crate) page: Arc<Page>,
    pub(crate) index: usize,
}

impl ParkingSpot for SharedParkingSpot {
    fn sleep(&self, parked: &dyn Fn() -> bool, at_most: Option<Duration>) -> bool {
        strict_assert!(
            self.index < Page::BEDS_MAX,
            "parking spot {} is outside the page",
            self.index
        );
        let turn = self.page.turn_of(self.index);
        if self.page.take_rung(self.index) {
            return true;
        }
        if parked() {
            self.page.sleep_while_turn_is(self.index, turn, at_most);
        }
        false
    }

    fn wake(&self) {
        self.page.wake(self.index);
    }
}
