//! Requests of other nodes for a line that is locked, or is about to be locked.

use super::*;

/// Accesses outside a transaction wait, and get the line when it is unlocked.
#[test]
fn an_access_without_a_lock_waits_for_the_end_of_the_lock() {
    in_every_way(2, |stage| {
        for write in [false, true] {
            let stage = stage();
            let line = stage.line();
            let held = lock(&stage, A, line, AccessMode::Exclusive);
            let access = if write { stage.writes(B, line, 5) } else { stage.reads(B, line) };
            // This time is far longer than a reservation lasts.
            stage.pass(Duration::from_millis(5));
            assert!(!access.is_finished(), "seed {}", stage.seed);
            assert!(stage.count(line, answer(A, B, Answer::Busy)) > 0);
            assert_eq!(stage.count(line, answer(A, B, Answer::Queued)), 0, "nobody is remembered");
            stage.write(A, line, 4);
            stage.drop_on(A, held);
            assert_eq!(stage.end(access), 4);
            stage.finish();
        }
    });
}

/// Race: B also has a copy of the line, and no lock. B wanted to write, and was refused so often
/// that it has the highest priority. A's lock prevents A from giving way, so B has to give way to
/// A.
#[test]
fn a_lock_is_upgraded_before_the_accesses_that_wait_for_it() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let mine = lock(&stage, A, line, AccessMode::Shared);
        stage.end(stage.reads(B, line));
        let write = stage.writes(B, line, 5);
        stage.pass(Duration::from_millis(5));
        assert!(!write.is_finished(), "seed {}", stage.seed);
        let since = stage.now();
        let (granted, mine) = upgrade(&stage, A, mine);
        assert!(granted, "seed {}: nobody else has a lock", stage.seed);
        let took = stage.now() - since;
        // B may first have to wait for the end of a back-off.
        assert!(took < Duration::from_millis(2), "seed {}: upgraded after {took:?}", stage.seed);
        stage.write(A, line, 4);
        stage.drop_on(A, mine);
        assert_eq!(stage.end(write), 4);
        stage.finish();
    });
}

/// Race: B has the line by hand-over, and locks it while A's word operation is late. So the word
/// still names A, and C's request goes to A. The request must reach B and be refused there. The
/// lock must stay.
#[test]
fn a_line_is_locked_while_its_hand_over_is_not_settled() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(B))));
        let held = lock(&stage, B, line, AccessMode::Exclusive);
        assert_eq!((late.held(), stage.word(line)), (1, x(A)));
        let other = locks(&stage, C, line, AccessMode::Exclusive);
        stage.until("C asks", || stage.count(line, request(C, A)) > 0);
        stage.pass(Duration::from_micros(10));
        assert!(!other.is_finished(), "seed {seed}: A's operation is in the way");
        drop(late);
        assert!(matches!(stage.end(other), Ok(LockOutcome::Locked)), "seed {seed}");
        assert_eq!(stage.word(line), x(B));
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// A node that already waits for the line gets an answer when the line is locked.
#[test]
fn a_queued_request_is_refused_when_the_line_is_locked() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let other = locks(&stage, B, line, AccessMode::Exclusive);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let held = lock(&stage, A, line, AccessMode::Exclusive);
        assert!(matches!(stage.end(other), Ok(LockOutcome::Locked)), "seed {seed}");
        stage.drop_on(A, ticket);
        stage.drop_on(A, held);
        stage.finish();
    });
}

/// Race: C's request comes to B with the line itself, while A's word operation is late. C gets its
/// answer when B locks the line, and not only when A reports *settled*. This holds whether B
/// obtained the line for the lock or had it before.
#[test]
fn a_request_that_came_with_the_line_is_refused_when_the_line_is_locked() {
    in_every_world(|seed| {
        for obtained in [false, true] {
            let stage = Stage::new(3, seed);
            let line = stage.line();
            let ticket = stage.take(A, line, AccessMode::Exclusive);
            let late = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(B))));
            let waiting = |from| stage.count(line, answer(A, from, Answer::Queued)) == 1;
            let first = obtained.then(|| locks(&stage, B, line, AccessMode::Exclusive));
            let access = (!obtained).then(|| stage.writes(B, line, 1));
            stage.until("A remembers B", || waiting(B));
            let other = locks(&stage, C, line, AccessMode::Exclusive);
            stage.until("A remembers C", || waiting(C));
            stage.drop_on(A, ticket);
            access.into_iter().for_each(|access| _ = stage.end(access));
            let held = match first {
                Some(first) => stage.end(first).expect("no error"),
                None => tries(&stage, B, line, AccessMode::Exclusive).expect("it is here"),
            };
            let LockOutcome::Got(held) = held else { panic!("seed {seed}: nobody has locked it") };
            assert!(matches!(stage.end(other), Ok(LockOutcome::Locked)), "seed {seed}");
            assert_eq!((late.held(), stage.word(line)), (1, x(A)), "A has not reported");
            drop(late);
            stage.drop_on(B, held);
            stage.finish();
        }
    });
}

/// A node has waited up to the bound of the line lease. It gets the line before transactions that
/// would lock the line at this node.
#[test]
fn a_line_that_is_being_given_up_is_not_locked() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.selcc.lease = Some(0);
        let mut stage = Stage::on(config);
        let second = stage.add_worker(A);
        let line = stage.line();
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let access = stage.writes(B, line, 1);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        for mode in BOTH {
            let need = Need { addr: line, mode };
            assert_eq!(tries(&stage, second, line, mode).map(drop_outcome), Err(need));
        }
        let late = locks(&stage, second, line, AccessMode::Exclusive);
        stage.drop_on(A, ticket);
        stage.end(access);
        let LockOutcome::Got(held) = stage.end(late).expect("no error") else {
            panic!("seed {seed}: nobody has locked it");
        };
        assert_eq!(stage.read(A, line), 1, "seed {seed}: B came first");
        stage.drop_on(second, held);
        stage.finish();
    });
}
