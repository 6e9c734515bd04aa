use super::*;
use proptest::prelude::*;

fn status() -> impl Strategy<Value = Status> {
    (0u8..8, any::<u8>(), any::<bool>()).prop_filter_map("success", |(sct, sc, lasts)| {
        let status = Status::new(sct, sc);
        let status = if lasts { status.with_do_not_retry() } else { status };
        (!status.is_success()).then_some(status)
    })
}

fn time() -> impl Strategy<Value = Duration> {
    let unit = prop_oneof![Just(1u64), Just(1000), Just(1_000_000), Just(1_000_000_000)];
    (0u64..1 << 20, unit).prop_map(|(count, unit)| Duration::from_nanos(count * unit))
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        status().prop_map(What::Fail),
        status().prop_map(What::CorruptStatus),
        prop_oneof![Just(Access::Read), Just(Access::Write)].prop_map(What::Media),
        Just(What::Drop),
        Just(What::Duplicate),
        Just(What::CorruptPhase),
        Just(What::Hang),
        Just(What::Fatal),
        Just(What::Gone),
        Just(What::StuckDisable),
        time().prop_map(What::Delay),
        time().prop_map(What::LateData),
        time().prop_map(What::SlowReady),
        (1u16..).prop_map(What::CorruptCid),
        (1u16..).prop_map(What::CorruptSqhd),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let nth = (1u64.., any::<bool>()).prop_map(|(n, only)| if only { Nth::Only(n) } else { Nth::From(n) });
    let blocks = (any::<u64>(), 1u64..).prop_map(|(first, count)| Blocks { first: Lba(first), count });
    let when =
        (any::<Option<u16>>(), any::<Option<u8>>(), prop::option::of(blocks), prop::option::of(nth), time());
    (what(), when).prop_map(|(what, (qid, opcode, blocks, nth, after))| {
        let mut when = Trigger { qid: qid.map(Qid), opcode, blocks, nth, after };
        match what {
            What::Media(_) => when.opcode = None,
            What::SlowReady(_) | What::StuckDisable => {
                (when.qid, when.opcode, when.blocks) = (None, None, None);
            }
            _ => {}
        }
        Fault { what, when }
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(faults in prop::collection::vec(fault(), 0..6)) {
        let plan = FaultPlan { faults };
        prop_assert_eq!(plan.validate(), Ok(()));
        prop_assert_eq!(plan.to_string().parse(), Ok(plan));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z-]{0,16}(:([a-z]{1,6}=[0-9a-zx/+]{0,9},?){0,4})?;?") {
        let _ = text.parse::<FaultPlan>();
    }
}

#[test]
fn the_text_of_the_documentation_means_what_it_says() {
    let plan: FaultPlan =
        " drop-cqe:qid=1,nth=3 ;media: lba=0x64+8, on=read; slow-ready:by=2000ms;".parse().unwrap();
    let blocks = Some(Blocks { first: Lba(100), count: 8 });
    let expected = FaultPlan::of(What::Drop, Trigger::default().on(1).nth(3))
        .and(What::Media(Access::Read), Trigger { blocks, ..Trigger::default() })
        .and(What::SlowReady(Duration::from_secs(2)), Trigger::default());
    assert_eq!(plan, expected);
    assert_eq!(plan.to_string(), "drop-cqe:qid=1,nth=3; media:on=read,lba=100+8; slow-ready:by=2s");
    assert_eq!("".parse(), Ok(FaultPlan::default()));
}

#[test]
fn errors_name_the_value_and_what_would_do() {
    for (text, expected) in [
        ("drop", "there is no fault \"drop\"; accepted are fail, media, drop-cqe"),
        ("drop-cqe:cid=1", "drop-cqe takes no \"cid\"; accepted are qid, opcode, lba, nth, after"),
        ("gone:after=3", "gone: after=3 is not possible; a number with ns, us, ms or s is accepted"),
        ("gone:after=3m", "gone: after=3m is not possible"),
        ("delay-cqe", "delay-cqe needs by=, a number with ns, us, ms or s"),
        ("hang:nth=0", "hang: nth=0 is not possible; a number from 1 on"),
        ("hang:nth=1,nth=2", "hang: nth= is given twice"),
        ("fail:status=8/00", "fail: status=8/00 is not possible"),
        ("fail:status=0/00", "fail: status=0/00 is not possible"),
        ("fail:status=281", "fail: status=281 is not possible; SCT/SC in hexadecimal"),
        ("corrupt-cid:xor=0", "corrupt-cid: xor=0 is not possible; a mask from 1 to 0xffff is accepted"),
        ("corrupt-cid:xor=0x10000", "corrupt-cid: xor=0x10000 is not possible"),
        ("media:on=both", "media: on=both is not possible; read or write is accepted"),
        ("media:on=read,lba=5+0", "media: lba=5+0 is not possible; FIRST+COUNT"),
        ("stuck-disable:qid=1", "stuck-disable takes no \"qid\"; accepted are nth, after"),
        ("hang:qid=-1", "hang: qid=-1 is not possible; a queue from 0 to 65535 is accepted"),
        ("hang:qid", "hang: qid= is not possible"),
        ("hang:opcode=256", "hang: opcode=256 is not possible; a number from 0 to 0xff is accepted"),
    ] {
        let error = text.parse::<FaultPlan>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}
