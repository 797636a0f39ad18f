//! Panics inside worlds. A panic is a failure of its world. Thousands of worlds may panic at one
//! place.

use std::collections::BTreeSet;
use std::sync::Mutex;

use latchwork_harness::outcome::say;

/// From now on each place that panics is reported once, in one line on standard error.
pub(crate) fn tell_each_place_once() {
    let told: Mutex<BTreeSet<String>> = Mutex::default();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let mut told = told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if told.insert(place.clone()) {
            let payload = panic.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("without a text");
            let first = text.lines().next().unwrap_or_default();
            say(&format!("sim: a panic at {place}: {first}"));
        }
    }));
}
