//! A queue pair against a port that does what the test says, right or wrong.

use nvme_proto::{Cid, Cqe, Nsid, Qid, Status};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use ugds_hal::{Command, DomainId, Port, Traits, Violation};
use ugds_mem::Io;
use ugds_queue::{QueuePair, SubmitError, Wedge};

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

    fn publish(&mut self) {
        let mut script = self.0.lock().unwrap();
        script.published = script.staged.len();
        script.log.push("doorbell");
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
        QueuePair::new(self.clone(), Qid(3), traits().era(), true)
    }
}

fn traits() -> Traits {
    Traits::local(DomainId::fresh(), "script", "nowhere".into())
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
    let completed = queue.reap().unwrap();
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
    assert_eq!(queue.reap().unwrap().len(), 2);
    assert_eq!(device.0.lock().unwrap().log, ["look", "look", "retire"]);
    assert_eq!(queue.reap().unwrap().len(), 2);
    assert_eq!(queue.reap().unwrap().len(), 1);
    assert!(queue.reap().unwrap().is_empty());
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
    let done = queue.reap().unwrap()[0];
    assert_eq!((done.cookie, done.status, done.result, done.cid), (77, status, 1 << 32 | 5, cid));
    assert_eq!((queue.counters().completed, queue.counters().failed, queue.counters().bytes), (1, 1, 0));
}

/// Every identifier that is not outstanding wedges the queue, whatever it is.
#[test]
fn unknown_stale_and_duplicate_identifiers_wedge() {
    let stale = |device: &Scripted, queue: &mut QueuePair<Scripted>| {
        let first = submit(queue, 0).unwrap();
        queue.ring();
        device.complete(first, Status::SUCCESS);
        assert_eq!(queue.reap().unwrap().len(), 1);
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
        assert_eq!(queue.reap(), Err(wedge), "{name}");
        assert_eq!(queue.reap(), Err(wedge), "{name}: for good");
        assert_eq!(submit(&mut queue, 9), Err(SubmitError::Wedged(wedge)), "{name}: fails fast");
        assert!(wedge.to_string().contains(&cid.to_string()), "the text names the identifier");
    }
}

#[test]
fn a_protocol_violation_wedges_and_hands_nothing_out() {
    let device = Scripted::default();
    let mut queue = device.queue();
    let cid = submit(&mut queue, 0).unwrap();
    queue.ring();
    device.complete(cid, Status::SUCCESS);
    let violation = Violation::SubmissionHead { qid: Qid(3), sqhd: 9, head: 0, tail: 1 };
    device.0.lock().unwrap().violation = Some(violation);
    assert_eq!(queue.reap(), Err(Wedge::Protocol(violation)));
    assert_eq!(queue.wedged(), Some(Wedge::Protocol(violation)));
}

#[test]
fn the_first_reason_to_wedge_is_kept() {
    let device = Scripted::default();
    let mut queue = device.queue();
    assert_eq!(queue.wedge(Wedge::Gone), Wedge::Gone);
    assert_eq!(queue.wedge(Wedge::ControllerFatal), Wedge::Gone);
    assert_eq!(queue.wedged(), Some(Wedge::Gone));
}
