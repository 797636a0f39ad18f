//! The operations on single keys.

use std::rc::Rc;

use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, LINE_HEADER};
use smallvec::smallvec;

use super::locate::STEPS;
use super::lock::Piece;
use super::{Inner, Tree};
use crate::ShermanError;
use crate::config::Flaw;
use crate::node::{Check, Content, Fences, Found, Header, Slot, Version, View, entry};

/// What an operation does with the value of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    Keep,
    /// Stores the new value.
    Put,
    /// Removes the key.
    Remove,
}

enum Step<R> {
    Done(R),
    /// The key is beyond the node: its right sibling, and the node's high fence.
    Right(GlobalAddr),
    Again,
}

impl Tree {
    /// Reads the value of a key into `value`. Returns whether the key is there.
    ///
    /// # Errors
    /// [`ShermanError::Key`], [`ShermanError::Locked`] when the leaf was torn again and again and
    /// its lock stays taken, [`ShermanError::Corrupt`], and failures of the fabric.
    pub async fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, ShermanError> {
        self.check_key(key)?;
        let inner = &self.0;
        let mut at = None;
        for _ in 0..STEPS {
            let node = match at {
                Some(node) => node,
                None => inner.leaf_of(key).await?,
            };
            let step = inner.examine(node, |view, header| {
                Ok(match inner.placed(view, header, key) {
                    Step::Done(()) => match view.find(header, key).or_else(|torn| {
                        let trusts = inner.config.flaw == Some(Flaw::TrustsTornLeaves);
                        if trusts { Ok(Found::Absent(None)) } else { Err(torn) }
                    })? {
                        Found::Here(slot) => {
                            view.value(slot.index, value);
                            Step::Done(true)
                        }
                        Found::Absent(_) => Step::Done(false),
                    },
                    Step::Right(right) => Step::Right(right),
                    Step::Again => Step::Again,
                })
            });
            match step.await? {
                Step::Done(found) => return Ok(found),
                Step::Right(right) => {
                    inner.counters.count(|c| c.right_steps += 1);
                    inner.drop_parent_of(key);
                    at = Some(right);
                }
                Step::Again => at = None,
            }
        }
        Err(Inner::corrupt(inner.anchor, "a search does not end"))
    }

    /// Changes the value of a key as `change` says. `change` gets the value, or `None` when the key
    /// is not there, and a buffer for the new one. It runs once, under the lock of the leaf.
    ///
    /// A dropped operation took effect or not.
    ///
    /// # Errors
    /// As [`get`](Tree::get); [`ShermanError::Value`] for a new value of another length, and
    /// failures of the memory pool.
    pub async fn change<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> (Change, R),
    ) -> Result<R, ShermanError> {
        self.check_key(key)?;
        let inner = &self.0;
        let (mut at, mut unposted) = (None, None);
        for _ in 0..STEPS {
            let (node, is_fresh) = match at {
                Some(node) => (node, false),
                None => inner.leaf_of_fresh(key).await?,
            };
            let guard = inner.lock(node).await?;
            let words = inner.read_words(node).await?;
            let view = View { layout: &inner.layout, words: &words };
            let header = inner.header_under_lock(node, &view)?;
            match inner.placed(&view, &header, key) {
                Step::Done(()) => {
                    let result = inner.change_in(guard, node, &words, key, &mut change).await?;
                    if let Some((low, child)) = unposted {
                        inner.post_later(low, child).await?;
                    }
                    return Ok(result);
                }
                Step::Right(right) => {
                    let high = view.high(&header);
                    guard.release().await?;
                    inner.counters.count(|c| c.right_steps += 1);
                    inner.drop_parent_of(key);
                    // A parent that was just read does not name the sibling: its split did not
                    // come to the post.
                    unposted = high.filter(|_| is_fresh).map(|high| (high, right));
                    at = Some(right);
                }
                Step::Again => {
                    guard.release().await?;
                    at = None;
                }
            }
        }
        Err(Inner::corrupt(inner.anchor, "a search does not end"))
    }
}

impl Inner {
    async fn leaf_of(self: &Rc<Self>, key: &[u8]) -> Result<GlobalAddr, ShermanError> {
        Ok(self.leaf_of_fresh(key).await?.0)
    }

    async fn leaf_of_fresh(
        self: &Rc<Self>,
        key: &[u8],
    ) -> Result<(GlobalAddr, bool), ShermanError> {
        let located = self.locate(key, 0).await?;
        let located = located.ok_or(Inner::corrupt(self.anchor, "a tree without leaves"))?;
        Ok((located.node, located.is_fresh))
    }

    /// Drops the copy of the inner node that led to a wrong leaf.
    fn drop_parent_of(&self, key: &[u8]) {
        if let Some(cached) = self.shared.cache.find(0, key)
            && cached.content.header.level == 1
        {
            self.shared.cache.remove(&cached);
        }
    }

    fn placed(&self, view: &View<'_>, header: &Header, key: &[u8]) -> Step<()> {
        match view.place(header, key) {
            _ if header.level != 0 => Step::Again,
            _ if self.config.flaw == Some(Flaw::IgnoresFences) => Step::Done(()),
            Fences::Inside => Step::Done(()),
            Fences::Beyond => Step::Right(header.right),
            Fences::Below => Step::Again,
        }
    }

    async fn change_in<R>(
        self: &Rc<Self>,
        guard: super::lock::Guard,
        node: GlobalAddr,
        words: &[u64],
        key: &[u8],
        change: &mut impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> (Change, R),
    ) -> Result<R, ShermanError> {
        let view = View { layout: &self.layout, words };
        let header = self.header_under_lock(node, &view)?;
        let torn = |_| Inner::corrupt(node, "its parts do not belong together");
        let found = view.find(&header, key).map_err(torn)?;
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let here = match found {
            Found::Here(slot) => {
                view.value(slot.index, &mut old);
                Some(slot)
            }
            Found::Absent(_) => None,
        };
        let (change, result) = change(here.map(|_| old.as_slice()), &mut new);
        match change {
            Change::Keep => guard.release().await?,
            Change::Remove if here.is_none() => guard.release().await?,
            Change::Put if new.len() != self.layout.value_len => {
                let (len, expected) = (new.len(), self.layout.value_len);
                guard.release().await?;
                return Err(ShermanError::Value { len, expected });
            }
            Change::Put | Change::Remove => {
                let live = change == Change::Put;
                let slot = match found {
                    Found::Here(slot) => Some(slot),
                    Found::Absent(slot) => slot,
                };
                match slot {
                    Some(slot) if self.layout.is_slotted(0) => {
                        let value = if live { &new } else { &old };
                        let piece = self.entry_piece(node, &header, slot, live, key, value);
                        guard.write_back(smallvec![piece]).await?;
                    }
                    slot => {
                        let mut content = view.content(&header).map_err(torn)?;
                        content.apply(key, live.then_some(&new));
                        if slot.is_some() {
                            let piece = self.node_piece(node, &content);
                            guard.write_back(smallvec![piece]).await?;
                        } else {
                            self.split_leaf(guard, node, content).await?;
                        }
                    }
                }
            }
        }
        Ok(result)
    }

    /// The words of one entry.
    fn entry_piece(
        &self,
        node: GlobalAddr,
        header: &Header,
        slot: Slot,
        live: bool,
        key: &[u8],
        value: &[u8],
    ) -> Piece {
        strict_assert!(self.layout.check != Check::Checksum, "an entry without a version");
        let range = self.layout.slot(0, slot.index);
        let mut words = vec![0; range.len()];
        let version = Version { node: header.version, entry: slot.version.entry.wrapping_add(1) };
        self.layout.leaf.write(&mut words, version, live, &entry(key, value));
        let offset = node.offset() + (LINE_HEADER + range.start * 8) as u64;
        Piece { addr: GlobalAddr::new(node.node(), offset), words }
    }

    /// All words of a node.
    pub(super) fn node_piece(&self, node: GlobalAddr, content: &Content) -> Piece {
        let mut words = vec![0; self.layout.words];
        content.write(&self.layout, &mut words);
        let offset = node.offset() + LINE_HEADER as u64;
        Piece { addr: GlobalAddr::new(node.node(), offset), words }
    }
}

impl Content {
    /// Stores or removes the value of a key of a leaf.
    fn apply(&mut self, key: &[u8], value: Option<&Vec<u8>>) {
        match (self.search(key), value) {
            (Ok(index), Some(value)) => self.entries[index] = entry(key, value),
            (Err(index), Some(value)) => self.entries.insert(index, entry(key, value)),
            (Ok(index), None) => drop(self.entries.remove(index)),
            (Err(_), None) => {}
        }
    }
}
