//! Flat tables as a `table` of LaTeX with a caption, for a paper: rounded, the two ends of an interval in one column.

use std::fmt::Write;

use crate::study::show::table::{Cell, Table};
use crate::study::show::wording::decimal;
use crate::system::printable::escape_controls;
use crate::system::printable::write_to_string;

/// Number of decimals of numbers in a table.
const DIGITS: usize = 3;

/// Positive numbers below this would be rounded to 0, and are written as an upper bound instead.
const SMALLEST_SHOWN: f64 = 0.0005;

/// Maximum number of characters of a text on one line; a column with a longer text is a paragraph.
const MAX_LINE_CHARACTERS: usize = 40;

/// Column of a `tabular`: its heading, its alignment and its cells.
struct LatexColumn {
    title: String,
    alignment: &'static str,
    cells: Vec<String>,
}

/// Renders a flat table as LaTeX, without empty columns. The columns `layer` and `head` are left out if there is a
/// column `name`, which says both.
pub fn latex_table(table: &Table, caption: &str) -> String {
    let columns = latex_columns(table);
    write_to_string(|out| {
        let row = |cells: Vec<&str>| format!("{} \\\\", cells.join(" & "));
        writeln!(out, "% Table `{}` of headscope; needs \\usepackage{{booktabs}}.", table.name)?;
        writeln!(out, "\\begin{{table}}\n\\centering\n\\caption{{{}}}", escape_latex(caption))?;
        writeln!(out, "\\begin{{tabular}}{{{}}}", columns.iter().map(|column| column.alignment).collect::<String>())?;
        writeln!(out, "\\toprule\n{}\n\\midrule", row(columns.iter().map(|column| &*column.title).collect()))?;
        for place in 0..table.rows.len() {
            writeln!(out, "{}", row(columns.iter().map(|column| &*column.cells[place]).collect()))?;
        }
        writeln!(out, "\\bottomrule\n\\end{{tabular}}\n\\end{{table}}")
    })
}

/// Suffix of columns with accuracies. A table of several reports has one such column for each report.
const ACCURACY_SUFFIX: &str = ".accuracy";
/// Suffix of columns that say whether a label is firm. A table of several reports has one such column for each report.
const FIRM_SUFFIX: &str = ".firm";

/// Mark of an accuracy whose label is firm.
const FIRM_MARK: &str = "$^{*}$";

/// Index of the column that says which accuracies in `column` belong to firm labels; `None` if the table has none.
pub fn firm_column(table: &Table, column: &str) -> Option<usize> {
    let firm = format!("{}{FIRM_SUFFIX}", column.strip_suffix(ACCURACY_SUFFIX)?);
    table.columns.iter().position(|other| *other == firm)
}

fn latex_columns(table: &Table) -> Vec<LatexColumn> {
    let place_of = |name: &str| table.columns.iter().position(|column| column == name);
    let is_named = place_of("name").is_some();
    let values = |place: usize| table.rows.iter().map(move |row| &row[place]);
    let column = |(place, name): (usize, &String)| {
        let is_empty = values(place).all(|cell| *cell == Cell::Empty || *cell == Cell::Text(String::new()));
        let is_in_name = is_named && ["layer", "head"].contains(&&**name);
        let is_star =
            name.strip_suffix(FIRM_SUFFIX).is_some_and(|stem| place_of(&format!("{stem}{ACCURACY_SUFFIX}")).is_some());
        // It stands in the column of the lower end.
        let is_upper_end = name.strip_suffix("_high").is_some_and(|stem| place_of(&format!("{stem}_low")).is_some());
        if is_empty || is_in_name || is_star || is_upper_end {
            return None;
        }
        let interval = name.strip_suffix("_low").and_then(|stem| Some((stem, place_of(&format!("{stem}_high"))?)));
        if let Some((stem, high)) = interval {
            let both = values(place).zip(values(high)).map(|(low, high)| match (low, high) {
                (Cell::Empty, _) | (_, Cell::Empty) => String::new(),
                ends => format!("[{}, {}]", format_cell(ends.0), format_cell(ends.1)),
            });
            return Some(LatexColumn { title: column_heading(stem), alignment: "l", cells: both.collect() });
        }
        let longest =
            values(place).map(|cell| if let Cell::Text(text) = cell { text.chars().count() } else { 0 }).max();
        let is_text = values(place).any(|cell| matches!(cell, Cell::Text(_)));
        let form = match longest {
            Some(longest) if longest > MAX_LINE_CHARACTERS => "p{0.4\\linewidth}",
            _ if is_text => "l",
            _ => "r",
        };
        let firm = firm_column(table, name);
        let star = |row: &[Cell]| if firm.is_some_and(|firm| row[firm] == Cell::Flag(true)) { FIRM_MARK } else { "" };
        let cells = table.rows.iter().map(|row| format_cell(&row[place]) + star(row)).collect();
        Some(LatexColumn { title: column_heading(name), alignment: form, cells })
    };
    table.columns.iter().enumerate().filter_map(column).collect()
}

/// Column headings in LaTeX by column name, where the name itself does not suit a paper.
const HEADINGS: [(&str, &str); 7] = [
    ("name", "head"),
    ("primary", "label"),
    ("q", "$q$"),
    ("p", "$p$"),
    ("chooses", "chooses by"),
    ("chooses_share", "share"),
    ("loss_effect", "effect (nats)"),
];

fn column_heading(name: &str) -> String {
    // An interval belongs to the column before it.
    if name.ends_with("ci95") {
        return "95\\% interval".to_owned();
    }
    let known = HEADINGS.iter().find(|(known, _)| *known == name).map(|(_, heading)| (*heading).to_owned());
    known.unwrap_or_else(|| escape_latex(&name.replace("ci95", "95% interval").replace(['_', '.'], " ")))
}

fn format_cell(cell: &Cell) -> String {
    let number = |shown: String| shown.strip_prefix('-').map_or(shown.clone(), |size| format!("$-${size}"));
    match cell {
        Cell::Empty => String::new(),
        Cell::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Cell::Integer(integer) => number(integer.to_string()),
        // A q-value that is not 0 is not shown as 0.
        Cell::Number(value) if *value > 0.0 && *value < SMALLEST_SHOWN => {
            format!("$<${}", decimal(2.0 * SMALLEST_SHOWN, DIGITS))
        }
        Cell::Number(value) => number(decimal(*value, DIGITS)),
        Cell::Text(text) => escape_latex(text),
    }
}

fn escape_latex(text: &str) -> String {
    let mut out = String::new();
    let text = escape_controls(text);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '-' if chars.next_if_eq(&'>').is_some() => out.push_str("$\\rightarrow$"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_by_hand() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let columns =
            ["layer", "name", "label", "score", "ci95_low", "ci95_high", "nothing"].map(str::to_owned).to_vec();
        let rows = vec![
            vec![
                Cell::Integer(0),
                text("L0H1"),
                text("tag:<a_b> 5% a->b-c"),
                Cell::Number(-0.25),
                Cell::Number(-0.5),
                Cell::Number(1e-9),
                Cell::Empty,
            ],
            vec![
                Cell::Integer(0),
                text("L0H2"),
                text("x\\input{y}"),
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
            ],
        ];
        let expected = "\
% Table `t` of headscope; needs \\usepackage{booktabs}.
\\begin{table}
\\centering
\\caption{5\\% of a\\_b}
\\begin{tabular}{llrl}
\\toprule
head & label & score & 95\\% interval \\\\
\\midrule
L0H1 & tag:\\textless{}a\\_b\\textgreater{} 5\\% a$\\rightarrow$b-c & $-$0.250 & [$-$0.500, $<$0.001] \\\\
L0H2 & x\\textbackslash{}input\\{y\\} &  &  \\\\
\\bottomrule
\\end{tabular}
\\end{table}
";
        assert_eq!(latex_table(&Table { name: "t", columns, rows }, "5% of a_b"), expected);
    }
}
