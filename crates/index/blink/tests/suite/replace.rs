//! Replaces values by values that depend on them, with changing lengths.

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeValue};
use latchwork_coherence::CoherentMemory;

use crate::common::{LocalNode, Settings, executor};

#[test]
fn values_grow_and_shrink_and_no_change_is_lost() {
    let mut executor = executor(1);
    let memory = LocalNode::new(Settings::TINY).worker(executor.handle());
    executor.block_on(async {
        let tree = Tree::create(memory.clone(), TreeConfig::default()).await.unwrap();
        for key in 0..20u64 {
            tree.insert(&key.to_be_bytes(), b"").await.unwrap();
        }
        let mut tasks = Vec::new();
        for worker in 0..4u8 {
            let tree = tree.clone();
            tasks.push(memory.handle().spawn(async move {
                for round in 0..200u64 {
                    let key = (round % 20).to_be_bytes();
                    let add = |old: TreeValue<'_>, new: &mut Vec<u8>| {
                        old.append_to(new);
                        new.push(worker);
                    };
                    tree.replace_with(&key, add).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        for key in 0..20u64 {
            let mut value = tree.get(&key.to_be_bytes()).await.unwrap().unwrap();
            value.sort();
            let all: Vec<u8> = (0..4).flat_map(|worker| [worker; 10]).collect();
            assert_eq!(value, all);
            let shorter = tree.replace_with(&key.to_be_bytes(), |_, new| new.push(9)).await;
            assert!(shorter.is_ok());
        }
        tree.validate().await.unwrap();
        assert_eq!(tree.get(&3u64.to_be_bytes()).await.unwrap(), Some(vec![9]));
    });
}

#[test]
fn what_cannot_be_replaced_stays() {
    let mut executor = executor(1);
    let memory = LocalNode::new(Settings::CALM).worker(executor.handle());
    executor.block_on(async {
        let tree = Tree::create(memory, TreeConfig::default()).await.unwrap();
        let missing = tree.replace_with(b"a", |_, _| ()).await;
        assert!(matches!(missing, Err(TreeError::NotFound)));
        tree.insert(b"a", b"old").await.unwrap();
        let long = tree.replace_with(b"a", |_, new| new.resize(129, 0)).await;
        assert!(matches!(long, Err(TreeError::ValueTooLong { len: 129, max: 128 })));
        assert_eq!(tree.get(b"a").await.unwrap().as_deref(), Some(&b"old"[..]));
    });
}
