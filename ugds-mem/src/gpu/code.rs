//! What a vendor's library answers.

use core::fmt;

/// A return code of a vendor's library: any number may come, and 0 is success.
///
/// The numbers below mean the same to the CUDA driver (`CUresult`) and to HIP (`hipError_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// An argument is wrong, or the driver does not know such memory.
    pub const INVALID_VALUE: Self = Self(1);
    /// There is not enough memory.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// The machine has no GPU that the driver can use.
    pub const NO_DEVICE: Self = Self(100);
    /// What was asked about is still under way.
    pub const NOT_READY: Self = Self(600);
    /// The driver, or the GPU, can't do that.
    pub const NOT_SUPPORTED: Self = Self(801);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
