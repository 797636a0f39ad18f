//! [`ControlMessages`]: the control messages of a node. A control message carries bytes from one
//! node to another through the store. The answer comes back through the store too.
//!
//! ```text
//!   node C1 (epoch 7)                        store, below mail/C2@9/                   node C2 (epoch 9)
//!   send ─► queue ─ mail-out ── put ──────►  ask/C1@7/0001  ─────── mail-in looks ──► mail-handler: the closure
//!                                            (on C1's lease)                              │
//!   answer ◄──────── mail-in looks ───────── mail/C1@7/answer/0001 ◄── put, and ask deleted ┘
//! ```
//!
//! Nodes use control messages before they have a faster connection, for example to exchange the
//! data that sets up an RDMA connection. Every node already has access to the store. So control
//! messages need no second network service, and no access control beside that of the store.
//!
//! - A control message is for one node at one member epoch. A later holder of the id never sees the
//!   message.
//! - A control message and its answer are attached to the sender's lease. So the store deletes both
//!   when the sender dies. A node that finds a useless key deletes the key.
//! - The receiver handles a control message at most once: it takes the messages of one sender in
//!   the order of their numbers, and each number once.
//! - At most 256 control messages of one node wait for an answer. The others wait in the node's
//!   queue, which is bounded too.
//! - The closure runs on its own thread. A slow closure delays neither the renewal of leases nor
//!   the arrival of answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use latchwork_runtime::sync::{Arc, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::error::MembershipError;
use crate::keeper::Watch;
use crate::membership::Membership;
use crate::name::NodeName;
use crate::shared::Shared;
use crate::store::{KeyChange, LeaseId, Snapshot, VALUE_MAX};
use crate::time::Deadline;
use crate::view::{MemberState, View};

/// The longest control message and the longest answer, in bytes.
pub const CONTROL_MESSAGE_MAX: usize = 64 << 10;

/// The most control messages of one node that wait for an answer at a time.
const OUTSTANDING_MAX: usize = 256;
/// The most control messages that wait in a node's queue.
const QUEUE_MAX: usize = 4096;
/// The most control messages in one transaction. A store may bound the changes of a transaction;
/// etcd's default bound is 128.
const BATCH: usize = 32;
/// The interval at which a waiting thread checks deadlines, and whether its node still runs.
const LOOK: Duration = Duration::from_millis(100);
/// The time that a thread waits after an error of the store, before it tries again.
const RETRY: Duration = Duration::from_millis(50);
const _: () = assert!(
    CONTROL_MESSAGE_MAX <= VALUE_MAX && BATCH <= OUTSTANDING_MAX && OUTSTANDING_MAX <= QUEUE_MAX
);
const _: () = assert!(!RETRY.is_zero() && !LOOK.is_zero(), "the mail spins");

/// Handles a control message. The arguments are the sender, its member epoch and the bytes. The
/// result is the answer.
pub type Handler = Box<dyn FnMut(NodeName, u64, &[u8]) -> Vec<u8> + Send>;

/// Takes the answer to a control message, at most once. The call comes from a thread of this node,
/// or from the sender's thread when the send fails at once.
pub type Replier = Box<dyn FnOnce(Result<Vec<u8>, MembershipError>) + Send>;

/// The control messages of one node; copies belong to the same node. Dropping the last copy ends
/// the threads. After the drop, this node sends and answers no control message.
#[derive(Clone)]
pub struct ControlMessages(Arc<Handle>);

struct Handle(Arc<Office>);

struct Office {
    shared: Arc<Shared>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Messages that are not in the store yet.
    queue: VecDeque<Letter>,
    /// Messages that may be in the store, by number.
    sent: BTreeMap<u64, Sent>,
    /// Keys to delete.
    stale: BTreeSet<String>,
    /// Messages of other nodes that are not handled yet.
    asked: VecDeque<Asked>,
    /// The keys of the messages in `asked`, and of the messages that the handler has taken.
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
    answer: Replier,
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
    /// Starts the control messages of this node. The node can then send, and `handler` answers the
    /// messages of other nodes. A second call for the same node fails.
    ///
    /// # Errors
    /// [`MembershipError::ControlHandlerTwice`], [`MembershipError::Thread`].
    pub fn messages(&self, handler: Handler) -> Result<ControlMessages, MembershipError> {
        let shared = self.shared_arc();
        if shared.has_messages.swap(true, Ordering::Relaxed) {
            return Err(MembershipError::ControlHandlerTwice);
        }
        let (state, changed) = (Mutex::default(), Condvar::new());
        let mail = ControlMessages(Arc::new(Handle(Arc::new(Office { shared, state, changed }))));
        mail.spawn("mail-in", |office| office.look())?;
        mail.spawn("mail-out", |office| office.dispatch())?;
        mail.spawn("mail-handler", |office| office.handle(handler))?;
        Ok(mail)
    }
}

impl ControlMessages {
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

    /// Sends a control message of at most [`CONTROL_MESSAGE_MAX`] bytes to the node that joined at
    /// `epoch`. The call does not wait. `answer` gets the handler's answer, or the reason why no
    /// answer came within `limit`. `answer` runs on a thread that serves all control messages, so
    /// it must be short.
    pub fn send(
        &self,
        to: NodeName,
        epoch: u64,
        letter: Vec<u8>,
        limit: Duration,
        answer: Replier,
    ) {
        let office = &self.0.0;
        if let Err(error) = office.shared.check().and_then(|()| short("a letter", &letter)) {
            return answer(Err(error));
        }
        let sent = Sent { to, epoch, deadline: Deadline::after(limit), answer };
        let mut state = office.state();
        if state.queue.len() >= QUEUE_MAX {
            drop(state);
            return (sent.answer)(Err(MembershipError::ControlQueueFull { max: QUEUE_MAX }));
        }
        // The number is taken under the lock, so the queue has the messages in the order of their
        // numbers.
        let number = office.shared.letters.fetch_add(1, Ordering::Relaxed) + 1;
        strict_assert!(number > 0, "letters are numbered from one");
        state.queue.push_back(Letter { number, bytes: letter, sent });
        strict_assert!(state.queue.len() <= QUEUE_MAX, "more letters wait than the bound");
        strict_assert!(
            state
                .queue
                .iter()
                .filter(|letter| (letter.sent.to, letter.sent.epoch) == (to, epoch))
                .is_sorted_by_key(|letter| letter.number),
            "messages to one node are sent in another order"
        );
        drop(state);
        office.changed.notify_all();
    }

    /// Sends like [`ControlMessages::send`], and waits for the answer.
    ///
    /// # Errors
    /// [`MembershipError::NotThere`] when the node has left or died; [`MembershipError::Deadline`];
    /// [`MembershipError::TooLong`]; [`MembershipError::ControlQueueFull`];
    /// [`MembershipError::LeaseEnded`] and [`MembershipError::Left`] of this node; an error of the
    /// store.
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
        // `mail-in` checks deadlines only every [`LOOK`], so this wait is a little longer than
        // `limit`.
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
    // A panic cannot leave the data under the lock half changed.
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

    // ---- mail-out -------------------------------------------------------------------------------

    /// Puts messages into the store, and deletes useless keys.
    fn dispatch(&self) {
        while !self.is_over() {
            let (letters, stale) = self.next_out();
            if !letters.is_empty() {
                self.put(&letters);
            }
            if !stale.is_empty() {
                let deletes: Vec<_> = stale.into_iter().map(KeyChange::Delete).collect();
                let Shared { store, limit, .. } = &*self.shared;
                if let Err(error) = store.commit(&[self.shared.alive()], &deletes, *limit) {
                    // The store deletes the keys at the latest when their lease ends.
                    tracing::debug!(%error, "old letters stay");
                }
            }
        }
    }

    /// Takes messages for one node, and keys to delete. Waits up to [`LOOK`] until there are any.
    /// The taken messages count as sent from here on.
    fn next_out(&self) -> (Vec<(String, KeyChange)>, Vec<String>) {
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
                letters.push((key.clone(), KeyChange::Put { key, value, lease }));
                // The message counts as sent before the store has it, because the answer may arrive
                // at once.
                state.sent.insert(number, sent);
            }
        }
        let stale = state.stale.iter().take(2 * BATCH).cloned().collect::<Vec<_>>();
        stale.iter().for_each(|key| _ = state.stale.remove(key));
        (letters, stale)
    }

    /// Puts the messages, which are all for one node. After an error that may pass, the call
    /// retries while a caller still waits for an answer to one of the messages.
    fn put(&self, letters: &[(String, KeyChange)]) {
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
        format!(
            "{}ask/{}@{}/{number:016x}",
            self.shared.keys.messages(to, epoch),
            me.node,
            me.epoch
        )
    }

    // ---- mail-in --------------------------------------------------------------------------------

    /// Reads new messages and answers from the store, and gives up old ones.
    fn look(&self) {
        let Shared { store, keys, me, limit, .. } = &*self.shared;
        let prefix = keys.messages(me.node, me.epoch);
        // The highest number that this node has taken from each sender.
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

    /// Delivers answers, and queues messages for the handler thread.
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
                // This node has handled the message. The sender put it a second time, because an
                // answer of the store was lost. Or this node could not put its own answer in time.
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

    /// Ends the wait for messages after their deadlines, and for messages to nodes that have left,
    /// have died or have a successor.
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
        strict_assert!(state.queue.len() <= QUEUE_MAX);
        over.extend(late.into_iter().filter_map(|letter| {
            let error = why(&letter.sent)?;
            Some((letter.sent.answer, error))
        }));
        drop(state);
        over.into_iter().for_each(|(answer, error)| answer(Err(error)));
    }

    /// Fails all messages of this node, because no answer can arrive any more.
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

    // ---- mail-handler ---------------------------------------------------------------------------

    /// Answers messages of other nodes.
    fn handle(&self, mut handler: Handler) {
        while !self.is_over() {
            let asked = self.next_asked();
            // An answer is attached to the lease of the node that sent the message.
            let mut answers: BTreeMap<LeaseId, Vec<(String, KeyChange)>> = BTreeMap::new();
            for Asked { key, from, epoch, number, lease, bytes } in asked {
                let mut value = handler(from, epoch, &bytes);
                if let Err(error) = short("an answer", &value) {
                    tracing::warn!(%error, "a letter is answered with nothing");
                    value.clear();
                }
                let to = self.shared.keys.messages(from, epoch);
                strict_assert!(
                    value.len() <= CONTROL_MESSAGE_MAX,
                    "an answer is longer than a letter may be"
                );
                let answer = format!("{to}answer/{number:016x}");
                let put = KeyChange::Put { key: answer, value, lease: Some(lease) };
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
        strict_assert!(count <= BATCH);
        state.asked.drain(..count).collect()
    }

    /// Puts answers for one node. The same transaction deletes the answered messages.
    fn answer(&self, answers: Vec<(String, KeyChange)>) {
        let Shared { store, limit, .. } = &*self.shared;
        let (keys, puts): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
        strict_assert_eq!(keys.len(), puts.len());
        let deletes = keys.iter().cloned().map(KeyChange::Delete);
        let changes: Vec<_> = puts.into_iter().chain(deletes).collect();
        strict_assert_eq!(changes.len(), 2 * keys.len(), "every answer takes its letter away");
        let deadline = Deadline::after(*limit);
        while let Some(left) = deadline.left() {
            match store.commit(&[self.shared.alive()], &changes, left) {
                Err(error) if error.is_passing() && !self.is_over() => self.trouble(&error),
                // Usually the sender of the message has left or died, or this node has. Then no
                // node waits for the answer.
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
        0..=CONTROL_MESSAGE_MAX => Ok(()),
        len => {
            Err(MembershipError::TooLong { what: what.to_owned(), len, max: CONTROL_MESSAGE_MAX })
        }
    }
}

fn late(limit: Duration, to: NodeName) -> MembershipError {
    let what = format!("an answer of {to}");
    MembershipError::Deadline { what, limit, trouble: String::new() }
}

/// Whether the holder at that member epoch has left or died, or its id has a later holder.
fn is_gone(view: &View, node: NodeName, epoch: u64) -> bool {
    view.get(node).is_some_and(|member| {
        member.epoch > epoch || member.epoch == epoch && member.state != MemberState::Joined
    })
}

/// The number at the end of a key.
fn number_of(key: &str) -> Option<u64> {
    u64::from_str_radix(key.rsplit_once('/')?.1, 16).ok()
}

/// The message in an entry. `rest` is the end of the entry's key.
fn asked(rest: &str, number: u64, entry: &crate::store::StoreEntry) -> Option<Asked> {
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
