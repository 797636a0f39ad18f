//! [`Claims`]: the claim of whole chunks of the pool by one-sided verbs, and their return.

use std::collections::BTreeMap;

use latchwork_fabric::Port;
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId};

use crate::again::repeatedly;
use crate::{Pool, PoolError, layout};

/// The number of owner words that one verb reads.
const WINDOW: u32 = 64;

/// The number of latch words that one verb reads.
const LATCHES: u32 = 512;

/// In place of a compute node's id: the chunk has no owner, and its first lines are in use.
const REST: u64 = 63;
const _: () = assert!(
    REST > ComputeNodeId::MAX as u64 && REST < 1 << 8,
    "the mark of a rest is no node's id"
);
const _: () = assert!(WINDOW > 0 && LATCHES > 0, "a verb reads one word at least");

/// A chunk, or the rest of one: its lines from index `next` on. The node may allocate the lines
/// before `marked`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fresh {
    pub(crate) chunk: GlobalAddr,
    pub(crate) next: u32,
    pub(crate) marked: u32,
}

impl Fresh {
    /// Whether the next line is before the mark.
    pub(crate) fn is_marked(&self) -> bool {
        self.next < self.marked
    }
}

/// The lowest bit of the mark in an owner word.
const MARK_SHIFT: u32 = 44;
/// The bits of the mark.
const MARK: u64 = 0xfff << MARK_SHIFT;
/// The least number of lines by which a mark advances.
const GROUP: u32 = 64;
const _: () = assert!(MARK >> 56 == 0 && MARK << 8 >> 52 == 0xfff, "the mark is below the id");

/// The number of lines by which the mark of a chunk of `lines` lines advances.
fn group(lines: u32) -> u32 {
    GROUP.max(lines.div_ceil((MARK >> MARK_SHIFT) as u32))
}

/// The first line behind the mark in an owner word with an owner.
fn marked(owner: u64, lines: u32) -> u32 {
    match ((owner & MARK) >> MARK_SHIFT) as u32 {
        0 => lines,
        groups => (groups * group(lines)).min(lines),
    }
}

/// A chunk of this node.
#[derive(Clone, Copy, Debug)]
struct Owned {
    /// The owner word. The word in memory may have a later mark.
    word: u64,
    /// The first line that was free when the node claimed the chunk. The lines before it are other
    /// nodes'.
    first: u32,
}

/// The chunks that had an owner, or a rest, at one time: [`ClaimedChunks::read`].
#[derive(Debug)]
pub struct ClaimedChunks(Vec<(MemoryNodeId, u32, u64)>);

impl ClaimedChunks {
    /// Reads the owner words of the pool. Journal slots do not count.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn read(port: &Port, pool: &Pool) -> Result<ClaimedChunks, PoolError> {
        let mut claimed = Vec::new();
        for id in (0..pool.memory_nodes() as u16).map(MemoryNodeId) {
            let chunks = pool.chunks(id);
            for first in (0..chunks).step_by(LATCHES as usize) {
                let count = LATCHES.min(chunks - first) as usize;
                let owners = port.read_words(layout::owner(id, first), count).await?;
                let owned =
                    (first..).zip(owners).filter(|(_, owner)| (1..=REST).contains(&(owner >> 56)));
                claimed.extend(owned.map(|(index, owner)| (id, index, owner)));
            }
        }
        Ok(ClaimedChunks(claimed))
    }

    /// Returns those of the chunks to the pool, with their contents, whose owner words are as they
    /// were read. The result is their number. For a pool of which no line is in use: no name leads
    /// to a line, all nodes that have allocated lines have left, or are dead and
    /// [recovered](crate::free_chunks), and these chunks were read before that was found out. A
    /// chunk stays if one of its latch words names a node.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn free(self, port: &Port, pool: &Pool) -> Result<u64, PoolError> {
        let mut freed = 0;
        for (id, index, owner) in self.0 {
            if is_unlatched(port, pool, (id, index), 0).await? {
                let word = layout::owner(id, index);
                let found = repeatedly(async || port.compare_swap(word, owner, 0).await).await?;
                freed += u64::from(found == owner);
            }
        }
        Ok(freed)
    }
}

/// A compute node's position in the owner tables of the memory nodes.
///
/// ```text
///  owner word     63     56 55                          0
///    free         |   0    |  0                          |
///    owned        |   id   |  mark (12) | registration   |  of compute node `id`, 1 to 58
///    a rest       |   63   |  first free line            |  the lines before it are in use
///    slots        | 128 .. |                             |  see [`crate::journal`]
/// ```
///
/// The *mark* counts groups of lines, of 64 at least. The owner allocates no line behind the mark.
/// Before it does, it moves the mark by a compare-and-swap, once for each group. So the lines
/// behind the mark of a dead node are free: [`Claims::free_rests`]. The mark 0 means all lines, and
/// costs no verb: chunks of a node without marks are lost with the node.
///
/// Another process may damage an owner word. A rest without a used or without a free line is
/// impossible: its owner word is an error once, and the chunk is not claimed.
///
/// A node claims chunk `k` of a memory node by a compare-and-swap of owner word `k`. The
/// compare-and-swap changes the word from free, or from a rest, to the tag of the node's
/// registration. On each memory node the lowest chunk goes first. A claim takes two verbs: a READ
/// of owner words and the compare-and-swap. A counter of chunks would take one verb. But a
/// fetch-and-add with a lost answer would lose a chunk, and no table would name the owners.
///
/// A claim whose future is dropped loses no chunk:
///
/// 1. The outcome for every chunk below the cursor is known. The cursor moves only with a result,
///    and without an await in between.
/// 2. A claim with a dropped future concerns the chunk at the cursor or a later chunk, whatever the
///    outcome of that claim. The next claim on that memory node tries that chunk again. If the next
///    claim finds the old word, or the tag of the node's own registration, the node owns the chunk.
///    Otherwise another node has claimed the chunk.
/// 3. The node notes the old word before it tries. If the word has the node's tag, the old word
///    shows which lines are free: no other node has changed the word in between.
/// 4. For the same reasons a claim with an ambiguous outcome can be tried again at once.
///
/// A chunk is returned by a compare-and-swap from the tag. The chunk becomes free if no line in the
/// chunk is in use. Otherwise the chunk becomes a *rest*: its lines from `next` on are free. Only
/// the owner returns a chunk, when the owner leaves and none of its claims is in flight.
#[derive(Debug)]
pub(crate) struct Claims {
    tag: u64,
    /// Whether the owner words of this node's chunks have marks.
    marks: bool,
    /// The memory node of the next claim. The claims rotate, so that the load spreads over the
    /// memory nodes.
    next: usize,
    /// The memory node of this process, where every search begins.
    own: Option<usize>,
    /// Per memory node, the first chunk that is not known to be claimed.
    cursors: Vec<u32>,
    /// The chunks of this registration, by memory node.
    owned: BTreeMap<(u16, u32), Owned>,
    /// Chunks with a claim of unknown outcome, and the owner word before that claim.
    tried: BTreeMap<(u16, u32), u64>,
}

impl Claims {
    pub(crate) fn new(
        pool: &Pool,
        node: ComputeNodeId,
        registration: u64,
        own: Option<MemoryNodeId>,
    ) -> Claims {
        let nodes = pool.memory_nodes();
        strict_assert!(
            registration < 1 << MARK_SHIFT,
            "the number of a registration does not fit beside the id"
        );
        strict_assert!(nodes > 0, "a pool has a memory node");
        Claims {
            tag: u64::from(node.get()) << 56 | registration,
            marks: false,
            next: usize::from(node.get()) % nodes,
            own: own.map(|own| usize::from(own.0)),
            cursors: vec![0; nodes],
            owned: BTreeMap::new(),
            tried: BTreeMap::new(),
        }
    }

    /// The number of chunks that this node owns.
    pub(crate) fn taken(&self) -> u64 {
        self.owned.len() as u64
    }

    /// Gives marks to the chunks that are claimed from now on.
    pub(crate) fn mark(&mut self) {
        self.marks = true;
    }

    /// The owner word of a chunk of this node whose lines from `next` on are free.
    fn word(&self, pool: &Pool, next: u32) -> u64 {
        let lines = pool.geometry().lines_per_chunk();
        let groups = u64::from(next / group(lines) + 1);
        strict_assert!(groups <= MARK >> MARK_SHIFT, "a mark behind the chunk");
        self.tag | if self.marks { groups << MARK_SHIFT } else { 0 }
    }

    /// The owner word of a chunk of this node, as far as the node knows.
    fn known(&self, node: u16, index: u32) -> u64 {
        self.owned.get(&(node, index)).map_or(self.tag, |owned| owned.word)
    }

    /// Whether an owner word is one of this registration.
    fn is_own(&self, owner: u64) -> bool {
        owner & !MARK == self.tag
    }

    /// Moves the mark of a chunk of this node behind the line `next`, so that the node may allocate
    /// this line. Returns the first line behind the mark.
    pub(crate) async fn move_mark(
        &mut self,
        port: &Port,
        pool: &Pool,
        rest: Fresh,
    ) -> Result<u32, PoolError> {
        let (id, index) = place(pool, rest.chunk);
        let lines = pool.geometry().lines_per_chunk();
        let word = self.word(pool, rest.next);
        let Some(known) = self.owned.get_mut(&(id.0, index)) else { return Ok(lines) };
        let old = known.word;
        strict_assert!(old < word, "a mark moves back");
        let owner = layout::owner(id, index);
        // An earlier attempt may have been abandoned in flight. It has the same word, because the
        // node has allocated no line since.
        let found = repeatedly(async || port.compare_swap(owner, old, word).await).await?;
        if found != old && found != word {
            return Err(PoolError::Corrupt { what: "owner word of a chunk", addr: owner });
        }
        known.word = word;
        Ok(marked(word, lines))
    }

    /// Makes what is behind the marks of the chunks of a dead node on a memory node free for all
    /// nodes. To be called when all nodes have fenced the dead node, and before another node has
    /// its id. May be called several times, also at the same time.
    pub(crate) async fn free_rests(
        port: &Port,
        pool: &Pool,
        id: MemoryNodeId,
        dead: ComputeNodeId,
    ) -> Result<(), PoolError> {
        let (chunks, lines) = (pool.chunks(id), pool.geometry().lines_per_chunk());
        for first in (0..chunks).step_by(LATCHES as usize) {
            let count = LATCHES.min(chunks - first) as usize;
            let owners = port.read_words(layout::owner(id, first), count).await?;
            for (index, owner) in (first..).zip(owners) {
                let next = marked(owner, lines);
                if owner >> 56 == u64::from(dead.get()) && next < lines {
                    let (word, rest) = (layout::owner(id, index), REST << 56 | u64::from(next));
                    repeatedly(async || port.compare_swap(word, owner, rest).await).await?;
                }
            }
        }
        Ok(())
    }

    /// Makes the next claims search all chunks again, because other nodes may have returned some.
    pub(crate) fn rewind(&mut self) {
        self.cursors.fill(0);
    }

    /// Claims a chunk: first at the own memory node, if there is one; round robin over the memory
    /// nodes, beginning with the node's id modulo their number. `None` when no memory node has a
    /// chunk to claim. After that a claim costs no verb until [`Claims::rewind`]. A memory node
    /// that fails is passed over. The call fails with the first failure if no other memory node has
    /// a chunk. The call fails at once at a damaged owner word, and the next call goes on behind
    /// that word.
    pub(crate) async fn claim(
        &mut self,
        port: &Port,
        pool: &Pool,
    ) -> Result<Option<Fresh>, PoolError> {
        let mut failure = None;
        let round = (0..self.cursors.len()).map(|_| None);
        for own in self.own.into_iter().map(Some).chain(round) {
            let node = own.unwrap_or(self.next);
            let found = match self.claim_on(port, pool, node).await {
                Ok(found) => found,
                Err(error @ PoolError::Corrupt { .. }) => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                    None
                }
            };
            if own.is_none() {
                self.next = (node + 1) % self.cursors.len();
            }
            if let Some((index, next)) = found {
                let chunk = pool.geometry().chunk_addr(MemoryNodeId(node as u16), index);
                strict_assert!(
                    next < pool.geometry().lines_per_chunk(),
                    "a chunk without a free line was claimed"
                );
                let word = self.known(node as u16, index);
                let marked = marked(word, pool.geometry().lines_per_chunk());
                return Ok(Some(Fresh { chunk, next, marked }));
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Claims a chunk of one memory node. Returns its index and its first free line.
    async fn claim_on(
        &mut self,
        port: &Port,
        pool: &Pool,
        node: usize,
    ) -> Result<Option<(u32, u32)>, PoolError> {
        let id = MemoryNodeId(node as u16);
        let chunks = pool.chunks(id);
        // Every iteration moves the cursor by at least one chunk.
        while self.cursors[node] < chunks {
            let first = self.cursors[node];
            let count = WINDOW.min(chunks - first);
            strict_assert!(
                count > 0 && first + count <= chunks,
                "the search leaves the memory node"
            );
            let owners = port.read_words(layout::owner(id, first), count as usize).await?;
            for (index, owner) in (first..).zip(owners) {
                if owner >> 56 == REST && !is_rest(owner, pool.geometry().lines_per_chunk()) {
                    self.cursors[node] = index + 1;
                    let addr = layout::owner(id, index);
                    return Err(PoolError::Corrupt { what: "owner word of a chunk", addr });
                }
                let has = self.owned.contains_key(&(id.0, index));
                let taken =
                    if has { None } else { self.take(port, pool, (id, index), owner).await? };
                self.cursors[node] = index + 1;
                strict_assert!(self.cursors[node] <= chunks, "the cursor leaves the memory node");
                if let Some(next) = taken {
                    strict_assert!(
                        self.tried.is_empty() || !self.tried.contains_key(&(id.0, index)),
                        "the outcome of an own claim is known"
                    );
                    let owned = Owned { word: self.word(pool, next), first: next };
                    self.owned.insert((id.0, index), owned);
                    return Ok(Some((index, next)));
                }
            }
        }
        Ok(None)
    }

    /// Writes the tag into an owner word without an owner. Returns the first free line, if the
    /// chunk is this node's now.
    async fn take(
        &mut self,
        port: &Port,
        pool: &Pool,
        (id, index): (MemoryNodeId, u32),
        owner: u64,
    ) -> Result<Option<u32>, PoolError> {
        let chunk = (id.0, index);
        strict_assert!(!self.owned.contains_key(&chunk), "a chunk of this node is claimed again");
        if self.is_own(owner) {
            return Ok(self.tried.remove(&chunk).map(first_free));
        }
        if owner != 0 && owner >> 56 != REST {
            return Ok(None);
        }
        self.tried.insert(chunk, owner);
        strict_assert!(owner >> 56 == 0 || owner >> 56 == REST, "a chunk with an owner is claimed");
        let word = layout::owner(id, index);
        let own = self.word(pool, first_free(owner));
        let found = repeatedly(async || port.compare_swap(word, owner, own).await).await?;
        self.tried.remove(&chunk);
        Ok((found == owner || found == own).then(|| first_free(owner)))
    }

    /// Returns the rest of a chunk of this node. The node has allocated no line from `next` on, and
    /// allocates none any more.
    pub(crate) async fn give_back_rest(
        &mut self,
        port: &Port,
        pool: &Pool,
        rest: Fresh,
    ) -> Result<(), PoolError> {
        let (id, index) = place(pool, rest.chunk);
        strict_assert!(
            rest.next < pool.geometry().lines_per_chunk(),
            "a chunk without a rest is given back in part"
        );
        strict_assert!(index < pool.chunks(id), "the rest is of no chunk of the pool");
        self.give_back(port, id, index, self::rest(rest.next)).await
    }

    /// Returns the chunks of claims with an unknown outcome. No claim is in flight any more.
    pub(crate) async fn give_back_tried(&mut self, port: &Port) -> Result<(), PoolError> {
        for ((node, index), before) in self.tried.clone() {
            self.give_back(port, MemoryNodeId(node), index, before).await?;
            self.tried.remove(&(node, index));
        }
        Ok(())
    }

    /// Returns all chunks of this node to the pool, with their content. The result is the number of
    /// these chunks. A chunk that was a rest is one again. A chunk stays if the latch word of one
    /// of its lines names a node: that node may still use the line, or died as an owner of the
    /// line.
    pub(crate) async fn give_back_all(
        &mut self,
        port: &Port,
        pool: &Pool,
    ) -> Result<u64, PoolError> {
        let mut given = 0;
        for ((node, index), owned) in self.owned.clone() {
            let id = MemoryNodeId(node);
            if is_unlatched(port, pool, (id, index), owned.first).await? {
                self.give_back(port, id, index, rest(owned.first)).await?;
                given += 1;
            }
        }
        Ok(given)
    }

    async fn give_back(
        &mut self,
        port: &Port,
        id: MemoryNodeId,
        index: u32,
        word: u64,
    ) -> Result<(), PoolError> {
        // The tag is in the word until this compare-and-swap succeeds. An earlier attempt with an
        // unknown outcome may have succeeded, and other nodes may have changed the word since. Then
        // this attempt changes nothing. It finds a moved mark that this node does not know.
        let owner = layout::owner(id, index);
        strict_assert!(word >> 56 == 0 || word >> 56 == REST, "a chunk goes back to an owner");
        strict_assert!(
            word >> 56 != REST || word as u32 > 0,
            "a rest begins behind the first line"
        );
        let known = self.known(id.0, index);
        let found = repeatedly(async || port.compare_swap(owner, known, word).await).await?;
        if found != known && self.is_own(found) {
            repeatedly(async || port.compare_swap(owner, found, word).await).await?;
        }
        self.owned.remove(&(id.0, index));
        Ok(())
    }
}

/// The memory node and the index of a chunk.
fn place(pool: &Pool, chunk: GlobalAddr) -> (MemoryNodeId, u32) {
    let index = pool.geometry().chunk_index(chunk).map_or(u32::MAX, |index| index as u32);
    (chunk.node(), index)
}

/// Whether an owner word names a first free line that a chunk of `lines` lines can have.
fn is_rest(owner: u64, lines: u32) -> bool {
    let next = owner & ((1 << 56) - 1);
    owner >> 56 == REST && (1..u64::from(lines)).contains(&next)
}

/// The first free line of a chunk with this owner word, which is free or a possible rest.
fn first_free(owner: u64) -> u32 {
    if owner >> 56 == REST { owner as u32 } else { 0 }
}

/// The owner word of a chunk without an owner whose lines from `next` on are free.
fn rest(next: u32) -> u64 {
    if next == 0 { 0 } else { REST << 56 | u64::from(next) }
}

/// Whether the latch words of a chunk's lines from `first` on name no node.
async fn is_unlatched(
    port: &Port,
    pool: &Pool,
    (id, index): (MemoryNodeId, u32),
    first: u32,
) -> Result<bool, PoolError> {
    let geometry = pool.geometry();
    let chunk = geometry.chunk_addr(id, index);
    let lines = geometry.lines_per_chunk();
    strict_assert!(lines > 0, "a chunk has lines");
    for first in (first..lines).step_by(LATCHES as usize) {
        let count = LATCHES.min(lines - first) as usize;
        let words = geometry.latch_addr(geometry.line_addr(chunk, first));
        if port.read_words(words, count).await?.iter().any(|word| *word != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
