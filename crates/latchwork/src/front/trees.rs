//! [`open_or_make`]: one tree for each name, although any number of workers ask at once.
//!
//! 1. A worker that finds the name in the catalogue opens that tree.
//! 2. Otherwise one worker of each compute node makes a tree and registers it. A name is registered
//!    once, so exactly one worker succeeds. Its tree was complete before the registration.
//! 3. A worker that did not succeed frees the root that it made. No other worker has seen this
//!    root, because only the catalogue leads to a root. The worker continues at step 1.
//! 4. The other workers of a node look the name up again until it is there. If their worker fails,
//!    the next one makes the tree.

use std::cell::Cell;
use std::time::Duration;

use latchwork_blink::Tree;
use latchwork_cluster::Member;
use latchwork_cluster::Worker;
use latchwork_coherence::CoherentMemory;
use latchwork_memnode::{ObjectKind, PoolError};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::error::{Error, Result};
use super::names::Names;

/// The interval at which a worker looks for a tree that another worker of its node makes.
const LOOK: Duration = Duration::from_micros(100);

/// Opens the tree with this name, or makes it, within `patience`. If the deadline passes while a
/// root is being made, the line of that root stays allocated.
pub(super) async fn open_or_make(
    member: &Member,
    names: &Names,
    name: &str,
    patience: Duration,
) -> Result<Tree<Worker>> {
    let step = Cell::new("the catalogue");
    let deadline = member.handle.now() + patience;
    // Boxed, because the future is large and most of it is needed once.
    let opened = Box::pin(attempts(member, names, name, &step));
    let late = |_| Error::Late { name: name.to_owned(), step: step.get(), waited: patience };
    member.handle.timeout(deadline, opened).await.map_err(late)?
}

async fn attempts(
    member: &Member,
    names: &Names,
    name: &str,
    step: &Cell<&'static str>,
) -> Result<Tree<Worker>> {
    let (memory, port) = (&member.memory, member.memory.port());
    let (catalogue, config) = (names.catalogue(member), names.tree(name));
    // The deadline of the caller ends the rounds.
    loop {
        step.set("the catalogue, to look the name up");
        if let Some(entry) = catalogue.lookup(port, name).await? {
            if entry.kind != ObjectKind::TREE {
                let (found, wanted) = (entry.kind, ObjectKind::TREE);
                return Err(Error::OtherKind { name: name.to_owned(), found, wanted });
            }
            step.set("the root page");
            let root = GlobalAddr::from_bits(entry.value);
            return Ok(Tree::open(memory.clone(), root, config).await?);
        }
        let Some(_claim) = names.claim(member, name) else {
            step.set("another worker of its compute node, which makes the tree");
            member.handle.sleep(LOOK).await;
            continue;
        };
        step.set("a line for the root page");
        let tree = Tree::create(memory.clone(), config).await?;
        step.set("the catalogue, to register the name");
        let root = tree.root();
        strict_assert!(!root.is_null(), "a name would lead to no line");
        match catalogue.register(port, name, ObjectKind::TREE, root.bits()).await {
            Ok(()) => return Ok(tree),
            Err(PoolError::AlreadyExists { .. }) => {
                step.set("the release of a root page that was not needed");
                memory.free(root).await?;
            }
            // These errors are certain: the name does not lead to this root.
            Err(error @ (PoolError::Name { .. } | PoolError::CatalogueFull { .. })) => {
                memory.free(root).await?;
                return Err(error.into());
            }
            // The registration may have taken effect, so the root stays.
            Err(error) => return Err(error.into()),
        }
    }
}
