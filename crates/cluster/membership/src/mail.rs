//! [`Mail`]: bytes from one node to another, and an answer back, through the store.
//!
//! ```text
//!   node C1 (epoch 7)                        store, below mail/C2@9/                   node C2 (epoch 9)
//!   send ─► queue ─ mail-out ── put ──────►  ask/C1@7/0001  ─────── mail-in looks ──► mail-handler: the closure
//!                                            (on C1's lease)                              │
//!   answer ◄──────── mail-in looks ───────── mail/C1@7/answer/0001 ◄── put, and ask deleted ┘
//! ```
//!
//! It is for the few bytes that nodes have to tell each other before they have a faster way:
//! connection data. No second network service is needed for it, and no second proof of who somebody
//! is.
//!
//! - A letter is for one node at one epoch. Whoever has the id later never sees it.
//! - A letter and its answer hang on the sender's lease, so that nothing is left of the dead; what
//!   is of no use any more is deleted by whoever finds it.
//! - A letter is handled once at most: one node's letters come in the order of their numbers, and a
//!   number is taken once.
//! - So many letters of a node are in the store at most; the rest waits in its queue, which has an
//!   end, too.
//! - The closure runs on a thread of its own. However long it takes, leases are renewed, and
//!   answers arrive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use latchwork_runtime::sync::{Arc, Ordering};

use crate::error::MembershipError;
use crate::keeper::Watch;
use crate::membership::{Membership, Shared};
use crate::name::NodeName;
use crate::store::{Change, LeaseId, Snapshot};
use crate::time::Deadline;
use crate::view::{MemberState, View};

/// The longest letter and the longest answer, in bytes.
pub const LETTER_MAX: usize = 64 << 10;

/// Letters of one node that are in the store at a time.
const OUTSTANDING_MAX: usize = 256;
/// Letters that wait behind them.
const QUEUE_MAX: usize = 4096;
/// Letters in one transaction: stores have a limit of changes, etcd's is 128.
const BATCH: usize = 32;
/// A thread that waits looks this often at its node, and at deadlines.
const LOOK: Duration = Duration::from_millis(100);
/// And this long after the store did not answer.
const RETRY: Duration = Duration::from_millis(50);

/// What is done with a letter: who sent it, at which epoch, and its bytes; the answer.
pub type Handler = Box<dyn FnMut(NodeName, u64, &[u8]) -> Vec<u8> + Send>;

/// Takes the answer to a letter, from a thread of this node's, once.
pub type Answer = Box<dyn FnOnce(Result<Vec<u8>, MembershipError>) + Send>;

/// One node's letters; copies are the same node's. When the last copy is dropped its threads end,
/// and nothing more is sent or answered.
#[derive(Clone)]
pub struct Mail(Arc<Handle>);

struct Handle(Arc<Office>);

struct Office {
    shared: Arc<Shared>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Letters that are not in the store yet.
    queue: VecDeque<Letter>,
    /// Letters that may be in the store, by number.
    sent: BTreeMap<u64, Sent>,
    /// Keys that are of no use any more.
    stale: BTreeSet<String>,
    /// Letters of others that were not handled yet.
    asked: VecDeque<Asked>,
    /// The keys of those, and of those that are being handled.
    working: BTreeSet<String>,
    stopped: bool,
}

struct Letter {
    number: u64,
    bytes: Vec<u8>,
    sent: Sent,
}

struct Sent {
    to: NodeName,
    epoch: u64,
    deadline: Deadline,
    answer: Answer,
}

struct Asked {
    key: String,
    from: NodeName,
    epoch: u64,
    number: u64,
    lease: LeaseId,
    bytes: Vec<u8>,
}

impl Membership {
    /// Lets others send letters to this node, which `handler` answers, and this node send some.
    /// Once in the time of a node.
    ///
    /// # Errors
    /// [`MembershipError::MailTwice`], [`MembershipError::Thread`].
    pub fn mail(&self, handler: Handler) -> Result<Mail, MembershipError> {
        let shared = self.shared_arc();
        if shared.has_mail.swap(true, Ordering::Relaxed) {
            return Err(MembershipError::MailTwice);
        }
        let (state, changed) = (Mutex::default(), Condvar::new());
        let mail = Mail(Arc::new(Handle(Arc::new(Office { shared, state, changed }))));
        mail.spawn("mail-in", |office| office.look())?;
        mail.spawn("mail-out", |office| office.dispatch())?;
        mail.spawn("mail-handler", |office| office.handle(handler))?;
        Ok(mail)
    }
}

impl Mail {
    fn spawn(
        &self,
        name: &str,
        body: impl FnOnce(&Office) + Send + 'static,
    ) -> Result<(), MembershipError> {
        let office = Arc::clone(&self.0.0);
        let name = format!("{name}-{}", office.shared.me.node);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let _watch = Watch(&office.shared);
            body(&office);
        });
        thread.map(drop).map_err(|error| MembershipError::Thread { why: error.to_string() })
    }

    /// Sends a letter to a node, as it joined at `epoch`. `answer` gets what its handler has
    /// answered, or why there is no answer within `limit`; it must not take long. This does not
    /// wait.
    pub fn send(&self, to: NodeName, epoch: u64, letter: Vec<u8>, limit: Duration, answer: Answer) {
        let office = &self.0.0;
        if let Err(error) = office.shared.check().and_then(|()| short("a letter", &letter)) {
            return answer(Err(error));
        }
        let sent = Sent { to, epoch, deadline: Deadline::after(limit), answer };
        let mut state = office.state();
        if state.queue.len() >= QUEUE_MAX {
            drop(state);
            return (sent.answer)(Err(MembershipError::MailFull { max: QUEUE_MAX }));
        }
        // Under the lock, so that letters are queued in the order of their numbers.
        let number = office.shared.letters.fetch_add(1, Ordering::Relaxed) + 1;
        state.queue.push_back(Letter { number, bytes: letter, sent });
        drop(state);
        office.changed.notify_all();
    }

    /// As [`Mail::send`], and waits for the answer.
    ///
    /// # Errors
    /// [`MembershipError::NotThere`] when the node is gone; [`MembershipError::Deadline`];
    /// [`MembershipError::TooLong`]; [`MembershipError::MailFull`]; [`MembershipError::LeaseEnded`]
    /// and [`MembershipError::Left`] of this node.
    pub fn ask(
        &self,
        to: NodeName,
        epoch: u64,
        letter: &[u8],
        limit: Duration,
    ) -> Result<Vec<u8>, MembershipError> {
        let (send, receive) = channel();
        let answer = Box::new(move |result| drop(send.send(result)));
        self.send(to, epoch, letter.to_vec(), limit, answer);
        // The deadline is looked at now and then.
        receive.recv_timeout(limit + 10 * LOOK).unwrap_or_else(|_| Err(late(limit, to)))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state().stopped = true;
        self.0.changed.notify_all();
    }
}

impl Office {
    // Nothing under the lock panics half-way through a change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.state().stopped || self.shared.board.is_stopped()
    }

    fn trouble(&self, error: &MembershipError) {
        self.shared.board.trouble(error.to_string());
        self.shared.board.pause(RETRY);
    }

    // ---- mail-out --------------------------------------------------------------------------------------

    /// Puts letters into the store, and takes out what is of no use any more.
    fn dispatch(&self) {
        while !self.is_over() {
            let (letters, stale) = self.next_out();
            if !letters.is_empty() {
                self.put(&letters);
            }
            if !stale.is_empty() {
                let deletes: Vec<_> = stale.into_iter().map(Change::Delete).collect();
                let Shared { store, limit, .. } = &*self.shared;
                if let Err(error) = store.commit(&[self.shared.alive()], &deletes, *limit) {
                    // It goes with the lease that it hangs on.
                    tracing::debug!(%error, "old letters stay");
                }
            }
        }
    }

    /// Letters for one node, which count as sent from now on, and keys to delete; waits for them.
    fn next_out(&self) -> (Vec<(String, Change)>, Vec<String>) {
        let mut state = self.state();
        let has_letters =
            |state: &State| !state.queue.is_empty() && state.sent.len() + BATCH <= OUTSTANDING_MAX;
        let nothing =
            |state: &mut State| !has_letters(state) && state.stale.is_empty() && !state.stopped;
        state = self
            .changed
            .wait_timeout_while(state, LOOK, nothing)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        let mut letters = Vec::new();
        let is_over = state.stopped || self.shared.board.is_stopped();
        if has_letters(&state) && !is_over {
            let first = state.queue.front().map(|letter| (letter.sent.to, letter.sent.epoch));
            let (mine, rest) =
                std::mem::take(&mut state.queue).into_iter().partition::<VecDeque<_>, _>(
                    |letter| first == Some((letter.sent.to, letter.sent.epoch)),
                );
            state.queue = rest;
            for letter in mine {
                if letters.len() == BATCH {
                    state.queue.push_back(letter);
                    continue;
                }
                let Letter { number, bytes, sent } = letter;
                let key = self.ask_key(sent.to, sent.epoch, number);
                let mut value = self.shared.lease_id.0.to_le_bytes().to_vec();
                value.extend(bytes);
                let lease = Some(self.shared.lease_id);
                letters.push((key.clone(), Change::Put { key, value, lease }));
                // Before it is in the store: its answer may be there at once.
                state.sent.insert(number, sent);
            }
        }
        let stale = state.stale.iter().take(2 * BATCH).cloned().collect::<Vec<_>>();
        stale.iter().for_each(|key| _ = state.stale.remove(key));
        (letters, stale)
    }

    /// Puts the letters, which are all for the same node, as long as one of them is waited for.
    fn put(&self, letters: &[(String, Change)]) {
        let Shared { store, limit, .. } = &*self.shared;
        let changes: Vec<_> = letters.iter().map(|(_, change)| change.clone()).collect();
        let numbers = letters.iter().filter_map(|(key, _)| number_of(key));
        let numbers: Vec<u64> = numbers.collect();
        let Some((to, epoch)) = numbers
            .iter()
            .find_map(|number| self.state().sent.get(number).map(|sent| (sent.to, sent.epoch)))
        else {
            return;
        };
        loop {
            let compares = [self.shared.alive(), self.shared.keys.is_alive(to, epoch)];
            let error = match store.commit(&compares, &changes, *limit) {
                Ok(Some(_)) => return,
                Ok(None) => match self.shared.read_view() {
                    Ok(view) if self.shared.has_ended(&view) => self.shared.found_ended(),
                    Ok(_) => MembershipError::NotThere { node: to, epoch },
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let wanted = numbers.iter().any(|number| self.state().sent.contains_key(number));
            if error.is_passing() && wanted && !self.is_over() {
                self.trouble(&error);
                continue;
            }
            for number in numbers {
                let sent = self.state().sent.remove(&number);
                if let Some(sent) = sent {
                    (sent.answer)(Err(error.clone()));
                }
            }
            return;
        }
    }

    fn ask_key(&self, to: NodeName, epoch: u64, number: u64) -> String {
        let me = &self.shared.me;
        format!("{}ask/{}@{}/{number:016x}", self.shared.keys.mail(to, epoch), me.node, me.epoch)
    }

    // ---- mail-in ---------------------------------------------------------------------------------------

    /// Looks what has come.
    fn look(&self) {
        let Shared { store, keys, me, limit, .. } = &*self.shared;
        let prefix = keys.mail(me.node, me.epoch);
        // The highest number of each sender that was taken.
        let mut seen = BTreeMap::new();
        while !self.is_over() && self.shared.check().is_ok() {
            let looked = store.range(&prefix, *limit).and_then(|snapshot| {
                self.sort(&prefix, &snapshot, &mut seen);
                self.give_up();
                store.wait(&prefix, snapshot.revision, LOOK)
            });
            if let Err(error) = looked {
                self.give_up();
                self.trouble(&error);
            }
        }
        self.end();
    }

    /// Hands out answers, and letters to the thread that handles them.
    fn sort(&self, prefix: &str, snapshot: &Snapshot, seen: &mut BTreeMap<(NodeName, u64), u64>) {
        let mut answers = Vec::new();
        let mut state = self.state();
        for entry in &snapshot.entries {
            let Some(rest) = entry.key.strip_prefix(prefix) else { continue };
            let number = number_of(rest);
            if rest.starts_with("answer/") {
                state.stale.insert(entry.key.clone());
                if let Some(sent) = number.and_then(|number| state.sent.remove(&number)) {
                    answers.push((sent.answer, entry.value.clone()));
                }
                continue;
            }
            let asked = number.and_then(|number| asked(rest, number, entry));
            let Some(asked) = asked else {
                tracing::warn!(key = entry.key, "a letter that is not understood");
                state.stale.insert(entry.key.clone());
                continue;
            };
            let last = seen.entry((asked.from, asked.epoch)).or_insert(0);
            if asked.number > *last {
                *last = asked.number;
                state.working.insert(asked.key.clone());
                state.asked.push_back(asked);
            } else if !state.working.contains(&asked.key) {
                // It was put a second time, because an answer of the store was lost.
                state.stale.insert(asked.key);
            }
        }
        drop(state);
        self.changed.notify_all();
        for (answer, bytes) in answers {
            answer(Ok(bytes));
        }
        let view = self.shared.board.view();
        seen.retain(|(node, epoch), _| !is_gone(&view, *node, *epoch));
    }

    /// Gives up letters whose time is over, and those for nodes that are gone.
    fn give_up(&self) {
        let view = self.shared.board.view();
        let mut over = Vec::new();
        let mut state = self.state();
        let why = |sent: &Sent| {
            if is_gone(&view, sent.to, sent.epoch) {
                return Some(MembershipError::NotThere { node: sent.to, epoch: sent.epoch });
            }
            sent.deadline.left().is_none().then(|| late(sent.deadline.limit, sent.to))
        };
        let late = state.sent.iter().filter_map(|(number, sent)| Some((*number, why(sent)?)));
        for (number, error) in late.collect::<Vec<_>>() {
            if let Some(sent) = state.sent.remove(&number) {
                let key = self.ask_key(sent.to, sent.epoch, number);
                state.stale.insert(key);
                over.push((sent.answer, error));
            }
        }
        let (late, queue) = std::mem::take(&mut state.queue)
            .into_iter()
            .partition::<VecDeque<_>, _>(|letter| why(&letter.sent).is_some());
        state.queue = queue;
        over.extend(late.into_iter().filter_map(|letter| {
            let error = why(&letter.sent)?;
            Some((letter.sent.answer, error))
        }));
        drop(state);
        over.into_iter().for_each(|(answer, error)| answer(Err(error)));
    }

    /// Nothing comes any more.
    fn end(&self) {
        let error = self.shared.check().err().unwrap_or(MembershipError::Left);
        let mut state = self.state();
        state.stopped = true;
        let queued = std::mem::take(&mut state.queue).into_iter().map(|letter| letter.sent);
        let all: Vec<_> = queued.chain(std::mem::take(&mut state.sent).into_values()).collect();
        drop(state);
        self.changed.notify_all();
        all.into_iter().for_each(|sent| (sent.answer)(Err(error.clone())));
    }

    // ---- mail-handler ----------------------------------------------------------------------------------

    /// Answers letters of others.
    fn handle(&self, mut handler: Handler) {
        while !self.is_over() {
            let asked = self.next_asked();
            // Answers hang on the lease of whoever asked.
            let mut answers: BTreeMap<LeaseId, Vec<(String, Change)>> = BTreeMap::new();
            for Asked { key, from, epoch, number, lease, bytes } in asked {
                let mut value = handler(from, epoch, &bytes);
                if let Err(error) = short("an answer", &value) {
                    tracing::warn!(%error, "a letter is answered with nothing");
                    value.clear();
                }
                let to = self.shared.keys.mail(from, epoch);
                let answer = format!("{to}answer/{number:016x}");
                let put = Change::Put { key: answer, value, lease: Some(lease) };
                answers.entry(lease).or_default().push((key, put));
            }
            answers.into_values().for_each(|answers| self.answer(answers));
        }
    }

    fn next_asked(&self) -> Vec<Asked> {
        let nothing = |state: &mut State| state.asked.is_empty() && !state.stopped;
        let state = self.changed.wait_timeout_while(self.state(), LOOK, nothing);
        let mut state = state.unwrap_or_else(PoisonError::into_inner).0;
        let count = state.asked.len().min(BATCH);
        state.asked.drain(..count).collect()
    }

    /// Puts answers for one node, in the place of its letters.
    fn answer(&self, answers: Vec<(String, Change)>) {
        let Shared { store, limit, .. } = &*self.shared;
        let (keys, puts): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
        let deletes = keys.iter().cloned().map(Change::Delete);
        let changes: Vec<_> = puts.into_iter().chain(deletes).collect();
        let deadline = Deadline::after(*limit);
        while let Some(left) = deadline.left() {
            match store.commit(&[self.shared.alive()], &changes, left) {
                Err(error) if error.is_passing() && !self.is_over() => self.trouble(&error),
                // Whoever asked is gone, or this node is: nobody waits.
                Err(error) => {
                    tracing::debug!(%error, "an answer is not wanted any more");
                    break;
                }
                Ok(_) => break,
            }
        }
        let mut state = self.state();
        keys.iter().for_each(|key| _ = state.working.remove(key));
    }
}

fn short(what: &str, letter: &[u8]) -> Result<(), MembershipError> {
    match letter.len() {
        0..=LETTER_MAX => Ok(()),
        len => Err(MembershipError::TooLong { what: what.to_owned(), len, max: LETTER_MAX }),
    }
}

fn late(limit: Duration, to: NodeName) -> MembershipError {
    let what = format!("an answer of {to}");
    MembershipError::Deadline { what, limit, trouble: String::new() }
}

/// Whether the node has left or died since that epoch.
fn is_gone(view: &View, node: NodeName, epoch: u64) -> bool {
    view.get(node).is_some_and(|member| {
        member.epoch > epoch || member.epoch == epoch && member.state != MemberState::Joined
    })
}

/// The number at the end of a key.
fn number_of(key: &str) -> Option<u64> {
    u64::from_str_radix(key.rsplit_once('/')?.1, 16).ok()
}

/// The letter that an entry holds, whose key ends so.
fn asked(rest: &str, number: u64, entry: &crate::store::Entry) -> Option<Asked> {
    let (from, _) = rest.strip_prefix("ask/")?.split_once('/')?;
    let (from, epoch) = from.split_once('@')?;
    let (lease, bytes) = entry.value.split_first_chunk()?;
    Some(Asked {
        key: entry.key.clone(),
        from: from.parse().ok()?,
        epoch: epoch.parse().ok()?,
        number,
        lease: LeaseId(u64::from_le_bytes(*lease)),
        bytes: bytes.to_vec(),
    })
}
