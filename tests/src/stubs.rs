//! Stand-ins for vendors' libraries: built from `tests/stubs` by the C compiler, each into a folder of its own. The tests
//! of `ugds-mem` include this file, too.
//!
//! UNSAFETY: loads a library that was just built, and calls the functions that steer it.

#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{CString, c_char, c_long};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with stand-ins. Two stubs share nothing, not even their libraries' state.
pub struct Stub {
    folder: TempDir,
    libraries: Vec<Library>,
}

impl Stub {
    /// A stand-in for `libcuda.so.1`, without the functions `lacking`.
    ///
    /// # Panics
    ///
    /// When the C compiler is not there, or does not accept the sources.
    #[must_use]
    pub fn cuda(lacking: &[&str]) -> Self {
        Self::empty().with("cuda.c", "libcuda.so.1", lacking)
    }

    /// A folder without any.
    ///
    /// # Panics
    ///
    /// When there is no place for temporary files.
    #[must_use]
    pub fn empty() -> Self {
        Self { folder: TempDir::new().expect("a temporary folder"), libraries: Vec::new() }
    }

    /// The same with one more library.
    ///
    /// # Panics
    ///
    /// As [`cuda`](Self::cuda).
    #[must_use]
    pub fn with(mut self, source: &str, name: &str, lacking: &[&str]) -> Self {
        let library = self.folder.path().join(name);
        link(&sources().join(source), &library, lacking);
        // SAFETY: its constructor reads the environment, and nothing else.
        self.libraries.push(unsafe { Library::new(&library) }.expect("a library that was just built"));
        self
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sets what the libraries do: see `tests/stubs/stub.h`.
    ///
    /// # Panics
    ///
    /// For text with a zero in it.
    pub fn set(&self, settings: &str) {
        let text = CString::new(settings).expect("no zero");
        for library in &self.libraries {
            // SAFETY: the function is declared so in `stub.h`, and it reads the text up to its zero.
            unsafe {
                let configure = library.get::<unsafe extern "C" fn(*const c_char)>("stub_configure");
                configure.expect("each stub has it")(text.as_ptr());
            }
        }
    }

    /// A counter of the first library that has it; of this thread where it is a thread's.
    ///
    /// # Panics
    ///
    /// When no library has such a counter.
    #[must_use]
    pub fn count(&self, what: &str) -> i64 {
        let text = CString::new(what).expect("no zero");
        let counts = self.libraries.iter().map(|library| {
            // SAFETY: the function is declared so in each stub, and it reads the text up to its zero.
            unsafe {
                let get = library.get::<unsafe extern "C" fn(*const c_char) -> c_long>("stub_get");
                get.expect("each stub has it")(text.as_ptr())
            }
        });
        counts.into_iter().find(|count| *count != -1).unwrap_or_else(|| panic!("no stub counts {what}"))
    }

    /// Takes a function of the first library, by a type that the caller vouches for.
    ///
    /// # Panics
    ///
    /// When there is none.
    ///
    /// # Safety
    ///
    /// `T` is a pointer to a function of the type that the library has under `name`, and it is not called after this
    /// value was dropped.
    #[must_use]
    pub unsafe fn function<T: Copy + 'static>(&self, name: &str) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.function_of(0, name) }
    }

    /// The same of the library that was added as number `library`, from 0 on.
    ///
    /// # Panics
    ///
    /// As [`function`](Self::function).
    ///
    /// # Safety
    ///
    /// As of [`function`](Self::function).
    #[must_use]
    pub unsafe fn function_of<T: Copy + 'static>(&self, library: usize, name: &str) -> T {
        let library = self.libraries.get(library).expect("there is a library");
        // SAFETY: the caller's promise.
        *unsafe { library.get::<T>(name) }.unwrap_or_else(|_| panic!("no function {name}"))
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/stubs")
}

/// Links one source into a library that does not export `lacking`.
fn link(source: &Path, library: &Path, lacking: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-pthread", "-o"]).arg(library).arg(object(source));
    if !lacking.is_empty() {
        let script = library.with_extension("exports");
        let local: String = lacking.iter().map(|name| format!("{name}; ")).collect();
        std::fs::write(&script, format!("{{ global: *; local: {local}}};")).expect("a temporary file");
        cc.arg(format!("-Wl,--version-script={}", script.display()));
    }
    succeeds(cc);
}

/// The compiled source, beside the test program. It is kept there, named by what it was compiled from: a test compiles
/// half a second and links within a tenth of that.
fn object(source: &Path) -> PathBuf {
    let text = [source, &sources().join("stub.h")].map(|path| std::fs::read(path).expect("a source"));
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let program = std::env::current_exe().expect("this program");
    let object = program.with_file_name(format!("stub-{name}-{:016x}.o", hasher.finish()));
    if !object.exists() {
        // Under a name of our own first: others may compile the same.
        let own =
            object.with_extension(format!("{}-{:?}.o", std::process::id(), std::thread::current().id()));
        let mut cc = Command::new("cc");
        cc.args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            "-O1",
            "-fPIC",
            "-c",
            "-o",
        ]);
        cc.arg(&own).arg(source);
        succeeds(cc);
        std::fs::rename(&own, &object).expect("a place beside this program");
    }
    object
}

fn succeeds(mut cc: Command) {
    let output = cc.output().expect("a C compiler named cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
