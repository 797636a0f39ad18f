//! The transactions of a life, each with a tag of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_coherence::LineLocks;
use latchwork_runtime::Handle;
use latchwork_txn::{Database, Table, Transaction, TxnError};

use crate::crashes::life::Life;
use crate::crashes::rows::tag_of;

/// The number of keys that all nodes use, or that each node has for itself.
const KEYS: u64 = 20;

/// The plan of a transaction.
struct Plan {
    tag: u64,
    /// The keys that it changes: true if it puts, false if it deletes.
    keys: BTreeMap<u32, bool>,
    /// The number of bytes after its tag.
    long: usize,
    /// Whether it inserts missing rows without a lookup.
    blind: bool,
    /// The time between its reads and its commit.
    thinks: Duration,
}

impl Life {
    /// Runs transactions one after another, until the power goes off.
    pub(crate) async fn transactions<M: LineLocks>(
        &self,
        database: &Database<M>,
        table: &Table<M>,
    ) {
        let handle = database.memory().handle();
        let node = usize::from(database.node().clock().node().0);
        let pace = self.habits.paces[node].as_nanos() as u64;
        while self.left.borrow().is_none() {
            handle.sleep(Duration::from_nanos(handle.random_below(pace))).await;
            if self.habits.looks > 0 && handle.random_below(self.habits.looks) == 0 {
                self.look(database, table, self.key(handle, node)).await;
                handle.sleep(Duration::from_nanos(handle.random_below(60_000))).await;
                continue;
            }
            let plan = self.plan(handle, node);
            self.carry_out(database, table, &plan).await;
        }
    }

    fn key(&self, handle: &Handle, node: usize) -> u32 {
        // Mostly a key of this node, sometimes one of another node.
        let from = match self.habits.apart && handle.random_below(12) > 0 {
            true => node as u64,
            false => handle.random_below(self.habits.nodes as u64),
        };
        let from = if self.habits.apart { KEYS * (1 + from) } else { 0 };
        (from + handle.random_below(KEYS)) as u32
    }

    /// Reads a row. The result comes from a commit, or from the end of a transaction that fails.
    async fn look<M: LineLocks>(&self, database: &Database<M>, table: &Table<M>, key: u32) {
        let mut row = Vec::new();
        let mut found = false;
        let looked = database.attempt(async |tx| {
            found = tx.get(table, &key.to_be_bytes(), &mut row).await?;
            Ok(())
        });
        let ended = looked.await;
        if self.left.borrow().is_some() {
            return;
        }
        match ended {
            // The timestamp of a transaction that only reads is the highest timestamp that it has
            // read.
            Ok(((), cts)) => {
                let tag = found.then(|| tag_of(&row));
                self.judge.borrow_mut().saw(key, tag, cts.0);
            }
            Err(error) if error.conflict().is_some() => {}
            Err(TxnError::NotDurable(_)) if self.faulty.get() => {}
            Err(error) => panic!("{:?}: {error}", self.habits),
        }
    }

    fn plan(&self, handle: &Handle, node: usize) -> Plan {
        let tag = self.judge.borrow_mut().begin();
        let one = |_| (self.key(handle, node), handle.random_below(4) > 0);
        let keys = (0..1 + handle.random_below(4)).map(one).collect();
        let slow = self.habits.slow > 0 && handle.random_below(self.habits.slow) == 0;
        let thinks = if slow { handle.random_below(800_000) } else { 0 };
        Plan {
            tag,
            keys,
            long: handle.random_below(60) as usize,
            blind: handle.random_below(4) == 0,
            thinks: Duration::from_nanos(thinks),
        }
    }

    async fn carry_out<M: LineLocks>(&self, database: &Database<M>, table: &Table<M>, plan: &Plan) {
        let handle = database.memory().handle();
        let tag = plan.tag;
        for attempt in 1.. {
            let ended = self.attempt(database, table, plan).await;
            // No caller gets a result after the crash.
            if self.left.borrow().is_some() {
                return;
            }
            match ended {
                Ok(cts) => return self.judge.borrow_mut().acknowledge(tag, cts),
                Err(TxnError::Conflict(_)) => handle.sleep(database.pause(attempt)).await,
                Err(TxnError::Exists) if plan.blind => {
                    return self.judge.borrow_mut().refuse(tag);
                }
                Err(TxnError::NotLogged(_)) if self.faulty.get() => {
                    let mut judge = self.judge.borrow_mut();
                    judge.refused += 1;
                    return judge.refuse(tag);
                }
                Err(TxnError::InDoubt(_)) if self.faulty.get() => return,
                Err(TxnError::NotDurable(_)) if self.faulty.get() => {
                    return self.judge.borrow_mut().refuse(tag);
                }
                Err(error) => panic!("{:?}: {error}", self.habits),
            }
        }
    }

    async fn attempt<M: LineLocks>(
        &self,
        database: &Database<M>,
        table: &Table<M>,
        plan: &Plan,
    ) -> Result<u64, TxnError> {
        let (mut row, mut old) = (plan.tag.to_le_bytes().to_vec(), Vec::new());
        row.push(if self.habits.moves { (plan.tag % 5) as u8 } else { 3 });
        row.resize(9 + plan.long, 7);
        let handle = database.memory().handle();
        let body = async |tx: &mut Transaction<M>| {
            let (mut done, mut read) = (plan.keys.clone(), Vec::new());
            for (&id, &put) in &plan.keys {
                let key = id.to_be_bytes();
                if plan.blind && put {
                    tx.insert_blind(table, &key, &row)?;
                    continue;
                }
                let found = tx.get_for_update(table, &key, &mut old).await?;
                read.extend(found.then(|| tag_of(&old)));
                match (found, put) {
                    (true, true) => tx.update(table, &key, &row).await?,
                    (false, true) => tx.insert(table, &key, &row).await?,
                    (true, false) => tx.delete(table, &key).await?,
                    // A lookup that finds nothing is not a write.
                    (false, false) => drop(done.remove(&id)),
                }
            }
            if !plan.thinks.is_zero() {
                handle.sleep(plan.thinks).await;
            }
            self.judge.borrow_mut().commits(plan.tag, done, read);
            Ok(())
        };
        Ok(database.attempt(body).await?.1.0)
    }
}
