//! Tables for terminals: the first column is text, the others are numbers.

/// Rows under a head, each column as wide as it must be.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these names of columns.
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&name| name.to_owned()).collect()] }
    }

    /// Adds a row, which has a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells);
    }

    /// The lines of the table.
    pub(crate) fn render(&self) -> String {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            text.push_str(cells.collect::<String>().trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right() {
        let mut table = Table::new(&["", "GiB/s", "IOPS"]);
        table.row(vec!["write".into(), "0.5".into(), "1234567".into()]);
        assert_eq!(table.render(), "       GiB/s     IOPS\nwrite    0.5  1234567\n");
    }
}
