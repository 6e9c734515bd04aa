//! Requests that end together: a stream waits once for all of them.

use crate::atomic::{AtomicU64, Ordering};

/// Any number of requests with one end. Members join until the group is sealed; the end comes when it is sealed and all
/// have ended, and is told to exactly one caller.
///
/// # Examples
///
/// ```
/// use ugds_sched::{Ended, Go, Group, Order, Outcome};
///
/// let group = Group::new(Order::InTurn);
/// let (first, second) = (group.join()?, group.join()?);
/// assert_eq!(group.seal(), Ended::More);
/// assert_eq!((group.may_start(&first), group.may_start(&second)), (Go::Now, Go::Wait));
/// assert_eq!(group.end(first, Outcome::Good), Ended::More);
/// assert_eq!(group.may_start(&second), Go::Now);
/// assert_eq!(group.end(second, Outcome::Good), Ended::Last(Outcome::Good));
/// # Ok::<(), ugds_sched::GroupError>(())
/// ```
#[derive(Debug)]
pub struct Group {
    /// Members that joined in bits 0 to 30, that ended in bits 31 to 61, then whether one failed, and whether it is
    /// sealed: one word, so that each step sees all of it.
    state: AtomicU64,
    order: Order,
}

/// In which order the members of a group start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In any, at once.
    Any,
    /// As they joined, each when the one before it ended well.
    InTurn,
}

/// The right to end one member of a group.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a group whose member never ends does not end"]
pub struct Member {
    number: u32,
}

impl Member {
    /// Its number in the group, from 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// Whether a member may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// It may.
    Now,
    /// Not before another ended.
    Wait,
    /// Never, since one before it failed: end it with [`Outcome::Failed`].
    Skip,
}

/// How a member or a group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Good,
    /// It, or one of its members, did not.
    Failed,
}

/// What a step left of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the last one tells whoever waits for the group"]
pub enum Ended {
    /// Others are still to end, or to join.
    More,
    /// This was the last step: the group is over.
    Last(Outcome),
}

/// Why a group takes no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// It is sealed.
    #[error("the group is sealed; members join before that")]
    Sealed,
    /// It has as many as it can count.
    #[error("the group has {MEMBERS_MAX} members, which is the most")]
    TooMany,
}

impl Group {
    /// A group without members.
    #[must_use]
    pub fn new(order: Order) -> Self {
        Self { state: AtomicU64::new(0), order }
    }

    /// Adds a member.
    ///
    /// # Errors
    ///
    /// [`GroupError`] when it takes none any more.
    pub fn join(&self) -> Result<Member, GroupError> {
        let more = |state: u64| (state & SEALED == 0 && joined(state) < MEMBERS_MAX).then(|| state + JOINED);
        // Relaxed: nothing was done yet that another could rely on.
        match self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(before) => Ok(Member { number: joined(before) as u32 }),
            Err(state) if state & SEALED != 0 => Err(GroupError::Sealed),
            Err(_) => Err(GroupError::TooMany),
        }
    }

    /// Ends the joining. Doing it twice changes nothing.
    pub fn seal(&self) -> Ended {
        // AcqRel: as in `end`; the group may be over with this.
        let before = self.state.fetch_or(SEALED, Ordering::AcqRel);
        if before & SEALED != 0 { Ended::More } else { over(before | SEALED) }
    }

    /// Whether `member` may start now.
    #[must_use]
    pub fn may_start(&self, member: &Member) -> Go {
        // Acquire: pairs with `end`, so that a member sees what those before it did.
        let state = self.state.load(Ordering::Acquire);
        match self.order {
            Order::Any => Go::Now,
            Order::InTurn if state & FAILED != 0 => Go::Skip,
            Order::InTurn if ended(state) == u64::from(member.number) => Go::Now,
            Order::InTurn => Go::Wait,
        }
    }

    /// Ends a member.
    pub fn end(&self, _member: Member, outcome: Outcome) -> Ended {
        if outcome == Outcome::Failed {
            // Relaxed: the release below publishes it, in the same word.
            self.state.fetch_or(FAILED, Ordering::Relaxed);
        }
        // AcqRel: releases what this member did; the last one acquires what all did.
        over(self.state.fetch_add(ENDED, Ordering::AcqRel) + ENDED)
    }
}

/// What is left of a group in `state`, right after a step that can make it the last.
fn over(state: u64) -> Ended {
    if state & SEALED == 0 || joined(state) != ended(state) {
        return Ended::More;
    }
    Ended::Last(if state & FAILED == 0 { Outcome::Good } else { Outcome::Failed })
}

fn joined(state: u64) -> u64 {
    state & MEMBERS_MAX
}

fn ended(state: u64) -> u64 {
    (state >> COUNT_BITS) & MEMBERS_MAX
}

const COUNT_BITS: u32 = 31;
const MEMBERS_MAX: u64 = (1 << COUNT_BITS) - 1;
const JOINED: u64 = 1;
const ENDED: u64 = 1 << COUNT_BITS;
const FAILED: u64 = 1 << (2 * COUNT_BITS);
const SEALED: u64 = FAILED << 1;

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn an_empty_group_ends_with_its_seal() {
        let group = Group::new(Order::Any);
        assert_eq!(group.seal(), Ended::Last(Outcome::Good));
        assert_eq!(group.seal(), Ended::More);
        assert_eq!(group.join(), Err(GroupError::Sealed));
    }

    #[test]
    fn after_a_failure_the_rest_is_skipped() {
        let group = Group::new(Order::InTurn);
        let (first, second) = (group.join().unwrap(), group.join().unwrap());
        assert_eq!(group.end(first, Outcome::Failed), Ended::More);
        assert_eq!(group.may_start(&second), Go::Skip);
        assert_eq!(group.end(second, Outcome::Failed), Ended::More);
        assert_eq!(group.seal(), Ended::Last(Outcome::Failed));
    }

    proptest! {
        /// Members are tried in random order, and end in random order among those that run.
        #[test]
        fn members_run_in_turn_and_the_end_is_told_once(
            tries in proptest::collection::vec(any::<proptest::sample::Index>(), 1..200),
            members in 1u32..20,
            fails in proptest::option::of(0u32..20),
            seal_at in 0usize..200,
        ) {
            let group = Group::new(Order::InTurn);
            let mut waiting: Vec<Member> = (0..members).map(|_| group.join().unwrap()).collect();
            let (mut order, mut lasts) = (Vec::new(), Vec::new());
            let everything = tries.iter().copied().map(Some).chain((0..members).map(|_| None));
            for (at, index) in everything.enumerate() {
                if at == seal_at.min(tries.len()) {
                    lasts.push(group.seal());
                }
                if waiting.is_empty() {
                    continue;
                }
                let at = index.map_or(0, |index| index.index(waiting.len()));
                let outcome = |number| if fails == Some(number) { Outcome::Failed } else { Outcome::Good };
                let outcome = match group.may_start(&waiting[at]) {
                    Go::Wait => continue,
                    Go::Now => {
                        order.push(waiting[at].number());
                        outcome(waiting[at].number())
                    }
                    Go::Skip => Outcome::Failed,
                };
                let member = waiting.remove(at);
                lasts.push(group.end(member, outcome));
            }
            let stop = fails.map_or(members, |at| members.min(at + 1));
            prop_assert_eq!(order, (0..stop).collect::<Vec<_>>());
            let last = if fails.is_some_and(|at| at < members) { Outcome::Failed } else { Outcome::Good };
            lasts.retain(|ended| *ended != Ended::More);
            prop_assert_eq!(lasts, [Ended::Last(last)]);
        }
    }
}
