//! What one namespace is to be like.

/// The description of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Its identifier, neither 0 nor all ones.
    pub nsid: u32,
    /// Its size in bytes, a multiple of the block.
    pub size_bytes: u64,
    /// The data bytes of a block: a power of two from 512 to 64 KiB.
    pub lba_bytes: u32,
    /// The metadata bytes of a block. A driver that can't handle them must refuse the namespace.
    pub metadata_bytes: u16,
    /// Whether metadata follows each block's data, rather than lying in a buffer of its own.
    pub extended_lba: bool,
    /// Where the format stands in the table of formats, 0 to 63. Above 15 it takes the upper bits of `FLBAS`.
    pub format_index: Option<u8>,
    /// Whether writes are refused.
    pub write_protected: bool,
    /// Whether the namespace is attached to the controller.
    pub attached: bool,
    /// `NOIOB` in blocks: commands that cross a multiple of it are slow. 0 says nothing.
    pub noiob: u16,
    /// The preferred write granularity in blocks. 0 says nothing.
    pub npwg: u16,
}

impl NamespaceConfig {
    /// An attached namespace without metadata or peculiarities.
    #[must_use]
    pub const fn new(nsid: u32, size_bytes: u64, lba_bytes: u32) -> Self {
        Self {
            nsid,
            size_bytes,
            lba_bytes,
            metadata_bytes: 0,
            extended_lba: false,
            format_index: None,
            write_protected: false,
            attached: true,
            noiob: 0,
            npwg: 0,
        }
    }
}
