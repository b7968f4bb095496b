//! Time series in comma-separated values, as in `metrics/*.csv`.

use super::ReadError;
use std::path::Path;

/// A table of text cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// Reads a table; a file that does not exist gives an empty table.
pub fn series(path: &Path) -> Result<Series, ReadError> {
    let text = match belljar_inputs::read_text(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Series::default()),
        other => other.map_err(|error| ReadError::io(path, &error))?,
    };
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let columns = lines.next().unwrap_or_default();
    let rows: Vec<_> = lines.collect();
    match rows.iter().position(|row| row.len() != columns.len()) {
        Some(bad) => Err(ReadError::File {
            path: path.to_owned(),
            reason: format!("line {} has not {} cells", bad + 2, columns.len()),
        }),
        None => Ok(Series { columns, rows }),
    }
}

impl Series {
    /// Index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_broken_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        assert_eq!(series(&path).unwrap(), Series::default());
        std::fs::write(&path, "time,host\n1.5,a\n2,b\n").unwrap();
        let table = series(&path).unwrap();
        assert_eq!((table.column("host"), &table.rows[1][1][..]), (Some(1), "b"));
        std::fs::write(&path, "time,host\n1.5\n").unwrap();
        assert!(series(&path).unwrap_err().to_string().contains("line 2"));
    }
}
