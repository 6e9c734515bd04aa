//! The latencies of runs: which share of the requests took at most how long, with as much room for the slowest 0.01 %
//! as for the fastest 90 %.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Drawn, FONT, LEGEND_LINE, LEGEND_TOP, LEGEND_WIDTH, TITLE_FONT, colour, legend, steps};
use crate::measure::TAIL_MAX;
use crate::units;

/// A line of the picture.
pub(in crate::bench) struct Curve {
    /// What the legend calls it.
    pub(in crate::bench) label: String,
    /// Lines with the same number have one colour.
    pub(in crate::bench) colour: usize,
    pub(in crate::bench) weight: Weight,
    /// As [`Measure::tail`](crate::measure::Measure::tail) tells them.
    pub(in crate::bench) points: Vec<(f64, f64)>,
}

impl Curve {
    fn style(&self) -> ShapeStyle {
        colour(self.colour).stroke_width(if self.weight == Weight::Bold { 3 } else { 1 })
    }
}

/// How thick a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Weight {
    Bold,
    Thin,
}

/// Draws `curves`.
pub(in crate::bench) fn tails(title: &str, curves: &[Curve]) -> Drawn {
    let mut text = String::new();
    let legend_height = LEGEND_TOP as u32 + LEGEND_LINE as u32 * curves.len() as u32;
    let size = (SIZE.0, SIZE.1.max(legend_height));
    draw(&SVGBackend::with_string(&mut text, size).into_drawing_area(), title, curves)?;
    Ok(text)
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    curves: &[Curve],
) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let latencies = latency_steps(curves);
    let (low, high) = (latencies[0], latencies[latencies.len() - 1]);
    let (chart_area, beside) = area.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(title, TITLE_FONT)
        .margin(12)
        .margin_right(28)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (1.0..TAIL_MAX).log_scale().with_key_points(SHARES.to_vec()),
            (low..high).log_scale().with_key_points(latencies),
        )?;
    chart
        .configure_mesh()
        .label_style(FONT)
        .x_desc("requests that took no longer")
        .y_desc("latency")
        .x_label_formatter(&|one_of| share_text(*one_of))
        .y_label_formatter(&|us| units::time(*us))
        .draw()?;
    for curve in curves {
        let points = curve.points.iter().map(|(one_of, us)| (*one_of, us.max(low)));
        chart.draw_series(LineSeries::new(points, curve.style()))?;
    }
    legend(&beside, curves.iter().map(|curve| (curve.label.as_str(), curve.style())))?;
    Ok(area.present()?)
}

/// The marks at the side. They enclose all points.
fn latency_steps(curves: &[Curve]) -> Vec<f64> {
    let all = || curves.iter().flat_map(|curve| &curve.points).map(|(_, us)| us.max(CLOCK_US));
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(CLOCK_US, f64::max));
    // At least two marks, even if all took the same time.
    steps(low.min(high) * 0.99, high * 1.01)
}

/// `99.9%` for the point behind which 1 of 1000 is.
fn share_text(one_of: f64) -> String {
    // Nine tenths of a decade would be rounded away otherwise.
    let decimals = (one_of.log10() - 2.0).round().max(0.0) as usize;
    format!("{:.decimals$}%", 100.0 * (1.0 - 1.0 / one_of))
}

/// No clock is better; logarithms have no 0.
const CLOCK_US: f64 = 1e-3;
/// The marks at the bottom, as one of so many: 0, 50, 90, 99, 99.9, 99.99 and 99.999 %.
const SHARES: [f64; 7] = [1.0, 2.0, 10.0, 100.0, 1e3, 1e4, TAIL_MAX];
const SIZE: (u32, u32) = (960, 520);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_said_as_people_say_them() {
        let texts = SHARES.map(share_text);
        assert_eq!(texts, ["0%", "50%", "90%", "99%", "99.9%", "99.99%", "99.999%"]);
    }

    #[test]
    fn marks_enclose_all_points() {
        let curve = |points: &[(f64, f64)]| Curve {
            label: String::new(),
            colour: 0,
            weight: Weight::Bold,
            points: points.to_vec(),
        };
        assert_eq!(
            latency_steps(&[curve(&[(1.0, 3.0), (2.0, 4.0)]), curve(&[(1.0, 11.0)])]),
            [2.0, 5.0, 10.0, 20.0]
        );
        assert_eq!(latency_steps(&[curve(&[(1.0, 10.0)])]), [5.0, 10.0, 20.0]);
        assert!(latency_steps(&[curve(&[(1.0, 0.0)])]).len() >= 2);
        assert!(latency_steps(&[]).len() >= 2);
    }
}
