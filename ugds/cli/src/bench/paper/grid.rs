//! A table of runs: the size of requests to the right, and what else varies downwards.

use std::time::Duration;

use ugds::uri::Bytes;

use crate::bench::job::Load;
use crate::bench::plot::{Line, Panel};
use crate::bench::report::Run;
use crate::bench::{Mode, ModeName, Pattern};
use crate::device::size_text;
use crate::measure::Summary;
use crate::table::Table;
use crate::units;

/// Runs that differ in two things.
pub(super) struct Grid {
    pub(super) pattern: Pattern,
    pub(super) mode: ModeName,
    /// Threads in the mode `sync`, entries of one thread's batch in the mode `batch`.
    pub(super) rows: Vec<u32>,
    pub(super) sizes: Vec<Bytes>,
    pub(super) time: Duration,
    pub(super) seed: u64,
}

impl Grid {
    /// The runs, row by row.
    pub(super) fn loads(&self) -> Vec<Load> {
        let load = |row: u32, size: &Bytes| {
            let (threads, mode) = match self.mode {
                ModeName::Sync => (row, Mode::Sync { depth: 1 }),
                ModeName::Batch => (1, Mode::Batch { entries: row }),
            };
            let (pattern, time, seed) = (self.pattern, self.time, self.seed);
            Load { pattern, mode, request_bytes: size.0, threads, time, seed, verify: false }
        };
        self.rows.iter().flat_map(|row| self.sizes.iter().map(move |size| load(*row, size))).collect()
    }

    /// The tables of what these runs came to, which are as many as the loads.
    pub(super) fn tables(&self, runs: &[Run]) -> String {
        let table = |(metric, cell): &(&str, Cell)| {
            format!("\n{}: {metric}\n{}", self.name(), self.table(runs, *cell))
        };
        METRICS.iter().map(table).collect()
    }

    /// The picture of what these runs came to.
    pub(super) fn panel(&self, runs: &[Run]) -> Panel {
        let rates = |column: usize| {
            let cells = runs.iter().skip(column).step_by(self.sizes.len());
            let rate = |(row, run): (&u32, &Run)| Some((f64::from(*row), run.one_way()?.gib_per_s));
            self.rows.iter().zip(cells).filter_map(rate).collect()
        };
        let line = |(column, size): (usize, &Bytes)| Line { label: size_text(size.0), points: rates(column) };
        Panel {
            title: self.name(),
            x_name: self.rows_name(),
            marks: self.rows.iter().map(|row| f64::from(*row)).collect(),
            lines: self.sizes.iter().enumerate().map(line).collect(),
        }
    }

    fn name(&self) -> String {
        format!("{}, {}", self.pattern.name(), self.mode.text())
    }

    fn rows_name(&self) -> &'static str {
        match self.mode {
            ModeName::Sync => "threads",
            ModeName::Batch => "batch",
        }
    }

    fn table(&self, runs: &[Run], cell: Cell) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(Bytes::to_string).collect();
        let head: Vec<&str> =
            [self.rows_name()].into_iter().chain(sizes.iter().map(String::as_str)).collect();
        let mut table = Table::new(&head);
        for (row, runs) in self.rows.iter().zip(runs.chunks(self.sizes.len())) {
            // A run so short that no request ended has no numbers.
            let cells = runs.iter().map(|run| run.one_way().map_or_else(|| "-".to_owned(), cell));
            table.row([row.to_string()].into_iter().chain(cells).collect());
        }
        table.render()
    }
}

/// A number of a run as a cell shows it.
type Cell = fn(&Summary) -> String;

const METRICS: [(&str, Cell); 3] = [
    ("GiB/s", |summary| units::three_digits(summary.gib_per_s)),
    ("IOPS", |summary| units::count(summary.iops)),
    ("p99 of the latency", |summary| units::time(summary.p99_us)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::job::Results;
    use crate::measure::Measure;

    fn grid(sizes: &[u64], rows: &[u32]) -> Grid {
        Grid {
            pattern: Pattern::Randread,
            mode: ModeName::Sync,
            rows: rows.to_vec(),
            sizes: sizes.iter().map(|size| Bytes(*size)).collect(),
            time: Duration::from_secs(1),
            seed: 0,
        }
    }

    fn run_of(load: &Load, measure: &Measure) -> Run {
        let mut results = Results::new(Duration::from_secs(1));
        results.read.merge(measure);
        Run::of(load, &results)
    }

    /// A request of `threads` seconds and the load's size.
    fn run(load: &Load) -> Run {
        let mut measure = Measure::new();
        measure.add(Duration::from_secs(load.threads.into()), load.request_bytes << 18);
        run_of(load, &measure)
    }

    #[test]
    fn cells_are_where_their_names_say() {
        let grid = grid(&[4096, 16384, 65536], &[1, 2]);
        let runs: Vec<Run> = grid.loads().iter().map(run).collect();
        let tables = grid.tables(&runs);
        let rates = "\nrandread, sync: GiB/s\nthreads    4K   16K   64K\n1        1.00  4.00  16.0\n2        1.00  4.00  16.0\n";
        assert!(tables.starts_with(rates), "{tables}");
        assert!(tables.contains("\n2        2.00s  2.00s  2.00s\n"), "{tables}");
        let panel = grid.panel(&runs);
        assert_eq!(panel.marks, [1.0, 2.0]);
        assert_eq!(panel.lines[1].points, [(1.0, 4.0), (2.0, 4.0)]);
    }

    #[test]
    fn rows_are_threads_or_the_entries_of_one_batch() {
        let mut grid = grid(&[4096], &[3]);
        let load = grid.loads()[0];
        assert_eq!((load.threads, load.mode), (3, Mode::Sync { depth: 1 }));
        grid.mode = ModeName::Batch;
        let load = grid.loads()[0];
        assert_eq!((load.threads, load.mode), (1, Mode::Batch { entries: 3 }));
        assert!(grid.tables(&[run(&load)]).starts_with("\nrandread, batch: GiB/s\nbatch    4K\n3      "));
    }

    #[test]
    fn a_run_without_requests_has_no_numbers() {
        let grid = grid(&[4096], &[1]);
        let run = run_of(&grid.loads()[0], &Measure::new());
        assert!(grid.tables(&[run]).contains("\n1         -\n"));
    }

    #[test]
    fn the_most_columns_fit_a_terminal() {
        let sizes: Vec<u64> = (0..super::super::SIZES_MAX).map(|power| 4096 << power).collect();
        let grid = grid(&sizes, &[1, 1024]);
        let slow = |load: &Load| {
            let mut measure = Measure::new();
            measure.add(Duration::from_micros(99_900), 1 << 40);
            run_of(load, &measure)
        };
        let tables = grid.tables(&grid.loads().iter().map(slow).collect::<Vec<_>>());
        assert!(tables.lines().all(|line| line.chars().count() <= 80), "{tables}");
        assert!(tables.lines().any(|line| line.chars().count() == 79), "{tables}");
    }
}
