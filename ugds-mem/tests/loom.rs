//! Models of what threads share. They run every order of steps that the memory model allows:
//! `cargo xtask model`, or `RUSTFLAGS="--cfg loom" cargo test --release -p ugds-mem --test loom`.

#![cfg(loom)]

extern crate alloc;

#[path = "../src/bits.rs"]
mod bits;

use bits::Bits;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// What a number stands for is used by one at a time, and each sees what the last one left: loom's cell refuses
/// anything else.
#[test]
fn what_a_bit_stands_for_has_one_user_at_a_time() {
    loom::model(|| {
        let free = Arc::new(Bits::set(1));
        let page = Arc::new(UnsafeCell::new(0u32));
        let threads = [(); 2].map(|()| {
            let (free, page) = (Arc::clone(&free), Arc::clone(&page));
            thread::spawn(move || {
                let index = free.take()?;
                page.with_mut(|_| ());
                free.give_back(index);
                Some(())
            })
        });
        let got = threads.map(|thread| thread.join().unwrap()).into_iter().flatten().count();
        assert!(got >= 1, "somebody gets it");
        assert_eq!(free.take(), Some(0));
    });
}

#[test]
fn two_that_take_at_once_get_two() {
    loom::model(|| {
        let free = Arc::new(Bits::set(2));
        let other = thread::spawn({
            let free = Arc::clone(&free);
            move || free.take()
        });
        let (mine, theirs) = (free.take().unwrap(), other.join().unwrap().unwrap());
        assert_ne!(mine, theirs);
        assert_eq!(free.take(), None);
    });
}
