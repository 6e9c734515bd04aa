//! The host, in virtual time: callers that ask the scheduler, one request after the other. The policies are those of
//! `ugds-sched`; here is only what an engine would do with their answers, and it takes no time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ugds_sched::{
    Adaptive, Completion, Costs, Doorbell, Place, Placement, Progress, Ranges, Ring, Scheduler, Tuning, Want,
};

use super::model::{Device, MODEL, Picos};

/// A rule that is chosen when the program runs.
pub(crate) type AnyPlace = Box<dyn Place>;

/// Somebody who makes requests, the next one after the last one ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) want: Want,
    /// The longest pause between two requests; each is drawn anew.
    pub(crate) pause_max_us: u64,
}

/// How callers learn that their requests ended.
pub(crate) enum Wait<'w> {
    Always(Completion),
    Adaptive(&'w Adaptive),
}

/// What is run.
pub(crate) struct Setup<'w> {
    pub(crate) place: AnyPlace,
    pub(crate) tuning: Tuning,
    pub(crate) callers: Vec<Caller>,
    pub(crate) wait: Wait<'w>,
    /// What begins or ends before that is not measured.
    pub(crate) warm_us: u64,
    pub(crate) run_us: u64,
}

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) caller: usize,
    pub(crate) latency_ps: Picos,
    /// Processor time of the wait.
    pub(crate) cpu_ps: Picos,
}

/// What came out of a run.
pub(crate) struct Outcome {
    /// All requests that ended, apart from the warm-up.
    pub(crate) samples: Vec<Sample>,
    /// Bytes that were moved for each caller, apart from the warm-up.
    pub(crate) moved_bytes: Vec<u64>,
    /// How long each caller's request had waited when the run ended.
    pub(crate) open_ps: Vec<Picos>,
    pub(crate) measured_ps: Picos,
    /// The most background bytes that were in flight at once.
    pub(crate) background_max_bytes: u64,
    /// How the waiting changed, and when.
    pub(crate) switches: Vec<(Picos, Completion)>,
}

/// Runs a setup to its end.
pub(crate) fn run(setup: Setup<'_>) -> anyhow::Result<Outcome> {
    let ranges = Ranges::shared(MODEL.queues);
    let scheduler = Scheduler::new(MODEL.queues, setup.place, &ranges, setup.tuning)?;
    let states = setup.callers.iter().enumerate().map(|(at, caller)| State::new(at, *caller)).collect();
    let mut host = Host {
        scheduler: &scheduler,
        device: Device::new(MODEL),
        doorbells: [Doorbell::with_low(0); MODEL.queues],
        states,
        wait: setup.wait,
        events: BinaryHeap::new(),
        commands: Vec::new(),
        free: Vec::new(),
        random: Random(SEED),
        warm_ps: setup.warm_us * 1_000_000,
        outcome: Outcome {
            samples: Vec::new(),
            moved_bytes: vec![0; setup.callers.len()],
            open_ps: Vec::new(),
            measured_ps: 0,
            background_max_bytes: 0,
            switches: Vec::new(),
        },
    };
    host.run(setup.run_us * 1_000_000);
    Ok(host.outcome)
}

/// What happens at a time. The order of equal times is that of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A command ended: its place in the table of commands.
    Ended(usize),
    /// A caller makes its next request.
    Begin(usize),
}

/// A caller and the request that it waits for.
struct State {
    caller: Caller,
    progress: Progress,
    left_bytes: u64,
    in_flight: u32,
    began_ps: Picos,
    completion: Completion,
}

impl State {
    fn new(at: usize, caller: Caller) -> Self {
        let progress = Progress::new(at % MODEL.queues);
        Self { caller, progress, left_bytes: 0, in_flight: 0, began_ps: 0, completion: Completion::Poll }
    }
}

struct Host<'s, 'w> {
    scheduler: &'s Scheduler<AnyPlace>,
    device: Device<usize>,
    doorbells: [Doorbell; MODEL.queues],
    states: Vec<State>,
    wait: Wait<'w>,
    events: BinaryHeap<Reverse<(Picos, Event)>>,
    commands: Vec<Option<(usize, Placement)>>,
    free: Vec<usize>,
    random: Random,
    warm_ps: Picos,
    outcome: Outcome,
}

impl Host<'_, '_> {
    fn run(&mut self, until_ps: Picos) {
        for caller in 0..self.states.len() {
            self.pause(caller, 0);
        }
        while let Some(Reverse((now_ps, event))) = self.events.pop() {
            if now_ps > until_ps {
                break;
            }
            self.happen(now_ps, event);
            // All that happens at one time is fetched together.
            if self.events.peek().is_none_or(|Reverse((next_ps, _))| *next_ps != now_ps) {
                self.retry();
                self.fetch(now_ps);
            }
        }
        let open = |state: &State| {
            if state.left_bytes == 0 && state.in_flight == 0 { 0 } else { until_ps - state.began_ps }
        };
        self.outcome.open_ps = self.states.iter().map(open).collect();
        self.outcome.measured_ps = until_ps - self.warm_ps;
    }

    fn happen(&mut self, now_ps: Picos, event: Event) {
        match event {
            Event::Begin(caller) => {
                let state = &mut self.states[caller];
                state.progress = Progress::new(state.progress.near_queue());
                (state.left_bytes, state.began_ps) = (state.caller.want.request_bytes, now_ps);
                self.hand_out(caller);
                self.choose_wait(caller, now_ps);
            }
            Event::Ended(command) => {
                let Some((caller, placement)) = self.commands[command].take() else { return };
                self.free.push(command);
                if now_ps >= self.warm_ps {
                    self.outcome.moved_bytes[caller] += u64::from(placement.chunk_bytes());
                }
                self.scheduler.done(placement);
                let state = &mut self.states[caller];
                state.in_flight -= 1;
                if state.in_flight == 0 && state.left_bytes == 0 {
                    self.end(caller, now_ps);
                }
            }
        }
    }

    /// Hands out as much of a request as the scheduler lets through.
    fn hand_out(&mut self, caller: usize) {
        let state = &mut self.states[caller];
        while state.left_bytes != 0 {
            let Ok(placement) =
                self.scheduler.place(&state.caller.want, state.left_bytes, &mut state.progress)
            else {
                break;
            };
            let (queue, bytes) = (placement.queue(), placement.chunk_bytes());
            state.left_bytes -= u64::from(bytes);
            state.in_flight += 1;
            let command = self.free.pop().unwrap_or_else(|| {
                self.commands.push(None);
                self.commands.len() - 1
            });
            self.commands[command] = Some((caller, placement));
            self.device.stage(queue, bytes, command);
            if self.doorbells[queue].staged(0) == Ring::Now {
                self.device.ring(queue);
            }
        }
        for (queue, doorbell) in self.doorbells.iter_mut().enumerate() {
            if doorbell.end_of_burst() == Ring::Now {
                self.device.ring(queue);
            }
        }
        let out = self.scheduler.credits().out_bytes();
        self.outcome.background_max_bytes = self.outcome.background_max_bytes.max(out);
    }

    /// Lets all who wait for room ask again, beginning with anybody: who is served is for the scheduler to say.
    fn retry(&mut self) {
        let callers = self.states.len();
        let first = self.random.below(callers as u64) as usize;
        for at in 0..callers {
            let caller = (first + at) % callers;
            if self.states[caller].left_bytes != 0 {
                self.hand_out(caller);
            }
        }
    }

    fn fetch(&mut self, now_ps: Picos) {
        for ending in self.device.fetch(now_ps) {
            self.events.push(Reverse((ending.at_ps, Event::Ended(ending.tag))));
        }
    }

    fn choose_wait(&mut self, caller: usize, now_ps: Picos) {
        let state = &mut self.states[caller];
        state.completion = match &self.wait {
            Wait::Always(completion) => *completion,
            Wait::Adaptive(adaptive) => {
                let before = adaptive.current();
                let total = self.scheduler.total().bytes;
                let completion = adaptive.decide(state.caller.want.request_bytes, total);
                if adaptive.current() != before {
                    self.outcome.switches.push((now_ps, adaptive.current()));
                }
                completion
            }
        };
    }

    fn end(&mut self, caller: usize, now_ps: Picos) {
        let state = &self.states[caller];
        let waited_ps = now_ps - state.began_ps;
        let (late_ps, cpu_ps) = match state.completion {
            Completion::Poll => (0, waited_ps),
            Completion::Interrupt => (COSTS.interrupt_latency_ns * 1000, COSTS.interrupt_cpu_ns * 1000),
        };
        let latency_ps = waited_ps + late_ps;
        if state.began_ps >= self.warm_ps {
            self.outcome.samples.push(Sample { caller, latency_ps, cpu_ps });
        }
        self.pause(caller, now_ps + late_ps);
    }

    fn pause(&mut self, caller: usize, now_ps: Picos) {
        let pause_ps = self.random.below(self.states[caller].caller.pause_max_us * 1_000_000 + 1);
        self.events.push(Reverse((now_ps + pause_ps, Event::Begin(caller))));
    }
}

/// What a wait costs, in the model as in the policy.
pub(crate) const COSTS: Costs = Costs {
    interrupt_latency_ns: 4_000,
    interrupt_cpu_ns: 2_500,
    cpu_price_percent: 25,
    access_ns: MODEL.access_ns,
    bytes_per_s: MODEL.bytes_per_s,
};

/// The same numbers in every run (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;
    use ugds_sched::LeastLoaded;

    fn outcome(callers: Vec<Caller>, completion: Completion) -> Outcome {
        run(Setup {
            place: Box::new(LeastLoaded::new()),
            tuning: Tuning::default(),
            callers,
            wait: Wait::Always(completion),
            warm_us: 1_000,
            run_us: 10_000,
        })
        .unwrap()
    }

    #[test]
    fn a_small_read_alone_takes_10_6_us_and_an_interrupt_4_more() {
        let reader = Caller { want: Want::read(4096), pause_max_us: 3 };
        for (completion, latency_ns, cpu_ns) in
            [(Completion::Poll, 10_585, 10_585), (Completion::Interrupt, 14_585, 2_500)]
        {
            let outcome = outcome(vec![reader], completion);
            assert!(outcome.samples.len() > 500);
            for sample in outcome.samples {
                assert_eq!((sample.latency_ps / 1000, sample.cpu_ps / 1000), (latency_ns, cpu_ns));
            }
        }
    }

    #[test]
    fn a_run_repeats_exactly() {
        let callers = vec![
            Caller { want: Want::read(4096), pause_max_us: 10 },
            Caller { want: Want::write(1 << 20), pause_max_us: 0 },
        ];
        let latencies = || -> Vec<Picos> {
            outcome(callers.clone(), Completion::Poll)
                .samples
                .iter()
                .map(|sample| sample.latency_ps)
                .collect()
        };
        assert_eq!(latencies(), latencies());
    }

    #[test]
    fn the_pipe_is_never_more_than_full() {
        let outcome =
            outcome(vec![Caller { want: Want::read(1 << 20), pause_max_us: 0 }; 4], Completion::Poll);
        let bytes: u64 = outcome.moved_bytes.iter().sum();
        let one_ps = MODEL.pipe_ps(128 << 10);
        assert!(MODEL.pipe_ps(bytes) <= outcome.measured_ps + one_ps);
        assert!(MODEL.pipe_ps(bytes) > outcome.measured_ps * 97 / 100);
    }
}
