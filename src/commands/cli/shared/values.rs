//! Options with a value of a few, each with its name and a line of help.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A value, its name, and a line of help.
pub type Named<T> = (T, &'static str, &'static str);

/// Reads one of these values by its name.
pub fn one_of<T: Copy + Send + Sync>(values: &'static [Named<T>]) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).map(|given| {
        let (value, ..) = values.iter().find(|(_, name, _)| *name == given).expect("the parser knows these names only");
        *value
    })
}
