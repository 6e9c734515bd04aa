//! A queue pair against a port that does what the test says, right or wrong.

use nvme_proto::{Cid, Cqe, Nsid, Qid, Status};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use ugds_hal::{Command, DomainId, Port, Traits, Violation};
use ugds_mem::Io;
use ugds_queue::{Generations, QueuePair, SubmitError, Wedge};

/// What the device has been given, and what it will say.
#[derive(Default)]
struct Script {
    staged: Vec<Cid>,
    published: usize,
    completions: VecDeque<Cqe>,
    violation: Option<Violation>,
    /// What happened, in order.
    log: Vec<&'static str>,
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Port for Scripted {
    fn entries(&self) -> u16 {
        8
    }

    fn stage(&mut self, cid: Cid, _command: &Command<'_>) {
        self.0.lock().unwrap().staged.push(cid);
    }

    fn publish(&mut self) -> bool {
        let mut script = self.0.lock().unwrap();
        let staged = script.staged.len();
        let told = std::mem::replace(&mut script.published, staged);
        let news = told != staged;
        if news {
            script.log.push("doorbell");
        }
        news
    }

    fn next(&mut self) -> Option<Cqe> {
        let mut script = self.0.lock().unwrap();
        script.log.push("look");
        script.completions.pop_front()
    }

    fn retire(&mut self) -> Result<(), Violation> {
        let mut script = self.0.lock().unwrap();
        script.log.push("retire");
        script.violation.map_or(Ok(()), Err)
    }
}

impl Scripted {
    fn complete(&self, cid: Cid, status: Status) {
        let cqe = Cqe { cid: cid.0.into(), status: status.to_field(true).into(), ..Cqe::default() };
        self.0.lock().unwrap().completions.push_back(cqe);
    }

    fn queue(&self) -> QueuePair<Self> {
        QueuePair::new(self.clone(), Qid(3), traits().era(), Generations::On)
    }
}

fn traits() -> Traits {
    Traits::local(DomainId::fresh(), "script", "nowhere".into())
}

/// What one pass hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    cookie: u64,
    status: Status,
    result: u64,
    cid: Cid,
}

fn reap(queue: &mut QueuePair<Scripted>) -> Result<Vec<Done>, Wedge> {
    let mut all = Vec::new();
    let count = queue.reap(|done| {
        all.push(Done { cookie: done.cookie, status: done.status(), result: done.result(), cid: done.cid() });
    })?;
    assert_eq!(count, all.len());
    Ok(all)
}

fn submit(queue: &mut QueuePair<Scripted>, cookie: u64) -> Result<Cid, SubmitError> {
    queue.submit(&Io::flush(Nsid(1)), cookie).map(|ticket| ticket.cid())
}

#[test]
fn one_entry_less_than_the_ring_is_outstanding_and_no_more() {
    let device = Scripted::default();
    let mut queue = device.queue();
    let cids: Vec<Cid> = (0..7).map(|cookie| submit(&mut queue, cookie).unwrap()).collect();
    assert_eq!(submit(&mut queue, 7), Err(SubmitError::Full { slots: 7 }));
    assert_eq!(queue.outstanding(), 7);
    queue.ring();
    device.complete(cids[4], Status::SUCCESS);
    let completed = reap(&mut queue).unwrap();
    assert_eq!(completed.iter().map(|done| done.cookie).collect::<Vec<_>>(), [4]);
    assert!(submit(&mut queue, 8).is_ok());
    assert!(submit(&mut queue, 9).is_err());
}

#[test]
fn a_permit_that_is_dropped_reserves_nothing() {
    let device = Scripted::default();
    let mut queue = device.queue();
    for _ in 0..20 {
        assert!(queue.permit().is_ok());
    }
    assert_eq!(queue.outstanding(), 0);
    assert!((0..7).all(|cookie| submit(&mut queue, cookie).is_ok()));
    assert!(queue.permit().is_err());
}

#[test]
fn a_dropped_ticket_frees_nothing() {
    let device = Scripted::default();
    let mut queue = device.queue();
    drop(queue.submit(&Io::flush(Nsid(1)), 1));
    assert_eq!(queue.outstanding(), 1);
    let Err(queue) = queue.into_port() else { panic!("a port with a command outstanding was given back") };
    assert_eq!(queue.outstanding(), 1);
}

#[test]
fn one_doorbell_publishes_all_that_is_staged() {
    let device = Scripted::default();
    let mut queue = device.queue();
    (0..5).for_each(|cookie| assert!(submit(&mut queue, cookie).is_ok()));
    queue.ring();
    queue.ring();
    assert_eq!(device.0.lock().unwrap().log, ["doorbell"]);
    assert_eq!((queue.counters().rings, queue.counters().submitted), (1, 5));
}

#[test]
fn a_pass_is_bounded_and_retires_once() {
    let device = Scripted::default();
    let mut queue = device.queue();
    let cids: Vec<Cid> = (0..5).map(|cookie| submit(&mut queue, cookie).unwrap()).collect();
    queue.ring();
    cids.iter().for_each(|cid| device.complete(*cid, Status::SUCCESS));
    device.0.lock().unwrap().log.clear();
    // A quarter of eight entries.
    assert_eq!(reap(&mut queue).unwrap().len(), 2);
    assert_eq!(device.0.lock().unwrap().log, ["look", "look", "retire"]);
    assert_eq!(reap(&mut queue).unwrap().len(), 2);
    assert_eq!(reap(&mut queue).unwrap().len(), 1);
    assert!(reap(&mut queue).unwrap().is_empty());
}

#[test]
fn one_completion_is_taken_and_the_others_stay() {
    let device = Scripted::default();
    let mut queue = device.queue();
    assert_eq!(queue.reap_one(|_| panic!("nothing is there")), Ok(false));
    let cids: Vec<Cid> = (0..2).map(|cookie| submit(&mut queue, cookie).unwrap()).collect();
    queue.ring();
    cids.iter().for_each(|cid| device.complete(*cid, Status::SUCCESS));
    device.complete(Cid(99), Status::SUCCESS);
    for cookie in 0..2 {
        let mut taken = None;
        assert_eq!(queue.reap_one(|done| taken = Some(done.cookie)), Ok(true));
        assert_eq!(taken, Some(cookie));
    }
    let wedge = Wedge::UnknownCid { qid: Qid(3), cid: Cid(99) };
    assert_eq!(queue.reap_one(|_| panic!("that is nobody's")), Err(wedge));
    assert_eq!(queue.reap_one(|_| panic!("for good")), Err(wedge));
    assert_eq!(queue.counters().completed, 2);
}

#[test]
fn status_and_result_come_through_and_are_counted() {
    let device = Scripted::default();
    let mut queue = device.queue();
    let cid = submit(&mut queue, 77).unwrap();
    queue.ring();
    let status = Status::new(2, 0x81).with_do_not_retry();
    device.complete(cid, status);
    device.0.lock().unwrap().completions[0].dw0 = 5.into();
    device.0.lock().unwrap().completions[0].dw1 = 1.into();
    let done = reap(&mut queue).unwrap()[0];
    assert_eq!((done.cookie, done.status, done.result, done.cid), (77, status, 1 << 32 | 5, cid));
    assert_eq!((queue.counters().completed, queue.counters().failed), (1, 1));
}

/// Every identifier that is not outstanding wedges the queue, whatever it is.
#[test]
fn unknown_stale_and_duplicate_identifiers_wedge() {
    let stale = |device: &Scripted, queue: &mut QueuePair<Scripted>| {
        let first = submit(queue, 0).unwrap();
        queue.ring();
        device.complete(first, Status::SUCCESS);
        assert_eq!(reap(queue).unwrap().len(), 1);
        let second = submit(queue, 1).unwrap();
        assert_ne!(first, second);
        first
    };
    let duplicate = |device: &Scripted, queue: &mut QueuePair<Scripted>| {
        let cid = submit(queue, 0).unwrap();
        queue.ring();
        device.complete(cid, Status::SUCCESS);
        cid
    };
    type Case = fn(&Scripted, &mut QueuePair<Scripted>) -> Cid;
    let cases: [(&str, Case); 6] = [
        ("stale", stale),
        ("duplicate", duplicate),
        ("none", |_, _| Cid(0xffff)),
        ("beyond the slots", |_, _| Cid(7)),
        ("free slot", |_, _| Cid(0)),
        ("wrong generation", |_, queue| Cid(submit(queue, 0).unwrap().0 ^ 0x8000)),
    ];
    for (name, case) in cases {
        let device = Scripted::default();
        let mut queue = device.queue();
        let cid = case(&device, &mut queue);
        queue.ring();
        device.complete(cid, Status::SUCCESS);
        let wedge = Wedge::UnknownCid { qid: Qid(3), cid };
        assert_eq!(reap(&mut queue), Err(wedge), "{name}");
        assert_eq!(reap(&mut queue), Err(wedge), "{name}: for good");
        assert_eq!(submit(&mut queue, 9), Err(SubmitError::Wedged(wedge)), "{name}: fails fast");
        assert!(wedge.to_string().contains(&cid.to_string()), "the text names the identifier");
    }
}

#[test]
fn a_protocol_violation_wedges_and_what_was_handed_out_stands() {
    let device = Scripted::default();
    let mut queue = device.queue();
    let cid = submit(&mut queue, 0).unwrap();
    queue.ring();
    device.complete(cid, Status::SUCCESS);
    let violation = Violation::SubmissionHead { qid: Qid(3), sqhd: 9, head: 0, tail: 1 };
    device.0.lock().unwrap().violation = Some(violation);
    assert_eq!(reap(&mut queue), Err(Wedge::Protocol(violation)));
    assert_eq!(queue.wedged(), Some(Wedge::Protocol(violation)));
}

/// What was handed out before the fault counts, and what is outstanding does not change by it.
#[test]
fn counters_are_right_after_a_fault_in_the_middle_of_a_pass() {
    let device = Scripted::default();
    let mut queue = device.queue();
    let cids: Vec<Cid> = (0..3).map(|cookie| submit(&mut queue, cookie).unwrap()).collect();
    queue.ring();
    device.complete(cids[0], Status::new(2, 0x81));
    device.complete(Cid(99), Status::SUCCESS);
    assert!(reap(&mut queue).is_err());
    let counters = queue.counters();
    assert_eq!((counters.submitted, counters.completed, counters.failed), (3, 1, 1));
    assert_eq!(queue.outstanding(), 2);
}

/// Whoever is called may panic. A completion that was seen then is not taken for the next command's, even where
/// identifiers repeat.
#[test]
fn a_panic_while_completions_are_handed_out_frees_nothing_twice() {
    for alone in [false, true] {
        let device = Scripted::default();
        let mut queue = QueuePair::new(device.clone(), Qid(3), traits().era(), Generations::Off);
        let cids: Vec<Cid> = (0..2).map(|cookie| submit(&mut queue, cookie).unwrap()).collect();
        queue.ring();
        device.complete(cids[0], Status::SUCCESS);
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if alone {
                let _ = queue.reap_one(|_| panic!("on purpose"));
            } else {
                let _ = queue.reap(|_| panic!("on purpose"));
            }
        }));
        assert!(broken.is_err());
        assert_eq!(queue.outstanding(), 1);
        // In the middle of a pass it is not known what comes again, so nothing is submitted any more.
        let next = submit(&mut queue, 7);
        assert_eq!(next.is_ok(), alone, "{next:?}");
    }
}

#[test]
fn the_first_reason_to_wedge_is_kept() {
    let device = Scripted::default();
    let mut queue = device.queue();
    assert_eq!(queue.wedge(Wedge::Gone), Wedge::Gone);
    assert_eq!(queue.wedge(Wedge::ControllerFatal), Wedge::Gone);
    assert_eq!(queue.wedged(), Some(Wedge::Gone));
}
