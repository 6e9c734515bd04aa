//! Regions and the registry, on host memory.
//!
//! UNSAFETY: registers memory that the tests own.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use ugds_mem::{MemError, Memory, Region, Registry, host};

fn foreign(bytes: &mut [u64], skip_bytes: usize, len_bytes: usize) -> Result<Region, MemError> {
    let start = NonNull::from(bytes).cast::<u8>();
    // SAFETY: the tests keep `bytes` until the region is gone, and touch it through the region only.
    Region::new(unsafe { Memory::foreign(start.byte_add(skip_bytes), len_bytes) })
}

#[test]
fn allocated_memory_is_zeroed_aligned_and_kept_apart() {
    for len in [1, 4096, 4097, (2 << 20) - 1, 2 << 20, (4 << 20) + 12] {
        let region = host::allocate(len).unwrap();
        assert_eq!(region.len_bytes(), len);
        let align = if len >= 2 << 20 { 2 << 20 } else { 4096 };
        assert_eq!(region.address() % align, 0, "{len} bytes are aligned to {align}");
        let mut bytes = vec![1; len];
        region.copy_out(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        region.copy_in(len - 1, &[7]).unwrap();
        region.copy_out(0, &mut bytes).unwrap();
        assert_eq!(bytes[len - 1], 7);
    }
}

#[test]
fn impossible_lengths_are_refused() {
    assert!(matches!(host::allocate(0), Err(MemError::RegionLength { len_bytes: 0 })));
    assert!(matches!(host::allocate(usize::MAX), Err(MemError::RegionLength { .. })));
    assert!(
        matches!(host::allocate(1 << 60), Err(MemError::Allocate { len_bytes, .. }) if len_bytes == 1 << 60)
    );
}

#[test]
fn memory_off_a_dword_is_refused_with_its_address() {
    let mut bytes = [0u64; 4];
    let start = bytes.as_ptr().addr();
    match foreign(&mut bytes, 2, 8) {
        Err(MemError::Misaligned { address }) => assert_eq!(address, start + 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn copies_beyond_the_end_are_refused() {
    let region = host::allocate(16).unwrap();
    match region.copy_in(8, &[0; 9]) {
        Err(MemError::Range { offset: 8, len_bytes: 9, region_bytes: 16 }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_owner_goes_with_the_last_clone() {
    struct Owner(Arc<AtomicBool>, #[expect(dead_code, reason = "keeps the memory")] Box<[u64]>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let freed = Arc::new(AtomicBool::new(false));
    let mut bytes = vec![0u64; 8].into_boxed_slice();
    let start = NonNull::from(&mut *bytes).cast();
    let owner = Box::new(Owner(Arc::clone(&freed), bytes));
    // SAFETY: `owner` holds the bytes, and nothing else reaches them.
    let region = Region::new(unsafe { Memory::owned(start, 64, owner) }).unwrap();
    let clone = region.clone();
    drop(region);
    assert!(!freed.load(Ordering::Relaxed));
    drop(clone);
    assert!(freed.load(Ordering::Relaxed));
}

#[test]
fn overlapping_registrations_are_regions_of_their_own() {
    let mut bytes = [0u64; 512];
    let start = bytes.as_ptr().addr();
    let whole = foreign(&mut bytes, 0, 4096).unwrap();
    let same = foreign(&mut bytes, 0, 4096).unwrap();
    let half = foreign(&mut bytes, 2048, 1024).unwrap();
    let registry = Registry::new();
    for region in [&whole, &same, &half] {
        registry.insert(region);
    }

    let tokens = |address, len| registry.covering(address, len).iter().map(Region::token).collect::<Vec<_>>();
    assert_eq!(tokens(start, 4096), [whole.token(), same.token()]);
    assert_eq!(tokens(start + 2048, 1024), [whole.token(), same.token(), half.token()]);
    assert_eq!(tokens(start + 2048, 1025), [whole.token(), same.token()]);
    assert_eq!(tokens(start, 4097), []);
    assert_eq!(tokens(usize::MAX, 2), []);
    assert_eq!(registry.starting_at(start).unwrap().token(), same.token(), "the one registered last");
    assert!(registry.starting_at(start + 1).is_none());

    assert!(registry.remove(&same));
    assert!(!registry.remove(&same));
    assert_eq!(registry.starting_at(start).unwrap().token(), whole.token());
}

#[test]
fn a_token_never_means_a_second_registration() {
    let mut bytes = [0u64; 8];
    let registry = Registry::new();
    let first = foreign(&mut bytes, 0, 64).unwrap();
    registry.insert(&first);
    let token = first.token();
    assert!(registry.by_token(token).is_some());
    drop(first);
    assert!(registry.by_token(token).is_none(), "the registry keeps no region alive");
    let second = foreign(&mut bytes, 0, 64).unwrap();
    registry.insert(&second);
    assert_ne!(second.token(), token);
    assert!(registry.by_token(token).is_none());
}
