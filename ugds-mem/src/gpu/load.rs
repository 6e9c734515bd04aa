//! Loads a vendor's library and takes functions from it, at run time.
//!
//! UNSAFETY: runs a library's constructors, and gives types to what it exports.

#![allow(unsafe_code)]

use super::GpuError;
use core::error::Error;
use libloading::Library;
use std::boxed::Box;
use std::path::Path;
use std::string::{String, ToString};

/// A library that stays loaded for the rest of the process.
///
/// A driver's library has threads of its own and can't be unloaded while they run, so it never is; pointers to its
/// functions are valid for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    library: &'static Library,
    name: &'static str,
    remedy: &'static str,
}

impl Loaded {
    /// Loads the first of `files` that there is, from `folder` or from where the system looks.
    ///
    /// # Errors
    ///
    /// [`GpuError::Library`], with `remedy`.
    pub(crate) fn load(
        folder: Option<&Path>,
        files: &[&'static str],
        remedy: &'static str,
    ) -> Result<Self, GpuError> {
        let mut reason = String::new();
        for name in files.iter().copied() {
            let file = folder.map_or_else(|| name.into(), |folder| folder.join(name));
            // SAFETY: the library is a vendor's driver, or stands in for one in a test; whoever chose the folder, or
            // set up the machine's library path, vouches for its constructors.
            match unsafe { Library::new(&file) } {
                Ok(library) => return Ok(Self { library: Box::leak(Box::new(library)), name, remedy }),
                Err(error) if reason.is_empty() => reason = reason_of(&error),
                Err(_) => {}
            }
        }
        Err(GpuError::Library { library: files.first().copied().unwrap_or_default(), reason, remedy })
    }

    /// Takes a function, as a pointer of type `T`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Symbol`].
    ///
    /// # Safety
    ///
    /// `T` is a pointer to a function of the type that the library exports under `symbol`.
    pub(crate) unsafe fn function<T: Copy + 'static>(self, symbol: &'static str) -> Result<T, GpuError> {
        // SAFETY: the caller's promise. The library is never unloaded, so the pointer outlives the symbol.
        match unsafe { self.library.get::<T>(symbol) } {
            Ok(function) => Ok(*function),
            Err(_) => Err(GpuError::Symbol { library: self.name, symbol, remedy: self.remedy }),
        }
    }
}

/// What the loader says, which the error has as its source.
fn reason_of(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Declares a struct of functions of one library: those that it must have, then those that it may lack.
macro_rules! table {
    (
        $(#[$meta:meta])* $table:ident
        needs { $($needed:ident($($arg:ty),*) -> $result:ty;)* }
        may_lack { $($optional:ident($($optional_arg:ty),*) -> $optional_result:ty;)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        #[allow(non_snake_case, reason = "the vendor's names, for whoever looks them up")]
        pub(crate) struct $table {
            $(pub(crate) $needed: unsafe extern "C" fn($($arg),*) -> $result,)*
            $(pub(crate) $optional: Result<
                unsafe extern "C" fn($($optional_arg),*) -> $optional_result,
                $crate::gpu::GpuError,
            >,)*
        }

        impl $table {
            /// Takes all functions from `library`.
            pub(crate) fn of(library: $crate::gpu::load::Loaded) -> Result<Self, $crate::gpu::GpuError> {
                Ok(Self {
                    // SAFETY: the types in the table are those that the library documents.
                    $($needed: unsafe { library.function(stringify!($needed)) }?,)*
                    // SAFETY: as above.
                    $($optional: unsafe { library.function(stringify!($optional)) },)*
                })
            }
        }
    };
}
pub(crate) use table;
