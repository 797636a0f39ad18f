//! Words: decoding of latch words, and verbs on shared memory without any layer above them.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use latchwork_latch::LatchWord;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, LocalBuffer, Region, Target, VerbError, WorkRequest,
};
use latchwork_verbs_shm as shm;

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).expect("a valid id")
}

fn arithmetic(c: &mut Criterion) {
    let mut group = c.benchmark_group("word");
    let (me, other) = (node(7), node(23));
    group.bench_function("add and decode", |b| {
        let add = LatchWord::shared_by(me).bits();
        let mut word = LatchWord::exclusively(other);
        b.iter(|| {
            word = black_box(word).plus(black_box(add));
            (word.exclusive(), word.shared().contains(me))
        });
    });
    group.bench_function("list 5 readers", |b| {
        let readers = [1, 9, 30, 42, 58].map(|id| LatchWord::shared_by(node(id)).bits());
        let word = LatchWord::from_bits(readers.into_iter().sum());
        b.iter(|| black_box(word).shared().iter().map(|id| u64::from(id.get())).sum::<u64>());
    });
    // The atomic instruction under the verbs below.
    group.bench_function("fetch-and-add, no verb", |b| {
        let word = AtomicU64::new(0);
        b.iter(|| black_box(&word).fetch_add(1, Ordering::AcqRel));
    });
    group.finish();
}

const LINE: u32 = 2048;

fn verbs(c: &mut Criterion) {
    let build = || -> Result<_, Box<dyn std::error::Error>> {
        let fabric = shm::ShmFabric::new(shm::ShmConfig::default());
        let memory = fabric.add_memory_node(1 << 20)?;
        fabric.add_compute_node(node(1))?;
        let region = fabric.register(node(1), Region::zeroed(1 << 16)?)?;
        Ok((Target::Memory(memory), fabric.endpoint(node(1))?, region))
    };
    let (memory, mut endpoint, region) = build().expect("a fabric");
    let local = LocalBuffer { region, offset: 0, len: LINE };
    let read = WorkRequest::Read { remote: 4096, local };
    let write = WorkRequest::Write { remote: 4096, local };
    let add = WorkRequest::FetchAdd { remote: 64, add: 1 };
    let swap = WorkRequest::CompareSwap { remote: 64, expected: 0, desired: 0 };
    let mut run = |requests: &[WorkRequest], batches: u64| -> Result<u64, VerbError> {
        let mut olds = 0;
        for token in 0..batches {
            endpoint.post(memory, token, requests)?;
        }
        endpoint.ring();
        endpoint.poll(&mut |done| olds ^= done.result.map_or(0, |outcome| outcome.old[0]));
        Ok(olds)
    };
    let mut group = c.benchmark_group("verb");
    group.bench_function("fetch-and-add", |b| b.iter(|| run(black_box(&[add]), 1)));
    group.bench_function("compare-and-swap", |b| b.iter(|| run(black_box(&[swap]), 1)));
    group.bench_function("16 fetch-and-adds, one doorbell", |b| {
        b.iter(|| run(black_box(&[add]), 16));
    });
    group.bench_function("read 2 KiB", |b| b.iter(|| run(black_box(&[read]), 1)));
    group.bench_function("fetch-and-add, read 2 KiB", |b| {
        b.iter(|| run(black_box(&[add, read]), 1));
    });
    group.bench_function("write 2 KiB, fetch-and-add", |b| {
        b.iter(|| run(black_box(&[write, add]), 1));
    });
    group.finish();
}

criterion_group!(name = words; config = latchwork_benches::samples(1); targets = arithmetic, verbs);
criterion_main!(words);
