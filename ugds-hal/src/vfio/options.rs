//! What a caller may choose about a device behind VFIO.

/// How a device is opened. `Default` suits any.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VfioOptions {
    /// Install the handler that turns an access to a removed device into all ones instead of a SIGBUS that ends the
    /// process. It passes on every fault that is not ours.
    pub sigbus_handler: bool,
    /// Use huge pages for rings and lists where there are some.
    pub hugepages: bool,
    /// Reset the function once more when it is opened. VFIO itself does so when nobody had it open.
    pub reset: bool,
}

impl Default for VfioOptions {
    fn default() -> Self {
        Self { sigbus_handler: true, hugepages: true, reset: false }
    }
}
