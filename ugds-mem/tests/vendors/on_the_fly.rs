//! Buffers that nobody registered.

use crate::app::{App, error_of};
use std::sync::Arc;
use ugds_mem::gpu::{Found, GpuError, How, Kind, OnTheFly, WhyStaged};

fn find(cache: &OnTheFly, address: u64, len: usize) -> Result<Found, GpuError> {
    // SAFETY: the tests use what they find before they free the memory.
    unsafe { cache.find(address, len) }
}

#[test]
fn an_allocation_is_registered_once_whichever_part_is_used() {
    let app = App::new();
    let cache = OnTheFly::new(Arc::clone(&app.cuda), 4, How::Best);
    let address = app.alloc(65_536);
    let whole = find(&cache, address, 65_536).unwrap();
    let part = find(&cache, address + 4000, 100).unwrap();
    assert!(Arc::ptr_eq(&whole.registration, &part.registration));
    assert_eq!((whole.offset, part.offset, part.registration.len_bytes()), (0, 4000, 65_536));
    assert_eq!((app.stub.count("exports"), cache.kept()), (1, 1));
}

#[test]
fn memory_that_is_given_out_again_is_registered_anew() {
    let app = App::new();
    let cache = OnTheFly::new(Arc::clone(&app.cuda), 4, How::Best);
    let address = app.alloc(65_536);
    let old = find(&cache, address, 4096).unwrap().registration;
    app.free(address);
    // Freed memory is no GPU's, whatever is kept.
    assert!(matches!(find(&cache, address, 4096), Err(GpuError::NotGpu { kind: Kind::Unknown, .. })));
    assert_eq!(app.alloc(65_536), address, "the stub gives the same address again");
    let new = find(&cache, address, 4096).unwrap().registration;
    assert!(!Arc::ptr_eq(&old, &new));
    assert_ne!(old.pointer().buffer_id, new.pointer().buffer_id);
    assert_eq!(cache.kept(), 1, "the old one is forgotten");
    let old = Arc::downgrade(&{ old });
    assert!(old.upgrade().is_none());
}

#[test]
fn the_least_recently_used_goes_first() {
    let app = App::new();
    let cache = OnTheFly::new(Arc::clone(&app.cuda), 2, How::Staged(WhyStaged::Asked));
    let places = [app.alloc(4096), app.alloc(8192), app.alloc(12_288)];
    let first = Arc::downgrade(&find(&cache, places[0], 4).unwrap().registration);
    let second = Arc::downgrade(&find(&cache, places[1], 4).unwrap().registration);
    // The first is used again, so the second is the one to go.
    find(&cache, places[0], 4).unwrap();
    find(&cache, places[2], 4).unwrap();
    assert_eq!(cache.kept(), 2);
    assert!(first.upgrade().is_some() && second.upgrade().is_none());
    assert_eq!(app.stub.count("exports"), 0, "staged as it was asked for");
    cache.clear();
    assert_eq!(cache.kept(), 0);
    assert!(first.upgrade().is_none());
}

#[test]
fn nothing_is_kept_where_nothing_is_to_be_or_can_be_told_apart() {
    let app = App::new();
    let none = OnTheFly::new(Arc::clone(&app.cuda), 0, How::Best);
    find(&none, app.alloc(4096), 4).unwrap();
    assert_eq!(none.kept(), 0);
    // Without buffer ids, one allocation can't be told from the next.
    app.stub.set("no_id=1");
    let cache = OnTheFly::new(Arc::clone(&app.cuda), 4, How::Best);
    let address = app.alloc(4096);
    let one = find(&cache, address, 4).unwrap().registration;
    let two = find(&cache, address, 4).unwrap().registration;
    assert!(!Arc::ptr_eq(&one, &two));
    assert_eq!(cache.kept(), 0);
}

#[test]
fn what_can_not_be_registered_is_refused() {
    let app = App::new();
    let cache = OnTheFly::new(Arc::clone(&app.cuda), 4, How::Best);
    let address = app.alloc(4096);
    for (at, len) in [(address, 0), (address, 4097), (address + 4095, 2)] {
        assert!(matches!(find(&cache, at, len), Err(GpuError::Range { .. })));
    }
    app.stub.set("cuPointerGetAttributes=999");
    assert!(matches!(error_of(find(&cache, address, 4)), GpuError::Call { .. }));
    assert_eq!(cache.kept(), 0);
}
