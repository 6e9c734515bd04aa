//! The rates of grids of runs: a picture for each grid, side by side, with a line for each size of requests.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Drawn, FONT, LEGEND_WIDTH, TITLE_FONT, colour, legend};

/// A picture.
pub(in crate::bench) struct Panel {
    pub(in crate::bench) title: String,
    /// What varies along a line.
    pub(in crate::bench) x_name: &'static str,
    /// Its values, at least one, and from 1 on.
    pub(in crate::bench) marks: Vec<f64>,
    pub(in crate::bench) lines: Vec<Line>,
}

/// A line of a picture.
pub(in crate::bench) struct Line {
    /// What the legend calls it.
    pub(in crate::bench) label: String,
    /// What varies, and GiB/s.
    pub(in crate::bench) points: Vec<(f64, f64)>,
}

/// Draws `panels`, two in a row.
pub(in crate::bench) fn rates(panels: &[Panel]) -> Drawn {
    let columns = panels.len().clamp(1, 2);
    let rows = panels.len().div_ceil(columns).max(1);
    let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (panel, area) in panels.iter().zip(area.split_evenly((rows, columns))) {
            draw(&area, panel)?;
        }
        area.present()?;
    }
    Ok(text)
}

fn draw(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) -> Result<(), Box<dyn std::error::Error>> {
    let (least, most) = (panel.marks.iter().copied().fold(f64::MAX, f64::min), largest(&panel.marks));
    let rates: Vec<f64> = panel.lines.iter().flat_map(|line| &line.points).map(|(_, rate)| *rate).collect();
    let (chart_area, beside) = area.split_horizontally(PANEL.0 - LEGEND_WIDTH);
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(&panel.title, TITLE_FONT)
        .margin(12)
        .margin_right(28)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(
            // A little more than the marks, so that one alone has a scale, too.
            (least * 0.9..most * 1.1).log_scale().with_key_points(panel.marks.clone()),
            0.0..(largest(&rates) * 1.1).max(RATE_MIN),
        )?;
    chart
        .configure_mesh()
        .label_style(FONT)
        .y_max_light_lines(1)
        .x_desc(panel.x_name)
        .y_desc("GiB/s")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .draw()?;
    for (index, line) in panel.lines.iter().enumerate() {
        chart.draw_series(LineSeries::new(line.points.iter().copied(), style(index)).point_size(3))?;
    }
    let names = panel.lines.iter().enumerate().map(|(index, line)| (line.label.as_str(), style(index)));
    legend(&beside, names)
}

fn style(index: usize) -> ShapeStyle {
    colour(index).stroke_width(2)
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}

/// A scale needs an end, even if nothing was measured.
const RATE_MIN: f64 = 1e-3;
const PANEL: (u32, u32) = (620, 400);
