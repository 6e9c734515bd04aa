//! Futures: under a loop that polls descriptors, under tokio, polled or by interrupt, dropped at any time.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use ugds::emu::{Emu, EmuConfig};
use ugds::faulty::Faulty;
use ugds::nvme::Lba;
use ugds::{AsyncQueue, Classes, Completion, Completions, Device, Error, Mode, Options, Pending, Settings};
use ugds_hal::Backend;

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn emu(change: impl FnOnce(&mut EmuConfig)) -> Emu {
    let mut config = EmuConfig::default().with_namespaces(1, 16 << 20, 512);
    change(&mut config);
    Emu::new(config).unwrap()
}

fn options(completions: Completions) -> Options {
    let mut options = Options::default();
    (options.queues, options.queue_entries, options.completions) = (4, 64, completions);
    options
}

fn open(backend: impl Backend, completions: Completions) -> Device {
    Device::with_backend(backend, options(completions), None).unwrap()
}

/// Drives `futures` until all have ended, asleep whenever nothing can be done. Returns their outcomes in their order.
fn run(queue: &AsyncQueue, futures: Vec<Pending>) -> Vec<Result<(), Error>> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Some(Box::pin(future)), None)).collect();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    loop {
        let before = count.0.load(Ordering::Relaxed);
        for (future, ended) in &mut futures {
            let polled = future.as_mut().map(|future| future.as_mut().poll(&mut Context::from_waker(&waker)));
            if let Some(Poll::Ready(result)) = polled {
                (*future, *ended) = (None, Some(result));
            }
        }
        if futures.iter().all(|(future, _)| future.is_none()) {
            return futures.into_iter().filter_map(|(_, ended)| ended).collect();
        }
        if count.0.load(Ordering::Relaxed) == before {
            sleep(queue);
            // What went wrong is told to the futures, too.
            let _ = queue.drive();
        }
    }
}

/// Until the descriptor is readable: never for long without a device that hangs.
#[track_caller]
fn sleep(queue: &AsyncQueue) {
    let mut watched = [PollFd::new(queue.as_fd(), PollFlags::POLLIN)];
    assert_ne!(
        poll(&mut watched, PollTimeout::from(60_000_u16)).unwrap(),
        0,
        "nobody was woken for a minute"
    );
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + seed * 7 + at / 251) as u8).collect()
}

#[test]
fn what_was_written_is_read_back_polled_and_by_interrupt() {
    for completions in [Completions::Poll, Completions::Interrupt, Completions::ByMode] {
        let emu = emu(|config| config.out_of_order = Some(5));
        let device = open(emu.clone(), completions);
        let (namespace, region) = (device.namespace().unwrap(), device.alloc(2 << 20).unwrap());
        let queue = device.async_queue(8).unwrap();
        let wanted = if completions == Completions::Poll { Completion::Poll } else { Completion::Interrupt };
        assert_eq!(queue.completion(), wanted);
        let data = pattern(1 << 20, 3);
        region.copy_in(0, &data).unwrap();
        // More than the queue takes at once, of sizes that are one command and several.
        let parts: Vec<_> =
            (0..24).map(|n| (n * 4096)..(n + 1) * 4096).chain(std::iter::once(98_304..1 << 20)).collect();
        let lba = |at: usize| Lba(at as u64 / 512);
        let writes =
            parts.iter().map(|part| queue.write(namespace, &region, part.clone(), lba(part.start))).collect();
        assert!(run(&queue, writes).iter().all(Result::is_ok));
        assert!(run(&queue, vec![queue.flush(namespace)])[0].is_ok());
        let back = |part: &std::ops::Range<usize>| (1 << 20) + part.start..(1 << 20) + part.end;
        let reads =
            parts.iter().map(|part| queue.read(namespace, &region, back(part), lba(part.start))).collect();
        assert!(run(&queue, reads).iter().all(Result::is_ok));
        let mut read = vec![0; 1 << 20];
        region.copy_out(1 << 20, &mut read).unwrap();
        assert!(read == data);
        assert_eq!(queue.in_flight(), 0);
        drop((queue, region, device));
        emu.assert_clean();
        assert_eq!(emu.live_mappings(), 0);
    }
}

#[test]
fn a_future_that_fails_fails_alone() {
    let faulty = Faulty::over_model(emu(|_| {}), "media:on=read,lba=100+8".parse().unwrap()).unwrap();
    let device = open(faulty, Completions::Interrupt);
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(8192).unwrap());
    let queue = device.async_queue(4).unwrap();
    let mut outcomes = run(
        &queue,
        vec![
            queue.read(namespace, &region, 0..4096, Lba(0)),
            queue.read(namespace, &region, 4096..8192, Lba(100)),
            queue.read(namespace, &region, 0..513, Lba(0)),
            queue.read(namespace, &region, 0..4096, Lba(u64::MAX)),
            queue.write(namespace, &region, 0..4096, Lba(0)),
        ],
    );
    assert!(outcomes.pop().unwrap().is_ok());
    assert!(matches!(outcomes.pop(), Some(Err(Error::BlockRange { .. }))));
    assert!(matches!(outcomes.pop(), Some(Err(Error::Alignment { value: 513, .. }))));
    assert!(matches!(outcomes.pop(), Some(Err(Error::Io(failure))) if failure.status.sct() == 2));
    assert!(outcomes.pop().unwrap().is_ok());
}

#[test]
fn nothing_happens_before_the_first_poll() {
    let emu = emu(|_| {});
    let device = open(emu.clone(), Completions::Interrupt);
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(4096).unwrap());
    let queue = device.async_queue(4).unwrap();
    let before = device.stats().total(|queue| queue.submitted);
    let never = queue.write(namespace, &region, 0..4096, Lba(0));
    assert_eq!(format!("{never:?}"), "Pending { step: \"not begun\", .. }");
    drop(never);
    assert_eq!((device.stats().total(|queue| queue.submitted), queue.in_flight()), (before, 0));
}

/// Futures are dropped in every state; the memory is let go of only when the device has.
#[test]
fn dropped_futures_leave_nothing_behind() {
    for completions in [Completions::Poll, Completions::Interrupt] {
        let emu = emu(|config| config.out_of_order = Some(11));
        let device = open(emu.clone(), completions);
        let namespace = device.namespace().unwrap();
        let queue = device.async_queue(3).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        for round in 0..200_usize {
            let region = device.alloc(64 << 10).unwrap();
            let mut futures: Vec<_> = (0..6)
                .map(|n| {
                    Box::pin(queue.read(namespace, &region, n * 8192..(n + 1) * 8192, Lba(round as u64)))
                })
                .collect();
            let mut number = 0;
            futures.retain_mut(|future| {
                number += 1;
                number <= round % 3 || future.as_mut().poll(&mut context).is_pending()
            });
            // Some from the front, so that those in line move up, and some from the middle.
            for _ in 0..futures.len().min(2) {
                drop(futures.remove(round % futures.len()));
            }
            if round.is_multiple_of(4) {
                futures.clear();
            }
            let left: Vec<_> = futures.into_iter().map(|future| *Pin::into_inner(future)).collect();
            assert!(run(&queue, left).iter().all(Result::is_ok));
            // Perhaps the device still has some of it; then the region is not free.
            drop(region);
        }
        drop((queue, device));
        emu.assert_clean();
        assert_eq!(emu.live_mappings(), 0);
    }
}

#[test]
fn a_region_is_busy_while_a_dropped_future_moves_it() {
    let emu = emu(|config| config.latency = Duration::from_millis(30));
    let device = open(emu.clone(), Completions::Interrupt);
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(4096).unwrap());
    let queue = device.async_queue(1).unwrap();
    let mut read = Box::pin(queue.read(namespace, &region, 0..4096, Lba(0)));
    assert!(read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(read);
    assert_eq!(queue.in_flight(), 1, "the device has it");
    let Err((region, Error::Cloned { .. } | Error::Busy(_))) = region.release() else {
        panic!("the device may still write there")
    };
    while queue.in_flight() != 0 {
        sleep(&queue);
        queue.drive().unwrap();
    }
    assert!(region.release().is_ok());
    emu.assert_clean();
}

/// Blocking callers share the queues and reap for everybody: the futures must be told all the same.
#[test]
fn who_reaps_for_others_wakes_their_futures() {
    let emu = emu(|_| {});
    let mut options = options(Completions::Interrupt);
    (options.queues, options.classes) = (2, Classes::Shared);
    options.settings = Settings::new().mode(Mode::Throughput);
    let device = Device::with_backend(emu.clone(), options, None).unwrap();
    let namespace = device.namespace().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for n in 0..2 {
            let (device, stop) = (&device, &stop);
            scope.spawn(move || {
                let region = device.alloc(4096).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    device.namespace().unwrap().read(&region, 0..4096, Lba(n)).unwrap();
                }
            });
        }
        let (queue, region) = (device.async_queue(16).unwrap(), device.alloc(128 << 10).unwrap());
        let start = Instant::now();
        for _ in 0..100 {
            let reads =
                (0..32).map(|n| queue.read(namespace, &region, n * 4096..(n + 1) * 4096, Lba(n as u64)));
            assert!(run(&queue, reads.collect()).iter().all(Result::is_ok));
        }
        stop.store(true, Ordering::Relaxed);
        // Each missed call would cost the alarm's 10 ms, many times over.
        eprintln!("3,200 reads beside two blocking callers: {:?}", start.elapsed());
    });
    emu.assert_clean();
}

#[test]
fn a_device_that_falls_silent_ends_the_futures() {
    let faulty = Faulty::over_model(emu(|_| {}), "hang:opcode=2".parse().unwrap()).unwrap();
    let mut options = options(Completions::Interrupt);
    options.io_timeout = Duration::from_millis(100);
    let device = Device::with_backend(faulty, options, None).unwrap();
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(4096).unwrap());
    let queue = device.async_queue(4).unwrap();
    let reads = (0..3).map(|n| queue.read(namespace, &region, 0..4096, Lba(n))).collect();
    let outcomes = run(&queue, reads);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Wedged(_)))), "{outcomes:?}");
    let late = run(&queue, vec![queue.flush(namespace)]);
    assert!(late[0].is_err());
}

#[test]
fn a_closed_device_refuses_futures() {
    let device = open(emu(|_| {}), Completions::Interrupt);
    let (namespace, region) = (device.namespace().unwrap().clone(), device.alloc(4096).unwrap());
    let queue = device.async_queue(4).unwrap();
    device.close().unwrap();
    let outcomes = run(&queue, vec![queue.read(&namespace, &region, 0..4096, Lba(0))]);
    assert!(matches!(outcomes[0], Err(Error::Closed)));
    assert!(matches!(queue.drive(), Err(Error::Closed)));
}

#[test]
fn an_idle_queue_is_quiet() {
    let device = open(emu(|_| {}), Completions::Interrupt);
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(4096).unwrap());
    let queue = device.async_queue(4).unwrap();
    assert!(run(&queue, vec![queue.read(namespace, &region, 0..4096, Lba(0))])[0].is_ok());
    queue.drive().unwrap();
    let mut watched = [PollFd::new(queue.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut watched, PollTimeout::from(100_u8)).unwrap(), 0, "no alarm, and no interrupt");
}

#[test]
fn blocking_calls_sleep_until_the_interrupt() {
    let emu = emu(|config| config.latency = Duration::from_millis(2));
    let mut options = options(Completions::ByMode);
    options.settings = Settings::new().mode(Mode::Throughput);
    let device = Device::with_backend(emu.clone(), options, None).unwrap();
    assert_eq!(device.info().interrupts, "4 of 4 queues");
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(1 << 20).unwrap());
    let before = emu.stats().interrupts;
    for lba in 0..20 {
        namespace.read(&region, 0..4096, Lba(lba)).unwrap();
    }
    namespace.read(&region, 0..1 << 20, Lba(0)).unwrap();
    assert!(emu.stats().interrupts >= before + 21);
    // Processor time of this thread is nearly nothing, though it waited for 40 ms at least.
    let mut batch = device.batch(32).unwrap();
    for n in 0..32 {
        batch.read(namespace, &region, n * 4096..(n + 1) * 4096, Lba(n as u64), n as u64).unwrap();
    }
    batch.submit().unwrap();
    let mut outcomes = Vec::new();
    batch.harvest(32, None, &mut outcomes).unwrap();
    assert!(outcomes.len() == 32 && outcomes.iter().all(|outcome| outcome.result.is_ok()));
    drop(batch);
    emu.assert_clean();
}

#[test]
fn a_device_without_vectors_says_so_and_polls() {
    let device = open(emu(|config| config.vectors = 2), Completions::Interrupt);
    assert_eq!(device.info().interrupts, "1 of 4 queues (the device has 2 vectors)");
    assert_eq!(device.async_queue(1).unwrap().completion(), Completion::Poll);
}

#[test]
fn tokio_runs_them() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
    let device = open(emu(|config| config.out_of_order = Some(3)), Completions::Interrupt);
    let queue = device.async_queue(16).unwrap();
    runtime.block_on(async {
        let driver = tokio::spawn({
            let queue = queue.clone();
            async move {
                #[allow(deprecated, reason = "the descriptor is the same for as long as the queue lives")]
                let readable = tokio::io::unix::AsyncFd::new(queue).unwrap();
                while let Ok(mut ready) = readable.readable().await {
                    if readable.get_ref().drive().is_err() {
                        return;
                    }
                    ready.clear_ready();
                }
            }
        });
        let tasks: Vec<_> = (0..64_u64)
            .map(|task| {
                let (device, queue) = (device.clone(), queue.clone());
                tokio::spawn(async move {
                    let (namespace, region) = (device.namespace().unwrap(), device.alloc(8192).unwrap());
                    let data = pattern(4096, task as usize);
                    for round in 0..20 {
                        let lba = Lba((task * 20 + round) * 8);
                        region.copy_in(0, &data).unwrap();
                        queue.write(namespace, &region, 0..4096, lba).await.unwrap();
                        queue.read(namespace, &region, 4096..8192, lba).await.unwrap();
                        let mut back = vec![0; 4096];
                        region.copy_out(4096, &mut back).unwrap();
                        assert!(back == data);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        driver.abort();
    });
}

/// Whoever polls on by mistake does not have his blocks written again.
#[test]
fn a_future_ends_once() {
    let device = open(emu(|_| {}), Completions::Poll);
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(4096).unwrap());
    let queue = device.async_queue(4).unwrap();
    let mut read = pin!(queue.read(namespace, &region, 0..4096, Lba(0)));
    let mut context = Context::from_waker(Waker::noop());
    while read.as_mut().poll(&mut context).is_pending() {}
    assert!(matches!(read.as_mut().poll(&mut context), Poll::Ready(Err(Error::Cancelled))));
    assert_eq!(device.stats().total(|queue| queue.submitted), 1);
}
