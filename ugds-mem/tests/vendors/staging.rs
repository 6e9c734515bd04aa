//! The ring of pinned chunks: copies, their ends, and what becomes of chunks when they fail.

use crate::app::{App, error_of, peek};
use std::sync::Arc;
use std::time::{Duration, Instant};
use ugds_mem::gpu::{Code, Copying, GpuError, Piece, Registration, Staging, StagingOptions};

fn ring(gpu: &Arc<Registration>, chunks: usize) -> Staging {
    Staging::new(gpu, StagingOptions { chunk_bytes: 4096, chunks }).unwrap()
}

fn piece(chunk_offset: usize, offset: usize, len_bytes: usize) -> Piece {
    Piece { chunk_offset, offset, len_bytes }
}

/// A chunk on its way, of bytes that say which.
fn send(staging: &Staging, gpu: &Arc<Registration>, number: u8) -> Copying {
    let chunk = staging.take().unwrap();
    chunk.write(0, &[number; 64]).unwrap();
    chunk.begin_copy_in(gpu, &[piece(0, usize::from(number) * 64, 64)]).unwrap()
}

#[test]
fn bytes_go_there_and_back() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 2);
    assert_eq!((staging.memory().len_bytes(), staging.chunk_bytes()), (8192, 4096));
    let chunk = staging.take().unwrap();
    let start = chunk.range().start;
    // By the region, as an SSD fills it.
    staging.memory().copy_in(start + 1, b"there and back").unwrap();
    let chunk = chunk.begin_copy_in(&gpu, &[piece(1, 4097, 14)]).unwrap().finish().unwrap();
    assert_eq!(peek(gpu.address() + 4097, 14), b"there and back");
    let chunk = chunk.begin_copy_out(&gpu, &[piece(100, 4097, 14)]).unwrap().finish().unwrap();
    let mut back = [0; 14];
    chunk.read(100, &mut back).unwrap();
    assert_eq!(&back, b"there and back");
}

#[test]
fn one_chunk_is_filled_while_another_is_copied() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 2);
    app.stub.set("copy_us=200000");
    let start = Instant::now();
    let first = send(&staging, &gpu, 1);
    let second = staging.take().expect("the other chunk is free while the first is copied");
    second.write(0, &[2; 64]).unwrap();
    assert!(!first.is_done().unwrap(), "beginning a copy does not wait for it");
    assert!(start.elapsed() < Duration::from_millis(150), "{:?}", start.elapsed());
    assert!(staging.take().is_none(), "and no third is there");
    let first = first.finish().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(190), "finishing waits");
    assert_eq!(peek(gpu.address() + 64, 64), [1; 64]);
    drop(first);
    assert!(staging.take().is_some(), "a finished chunk is free when it is dropped");
}

#[test]
fn neighbours_are_one_copy_and_others_are_not() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 1);
    let before = app.stub.count("copies");
    let chunk = staging.take().unwrap();
    chunk.write(0, &[5; 4096]).unwrap();
    let together: Vec<Piece> = (0..64).map(|i| piece(i * 64, 1024 + i * 64, 64)).collect();
    let chunk = chunk.begin_copy_in(&gpu, &together).unwrap().finish().unwrap();
    assert_eq!(app.stub.count("copies"), before + 1);
    assert_eq!(peek(gpu.address() + 1024, 4096), [5; 4096]);
    let apart: Vec<Piece> = (0..8).map(|i| piece(i * 64, i * 128, 64)).collect();
    let chunk = chunk.begin_copy_in(&gpu, &apart).unwrap().finish().unwrap();
    assert_eq!(app.stub.count("copies"), before + 1 + 8);
    // Nothing at all is done at once.
    assert!(chunk.begin_copy_in(&gpu, &[piece(9, 9, 0)]).unwrap().finish().is_ok());
    assert_eq!(app.stub.count("copies"), before + 1 + 8);
}

#[test]
fn pieces_outside_of_the_chunk_or_the_memory_are_refused_with_the_chunk() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 1);
    let mut chunk = staging.take().unwrap();
    for wrong in [
        piece(4096, 0, 1),
        piece(0, 0, 4097),
        piece(usize::MAX, 0, 1),
        piece(0, 65_536, 1),
        piece(0, usize::MAX, 4),
        piece(0, 65_535, 2),
    ] {
        let failed = error_of(chunk.begin_copy_in(&gpu, &[piece(0, 0, 4), wrong]));
        assert!(matches!(failed.error, GpuError::Range { .. }), "{wrong:?}: {failed:?}");
        chunk = failed.chunk.expect("nothing was done with it");
    }
    assert!(matches!(chunk.read(4095, &mut [0; 2]), Err(GpuError::Range { .. })));
    assert!(matches!(chunk.write(usize::MAX, &[0]), Err(GpuError::Range { .. })));
    assert_eq!(app.stub.count("copies"), 0, "and no piece before the wrong one was copied");
}

#[test]
fn a_ring_takes_memory_of_its_own_driver_only() {
    let (app, other) = (App::new(), App::new());
    let staging = ring(&app.memory(4096), 1);
    let failed = error_of(staging.take().unwrap().begin_copy_in(&other.memory(4096), &[piece(0, 0, 4)]));
    assert_eq!(failed.error, GpuError::ForeignVendor);
    assert!(failed.chunk.is_some());
}

#[test]
fn a_dropped_copy_goes_on_and_its_chunk_comes_back_when_it_is_done() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 1);
    app.stub.set("copy_us=50000");
    drop(send(&staging, &gpu, 3));
    assert!(staging.take().is_none(), "the copy is under way");
    let references = Arc::strong_count(&gpu);
    let start = Instant::now();
    let chunk = loop {
        if let Some(chunk) = staging.take() {
            break chunk;
        }
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(peek(gpu.address() + 192, 64), [3; 64]);
    assert_eq!(Arc::strong_count(&gpu), references - 1, "the memory was kept until then");
    drop(chunk);
}

#[test]
fn a_dropped_ring_waits_for_its_copies_and_frees_everything() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 4);
    assert_eq!((app.stub.count("pinned"), app.stub.count("streams"), app.stub.count("events")), (1, 1, 4));
    app.stub.set("copy_us=20000");
    drop(send(&staging, &gpu, 1));
    drop(send(&staging, &gpu, 2));
    drop(staging);
    assert_eq!(peek(gpu.address() + 128, 64), [2; 64]);
    assert_eq!((app.stub.count("pinned"), app.stub.count("streams"), app.stub.count("events")), (0, 0, 0));
    assert_eq!(Arc::strong_count(&gpu), 1);
}

#[test]
fn a_chunk_keeps_the_ring() {
    let app = App::new();
    let gpu = app.memory(4096);
    let staging = ring(&gpu, 1);
    let chunk = staging.take().unwrap();
    drop(staging);
    chunk.write(0, b"still").unwrap();
    drop(chunk.begin_copy_in(&gpu, &[piece(0, 0, 5)]).unwrap().finish().unwrap());
    assert_eq!(peek(gpu.address(), 5), b"still");
    assert_eq!(app.stub.count("pinned"), 0);
}

#[test]
fn the_rings_memory_keeps_what_it_was_made_in() {
    let app = App::new();
    let gpu = app.memory(4096);
    let memory = ring(&gpu, 1).memory().clone();
    assert_eq!(
        (app.stub.count("streams"), app.stub.count("pinned")),
        (0, 1),
        "the ring is gone, its memory not"
    );
    assert!(Arc::strong_count(&gpu) > 1);
    drop(memory);
    assert_eq!((app.stub.count("pinned"), Arc::strong_count(&gpu)), (0, 1));
}

#[test]
fn a_copy_that_does_not_begin_gives_the_chunk_back() {
    for (call, after) in [("cuMemcpyHtoDAsync_v2@2=700", 1), ("cuEventRecord=700", 2)] {
        let app = App::new();
        let gpu = app.memory(65_536);
        let staging = ring(&gpu, 1);
        app.stub.set(call);
        let chunk = staging.take().unwrap();
        let failed = error_of(chunk.begin_copy_in(&gpu, &[piece(0, 0, 8), piece(8, 64, 8)]));
        assert!(matches!(failed.error, GpuError::Call { code: Code(700), .. }), "{failed:?}");
        assert_eq!(app.stub.count("copies"), after, "some had begun, and were waited for");
        let chunk = failed.chunk.expect("nothing is under way");
        app.stub.set(&format!("{}=", call.split(['@', '=']).next().unwrap()));
        assert!(staging.broken().is_none());
        assert!(chunk.begin_copy_in(&gpu, &[piece(0, 0, 8)]).unwrap().finish().is_ok());
    }
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 1);
    app.stub.set("cuMemcpyDtoHAsync_v2=2");
    let failed = error_of(staging.take().unwrap().begin_copy_out(&gpu, &[piece(0, 0, 8)]));
    assert!(matches!(failed.error, GpuError::Call { call: "cuMemcpyDtoHAsync", code: Code(2), .. }));
}

/// Breaks a ring, and expects that nothing of it is freed or used again.
fn is_quarantined(settings: &str, breaks: impl FnOnce(Copying)) {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 2);
    let copying = send(&staging, &gpu, 1);
    app.stub.set(settings);
    breaks(copying);
    let broken = staging.broken().expect("it is broken");
    assert!(matches!(broken, GpuError::Broken { .. }), "{broken}");
    app.stub.set("cuEventQuery=,cuEventSynchronize=,cuStreamSynchronize=,cuMemcpyHtoDAsync_v2=");
    let other = staging.take().expect("the other chunk was never in use");
    let failed = error_of(other.begin_copy_in(&gpu, &[piece(0, 0, 8)]));
    assert!(matches!(failed.error, GpuError::Broken { .. }), "{failed:?}");
    drop(failed);
    let _other = staging.take().unwrap();
    assert!(staging.take().is_none(), "the lost chunk never comes back");
    drop((_other, staging));
    assert_eq!((app.stub.count("pinned"), app.stub.count("streams")), (1, 1), "the GPU may use both");
    assert!(Arc::strong_count(&gpu) > 1, "and the memory is kept");
}

#[test]
fn a_copy_whose_end_can_not_be_told_quarantines_chunk_stream_and_memory() {
    is_quarantined("cuEventSynchronize=700", |copying| {
        assert!(matches!(copying.finish(), Err(GpuError::Call { code: Code(700), .. })));
    });
    is_quarantined("cuEventQuery=700", |copying| {
        assert!(matches!(copying.is_done(), Err(GpuError::Call { code: Code(700), .. })));
    });
}

#[test]
fn a_copy_that_may_have_begun_is_quarantined() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 1);
    app.stub.set("cuEventRecord=700,cuStreamSynchronize=700");
    let failed = error_of(staging.take().unwrap().begin_copy_in(&gpu, &[piece(0, 0, 8)]));
    assert!(failed.chunk.is_none(), "it is lost");
    assert!(staging.broken().is_some() && staging.take().is_none());
    drop(staging);
    assert_eq!(app.stub.count("pinned"), 1);
}

#[test]
fn a_ring_that_breaks_while_nobody_looks_says_so() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 1);
    drop(send(&staging, &gpu, 1));
    app.stub.set("cuEventQuery=700");
    assert!(staging.take().is_none());
    assert!(staging.broken().is_some());
}

#[test]
fn options_that_can_not_be_are_refused() {
    let app = App::new();
    let gpu = app.memory(4096);
    for (chunk_bytes, chunks) in [(0, 1), (4095, 1), (4096, 0), (4096, 4097), (usize::MAX & !4095, 2)] {
        let error = error_of(Staging::new(&gpu, StagingOptions { chunk_bytes, chunks }));
        assert!(matches!(error, GpuError::Option { .. }), "{error}");
    }
    assert_eq!(app.stub.count("pinned"), 0);
}

#[test]
fn whatever_fails_while_a_ring_is_made_leaves_nothing() {
    for settings in [
        "cuMemHostAlloc=2",
        "null_pinned=1",
        "cuStreamCreate=2",
        "cuEventCreate@3=2",
        "cuCtxPushCurrent_v2=201",
    ] {
        let app = App::new();
        let gpu = app.memory(4096);
        app.stub.set(settings);
        let error = error_of(Staging::new(&gpu, StagingOptions { chunk_bytes: 4096, chunks: 4 }));
        let expected =
            matches!(error, GpuError::Call { .. } | GpuError::Nonsense { call: "cuMemHostAlloc", .. });
        assert!(expected, "{settings}: {error:?}");
        let left = (app.stub.count("pinned"), app.stub.count("streams"), app.stub.count("events"));
        assert_eq!(left, (0, 0, 0), "{settings}");
    }
}

#[test]
fn threads_share_a_ring() {
    let app = App::new();
    let gpu = app.memory(65_536);
    let staging = ring(&gpu, 3);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (staging, gpu) = (staging.clone(), Arc::clone(&gpu));
            scope.spawn(move || {
                for round in 0..200u8 {
                    let chunk = loop {
                        match staging.take() {
                            Some(chunk) => break chunk,
                            None => std::thread::yield_now(),
                        }
                    };
                    chunk.write(0, &[round ^ thread; 128]).unwrap();
                    let place = [piece(0, usize::from(thread) * 128, 128)];
                    let copying = chunk.begin_copy_in(&gpu, &place).unwrap();
                    // Every third is left to the ring.
                    if round % 3 == 0 && round < 197 {
                        drop(copying);
                    } else {
                        drop(copying.finish().unwrap());
                    }
                }
            });
        }
    });
    for thread in 0..4u8 {
        assert_eq!(peek(gpu.address() + u64::from(thread) * 128, 128), [199 ^ thread; 128]);
    }
}
