//! Pictures of what was measured, as SVG: no fonts and no library for images are needed.

mod grid;
mod tail;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::builder::{PathBufValueParser, TypedValueParser};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::replacement::Replacement;

pub(super) use grid::{Line, Panel, rates};
pub(super) use tail::{Curve, Weight, tails};

/// A picture's file. It is made before the first run, so that hours of measuring don't end with a wrong name, and
/// appears complete or not at all.
pub(super) struct Picture(Replacement);

impl Picture {
    /// The file that will be at `path`.
    pub(super) fn of(path: &std::path::Path) -> anyhow::Result<Self> {
        Replacement::of(path).map(Self)
    }

    /// Draws with `draw` and puts the file in its place.
    pub(super) fn write(self, draw: impl FnOnce() -> Drawn) -> anyhow::Result<()> {
        let text = draw().map_err(|error| anyhow!("the picture was not drawn: {error}"))?;
        let written = self.0.file().write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", self.0.path().display()))?;
        self.0.commit()
    }
}

/// The text of a picture.
pub(super) type Drawn = Result<String, Box<dyn Error>>;

/// The parser of `--plot`'s value.
pub(super) fn svg_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
            return Ok(path);
        }
        Err(format!("{} is no name of a picture; FILE.svg is accepted", path.display()))
    })
}

/// The colour of line `index`: these can be told apart by people who see fewer colours than others.
fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// A sample and a name for each line, in `area`, which is beside the picture: in it, they would hide lines.
fn legend<'n>(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    lines: impl Iterator<Item = (&'n str, ShapeStyle)>,
) -> Result<(), Box<dyn Error>> {
    for (index, (name, style)) in lines.enumerate() {
        let y = LEGEND_TOP + LEGEND_LINE * index as i32;
        area.draw(&PathElement::new([(0, y + 6), (18, y + 6)], style))?;
        area.draw(&Text::new(name.to_owned(), (24, y), FONT))?;
    }
    Ok(())
}

/// The steps 1, 2 and 5 of each decade from the last one up to `low` to the first from `high` on.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all: Vec<f64> =
        decades.flat_map(|exponent| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(exponent))).collect();
    let first = all.iter().rposition(|step| *step <= low).unwrap_or(0);
    let last = all.iter().position(|step| *step >= high).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

/// What marks and names are written in. No font is needed to make the file: whoever shows it has one.
const FONT: (&str, i32) = ("sans-serif", 13);
const TITLE_FONT: (&str, i32) = ("sans-serif", 18);
/// Pixels for the legend.
const LEGEND_WIDTH: u32 = 110;
const LEGEND_TOP: i32 = 44;
const LEGEND_LINE: i32 = 18;
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_enclose_the_range() {
        assert_eq!(steps(1.5, 30.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(steps(2.0, 5.0), [2.0, 5.0]);
        assert_eq!(steps(0.07, 0.3).first(), Some(&0.05));
    }
}
