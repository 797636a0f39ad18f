//! The steps of the recovery from the death of a compute node. The steps are the same in clusters
//! of processes and in simulated clusters.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use latchwork_engine::Node;
use latchwork_fabric::Port;
use latchwork_latch::LatchWord;
use latchwork_memnode::{Pool, PoolError, free_chunks, journal};
use latchwork_peers::RecoveryStep;
use latchwork_runtime::{Handle, Time};
use latchwork_selcc::{mend, roll_forward};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId, VerbError, WORD};

/// The time limit of one attempt to sweep.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time limit of one attempt at any other step.
const SHORT: Duration = Duration::from_secs(1);

/// How long an attempt waits for lines to claim. A line that depends on two dead nodes may wait for
/// the other one to be closed, which this node does after the attempt.
const CLAIMS: Duration = Duration::from_millis(20);

/// The interval between two checks whether a step is over.
const LOOK: Duration = Duration::from_micros(20);

/// The longest such interval.
const LOOK_MAX: Duration = Duration::from_millis(1);

/// A sweep of the latch words.
#[derive(Clone, Copy)]
struct Sweep<'a> {
    dead: ComputeNodeId,
    /// Whether words are mended by compare-and-swap; see the setting `mends_by_swap`.
    swaps: bool,
    swept: &'a Swept,
}

/// The verbs that a sweep has in flight, together and on one memory node.
const LANES: usize = 64;
const LANES_EACH: usize = 16;

/// The latch words that a sweep reads at once: 4 KiB, a transfer of the control plane.
const PIECE: u32 = 512;

/// The latch words that sweeps of this node have changed.
#[derive(Default)]
pub(crate) struct Swept {
    /// Those that named the dead node.
    pub(crate) released: Cell<u64>,
    /// Those that named it as the holder.
    pub(crate) reverted: Cell<u64>,
}

impl Swept {
    fn count(&self, word: LatchWord, dead: ComputeNodeId) {
        self.released.set(self.released.get() + 1);
        self.reverted.set(self.reverted.get() + u64::from(word.exclusive() == Some(dead)));
    }
}

/// Takes one step as the node `node`, and counts the words of a sweep in `swept`. The executor of
/// `handle` must poll `port`. Returns whether the step is over. A failed attempt can be repeated.
///
/// A step may have to wait for a node that has died meanwhile. So an attempt also ends when
/// `goes_on` returns false: there is another death, whose recovery comes first.
pub(crate) async fn take(
    step: RecoveryStep,
    node: &Node,
    (port, handle): (&Port, &Handle),
    dead: ComputeNodeId,
    swept: &Swept,
    goes_on: &dyn Fn() -> bool,
) -> bool {
    let limit = if step == RecoveryStep::Sweep { PATIENCE } else { SHORT };
    let deadline = handle.now() + limit;
    let wait = Wait { handle, deadline, goes_on };
    // No node changes a word that names the dead node before all have done this.
    let roll = async || {
        let all = each(node, |pool, memory| roll_forward(port, pool, memory, dead));
        matches!(handle.timeout(deadline, all).await, Ok(Ok(())))
    };
    let close = async || {
        node.close(dead);
        if !comes(wait, || node.is_step_over()).await {
            return false;
        }
        let claims = Wait { deadline: deadline.min(handle.now() + CLAIMS), ..wait };
        comes(claims, || node.has_claimed(dead)).await
    };
    let waits = node.settings().waits_twice;
    match step {
        RecoveryStep::LetGo => {
            node.let_go(dead);
            (waits || roll().await) && is_settled(node, wait).await
        }
        RecoveryStep::Drain if !waits => close().await,
        RecoveryStep::Drain => {
            node.drain();
            is_settled(node, wait).await && roll().await
        }
        RecoveryStep::Close => {
            // All answers that living nodes have sent before they drained are handled first.
            node.drain();
            comes(wait, || node.is_step_over()).await && close().await
        }
        RecoveryStep::Sweep => {
            let pool = node.allocator().pool();
            let sweep = async {
                let swaps = node.settings().mends_by_swap;
                sweep(port, pool, Sweep { dead, swaps, swept }).await?;
                each(node, |pool, memory| journal::forget(port, pool, memory, dead)).await?;
                each(node, |pool, memory| free_chunks(port, pool, memory, dead)).await
            };
            matches!(handle.timeout(deadline, sweep).await, Ok(Ok(())))
        }
        RecoveryStep::Clear => {
            // The rests of the dead node's chunks are free.
            node.allocator().look_again();
            node.stop_mending(dead);
            node.prolong_step();
            comes(wait, || node.is_step_over() && !node.is_mending()).await
        }
    }
}

/// Does something for each memory node of the pool.
async fn each<'a, T, F: Future<Output = Result<T, PoolError>>>(
    node: &'a Node,
    body: impl Fn(&'a Pool, MemoryNodeId) -> F,
) -> Result<(), PoolError> {
    let pool = node.allocator().pool();
    for memory in (0..pool.memory_nodes() as u16).map(MemoryNodeId) {
        body(pool, memory).await?;
    }
    Ok(())
}

/// Waits until the present step is over, no forward is in flight, and all messages that the node
/// has sent until then have arrived.
async fn is_settled(node: &Node, wait: Wait<'_>) -> bool {
    if !comes(wait, || node.is_step_over() && !node.gives()).await {
        return false;
    }
    node.prolong_step();
    comes(wait, || node.is_step_over()).await
}

/// How long an attempt waits.
#[derive(Clone, Copy)]
struct Wait<'a> {
    handle: &'a Handle,
    deadline: Time,
    goes_on: &'a dyn Fn() -> bool,
}

/// Waits until the condition holds, or the attempt ends. Returns whether it holds.
async fn comes(wait: Wait<'_>, mut holds: impl FnMut() -> bool) -> bool {
    let mut pause = LOOK;
    while !holds() {
        if wait.handle.now() >= wait.deadline || !(wait.goes_on)() {
            return false;
        }
        wait.handle.sleep(pause).await;
        pause = (pause * 2).min(LOOK_MAX);
    }
    true
}

/// Takes the dead node out of all latch words of the pool. All living nodes have closed.
///
/// Several lanes for each memory node take the pieces of its latch tables, one after the other. A
/// lane has one verb in flight.
async fn sweep(port: &Port, pool: &Pool, of: Sweep<'_>) -> Result<(), VerbError> {
    let memory_nodes = pool.memory_nodes();
    let each = (LANES / memory_nodes.max(1)).clamp(1, LANES_EACH);
    let words = pool.geometry().lines_per_chunk();
    let of_chunk = words.div_ceil(PIECE);
    // By memory node: the number of the next piece.
    let next: Vec<Cell<u64>> = (0..memory_nodes).map(|_| Cell::new(0)).collect();
    let lane = |memory: usize| {
        let (id, next) = (MemoryNodeId(memory as u16), &next[memory]);
        async move {
            loop {
                let piece = next.replace(next.get() + 1);
                let chunk = (piece / u64::from(of_chunk)) as u32;
                if chunk >= pool.chunks(id) {
                    return Ok(());
                }
                let first = (piece % u64::from(of_chunk)) as u32 * PIECE;
                let chunk = pool.geometry().chunk_addr(id, chunk);
                let at = GlobalAddr::from_bits(chunk.bits() + u64::from(first) * WORD as u64);
                sweep_piece(port, at, PIECE.min(words - first) as usize, of).await?;
            }
        }
    };
    all((0..memory_nodes * each).map(|at| lane(at % memory_nodes))).await
}

/// Runs all futures, until all have ended or one has failed.
async fn all<E, F: Future<Output = Result<(), E>>>(
    futures: impl Iterator<Item = F>,
) -> Result<(), E> {
    let mut open: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        let mut failed = None;
        open.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(end) => {
                failed = failed.take().or(end.err());
                false
            }
            Poll::Pending => true,
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if open.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

async fn sweep_piece(
    port: &Port,
    first: GlobalAddr,
    count: usize,
    of: Sweep<'_>,
) -> Result<(), VerbError> {
    let words = port.read_words(first, count).await?;
    for (at, word) in words.into_iter().enumerate() {
        let addr = GlobalAddr::from_bits(first.bits() + (at * WORD) as u64);
        let word = LatchWord::from_bits(word);
        match word.without(of.dead) {
            Some(mended) if !of.swaps => {
                let change = mended.bits().wrapping_sub(word.bits());
                port.fetch_add(addr, change).await?;
            }
            _ => {
                if let Some(named) = mend(port, addr, word, of.dead).await? {
                    of.swept.count(named, of.dead);
                }
            }
        }
    }
    Ok(())
}
