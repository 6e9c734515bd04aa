//! Models of what threads share: every order of steps that the memory model allows, of submitting against reaping, of
//! handing the duty to poll on, of waking, and of closing. `cargo xtask model` runs them.

use super::channel::{Awaits, Caught, Channel, Claim, Look};
use super::landing::{Head, Landing};
use super::rota::{Call, Duty, Id, Role, Sleeper};
use super::sync::{Thread, thread};
use loom::sync::Arc;
use nvme_proto::{Cid, Cqe, Nsid, Qid, Status};
use std::collections::VecDeque;
use ugds_hal::{Command, DomainId, Instant, Port, Traits, Violation};
use ugds_mem::Io;
use ugds_queue::{Generations, QueuePair};

/// A device that completes a command every other pass, the last one first: so there is something to wait for.
struct Slow {
    staged: VecDeque<Cid>,
    passes: u32,
    given: bool,
}

impl Port for Slow {
    fn entries(&self) -> u16 {
        4
    }

    fn stage(&mut self, cid: Cid, _: &Command<'_>) {
        self.staged.push_back(cid);
    }

    fn publish(&mut self) -> bool {
        true
    }

    fn next(&mut self) -> Option<Cqe> {
        if self.given || self.passes.is_multiple_of(2) {
            return None;
        }
        let cid = self.staged.pop_back()?;
        self.given = true;
        let mut cqe: Cqe = nvme_proto::zerocopy::FromZeros::new_zeroed();
        cqe.cid.set(cid.0);
        Some(cqe)
    }

    fn retire(&mut self) -> Result<(), Violation> {
        self.given = false;
        self.passes += 1;
        Ok(())
    }
}

fn channel() -> Arc<Channel<Slow>> {
    let era = Traits::local(DomainId::fresh(), "model", String::new()).era();
    let port = Slow { staged: VecDeque::new(), passes: 0, given: false };
    Arc::new(Channel::new(QueuePair::new(port, Qid(1), era, Generations::On), None))
}

fn submit(channel: &Channel<Slow>) -> Claim {
    let Ok(claim) = channel.burst().stage(&Io::flush(Nsid(1))) else { panic!("there is a slot") };
    claim
}

fn sleeper(me: &Thread, awaits: Awaits) -> Sleeper<Awaits> {
    let (id, call) = (Id::Thread(me.id()), Call::Unpark(me.clone()));
    Sleeper { id, role: Role::Spins, call, awaits, deadline: Instant(u64::MAX) }
}

/// Waits as `wait_long` does that has spun enough. `None` when the channel was closed.
fn wait(channel: &Channel<Slow>, claim: Claim) -> Option<Status> {
    let me = thread::current();
    let status = loop {
        let look = channel.look_own(claim).unwrap();
        if let Some(ended) = channel.take(claim) {
            break Some(ended.status);
        }
        if look == Look::Closed {
            break None;
        }
        match channel.enlist(sleeper(&me, Awaits::Command(claim))) {
            Duty::Poll => thread::yield_now(),
            Duty::Sleep => thread::park(),
            Duty::Over => {}
        }
    };
    channel.resign(Id::Thread(me.id()));
    status
}

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // More would take hours; a missed wake-up needs two.
    builder.preemption_bound = Some(3);
    builder.check(f);
}

/// One of them polls; its own command may end first. Then the other, asleep, must poll for its own.
#[test]
fn the_duty_is_handed_on_and_nobody_sleeps_for_ever() {
    model(|| {
        let channel = channel();
        let other = Arc::clone(&channel);
        let thread = thread::spawn(move || wait(&other, submit(&other)));
        assert_eq!(wait(&channel, submit(&channel)), Some(Status::SUCCESS));
        assert_eq!(thread.join().unwrap(), Some(Status::SUCCESS));
    });
}

/// Whoever polls goes on for its own sake, so those who sleep are woken by what ends, not by its leaving.
#[test]
fn whoever_polls_wakes_whoever_sleeps() {
    model(|| {
        let channel = channel();
        let (mine, others) = (submit(&channel), submit(&channel));
        let duty = channel.enlist(sleeper(&thread::current(), Awaits::Command(mine)));
        assert_eq!(duty, Duty::Poll);
        let other = Arc::clone(&channel);
        let thread = thread::spawn(move || wait(&other, others));
        for _ in 0..4 {
            channel.look().unwrap();
        }
        assert_eq!(thread.join().unwrap(), Some(Status::SUCCESS));
    });
}

#[test]
fn a_closed_channel_wakes_everybody() {
    model(|| {
        let channel = channel();
        let (mine, others) = (submit(&channel), submit(&channel));
        let duty = channel.enlist(sleeper(&thread::current(), Awaits::Command(mine)));
        assert_eq!(duty, Duty::Poll);
        let other = Arc::clone(&channel);
        let thread = thread::spawn(move || wait(&other, others));
        let outstanding = channel.closing().close().unwrap().outstanding();
        let told = thread.join().unwrap();
        assert!(told.is_some() || outstanding != 0, "it ended, or it was told");
    });
}

/// A row is reaped in parts, by whoever comes, and its waiter wakes with the last.
#[test]
fn a_row_ends_once_and_wakes_its_waiter() {
    model(|| {
        let channel = channel();
        let row = {
            let mut burst = channel.burst();
            let cell = burst.cell().unwrap();
            for place in 0..2 {
                let pair = burst.pair().unwrap();
                assert!(pair.submit(&Io::flush(Nsid(1)), Claim::name(cell, place)).is_ok());
            }
            burst.claim(cell, 2)
        };
        let other = Arc::clone(&channel);
        let thread = thread::spawn(move || wait(&other, submit(&other)));
        assert_eq!(wait(&channel, row), Some(Status::SUCCESS));
        assert_eq!(thread.join().unwrap(), Some(Status::SUCCESS));
    });
}

/// Cells are given back by the thread that waited, and swept by the one that submits.
#[test]
fn a_cell_is_used_again_only_after_its_outcome_was_taken() {
    model(|| {
        let channel = channel();
        let other = Arc::clone(&channel);
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                assert_eq!(wait(&other, submit(&other)), Some(Status::SUCCESS));
            }
        });
        assert_eq!(wait(&channel, submit(&channel)), Some(Status::SUCCESS));
        thread.join().unwrap();
    });
}

/// Two queues are reaped at once by two threads, for the owner of a batch who takes meanwhile.
#[test]
fn each_outcome_lands_once_and_slots_are_used_again() {
    model(|| {
        let landing = Arc::new(Landing::new(2));
        let threads = [1, 2].map(|token| {
            let landing = Arc::clone(&landing);
            thread::spawn(move || landing.land(token, Status::SUCCESS))
        });
        let (mut head, mut sum) = (Head::default(), 0);
        while sum != 3 {
            match landing.take(&mut head) {
                Some((token, _)) => sum += token,
                None => thread::yield_now(),
            }
        }
        assert!(!landing.is_ahead_of(head.taken()));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        landing.land(9, Status::SUCCESS);
        assert_eq!(landing.take(&mut head).map(|(token, _)| token), Some(9));
    });
}

/// The owner of a batch sleeps while another reaps for it, or goes away while commands of it are outstanding.
#[test]
fn a_batch_is_woken_or_forgotten() {
    model(|| {
        let (channel, landing) = (channel(), std::sync::Arc::new(Landing::new(1)));
        channel.add_landing(0, &landing);
        assert!(channel.burst().stage_for(&Io::flush(Nsid(1)), 1 << 32 | 5).is_ok());
        let other = Arc::clone(&channel);
        let thread = thread::spawn(move || {
            let me = thread::current();
            let (mut head, mut caught) = (Head::default(), Caught::new());
            let token = loop {
                let _ = other.look_for(0, head.taken(), &mut caught).unwrap();
                if let Some(token) = caught.tokens().first() {
                    break *token;
                }
                if let Some((token, _)) = landing.take(&mut head) {
                    break token;
                }
                let awaits = Awaits::Landing { id: 0, taken: head.taken() };
                match other.enlist(sleeper(&me, awaits)) {
                    Duty::Poll => thread::yield_now(),
                    Duty::Sleep => thread::park(),
                    Duty::Over => {}
                }
            };
            other.resign(Id::Thread(me.id()));
            let busy = other.burst();
            assert_eq!(other.look_for(0, head.taken(), &mut caught).unwrap(), Look::Elsewhere);
            assert!(caught.tokens().is_empty(), "what was caught is handed out once");
            drop(busy);
            other.forget_landing(0);
            token
        });
        assert_eq!(wait(&channel, submit(&channel)), Some(Status::SUCCESS));
        assert_eq!(thread.join().unwrap(), 5);
    });
}
