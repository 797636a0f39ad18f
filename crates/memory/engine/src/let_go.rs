//! The steps of the [rounds](crate::rounds) by which a node lets go of dead nodes.

use latchwork_runtime::sync::Ordering;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Inbox as _};

use crate::gone::bit;
use crate::inner::Inner;
use crate::lines::Node;
use crate::messages::Sent;
use crate::protocol::{CoherenceProtocol, LineSite};
use crate::rounds::Task;

/// The most calls in which one sweep empties the inbox.
const DRAIN_MAX: usize = 1000;

/// The steps, for the code that recovers a dead node. One step runs at a time.
impl Node {
    /// Whether the node takes the steps: its protocol recovers lines from dead nodes.
    pub fn survives(&self) -> bool {
        self.lines.survives()
    }

    /// Begins to let go of `dead`, which is fenced here and was [missed](crate::NodeCore::miss).
    pub fn let_go(&self, dead: ComputeNodeId) {
        if self.core.rounds.open.fetch_or(bit(dead), Ordering::Relaxed) & bit(dead) == 0 {
            self.begin(Task::LetGo);
        }
    }

    /// Begins to handle all messages that have arrived.
    pub fn drain(&self) {
        self.begin(Task::Drain);
    }

    /// Begins to close `dead`: the line machines resolve what they wait for. Does nothing when
    /// `dead` is closed: what the lines wait for since then has an answer.
    pub fn close(&self, dead: ComputeNodeId) {
        if self.core.rounds.open.load(Ordering::Relaxed) & bit(dead) != 0 {
            self.begin(Task::Close(bit(dead)));
        }
    }

    /// From now on workers that meet one of these dead nodes in the word of a line for which an
    /// access waits take it out of the word, and no other node. To be called when all nodes have
    /// closed these, until one of them begins to [clear](Node::stop_mending).
    pub fn let_mend(&self, dead: impl IntoIterator<Item = ComputeNodeId>) {
        let dead = dead.into_iter().fold(0, |bits, dead| bits | bit(dead));
        self.core.rounds.set_mendable(|_| dead);
    }

    /// Workers do not take `dead` out of words any more. What they have begun may go on while
    /// [`is_mending`](Node::is_mending).
    pub fn stop_mending(&self, dead: ComputeNodeId) {
        self.core.rounds.set_mendable(|bits| bits & !bit(dead));
    }

    /// Whether a worker takes a dead node out of a word.
    pub fn is_mending(&self) -> bool {
        self.core.rounds.is_mending()
    }

    fn begin(&self, task: Task) {
        self.core.rounds.begin(task);
        self.core.wake_handler();
    }

    /// Whether workers have done all tasks, and all messages from before have arrived.
    pub fn is_step_over(&self) -> bool {
        self.core.rounds.tasks.lock().is_empty() && self.core.rounds.is_marked()
    }

    /// Makes the step last until the messages of this moment have arrived, too.
    pub fn prolong_step(&self) {
        self.core.rounds.advance();
        self.core.wake_handler();
    }

    /// Whether a forward to a living node is in flight whose receiver is not settled.
    pub fn gives(&self) -> bool {
        self.lines.gives()
    }

    /// Whether all lines have resolved what they waited for at the [close](Node::close) of `dead`:
    /// none depends on it any more, and no operation in flight names it. A line that depends on
    /// another node later does not count.
    pub fn has_claimed(&self, dead: ComputeNodeId) -> bool {
        let mut unclear = self.core.rounds.unclear.lock();
        unclear.retain(|line| !self.lines.is_clear_of(*line, dead));
        unclear.is_empty()
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// Takes part in a step of a round. Called on every sweep, after the messages.
    #[inline]
    pub(crate) fn see_to_rounds(&self) -> bool {
        let number = self.node_core.rounds.number();
        number != self.core.marked.get() && self.take_part(number)
    }

    #[cold]
    fn take_part(&self, number: u64) -> bool {
        let rounds = &self.node_core.rounds;
        // The lock is held until the task is done: only then the step has no task.
        let mut tasks = rounds.tasks.lock();
        let is_done = match tasks.front().copied() {
            None => false,
            Some(Task::LetGo) => {
                self.let_all_go();
                true
            }
            Some(Task::Drain) => {
                let receive = || self.inbox.receive(&mut |message| self.received(&message));
                (0..DRAIN_MAX).any(|_| !receive())
            }
            Some(Task::Close(dead)) => {
                let mut unclear = rounds.unclear.lock();
                self.with_all(|site| {
                    self.node.protocol.lost(site);
                    unclear.push(site.addr);
                });
                drop(unclear);
                // The node asks again when no other round is open.
                rounds.open.fetch_and(!dead, Ordering::Relaxed);
                true
            }
        };
        if is_done {
            tasks.pop_front();
            // Workers may have marked the number already, before the task was done.
            rounds.advance();
        }
        drop(tasks);
        let is_old = |sent: &Sent| sent.round < number;
        let sends = self.core.letters.borrow().iter().any(|(_, sent)| is_old(sent));
        if !sends && !self.node.protocol.has_older(&self.in_flight, number) {
            self.core.marked.set(number);
            self.core.mark.set(number);
        }
        is_done
    }

    fn let_all_go(&self) {
        let gone = &self.node_core.gone;
        self.with_all(|site| {
            let probes = site.local.probes.len();
            site.local.probes.retain(|probe| !gone.contains(probe.sent.to));
            if site.local.probes.len() < probes {
                self.node.protocol.probed(site);
            }
            self.node.protocol.let_go(site);
        });
    }

    /// Takes a step of each line with a record.
    fn with_all(&self, mut step: impl FnMut(&mut LineSite<'_, P>)) {
        for shard in self.node.records.shards() {
            let mut records = shard.lock();
            let mut lines: Vec<GlobalAddr> = records.keys().copied().collect();
            lines.sort_unstable();
            for addr in lines {
                if let Some(record) = records.get_mut(&addr) {
                    step(&mut self.site(addr, record));
                }
                self.finish(&mut records, addr);
            }
        }
    }
}
