//! The transactions of a task, its locks, and its accesses to lines.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use latchwork_cache::{Ownership, WriteGuard};
use latchwork_cluster::Lock;
use latchwork_coherence::{AccessMode, CoherentMemory, LineLocks, LockOutcome, MemoryError, Need};
use latchwork_runtime::Time;
use latchwork_verbs::Words;

use super::super::client::Client;
use super::super::lines::Stamp;
use super::{Change, Locks};
use crate::WorldCheck;
use crate::scenario::{LocksLoad, SeededBug};

const AMOUNT: usize = 8;
const FLAG: usize = 16;

/// Maximum number of attempts of a transaction that meets locks.
const TRIES: u32 = 4;

/// The content of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Content {
    stamp: Stamp,
    last: Stamp,
    amount: u64,
    flag: u64,
}

impl Content {
    fn read(words: Words<'_>) -> Content {
        Content {
            stamp: Stamp::of(words.u64(0)),
            last: Stamp::of(words.u64(words.len() - 8)),
            amount: words.u64(AMOUNT),
            flag: words.u64(FLAG),
        }
    }
}

/// A lock that a transaction holds, with its note for the checks.
struct Held<'a> {
    client: &'a Client<Locks>,
    at: usize,
    mode: AccessMode,
    /// `None` if a seeded bug made the task skip the lock.
    lock: Option<Lock>,
}

impl Held<'_> {
    fn owner(&self) -> (usize, AccessMode) {
        (self.client.process.node, self.mode)
    }

    /// Takes the note of this lock back.
    fn forget(&self) {
        let holders = &mut self.client.of().holders.borrow_mut()[self.at];
        if let Some(at) = holders.iter().position(|other| *other == self.owner()) {
            holders.swap_remove(at);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // First, because another task may take the lock right after the drop.
        self.forget();
        drop(self.lock.take());
    }
}

impl Client<Locks> {
    // ---- operations -----------------------------------------------------------------------------

    /// The most waits for lines. In each attempt, a line is at most locked, upgraded, read twice
    /// and written.
    fn accesses(&self) -> u32 {
        5 * self.of().load.lines as u32 * TRIES
    }

    /// Runs a transaction. After a conflict with a lock, tries again, up to [`TRIES`] times.
    pub(super) async fn transaction(
        &self,
        what: &'static str,
        once: impl AsyncFn() -> Result<bool, MemoryError>,
    ) {
        let tried = async {
            for _ in 0..TRIES {
                if once().await? {
                    break;
                }
                let pause = Duration::from_nanos(self.below(20_000));
                self.member.handle.sleep(pause).await;
            }
            Ok(())
        };
        self.entered(what, "of some lines", self.accesses(), tried).await;
    }

    /// `count` different random lines, in random order.
    fn some_lines(&self, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.of().load.lines as usize).collect();
        for at in 0..count {
            let other = at + self.below((all.len() - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }

    /// Moves an amount from one line to another, and reads further lines. Returns false after a
    /// conflict with a lock.
    pub(super) async fn transfer(&self) -> Result<bool, MemoryError> {
        let LocksLoad { lines, most, upgrades, .. } = self.of().load;
        let count = 1 + self.below(most.min(lines)) as usize;
        let mut held = Vec::new();
        for (nth, at) in self.some_lines(count).into_iter().enumerate() {
            let writes = nth < 2 && count > 1;
            let upgrades = writes && self.percent(upgrades);
            let mode = if writes && !upgrades { AccessMode::Exclusive } else { AccessMode::Shared };
            let Some(lock) = self.lock(at, mode).await? else { return Ok(false) };
            let saw = self.read(at).await?;
            held.push((lock, writes, saw));
        }
        if self.percent(30) {
            self.member.handle.sleep(Duration::from_nanos(self.below(30_000))).await;
        }
        for (lock, writes, _) in &mut held {
            if *writes && !self.upgrade(lock).await? {
                return Ok(false);
            }
        }
        for (lock, _, saw) in &held {
            self.is_unchanged(lock.at, *saw, self.read(lock.at).await?);
        }
        let amount = 1 + self.below(5);
        for ((lock, ..), change) in
            held.iter().filter(|(_, writes, _)| *writes).zip([amount.wrapping_neg(), amount])
        {
            self.write(lock.at, |content| content.amount = content.amount.wrapping_add(change))
                .await?;
        }
        Ok(true)
    }

    /// Locks all lines to read, and checks that the sum of all amounts is 0. Returns false after a
    /// conflict with a lock.
    pub(super) async fn audit(&self) -> Result<bool, MemoryError> {
        let mut held = Vec::new();
        for at in self.some_lines(self.of().load.lines as usize) {
            let Some(lock) = self.lock(at, AccessMode::Shared).await? else { return Ok(false) };
            held.push((lock, self.read(at).await?));
        }
        held.sort_by_key(|(lock, _)| lock.at);
        let all: Vec<_> = held.iter().map(|(_, content)| *content).collect();
        self.is_consistent(&all);
        Ok(true)
    }

    /// Clears the line's flag if the flag is set. Otherwise sets the flag, unless the flag of the
    /// other line of the pair is set. The transaction locks only the line `at`. Returns false after
    /// a conflict with a lock.
    pub(super) async fn flag(&self, at: usize) -> Result<bool, MemoryError> {
        let other = at ^ 1;
        if other >= self.of().load.lines as usize {
            return Ok(true);
        }
        let early = self.has_bug(SeededBug::LooksTooEarly);
        let seen = if early { self.look_unlocked(other).await? } else { None };
        let Some(_lock) = self.lock(at, AccessMode::Exclusive).await? else { return Ok(false) };
        // The memory fence orders the lock before the read: see `OptimisticRead::locked`.
        fence(Ordering::SeqCst);
        let seen = if early { seen } else { self.look_unlocked(other).await? };
        let Some(seen) = seen else { return Ok(false) };
        let found =
            self.write(at, |content| content.flag = (1 - content.flag) & (1 - seen.flag)).await?;
        // `found` and `seen` are the flags at the time of the read.
        if found.is_some_and(|found| found.flag + seen.flag > 1) && !self.has_lost_flags(at / 2) {
            let text =
                format!("the flags of {} and {} are both set", self.root(at), self.root(other));
            self.wrong(WorldCheck::Linearizability, text);
        }
        Ok(true)
    }

    /// The content of the line. `None` if a transaction has locked the line to write.
    async fn look_unlocked(&self, at: usize) -> Result<Option<Content>, MemoryError> {
        let (memory, addr) = (&self.member.memory, self.root(at));
        let mut kept = None;
        loop {
            let invoked = self.now();
            let need = match memory.try_read(addr) {
                Ok(read) => {
                    let content = Content::read(read.words());
                    let locked = read.locked();
                    if read.validate() {
                        self.saw(at, invoked, content, None);
                        return Ok((locked != Ownership::Exclusive).then_some(content));
                    }
                    continue;
                }
                Err(need) => need,
            };
            drop(kept.take());
            match memory.ensure_unlocked(need).await? {
                LockOutcome::Got(ticket) => kept = Some(ticket),
                LockOutcome::Locked => return Ok(None),
            }
        }
    }

    /// Reads a line without a lock. Half of these reads wait for locks of other transactions.
    pub(super) async fn look(&self, at: usize) {
        let look = async {
            if self.percent(50) {
                return self.read(at).await.map(drop);
            }
            self.look_unlocked(at).await.map(drop)
        };
        self.entered("look", self.root(at), self.accesses(), look).await;
    }

    /// Reads all lines after the work, when no transaction has a lock any more.
    pub(super) async fn look_at_all(&self) {
        let mut all = Vec::new();
        for at in 0..self.of().load.lines as usize {
            let read = self.read(at);
            all.extend(self.entered("read at the end", self.root(at), self.accesses(), read).await);
        }
        if all.len() as u64 == self.of().load.lines {
            self.is_consistent(&all);
        }
    }

    // ---- locks ----------------------------------------------------------------------------------

    /// Locks the line. `None` if another transaction has a lock that excludes this one, if the
    /// attempt is dropped, or if there are too many locks.
    async fn lock(&self, at: usize, mode: AccessMode) -> Result<Option<Held<'_>>, MemoryError> {
        if self.has_bug(SeededBug::ForgetsToLock) && self.percent(20) {
            return Ok(
                Some(Held { client: self, at, mode, lock: None }).inspect(|held| self.holds(held))
            );
        }
        let locking = self.member.memory.lock(Need { addr: self.root(at), mode });
        let end = if self.percent(self.of().load.dropped) {
            let by = self.member.handle.now() + Duration::from_nanos(self.below(8000));
            match self.member.handle.timeout(by, locking).await {
                Ok(end) => end,
                Err(_) => return Ok(None),
            }
        } else {
            locking.await
        };
        let lock = match end {
            Ok(LockOutcome::Got(lock)) => lock,
            Ok(LockOutcome::Locked) | Err(MemoryError::TooManyLocks { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let held = Held { client: self, at, mode, lock: Some(lock) };
        self.holds(&held);
        Ok(Some(held))
    }

    /// Notes a new lock of the line, and checks that no other owner excludes it.
    fn holds(&self, held: &Held<'_>) {
        let observer = &self.shared.observer;
        let mut holders = self.of().holders.borrow_mut();
        let holders = &mut holders[held.at];
        let excludes = |(node, mode): &&(usize, AccessMode)| {
            let both_read = *mode == AccessMode::Shared && held.mode == AccessMode::Shared;
            !both_read && !observer.outlives_locks_of(*node)
        };
        if let (Some(other), true) = (holders.iter().find(excludes), observer.sees_all()) {
            let (line, (node, mode)) = (self.root(held.at), *other);
            let text = format!("{line} was locked {:?} beside C{}, {mode:?}", held.mode, node + 1);
            self.wrong(WorldCheck::Owners, text);
        }
        holders.push(held.owner());
    }

    async fn upgrade(&self, held: &mut Held<'_>) -> Result<bool, MemoryError> {
        if held.mode == AccessMode::Exclusive {
            return Ok(true);
        }
        if let Some(lock) = &mut held.lock
            && self.member.memory.upgrade_lock(lock).await? == LockOutcome::Locked
        {
            return Ok(false);
        }
        held.forget();
        held.mode = AccessMode::Exclusive;
        self.holds(held);
        Ok(true)
    }

    // ---- lines ----------------------------------------------------------------------------------

    async fn read(&self, at: usize) -> Result<Content, MemoryError> {
        let invoked = self.now();
        let content = self.member.memory.read(self.root(at), Content::read).await?;
        self.saw(at, invoked, content, None);
        Ok(content)
    }

    /// Changes the line, which the transaction has locked to write. The line is at this node, so an
    /// error is a failure. Returns the content before the change.
    async fn write(
        &self,
        at: usize,
        change: impl Fn(&mut Content),
    ) -> Result<Option<Content>, MemoryError> {
        let invoked = self.now();
        let write = self.member.memory.write(self.root(at), |guard: &mut WriteGuard<'_>| {
            let words = guard.words();
            let found = Content::read(words);
            let mut content = found;
            change(&mut content);
            content.stamp = found.stamp.next(self.process);
            let last = words.len() - 8;
            words.set_u64(0, content.stamp.bits());
            words.set_u64(AMOUNT, content.amount);
            words.set_u64(FLAG, content.flag);
            words.set_u64(last, content.stamp.bits());
            guard.mark_dirty(0..FLAG + 8);
            guard.mark_dirty(last..last + 8);
            self.shared.observer.tell_by(self.process, guard.addr(), content.stamp.bits());
            let change = Change {
                by: self.process.node,
                over: found.stamp,
                amount: content.amount.wrapping_sub(found.amount),
                flag: content.flag != found.flag,
            };
            self.of().changes.borrow_mut().insert((at, content.stamp), change);
            (found, content.stamp)
        });
        match write.await {
            Ok((found, stamp)) => {
                self.saw(at, invoked, found, Some(stamp));
                Ok(Some(found))
            }
            Err(error) => {
                let text = format!("{} is locked to write: {error}", self.root(at));
                self.wrong(WorldCheck::Error, text);
                Ok(None)
            }
        }
    }

    fn saw(&self, at: usize, invoked: Time, saw: Content, wrote: Option<Stamp>) {
        let stamp = self.whole(at, (saw.stamp.bits(), saw.last.bits()));
        self.add_call(at, invoked, stamp, wrote);
    }

    fn is_unchanged(&self, at: usize, saw: Content, now: Content) {
        if saw != now {
            let text = format!("{} changed under a lock, from {saw:?} to {now:?}", self.root(at));
            self.wrong(WorldCheck::Linearizability, text);
        }
    }

    /// Checks the contents of all lines at one time: the sum of the amounts is 0, and no pair has
    /// both flags set.
    fn is_consistent(&self, all: &[Content]) {
        let sum = all.iter().enumerate().fold(0_u64, |sum, (at, content)| {
            sum.wrapping_add(content.amount).wrapping_sub(self.left_by_the_dead(at, content.stamp))
        });
        if sum != 0 {
            let text = format!("all amounts together are {}: {all:?}", sum as i64);
            self.wrong(WorldCheck::Linearizability, text);
        }
        let both = |pair: &[Content]| pair.iter().filter(|c| c.flag > 0).count() > 1;
        let wrong = |(at, pair): &(usize, &[Content])| both(pair) && !self.has_lost_flags(*at);
        if let Some((pair, _)) = all.chunks(2).enumerate().find(wrong) {
            let text = format!("both flags of pair {pair} are set: {all:?}");
            self.wrong(WorldCheck::Linearizability, text);
        }
    }

    /// The part of the line's amount that nodes have written that are dead by now.
    fn left_by_the_dead(&self, at: usize, mut stamp: Stamp) -> u64 {
        let (mut amount, gone) = (0_u64, self.lost());
        if gone.is_empty() {
            return 0;
        }
        let changes = self.of().changes.borrow();
        while let Some(change) = changes.get(&(at, stamp)) {
            if gone.contains_key(&change.by) {
                amount = amount.wrapping_add(change.amount);
            }
            stamp = change.over;
        }
        amount
    }

    /// Whether a node that is dead by now has changed a flag of this pair.
    fn has_lost_flags(&self, pair: usize) -> bool {
        let gone = self.lost();
        let of_pair = |(at, _): &(usize, Stamp)| at / 2 == pair;
        let changes = self.of().changes.borrow();
        changes
            .iter()
            .any(|(at, change)| of_pair(at) && change.flag && gone.contains_key(&change.by))
    }

    /// The dead nodes whose lines are recovered.
    fn lost(&self) -> BTreeMap<usize, Time> {
        let recovers = self.shared.scenario.recovers();
        if recovers { self.shared.observer.gone() } else { BTreeMap::new() }
    }
}
