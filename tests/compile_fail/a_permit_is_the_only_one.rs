//! A reserved slot holds the queue: a second one can't be reserved beside it.

use ugds_hal::Port;
use ugds_queue::QueuePair;

fn reserve<P: Port>(queue: &mut QueuePair<P>) {
    let first = queue.permit();
    let second = queue.permit();
    drop((first, second));
}

fn main() {}
