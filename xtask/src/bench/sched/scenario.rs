//! What is asked of the policies, and what must come out.

use ugds_sched::{
    Adaptive, Arbiter, Completion, HeldQueue, LEVELS, LeastLoaded, Level, Mode, Settings, Tuning, Want,
};

use super::host::{AnyPlace, COSTS, Caller, Outcome, Setup, Wait, run};
use super::model::{MODEL, Picos};

/// Small reads beside large writes under one policy.
pub(crate) struct Beside {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    /// What the reads took, in order.
    pub(crate) read_ps: Vec<Picos>,
    pub(crate) all_bytes_per_s: f64,
    pub(crate) write_bytes_per_s: f64,
    /// Those that had not ended when the run did count, too.
    pub(crate) worst_write_ps: Picos,
    pub(crate) background_max_bytes: u64,
}

/// A number that has to keep a bound.
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) bound: Bound,
    pub(crate) unit: &'static str,
}

/// Which side of a number is good.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Check {
    pub(crate) fn holds(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.value <= most,
            Bound::AtLeast(least) => self.value >= least,
        }
    }
}

/// One way of doing it: readers and writers, a rule, numbers, a mode.
struct Case {
    name: &'static str,
    key: &'static str,
    readers: usize,
    writers: usize,
    pause_max_us: u64,
    place: fn() -> AnyPlace,
    mode: Mode,
    tuning: Tuning,
}

/// Every case of small reads beside large writes.
pub(crate) fn beside() -> anyhow::Result<Vec<Beside>> {
    let base = Case {
        name: "",
        key: "",
        readers: 1,
        writers: 7,
        pause_max_us: 20,
        place: || Box::new(LeastLoaded::new()),
        mode: Mode::Adaptive,
        tuning: Tuning::for_device(MODEL.bytes_per_s, MODEL.access_ns),
    };
    let mut whole = base.tuning;
    whole.pipeline_bytes = 1 << 20;
    let mut chunks_128k = base.tuning;
    (chunks_128k.background_chunk_bytes, chunks_128k.background_bytes) = (128 << 10, 256 << 10);
    let cases = [
        Case { name: "no writes", key: "alone", writers: 0, ..base },
        Case {
            name: "paper: queue held, 1 MiB whole",
            key: "paper",
            place: || Box::new(HeldQueue::new()),
            mode: Mode::Throughput,
            tuning: whole,
            ..base
        },
        Case {
            name: "least loaded, 1 MiB whole",
            key: "uncapped",
            mode: Mode::Throughput,
            tuning: whole,
            ..base
        },
        Case {
            name: "128K chunks, 256K in flight",
            key: "chunks_128k",
            mode: Mode::Latency,
            tuning: chunks_128k,
            ..base
        },
        Case { name: "latency: 32K, 128K in flight", key: "latency", mode: Mode::Latency, ..base },
        Case { name: "default (adaptive)", key: "default", ..base },
        Case { name: "priority: 32K, 96K in flight", key: "priority", mode: Mode::Priority, ..base },
        Case { name: "default, 4 readers, 4 writers", key: "default_4_4", readers: 4, writers: 4, ..base },
        Case {
            name: "priority, 4 and 4",
            key: "priority_4_4",
            readers: 4,
            writers: 4,
            mode: Mode::Priority,
            ..base
        },
        Case { name: "default, 32 and 32", key: "default_32_32", readers: 32, writers: 32, ..base },
        Case { name: "default, a read every 20 ms", key: "default_rare", pause_max_us: 40_000, ..base },
        Case {
            name: "latency, a read every 20 ms",
            key: "latency_rare",
            pause_max_us: 40_000,
            mode: Mode::Latency,
            ..base
        },
    ];
    cases.iter().map(Beside::of).collect()
}

impl Beside {
    fn of(case: &Case) -> anyhow::Result<Self> {
        let settings = Settings::new().mode(case.mode);
        let reader = Caller { want: Want::read(4096).settings(settings), pause_max_us: case.pause_max_us };
        let writer = Caller { want: Want::write(1 << 20).settings(settings), pause_max_us: 0 };
        let callers = [vec![reader; case.readers], vec![writer; case.writers]].concat();
        // Enough reads for a percentile, also when they are rare.
        let run_us = 200_000.max(case.pause_max_us * 100);
        let outcome = run(Setup {
            place: (case.place)(),
            tuning: case.tuning,
            callers,
            wait: Wait::Always(Completion::Poll),
            warm_us: run_us / 10,
            run_us,
        })?;
        let (reads, writes) = outcome.moved_bytes.split_at(case.readers);
        let (read_bytes, write_bytes): (u64, u64) = (reads.iter().sum(), writes.iter().sum());
        Ok(Self {
            name: case.name,
            key: case.key,
            read_ps: latencies(&outcome, |caller| caller < case.readers),
            all_bytes_per_s: bytes_per_s(read_bytes + write_bytes, outcome.measured_ps),
            write_bytes_per_s: bytes_per_s(write_bytes, outcome.measured_ps),
            worst_write_ps: worst(&outcome, |caller| caller >= case.readers),
            background_max_bytes: outcome.background_max_bytes,
        })
    }

    pub(crate) fn read_us(&self, percent: usize) -> f64 {
        us(percentile(&self.read_ps, percent))
    }
}

/// What must hold of small reads beside large writes.
pub(crate) fn checks_beside(rows: &[Beside]) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut check = |name: String, value, bound, unit| checks.push(Check { name, value, bound, unit });
    for (key, most_us) in
        [("default", 24.0), ("default_4_4", 24.0), ("priority", 21.0), ("priority_4_4", 21.0)]
    {
        let Some(row) = rows.iter().find(|row| row.key == key) else { continue };
        check(format!("{key}: p99 of reads"), row.read_us(99), Bound::AtMost(most_us), "us");
        let share = 100.0 * row.all_bytes_per_s / MODEL.bytes_per_s as f64;
        check(format!("{key}: share of the pipe"), share, Bound::AtLeast(95.0), "%");
    }
    for (key, readers, writers, cap_bytes) in
        [("default", 1, 7, 128u64 << 10), ("priority", 1, 7, 96 << 10), ("default_32_32", 32, 32, 128 << 10)]
    {
        let Some(row) = rows.iter().find(|row| row.key == key) else { continue };
        // What the writes have in flight, of all that the device can have in its pipe.
        let fair = 100.0 * cap_bytes as f64 / (cap_bytes + readers * 4096) as f64;
        let share = 100.0 * row.write_bytes_per_s / MODEL.bytes_per_s as f64;
        check(format!("{key}: share of the writes"), share, Bound::AtLeast(fair * 0.95), "%");
        // A fair turn for each writer, and a tenth more.
        let fair_ms = f64::from(writers << 20) / row.write_bytes_per_s * 1e3 * 1.1;
        check(
            format!("{key}: worst 1 MiB write"),
            us(row.worst_write_ps) / 1e3,
            Bound::AtMost(fair_ms),
            "ms",
        );
    }
    checks
}

/// The baselines of the page on performance: name, value, and what the page says.
pub(crate) fn baselines(rows: &[Beside]) -> Vec<Check> {
    let figures =
        [("alone", 10.6), ("paper", 1049.0), ("uncapped", 1049.0), ("chunks_128k", 38.0), ("latency", 19.0)];
    figures
        .into_iter()
        .filter_map(|(key, said_us)| {
            let row = rows.iter().find(|row| row.key == key)?;
            let off = 100.0 * (row.read_us(99) / said_us - 1.0).abs();
            Some(Check {
                name: format!("{key}: p99 off {said_us} us by"),
                value: off,
                bound: Bound::AtMost(2.0),
                unit: "%",
            })
        })
        .collect()
}

/// How many callers share the device, and what each gets.
pub(crate) struct Many {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    pub(crate) requests_per_s: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) p99_us: f64,
    pub(crate) worst_us: f64,
}

/// Reads of one kind by some callers.
pub(crate) fn many() -> anyhow::Result<Vec<Many>> {
    let mut shallow = Tuning::for_device(MODEL.bytes_per_s, MODEL.access_ns);
    shallow.queue_commands = 8;
    let deep = Tuning::for_device(MODEL.bytes_per_s, MODEL.access_ns);
    Ok(vec![
        Many::of("4 KiB, 4 callers", "callers_4", 4, 4096, deep)?,
        Many::of("4 KiB, 64 callers", "callers_64", 64, 4096, deep)?,
        Many::of("4 KiB, 64 callers, 8 slots a queue", "callers_64_shallow", 64, 4096, shallow)?,
        Many::of("16 MiB, 1 caller", "read_16m", 1, 16 << 20, deep)?,
    ])
}

impl Many {
    fn of(
        name: &'static str,
        key: &'static str,
        callers: usize,
        bytes: u64,
        tuning: Tuning,
    ) -> anyhow::Result<Self> {
        let outcome = run(Setup {
            place: Box::new(LeastLoaded::new()),
            tuning,
            callers: vec![Caller { want: Want::read(bytes), pause_max_us: 0 }; callers],
            wait: Wait::Always(Completion::Poll),
            warm_us: 20_000,
            run_us: 200_000,
        })?;
        let sorted = latencies(&outcome, |_| true);
        let moved = bytes_per_s(outcome.moved_bytes.iter().sum(), outcome.measured_ps);
        Ok(Self {
            name,
            key,
            requests_per_s: moved / bytes as f64,
            bytes_per_s: moved,
            p99_us: us(percentile(&sorted, 99)),
            worst_us: us(worst(&outcome, |_| true)),
        })
    }
}

/// What must hold of many callers, and of one with large reads.
pub(crate) fn checks_many(rows: &[Many]) -> Vec<Check> {
    let row = |key: &str| rows.iter().find(|row| row.key == key);
    let (Some(few), Some(many), Some(shallow), Some(large)) =
        (row("callers_4"), row("callers_64"), row("callers_64_shallow"), row("read_16m"))
    else {
        return Vec::new();
    };
    // All others' reads through the pipe once, and the access time.
    let turn_us = us(MODEL.pipe_ps(64 * 4096)) + MODEL.access_ns as f64 / 1000.0;
    let share = 100.0 * large.bytes_per_s / MODEL.bytes_per_s as f64;
    vec![
        Check {
            name: "64 callers against 4, requests".into(),
            value: many.requests_per_s / few.requests_per_s,
            bound: Bound::AtLeast(1.0),
            unit: "x",
        },
        Check {
            name: "the same with 8 slots a queue".into(),
            value: shallow.requests_per_s / few.requests_per_s,
            bound: Bound::AtLeast(1.0),
            unit: "x",
        },
        Check {
            name: "64 callers: worst wait".into(),
            value: many.worst_us,
            bound: Bound::AtMost(turn_us),
            unit: "us",
        },
        Check {
            name: "the same with 8 slots a queue".into(),
            value: shallow.worst_us,
            bound: Bound::AtMost(turn_us),
            unit: "us",
        },
        Check {
            name: "16 MiB reads: share of the pipe".into(),
            value: share,
            bound: Bound::AtLeast(98.0),
            unit: "%",
        },
    ]
}

/// A phase of a changing load, with what a request costs on average, in us: latency, and processor time at its price.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) poll_us: f64,
    pub(crate) interrupt_us: f64,
    pub(crate) adaptive_us: f64,
    /// When the adaptive mode changed, in us after the start of the phase.
    pub(crate) switches: Vec<(f64, Completion)>,
}

/// The load changes; one adaptive state goes through all of it.
pub(crate) fn phases() -> anyhow::Result<Vec<Phase>> {
    let adaptive = Adaptive::new(&COSTS);
    [
        ("4 KiB, 1 caller", 1, 4096),
        ("4 KiB, 12 callers", 12, 4096),
        ("4 KiB, 64 callers", 64, 4096),
        ("4 KiB, 2 callers", 2, 4096),
        ("1 MiB, 2 callers", 2, 1 << 20),
        ("16 KiB, 8 callers", 8, 16 << 10),
        ("4 KiB, 1 caller", 1, 4096),
    ]
    .into_iter()
    .map(|(name, callers, bytes)| {
        let callers = vec![Caller { want: Want::read(bytes), pause_max_us: 2 }; callers];
        let (poll_us, _) = phase(&callers, Wait::Always(Completion::Poll))?;
        let (interrupt_us, _) = phase(&callers, Wait::Always(Completion::Interrupt))?;
        let (adaptive_us, switches) = phase(&callers, Wait::Adaptive(&adaptive))?;
        Ok(Phase { name, poll_us, interrupt_us, adaptive_us, switches })
    })
    .collect()
}

/// Runs one phase and returns the average cost, the change-over included, and the switches.
fn phase(callers: &[Caller], wait: Wait<'_>) -> anyhow::Result<(f64, Vec<(f64, Completion)>)> {
    let outcome = run(Setup {
        place: Box::new(LeastLoaded::new()),
        tuning: Tuning::for_device(MODEL.bytes_per_s, MODEL.access_ns),
        callers: callers.to_vec(),
        wait,
        // The first commands after a change count: that is where it decides wrongly.
        warm_us: 0,
        run_us: 20_000,
    })?;
    let price = COSTS.cpu_price_percent as f64 / 100.0;
    let costs = outcome.samples.iter().map(|sample| us(sample.latency_ps) + price * us(sample.cpu_ps));
    let mean = costs.sum::<f64>() / outcome.samples.len().max(1) as f64;
    Ok((mean, outcome.switches.into_iter().map(|(at_ps, to)| (us(at_ps), to)).collect()))
}

/// The adaptive mode is nowhere much worse than the better of the fixed ones.
pub(crate) fn checks_phases(phases: &[Phase]) -> Vec<Check> {
    let over = |phase: &Phase| 100.0 * (phase.adaptive_us / phase.poll_us.min(phase.interrupt_us) - 1.0);
    let check = |(at, phase): (usize, &Phase)| Check {
        name: format!("phase {}: above the better mode", at + 1),
        value: over(phase),
        bound: Bound::AtMost(5.0),
        unit: "%",
    };
    phases.iter().enumerate().map(check).collect()
}

/// How a full backlog of every level is served.
pub(crate) struct Served {
    pub(crate) level: Level,
    pub(crate) share_percent: f64,
    /// The most commands of others between two of its own.
    pub(crate) worst_others: u32,
}

/// Every level always has a command of 128 KiB waiting, and one goes out whenever another ended.
pub(crate) fn levels() -> Vec<Served> {
    let mut arbiter = Arbiter::default();
    let (mut served, mut others, mut worst) = ([0u32; LEVELS], [0u32; LEVELS], [0u32; LEVELS]);
    for _ in 0..PICKS {
        let Some(level) = arbiter.pick([true; LEVELS]) else { continue };
        for at in 0..LEVELS {
            others[at] = if at == level as usize { 0 } else { others[at] + 1 };
            worst[at] = worst[at].max(others[at]);
        }
        served[level as usize] += 1;
    }
    let share = |count: u32| 100.0 * f64::from(count) / f64::from(PICKS);
    [Level::Urgent, Level::Normal, Level::Background]
        .into_iter()
        .map(|level| Served {
            level,
            share_percent: share(served[level as usize]),
            worst_others: worst[level as usize],
        })
        .collect()
}

/// No level is passed over more often than the arbiter's documentation says.
pub(crate) fn checks_levels(rows: &[Served]) -> Vec<Check> {
    let bound = Bound::AtMost(8.0 + LEVELS as f64 - 2.0);
    let check = |row: &Served| Check {
        name: format!("{:?}: commands of others before it", row.level),
        value: row.worst_others.into(),
        bound,
        unit: "",
    };
    rows.iter().map(check).collect()
}

const PICKS: u32 = 9_000;

fn latencies(outcome: &Outcome, counts: impl Fn(usize) -> bool) -> Vec<Picos> {
    let counted = outcome.samples.iter().filter(|sample| counts(sample.caller));
    let mut sorted: Vec<Picos> = counted.map(|sample| sample.latency_ps).collect();
    sorted.sort_unstable();
    sorted
}

/// The longest wait, also of those that were still waiting at the end: a caller that starves ends nothing.
fn worst(outcome: &Outcome, counts: impl Fn(usize) -> bool) -> Picos {
    let ended = outcome.samples.iter().map(|sample| (sample.caller, sample.latency_ps));
    let all = ended.chain(outcome.open_ps.iter().copied().enumerate());
    all.filter(|(caller, _)| counts(*caller)).map(|(_, wait_ps)| wait_ps).max().unwrap_or(0)
}

/// The value that `percent` of a sorted list do not exceed; 0 of an empty one.
fn percentile(sorted: &[Picos], percent: usize) -> Picos {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

pub(crate) fn us(time_ps: Picos) -> f64 {
    time_ps as f64 / 1e6
}

fn bytes_per_s(bytes: u64, time_ps: Picos) -> f64 {
    bytes as f64 * 1e12 / time_ps as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_table() {
        let sorted: Vec<Picos> = (1..=200).collect();
        assert_eq!(
            (percentile(&sorted, 50), percentile(&sorted, 99), percentile(&sorted, 100)),
            (100, 198, 200)
        );
        assert_eq!((percentile(&[], 99), percentile(&[7], 1)), (0, 7));
    }

    #[test]
    fn a_bound_has_a_side() {
        let check = |value, bound| Check { name: String::new(), value, bound, unit: "" }.holds();
        assert!(check(1.0, Bound::AtMost(1.0)) && !check(1.1, Bound::AtMost(1.0)));
        assert!(check(1.0, Bound::AtLeast(1.0)) && !check(0.9, Bound::AtLeast(1.0)));
    }
}
