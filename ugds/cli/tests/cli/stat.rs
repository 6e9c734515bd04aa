//! `ugds stat`: what runs is shown while it runs, and whatever else is found there is told.

use crate::place::{Place, Ran};
use serde_json::Value;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A folder of sockets of its own.
struct Stand(Place);

impl Stand {
    fn new() -> Self {
        Self(Place::new())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ugds"));
        command.args(words).current_dir(self.0.path("")).env("XDG_RUNTIME_DIR", self.0.path(""));
        command.env("TMPDIR", self.0.path("")).env_remove("UGDS_STATS");
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        let output = self.command(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    fn ok(&self, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!((ran.status, &*ran.stderr), (0, ""), "{words:?}: {}", ran.stdout);
        ran.stdout
    }

    fn folder(&self) -> PathBuf {
        self.0.path("ugds")
    }

    fn sockets(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// A bench that runs until it is killed, once it publishes.
    fn bench(&self, variable: Option<&str>, words: &[&str]) -> Bench {
        let mut command = self.command(&[&["bench", "emu:?size=16M", "--time", "100"], words].concat());
        if let Some(value) = variable {
            command.env("UGDS_STATS", value);
        }
        let bench = Bench(command.stdout(Stdio::null()).spawn().unwrap());
        let name = format!("{}.0", bench.pid());
        within(|| self.sockets().contains(&name).then_some(()));
        bench
    }

    /// Listens where a process with this number would.
    fn listen(&self, name: &str) -> UnixListener {
        let _ = DirBuilder::new().mode(0o700).create(self.folder());
        UnixListener::bind(self.folder().join(name)).unwrap()
    }
}

struct Bench(Child);

impl Bench {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Waits for something.
fn within<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn nobody_publishes_anything() {
    let stand = Stand::new();
    assert!(stand.ok(&["stat"]).contains("UGDS_STATS=1"));
    assert_eq!(stand.ok(&["stat", "--json"]), "");
    let ran = stand.run(&["stat", "1"]);
    assert_eq!((ran.status, &*ran.stdout), (1, ""));
    assert!(ran.stderr.contains("process 1") && ran.stderr.contains("UGDS_STATS=1"), "{}", ran.stderr);
    for words in [&["stat", "--count", "1"][..], &["stat", "x"], &["stat", "1", "--interval", "0"]] {
        assert_eq!(stand.run(words).status, 2, "{words:?}");
    }
}

#[test]
fn a_bench_is_seen_while_it_runs() {
    let stand = Stand::new();
    let bench = stand.bench(Some("1"), &["--threads", "2", "--mode", "batch", "--batch", "8"]);
    let pid = bench.pid();
    let text = stand.ok(&["stat"]);
    assert!(text.contains(&pid) && text.contains("ugds bench"), "{text}");
    let list = lines(&stand.ok(&["stat", "--json"]));
    assert_eq!((list.len(), &list[0]["pid"]), (1, &Value::from(bench.0.id())));

    // Until something was done.
    within(|| (number(&lines(&stand.ok(&["stat", "--json"]))[0]["completed"]) > 0.0).then_some(()));
    let views = lines(&stand.ok(&["stat", &pid, "--json", "--interval", "0.2", "--count", "2"]));
    assert_eq!(views.len(), 2);
    for view in &views {
        assert_eq!(view["name"], "ugds bench");
        assert!(number(&view["seconds"]) >= 0.2);
        assert_eq!(view["queues"].as_array().unwrap().len(), 8);
        let batch =
            view["classes"].as_array().unwrap().iter().find(|class| class["class"] == "batch").unwrap();
        let (iops, rate) = (number(&batch["iops"]), number(&batch["bytes_per_s"]));
        assert!(iops > 0.0 && (rate / iops / 4096.0 - 1.0).abs() < 1e-6, "{batch}");
        assert!(number(&batch["p50_us"]) > 0.0 && number(&batch["p50_us"]) <= number(&batch["p99_us"]));
        assert_eq!(batch["failed"], 0);
        for queue in view["queues"].as_array().unwrap() {
            assert!(queue["passes_per_s"].is_number() && queue["qid"].is_u64(), "{queue}");
            for key in ["completed_total", "bytes_total", "failed_total", "outstanding"] {
                assert!(queue[key].is_u64(), "{queue}");
            }
        }
    }
    let text = stand.ok(&["stat", &pid, "--interval", "0.1", "--count", "1"]);
    assert!(!text.contains('\x1b'), "a pipe gets no escapes: {text:?}");
    assert!(text.contains("batch") && text.contains("idle") || text.contains("nothing to do"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    let path = stand.folder();
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.join(format!("{pid}.0")))), (0o700, 0o600));

    // It was killed, so its socket is still there; whoever looks removes it.
    drop(bench);
    assert_eq!(stand.sockets().len(), 1);
    assert!(stand.ok(&["stat"]).contains("no process"));
    assert_eq!(stand.sockets(), [""; 0]);
}

#[test]
fn a_bench_without_latencies_shows_none_and_one_that_is_told_not_to_nothing() {
    let stand = Stand::new();
    let bench = stand.bench(None, &[]);
    let views = lines(&stand.ok(&["stat", &bench.pid(), "--json", "--interval", "0.1", "--count", "1"]));
    assert!(views[0]["queues"].as_array().unwrap().iter().all(|queue| queue["p50_us"].is_null()));
    drop(bench);
    let mut command = stand.command(&["bench", "emu:?size=1M", "--time", "0.1"]);
    assert!(command.env("UGDS_STATS", "0").stdout(Stdio::null()).status().unwrap().success());
    assert_eq!(stand.sockets().len(), 1, "the killed one's");
    stand.ok(&["stat"]);
    // One that ends by itself leaves nothing.
    stand.ok(&["bench", "emu:?size=1M", "--time", "0.1"]);
    assert_eq!(stand.sockets(), [""; 0]);
}

#[test]
fn the_end_of_a_process_ends_the_view() {
    let stand = Stand::new();
    let bench = stand.bench(None, &[]);
    let words = ["stat", &bench.pid(), "--interval", "0.05", "--json"];
    let mut stat = stand.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    stat.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(bench);
    let mut rest = String::new();
    stat.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(stat.wait().unwrap().success());
}

/// Answers everybody who connects, until the stand is gone.
fn answer(listener: UnixListener, with: impl Fn(&mut UnixStream) + Send + 'static) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            with(&mut stream.unwrap());
        }
    });
}

#[test]
fn whatever_answers_there_is_told_and_no_panic() {
    let whole = r#"{"ugds":1,"name":"x","device":"d","stats":{"elapsed_ns":1,"queues":[]}}"#;
    let say = |bytes: Vec<u8>| {
        move |stream: &mut UnixStream| {
            // Whoever has enough goes away.
            let _ = stream.write_all(&bytes);
        }
    };
    for (bytes, part) in [
        (Vec::new(), "0 bytes that are no line"),
        (b"{}".to_vec(), "2 bytes that are no line"),
        (whole.as_bytes().to_vec(), "no line of text"),
        (b"\xff\xfe\n".to_vec(), "no line of text"),
        (b"{}\n".to_vec(), "missing field `ugds`"),
        (b"{}\n{}\n".to_vec(), "no line of text"),
        (format!("{}\n", &whole[..40]).into_bytes(), "EOF while parsing"),
        (format!("{}\n", whole.replace("\"ugds\":1", "\"ugds\":2")).into_bytes(), "version 2"),
        (format!("{}\n", "[".repeat(1 << 20)).into_bytes(), "does not answer as a device"),
        (vec![b' '; 40 << 20], "more than 33554432 bytes"),
    ] {
        let stand = Stand::new();
        answer(stand.listen("1.0"), say(bytes));
        for words in [&["stat"][..], &["stat", "1"]] {
            let ran = stand.run(words);
            assert_eq!(ran.status, 1, "{part}: {}", ran.stdout);
            assert!(ran.stderr.contains(part) && !ran.stderr.contains("panicked"), "{part}: {}", ran.stderr);
        }
    }
    // Those that are right are shown beside one that is not, and no name does anything to a terminal.
    let stand = Stand::new();
    answer(stand.listen("7.0"), say(format!("{}\n", whole.replace("\"x\"", "\"\\u001b[2Jx\"")).into_bytes()));
    answer(stand.listen("8.0"), say(b"nonsense\n".to_vec()));
    let ran = stand.run(&["stat"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("?[2Jx") && !ran.stdout.contains('\x1b'), "{:?}", ran.stdout);
    assert!(ran.stderr.contains("8.0"), "{}", ran.stderr);
}

#[test]
fn whoever_does_not_answer_is_not_waited_for_for_ever() {
    let stand = Stand::new();
    let _silent = stand.listen("1.0");
    let ran = stand.run(&["stat"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("not answered within 3000 ms"), "{}", ran.stderr);
}

#[test]
fn what_is_no_socket_of_a_device_is_left_alone() {
    let stand = Stand::new();
    drop(stand.listen("12.0"));
    for name in ["notes", "12", "12.x", "+1.0", "99999999999.0", ".", "12.0.0"] {
        let _ = fs::write(stand.folder().join(name), "mine");
    }
    drop(stand.listen("other.sock"));
    fs::write(stand.folder().join("13.0"), "a file").unwrap();
    stand.ok(&["stat"]);
    let mut left = stand.sockets();
    left.sort();
    assert_eq!(left, ["+1.0", "12", "12.0.0", "12.x", "13.0", "99999999999.0", "notes", "other.sock"]);
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    let stand = Stand::new();
    drop(stand.listen("12.0"));
    fs::set_permissions(stand.folder(), Permissions::from_mode(0o755)).unwrap();
    let ran = stand.run(&["stat"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("mode 0755") && ran.stderr.contains("0700 is accepted"), "{}", ran.stderr);
    // A bench runs all the same.
    stand.ok(&["bench", "emu:?size=1M", "--time", "0.05"]);
    assert_eq!(stand.sockets(), ["12.0"]);
}

/// Whoever connects and takes nothing keeps neither others nor the end of the process waiting for long.
#[test]
fn a_reader_that_takes_nothing_is_left() {
    let stand = Stand::new();
    let bench = stand.bench(Some("1"), &[]);
    let path = stand.folder().join(format!("{}.0", bench.pid()));
    let idle: Vec<UnixStream> = (0..4).map(|_| UnixStream::connect(&path).unwrap()).collect();
    stand.ok(&["stat", &bench.pid(), "--interval", "0.01", "--count", "1"]);
    drop(idle);
}
