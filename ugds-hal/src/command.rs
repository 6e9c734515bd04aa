//! A command that may be given to a device.

use core::marker::PhantomData;
use nvme_proto::{Cid, Sqe};

/// A command whose data pointer is known to be right, for as long as `'memory` lasts.
///
/// A device obeys whatever addresses it is handed, so a submission queue entry made from bare numbers is as
/// dangerous as a raw pointer. This type is the proof that somebody looked: a [`Port`](crate::Port) stages nothing
/// else. `ugds-mem` makes it from live mappings.
///
/// # Invariants
///
/// Every bus address in the entry lies in memory that the device may access in the command's direction, for the
/// whole length that the command moves.
#[derive(Clone, Copy, Debug)]
pub struct Command<'memory> {
    /// In words, so that they can be kept in registers until they are stored in a ring. The fields of an entry are too
    /// small for that.
    words: [u64; 8],
    memory: PhantomData<&'memory ()>,
}

/// The creation or deletion of a queue, over rings that whoever made it keeps: the only command without memory of its
/// caller's that a device may be given on the word of another crate.
#[derive(Clone, Copy, Debug)]
pub struct QueueCommand(Command<'static>);

impl QueueCommand {
    pub(crate) const fn new(command: Command<'static>) -> Self {
        Self(command)
    }

    /// The command, for as long as this value is at hand.
    #[inline]
    #[must_use]
    pub const fn command(&self) -> &Command<'_> {
        &self.0
    }

    /// The entry.
    #[inline]
    #[must_use]
    pub const fn sqe(&self) -> Sqe {
        self.0.sqe()
    }
}

impl Command<'_> {
    /// Vouches for `sqe`.
    ///
    /// # Safety
    ///
    /// - Every bus address in `sqe` (data pointer, metadata pointer, and any that the opcode takes in other words)
    ///   is mapped for the device in the direction of the transfer, for the length that the command moves.
    /// - Those mappings last for `'memory`, and whoever stages the command keeps them until it completed or the
    ///   device is proved to have stopped.
    #[allow(unsafe_code)]
    #[inline]
    #[must_use]
    pub const unsafe fn new_unchecked(sqe: Sqe) -> Self {
        // INVARIANT: promised by the caller.
        Self { words: zerocopy::transmute!(sqe), memory: PhantomData }
    }

    /// Vouches for the entry that consists of `words`.
    ///
    /// # Safety
    ///
    /// As for [`new_unchecked`](Self::new_unchecked).
    #[allow(unsafe_code)]
    #[inline]
    #[must_use]
    pub const unsafe fn from_words_unchecked(words: [u64; 8]) -> Self {
        // INVARIANT: promised by the caller.
        Self { words, memory: PhantomData }
    }

    /// The entry, with whatever CID it was built with.
    #[inline]
    #[must_use]
    pub const fn sqe(&self) -> Sqe {
        zerocopy::transmute!(self.words)
    }

    /// The words of the entry under the identifier `cid`.
    #[inline(always)]
    pub(crate) fn words(&self, cid: Cid) -> [u64; 8] {
        let [first, w1, w2, w3, w4, w5, w6, w7] = self.words;
        let first = u64::from_le(first) & !(0xffff << 16) | u64::from(cid.0) << 16;
        [first.to_le(), w1, w2, w3, w4, w5, w6, w7]
    }
}

/// The blocks that a command is about, if it is one that names a range by SLBA and NLB.
#[cfg(feature = "std")]
pub(crate) fn blocks_of(qid: nvme_proto::Qid, sqe: &Sqe) -> Option<(u64, u64)> {
    use nvme_proto::nvm::Opcode;
    let has = [
        Opcode::READ,
        Opcode::WRITE,
        Opcode::COMPARE,
        Opcode::WRITE_UNCORRECTABLE,
        Opcode::WRITE_ZEROES,
        Opcode::VERIFY,
    ];
    let ranged = !qid.is_admin() && has.iter().any(|opcode| opcode.0 == sqe.opcode);
    ranged.then(|| (sqe.cdw10_11(), u64::from(sqe.cdw12.get() & 0xffff) + 1))
}
