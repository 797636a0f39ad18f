//! Assertions of what the code relies on. The assertions run in tests and in hunts, and cost
//! nothing in an ordinary release build.
//!
//! An assertion states a fact that only a mistake of the program can break. A condition that a
//! user, an operator, a peer, a file or a message can cause is an error, and must not be asserted.
//!
//! # When assertions run
//!
//! - A build with debug assertions, such as tests in the default profile: [`STRICT`] is true.
//! - A build with the feature `strict`: [`STRICT`] is true. For example `cargo build --release -p
//!   latchwork-sim --features strict`.
//! - Any other build, and a test under the model checker loom: [`STRICT`] is false. The compiler
//!   removes the assertion and its operands.
//!
//! [`STRICT`] is a constant of this crate. So one feature decides for the whole workspace.
//!
//! # Where an assertion stands
//!
//! - A relation that is cheap to test is asserted at the place that relies on it, by
//!   [`strict_assert!`], [`strict_assert_eq!`] or [`strict_assert_ne!`].
//! - The properties of a whole structure are in a method `check` of its type. Each change of the
//!   structure ends with [`strict_check!`]. A method `check` uses `assert!`, because its caller
//!   decides when the check runs.
//! - A relation of constants is a `const _: () = assert!(..)`. If it is false, the program does not
//!   compile.
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

/// Whether assertions run in this build. Under the model checker loom they do not run. The loads of
/// an assertion would be steps of the model, and could create an order that the code itself does
/// not create.
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
