//! [`Signal`]: the signals that request the end of a program.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A signal that requests the end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGINT: a user pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: the user or a supervisor requests the end of the program.
    Terminate,
    /// SIGHUP: the terminal was closed. A program that `nohup` started ignores this signal.
    Hangup,
}

impl Signal {
    pub(crate) const ALL: [Signal; 3] = [Signal::Interrupt, Signal::Terminate, Signal::Hangup];

    /// `SIGINT`, `SIGTERM` or `SIGHUP`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::Hangup => "SIGHUP",
        }
    }

    /// The exit status of a program that the signal ended: 130, 143 or 129, as in shells.
    pub fn status(self) -> u8 {
        128 + self.number() as u8
    }

    pub(crate) fn number(self) -> i32 {
        match self {
            Signal::Interrupt => SIGINT,
            Signal::Terminate => SIGTERM,
            Signal::Hangup => SIGHUP,
        }
    }

    /// The signal of this name.
    pub(crate) fn named(name: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// The signal that ends a program with this exit status.
    pub(crate) fn of_status(status: u8) -> Option<Signal> {
        status.checked_sub(128).and_then(|number| Signal::of(usize::from(number)))
    }

    pub(crate) fn of(number: usize) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.number() as usize == number)
    }
}
