//! Models of what threads share. They run every order of steps that the memory model allows:
//! `cargo xtask model`, or `RUSTFLAGS="--cfg loom" cargo test --release -p ugds-sched --test loom`.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use ugds_sched::{Credits, Ended, Go, Group, Line, Order, Outcome};

/// Asks until the credit is there, letting others go on meanwhile.
fn acquire(credits: &Credits, cap_bytes: u64, line: &mut Line) -> ugds_sched::Credit {
    loop {
        match credits.try_acquire(1, cap_bytes, line) {
            Ok(credit) => return credit,
            Err(_) => thread::yield_now(),
        }
    }
}

#[test]
fn the_last_of_a_group_is_told_once_and_sees_all() {
    loom::model(|| {
        let group = Arc::new(Group::new(Order::Any));
        let written = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let members = [group.join().unwrap(), group.join().unwrap()];
        let lasts = Arc::new(AtomicU32::new(0));
        let threads = members.map(|member| {
            let (group, written, lasts) = (Arc::clone(&group), Arc::clone(&written), Arc::clone(&lasts));
            thread::spawn(move || {
                written[member.number() as usize].store(1, Ordering::Relaxed);
                note(&lasts, &written, group.end(member, Outcome::Good));
            })
        });
        note(&lasts, &written, group.seal());
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(lasts.load(Ordering::Relaxed), 1);
    });
}

fn note(lasts: &AtomicU32, written: &[AtomicU32; 2], ended: Ended) {
    if let Ended::Last(outcome) = ended {
        assert_eq!(outcome, Outcome::Good);
        assert!(written.iter().all(|word| word.load(Ordering::Relaxed) == 1));
        lasts.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_failure_is_never_missed_by_the_last() {
    loom::model(|| {
        let group = Arc::new(Group::new(Order::Any));
        let (bad, good) = (group.join().unwrap(), group.join().unwrap());
        assert_eq!(group.seal(), Ended::More);
        let other = Arc::clone(&group);
        let thread = thread::spawn(move || other.end(bad, Outcome::Failed));
        let ends = [group.end(good, Outcome::Good), thread.join().unwrap()];
        assert_eq!(ends.iter().filter(|end| **end == Ended::Last(Outcome::Failed)).count(), 1);
        assert_eq!(ends.iter().filter(|end| **end == Ended::More).count(), 1);
    });
}

#[test]
fn the_next_in_turn_sees_what_the_one_before_did() {
    loom::model(|| {
        let group = Arc::new(Group::new(Order::InTurn));
        let written = Arc::new(AtomicU32::new(0));
        let (first, second) = (group.join().unwrap(), group.join().unwrap());
        let thread = {
            let (group, written) = (Arc::clone(&group), Arc::clone(&written));
            thread::spawn(move || {
                written.store(1, Ordering::Relaxed);
                group.end(first, Outcome::Good)
            })
        };
        while group.may_start(&second) == Go::Wait {
            thread::yield_now();
        }
        assert_eq!(group.may_start(&second), Go::Now);
        assert_eq!(written.load(Ordering::Relaxed), 1);
        let _ = (thread.join().unwrap(), group.end(second, Outcome::Good));
    });
}

#[test]
fn the_cap_holds_and_everybody_is_served() {
    loom::model(|| {
        let credits = Arc::new(Credits::new());
        let inside = Arc::new(AtomicU32::new(0));
        let turn = |credits: &Credits, inside: &AtomicU32| {
            let credit = acquire(credits, 1, &mut Line::new());
            // Relaxed is enough for a count of those inside: read-modify-writes see the last value.
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
            inside.fetch_sub(1, Ordering::Relaxed);
            credits.release(credit);
        };
        let thread = {
            let (credits, inside) = (Arc::clone(&credits), Arc::clone(&inside));
            thread::spawn(move || turn(&credits, &inside))
        };
        turn(&credits, &inside);
        thread.join().unwrap();
        assert_eq!((credits.out_bytes(), credits.waiting()), (0, 0));
    });
}

/// One leaves while the turn comes to it: whoever stands behind must not wait for ever.
#[test]
fn whoever_leaves_holds_nobody_up() {
    loom::model(|| {
        let credits = Arc::new(Credits::new());
        let held = credits.try_acquire(1, 1, &mut Line::new()).unwrap();
        let [mut first, mut leaver, mut last] = [Line::new(), Line::new(), Line::new()];
        for line in [&mut first, &mut leaver, &mut last] {
            assert!(credits.try_acquire(1, 1, line).is_err());
        }
        credits.release(held);
        let thread = {
            let credits = Arc::clone(&credits);
            thread::spawn(move || credits.leave(&mut leaver))
        };
        let credit = acquire(&credits, 2, &mut first);
        thread.join().unwrap();
        let after = credits.try_acquire(1, 2, &mut last);
        assert!(after.is_ok(), "the place of the leaver was passed on");
        credits.release(credit);
        credits.release(after.unwrap());
        assert_eq!((credits.out_bytes(), credits.waiting()), (0, 0));
    });
}
