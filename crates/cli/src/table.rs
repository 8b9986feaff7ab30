//! Tables and numbers for people.

/// The head of a column, and to which side its cells stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column<'a> {
    Left(&'a str),
    Right(&'a str),
}

/// Rows under a header: the first column to the left, the others to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.iter().enumerate().map(|(at, name)| match at {
        0 => Column::Left(name),
        _ => Column::Right(name),
    });
    let columns: Vec<Column<'_>> = columns.collect();
    aligned(&columns, rows).iter().map(|line| format!("{line}\n")).collect()
}

/// The header and the rows as lines.
pub(crate) fn aligned(columns: &[Column<'_>], rows: &[Vec<String>]) -> Vec<String> {
    let names = columns.iter().map(|column| match column {
        Column::Left(name) | Column::Right(name) => *name,
    });
    let width = |(column, name): (usize, &str)| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([name.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = names.clone().enumerate().map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(columns).zip(&widths).map(|((cell, column), width)| match column {
            Column::Left(_) => format!("{cell:<width$}"),
            Column::Right(_) => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let header = line(&mut names.clone());
    std::iter::once(header).chain(rows.iter().map(|row| line(&mut row.iter().map(String::as_str)))).collect()
}

/// A whole number with commas.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds in the unit that reads best.
pub(crate) fn latency(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.2} us"),
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 10_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// How many times `of` a number is; a dash where there is nothing to compare with.
pub(crate) fn ratio(value: f64, of: Option<f64>) -> String {
    match of {
        Some(of) if of > 0.0 => format!("{:.2}", value / of),
        Some(_) | None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "100".to_owned()]];
        assert_eq!(table(&["mode", "n"], &rows), "mode    n\na       1\nlong  100\n");
        let columns = [Column::Right("mode"), Column::Left("n")];
        assert_eq!(aligned(&columns, &rows), ["mode  n", "   a  1", "long  100"]);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.5, 45.2, 1_234.0, 45_600.0, 2_500_000.0].map(latency),
            ["0.50 us", "45 us", "1.2 ms", "46 ms", "2.5 s"]
        );
        assert_eq!(ratio(3.0, Some(2.0)), "1.50");
        assert_eq!(ratio(3.0, Some(0.0)), "-");
    }
}
