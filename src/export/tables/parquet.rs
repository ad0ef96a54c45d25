//! Flat tables as Parquet: typed columns, in which values that could not be computed are null.

use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;
use anyhow::Result;

use crate::study::show::table::{Cell, Table};

pub fn parquet_table(table: &Table) -> Result<Vec<u8>> {
    let columns = || (0..table.columns.len()).map(|place| table.rows.iter().map(move |row| &row[place]));
    let kinds: Vec<Physical> = columns().map(column_type).collect();
    let field = |(name, kind): (&String, &Physical)| {
        let text = (*kind == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let field =
            Type::primitive_type_builder(name, *kind).with_repetition(Repetition::OPTIONAL).with_logical_type(text);
        field.build().map(Arc::new)
    };
    let fields = table.columns.iter().zip(&kinds).map(field).collect::<Result<Vec<_>, ParquetError>>()?;
    let schema = Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::builder().build()))?;
    let mut group = writer.next_row_group()?;
    for (kind, cells) in kinds.into_iter().zip(columns()) {
        match kind {
            Physical::BOOLEAN => write_column::<BoolType>(&mut group, cells, |cell| match cell {
                Cell::Flag(flag) => Some(*flag),
                _ => None,
            }),
            Physical::INT64 => write_column::<Int64Type>(&mut group, cells, |cell| match cell {
                Cell::Integer(number) => Some(*number),
                _ => None,
            }),
            Physical::DOUBLE => write_column::<DoubleType>(&mut group, cells, |cell| match cell {
                Cell::Number(number) => Some(*number),
                Cell::Integer(number) => Some(*number as f64),
                _ => None,
            }),
            _ => write_column::<ByteArrayType>(&mut group, cells, |cell| {
                let text = match cell {
                    Cell::Empty => return None,
                    Cell::Flag(flag) => flag.to_string(),
                    Cell::Integer(number) => number.to_string(),
                    Cell::Number(number) => number.to_string(),
                    Cell::Text(text) => text.clone(),
                };
                Some(ByteArray::from(text.into_bytes()))
            }),
        }?;
    }
    group.close()?;
    Ok(writer.into_inner()?)
}

/// Parquet type that all cells of a column fit in; `DOUBLE` for an empty column.
fn column_type<'a>(cells: impl Iterator<Item = &'a Cell>) -> Physical {
    let of = |cell: &Cell| match cell {
        Cell::Empty => None,
        Cell::Flag(_) => Some(Physical::BOOLEAN),
        Cell::Integer(_) => Some(Physical::INT64),
        Cell::Number(_) => Some(Physical::DOUBLE),
        Cell::Text(_) => Some(Physical::BYTE_ARRAY),
    };
    let wider = |a: Physical, b: Physical| match (a, b) {
        (a, b) if a == b => a,
        (Physical::INT64, Physical::DOUBLE) | (Physical::DOUBLE, Physical::INT64) => Physical::DOUBLE,
        _ => Physical::BYTE_ARRAY,
    };
    cells.filter_map(of).reduce(wider).unwrap_or(Physical::DOUBLE)
}

/// Writes the next column of a row group: its values, and for each row whether the row has a value.
fn write_column<'a, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    cells: impl Iterator<Item = &'a Cell>,
    value: impl Fn(&Cell) -> Option<T::T>,
) -> Result<()> {
    let cells: Vec<Option<T::T>> = cells.map(value).collect();
    let there: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let mut column = group.next_column()?.expect("a column for each name");
    column.typed::<T>().write_batch(&values, Some(&there), None)?;
    Ok(column.close()?)
}

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn columns_have_their_types_and_nulls() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let rows = vec![
            vec![text("a"), Cell::Integer(1), Cell::Integer(2), Cell::Flag(true), Cell::Empty],
            vec![text("é"), Cell::Integer(3), Cell::Number(0.5), Cell::Empty, Cell::Empty],
        ];
        let columns = ["text", "whole", "number", "flag", "nothing"].map(str::to_owned).to_vec();
        let bytes = parquet_table(&Table { name: "t", columns, rows }).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let read = SerializedFileReader::new(file).unwrap();
        let rows: Vec<String> = read.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        let first = r#"{text: "a", whole: 1, number: 2.0, flag: true, nothing: null}"#;
        let second = r#"{text: "é", whole: 3, number: 0.5, flag: null, nothing: null}"#;
        assert_eq!(rows, [first, second]);
    }
}
