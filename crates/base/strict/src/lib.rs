//! Assertions of what the code believes: on in tests and in hunts, free of cost in an ordinary
//! release.
//!
//! An assertion states a belief that only a mistake of the program can break. What a user, an
//! operator, a peer, a file or a message can cause is an error, and is never asserted.
//!
//! # When assertions run
//!
//! - A build with debug assertions, such as tests in the default profile: [`STRICT`] is true.
//! - A build with the feature `strict`: true. For example
//!   `cargo build --release -p latchwork-sim --features strict`.
//! - Any other release build, and a model of `loom`: false. The compiler removes the assertion and
//!   its operands.
//!
//! [`STRICT`] is a constant of this crate, so that one feature decides for the whole workspace.
//!
//! # What goes where
//!
//! - A relation that is cheap to test stands at the place that relies on the relation, in
//!   [`strict_assert!`] or one of its relatives.
//! - A property of a whole structure stands in a method `check`, beside the type. Each change of
//!   the structure ends with [`strict_check!`]. A method `check` uses `assert!`: the caller decides
//!   when the check runs.
//! - A relation of constants is a `const _: () = assert!(..)`, which costs a compiler error.
//!
//! ```
//! use latchwork_strict::{strict_assert, strict_check};
//!
//! struct Ring {
//!     used: usize,
//!     size: usize,
//! }
//!
//! impl Ring {
//!     fn check(&self) {
//!         assert!(self.used <= self.size, "{} of {} slots are in use", self.used, self.size);
//!     }
//!
//!     fn take(&mut self) {
//!         strict_assert!(self.used < self.size, "the caller has seen a free slot");
//!         self.used += 1;
//!         strict_check!(self);
//!     }
//! }
//!
//! Ring { used: 1, size: 2 }.take();
//! ```

/// Whether assertions run in this build. A model checker of threads runs without them: their loads
/// would be steps of the model, and could order what the code itself does not order.
pub const STRICT: bool = cfg!(all(not(loom), any(debug_assertions, feature = "strict")));

/// `assert!` where [`STRICT`] holds.
#[macro_export]
macro_rules! strict_assert {
    ($($belief:tt)*) => {
        if $crate::STRICT {
            ::core::assert!($($belief)*);
        }
    };
}

/// `assert_eq!` where [`STRICT`] holds.
#[macro_export]
macro_rules! strict_assert_eq {
    ($($belief:tt)*) => {
        if $crate::STRICT {
            ::core::assert_eq!($($belief)*);
        }
    };
}

/// `assert_ne!` where [`STRICT`] holds.
#[macro_export]
macro_rules! strict_assert_ne {
    ($($belief:tt)*) => {
        if $crate::STRICT {
            ::core::assert_ne!($($belief)*);
        }
    };
}

/// Calls the method `check` of a value where [`STRICT`] holds.
#[macro_export]
macro_rules! strict_check {
    ($value:expr $(, $argument:expr)* $(,)?) => {
        if $crate::STRICT {
            $value.check($($argument),*);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::STRICT;

    struct Ring {
        used: usize,
    }

    impl Ring {
        fn check(&self, size: usize) {
            assert!(self.used <= size, "{} of {size} slots are in use", self.used);
        }
    }

    #[test]
    fn tests_are_strict() {
        let is_strict = std::hint::black_box(STRICT);
        assert!(is_strict, "a build with tests has debug assertions on");
    }

    #[test]
    #[should_panic(expected = "3 of 2 slots are in use")]
    fn a_failing_check_panics_in_tests() {
        strict_check!(Ring { used: 3 }, 2);
    }

    #[test]
    #[should_panic(expected = "believed")]
    fn a_false_belief_panics_in_tests() {
        strict_assert!(Ring { used: 3 }.used < 2, "believed");
    }

    #[test]
    #[should_panic(expected = "assertion `left == right` failed")]
    fn a_false_equation_panics_in_tests() {
        strict_assert_eq!(Ring { used: 3 }.used, 2);
    }
}
