//! The latencies of small reads as a picture: for each policy, which share of them took at most how long.

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::prelude::*;

use super::model::Picos;
use super::scenario::{Beside, us};

/// Writes the picture to `path`.
pub(crate) fn write(path: &Path, rows: &[Beside]) -> anyhow::Result<()> {
    let shown: Vec<&Beside> =
        SHOWN.iter().filter_map(|key| rows.iter().find(|row| row.key == *key)).collect();
    let picture = draw(&shown).map_err(|error| anyhow!("the picture was not drawn: {error}"))?;
    std::fs::write(path, picture).with_context(|| format!("cannot write {}", path.display()))
}

fn draw(rows: &[&Beside]) -> Result<String, Box<dyn std::error::Error>> {
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption("4 KiB reads beside 1 MiB writes: modelled device, 7 GB/s, 10 us", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(52)
            .build_cartesian_2d((8.0f64..2000.0).log_scale(), 0.0f64..100.0)?;
        chart
            .configure_mesh()
            .y_max_light_lines(1)
            .x_desc("latency of a read, us")
            .y_desc("reads that took no longer, %")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .draw()?;
        for (at, row) in rows.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let label = format!("{}: {:.2} GB/s", row.name, row.all_bytes_per_s / 1e9);
            chart
                .draw_series(LineSeries::new(steps(&row.read_ps), colour.stroke_width(2)))?
                .label(label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleMiddle)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK)
            .draw()?;
        area.present()?;
    }
    Ok(picture)
}

/// A curve of 100 steps through a sorted list.
fn steps(sorted: &[Picos]) -> Vec<(f64, f64)> {
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    (0..=100).map(|percent| (us(sorted[last * percent / 100]), percent as f64)).collect()
}

const SHOWN: [&str; 6] = ["alone", "priority", "default", "chunks_128k", "uncapped", "paper"];
const COLOURS: [RGBColor; 6] = [
    RGBColor(120, 120, 120),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
];
const SIZE: (u32, u32) = (900, 520);
