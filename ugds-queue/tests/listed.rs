//! Commands whose list is written for them, against the software controller, which refuses what its map does not allow.

use nvme_proto::Lba;
use std::sync::Arc;
use ugds_hal::emu::{Emu, EmuConfig};
use ugds_hal::{Backend, Clock, Direction, Layout, Stop};
use ugds_mem::{ListPool, ListedIo, Mapped, MemError, Piece, Region};
use ugds_queue::controller::{Controller, Namespace, Options};
use ugds_queue::{QueuePair, SubmitError};

struct Rig {
    emu: Emu,
    controller: Controller<Emu>,
    queue: QueuePair<<Emu as Backend>::Port>,
    namespace: Namespace,
    pool: ListPool,
    region: Region,
    mapped: Arc<Mapped>,
}

impl Rig {
    fn new(pool_pages: usize) -> Self {
        let config = EmuConfig::default().with_namespaces(1, 16 << 20, 512);
        let emu = Emu::new(config.stepped()).unwrap();
        let mut controller = Controller::bring_up(Arc::new(emu.clone()), Options::default()).unwrap();
        let namespace = controller.scan().unwrap().namespaces.remove(0);
        let queue = controller.open_queue().unwrap();
        let pool = controller.domain().list_pool(pool_pages).unwrap();
        let region = ugds_mem::host::allocate(2 * LEN as usize).unwrap();
        let mapped = region.attach_unlisted(controller.domain()).unwrap();
        Self { emu, controller, queue, namespace, pool, region, mapped }
    }

    fn submit(&mut self, direction: Direction, offset: u64, len_bytes: u32) -> Result<(), SubmitError> {
        let (nsid, format) = (self.namespace.nsid(), self.namespace.format());
        let page = self.queue.list_page(&self.pool).expect("a page");
        let piece = Piece { mapped: &self.mapped, offset, len_bytes };
        let io = match direction {
            Direction::DeviceWrites => ListedIo::read(nsid, format, Lba(8), piece, page),
            _ => ListedIo::write(nsid, format, Lba(8), piece, page),
        };
        let _ticket = self.queue.submit_listed(io.unwrap(), 0)?;
        self.queue.ring();
        Ok(())
    }

    fn run(&mut self, direction: Direction, offset: u64, len_bytes: u32) {
        self.submit(direction, offset, len_bytes).unwrap();
        let mut status = None;
        while status.is_none() {
            self.emu.clock().relax(0);
            self.queue.reap(|done| status = Some(done.status())).unwrap();
        }
        assert!(status.unwrap().is_success(), "{status:?}");
    }

    fn free_pages(&self) -> usize {
        let taken: Vec<_> = std::iter::from_fn(|| self.pool.take()).collect();
        taken.len()
    }

    fn shut_down(self) {
        self.controller.shut_down(vec![self.queue]).unwrap();
        drop((self.pool, self.mapped, self.region));
        self.emu.assert_clean();
        assert_eq!(self.emu.live_mappings(), 0);
    }
}

#[test]
fn data_goes_both_ways_by_lists_of_their_own() {
    let mut rig = Rig::new(2);
    for (offset, len_bytes) in [(0, 512), (4, 4096), (0, 8192), (2048, 8704), (0, LEN), (516, LEN)] {
        let data: Vec<u8> = (0..len_bytes).map(|i| (i / 3 + len_bytes) as u8).collect();
        rig.region.copy_in(offset, &data).unwrap();
        rig.run(Direction::DeviceReads, offset as u64, len_bytes);
        rig.region.copy_in(offset, &vec![0; len_bytes as usize]).unwrap();
        rig.run(Direction::DeviceWrites, offset as u64, len_bytes);
        let mut back = vec![0; len_bytes as usize];
        rig.region.copy_out(offset, &mut back).unwrap();
        assert!(back == data, "{len_bytes} bytes at {offset}");
    }
    rig.shut_down();
}

#[test]
fn without_lists_only_what_needs_none_is_transferred() {
    let rig = Rig::new(1);
    assert!(rig.mapped.transfer(0, 8192, Direction::DeviceWrites).is_ok());
    let refused = rig.mapped.transfer(512, 8192, Direction::DeviceWrites).unwrap_err();
    assert!(matches!(refused, MemError::NoList { len_bytes: 8192, pages: 3 }), "{refused}");
    assert!(refused.to_string().contains("touches 3 pages"));
    rig.shut_down();
}

#[test]
fn a_page_is_kept_until_its_command_has_completed() {
    let mut rig = Rig::new(2);
    rig.submit(Direction::DeviceWrites, 0, LEN).unwrap();
    rig.submit(Direction::DeviceWrites, 0, LEN).unwrap();
    assert!(rig.queue.list_page(&rig.pool).is_none(), "both are in the device's hands");
    rig.emu.run_until_idle();
    assert!(rig.queue.list_page(&rig.pool).is_none(), "done, but not yet known to be");
    rig.queue.reap(|_| {}).unwrap();
    assert!(rig.queue.list_page(&rig.pool).is_some());
    assert_eq!(rig.free_pages(), 2);
    rig.shut_down();
}

#[test]
fn a_refused_command_gives_its_page_back() {
    let mut rig = Rig::new(3);
    let other = Rig::new(1);
    let (nsid, format) = (rig.namespace.nsid(), rig.namespace.format());
    let read = |offset, len_bytes, page| {
        let piece = Piece { mapped: &rig.mapped, offset, len_bytes };
        ListedIo::read(nsid, format, Lba(8), piece, page).map(drop)
    };
    let foreign = read(0, LEN, other.pool.take().unwrap());
    assert!(matches!(foreign, Err(MemError::ForeignList { .. })));
    assert_eq!(other.free_pages(), 1);
    for (offset, len_bytes) in [(2 * u64::from(LEN), 512), (0, 0), (2, 512), (0, 516), (0, (1 << 20) + 4)] {
        assert!(read(offset, len_bytes, rig.pool.take().unwrap()).is_err(), "{len_bytes} bytes at {offset}");
    }
    rig.queue.wedge(ugds_queue::Wedge::Forced);
    assert!(rig.submit(Direction::DeviceWrites, 0, LEN).is_err());
    assert_eq!(rig.free_pages(), 3);
    other.shut_down();
}

#[test]
fn a_queue_dropped_with_a_list_in_the_devices_hands_leaks_it() {
    let mut rig = Rig::new(1);
    rig.submit(Direction::DeviceWrites, 0, LEN).unwrap();
    let held = rig.emu.live_mappings();
    let Rig { emu, queue, pool, mapped, region, .. } = rig;
    drop((queue, mapped, region));
    assert!(pool.take().is_none());
    drop(pool);
    assert_eq!(emu.live_mappings(), held, "the memory and the page of its list");
    emu.run_until_idle();
    emu.assert_clean();
}

#[test]
fn a_proved_stop_gives_the_pages_back() {
    let mut rig = Rig::new(1);
    rig.submit(Direction::DeviceWrites, 0, LEN).unwrap();
    let proof = rig.emu.stop(Stop::Disable(std::time::Duration::from_secs(1))).unwrap();
    assert!(rig.queue.abandon(&proof).is_ok());
    assert!(rig.pool.take().is_some());
    rig.emu.run_until_idle();
    rig.emu.assert_clean();
}

#[test]
fn a_page_is_free_for_another_queue_once_its_own_asks_for_one() {
    let mut rig = Rig::new(1);
    rig.run(Direction::DeviceWrites, 0, LEN);
    assert!(rig.pool.take().is_none(), "kept until somebody wants it");
    assert!(rig.queue.list_page(&rig.pool).is_some());
    assert!(rig.pool.take().is_some());
    rig.shut_down();
}

#[test]
fn memory_of_another_device_is_not_adopted() {
    let (rig, other) = (Rig::new(1), Rig::new(1));
    let layout = Layout { len_bytes: 64 << 10, align_bytes: 4096, direction: Direction::Both };
    let dma = other.emu.memory(layout).unwrap();
    let refused = rig.controller.domain().adopt(&dma).unwrap_err();
    assert!(matches!(refused, MemError::ForeignMapping { .. }), "{refused}");
    drop(dma);
    rig.shut_down();
    other.shut_down();
}

#[test]
fn a_pool_of_an_impossible_size_is_refused() {
    let rig = Rig::new(1);
    for pages in [0, 65_536] {
        let refused = rig.controller.domain().list_pool(pages).unwrap_err();
        assert!(refused.to_string().contains(&format!("{pages} list pages")), "{refused}");
    }
    rig.shut_down();
}

/// More than two pages.
const LEN: u32 = 128 << 10;
