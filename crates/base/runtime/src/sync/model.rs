//! The primitives of loom, with the interfaces of the primitives that they replace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{
    self, AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};
pub use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub use loom::thread::yield_now;

/// A thread that can be unparked. This type replaces the thread type of loom, which loses the
/// unpark token of a thread that has just yielded.
#[derive(Clone, Debug)]
pub struct Thread(Arc<Token>);

#[derive(Debug)]
struct Token {
    given: loom::sync::Mutex<bool>,
    gives: loom::sync::Condvar,
}

impl Thread {
    /// Sets the thread's unpark token.
    pub fn unpark(&self) {
        *self.0.given.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        self.0.gives.notify_one();
    }
}

/// A value for the calling thread, with a new unpark token in each call. So a thread that parks
/// must keep the value.
pub fn current_thread() -> Thread {
    let (given, gives) = (loom::sync::Mutex::new(false), loom::sync::Condvar::new());
    Thread(Arc::new(Token { given, gives }))
}

/// Blocks until the unpark token is set, and takes the token.
pub fn park(me: &Thread) {
    let mut given = me.0.given.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    while !*given {
        given = me.0.gives.wait(given).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
    *given = false;
}

/// Only yields. A model has no time, so a timed parking may end at any moment.
pub fn park_timeout(_: &Thread, _: Duration) {
    yield_now();
}

/// A lock with the interface of `parking_lot`. A panic ends the run of the model, so poisoning does
/// not matter.
#[derive(Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the lock if it is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// A lock for one writer or many readers, with the interface of `parking_lot`.
pub struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        RwLock(loom::sync::RwLock::new(value))
    }

    /// Waits until no thread has the lock for writing.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for the lock.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}
