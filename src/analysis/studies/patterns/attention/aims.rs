//! The aims of the labels of this study.

use crate::study::aim::Aim;

/// The aim of a label, and the metric that is its mean.
pub fn of(label: &str) -> Option<(Aim, String)> {
    let at = |offset: i32| (Aim::Offset(offset), format!("offset_mass.{offset}"));
    let of = |aim: Aim, metric: &str| (aim, metric.to_owned());
    Some(match label {
        "previous-token" => at(-1),
        "next-token" => at(1),
        "self" => at(0),
        "local" => of(Aim::Window, "window_mass"),
        "first-special" => of(Aim::FirstSpecial, "first_special_mass"),
        "first-token" => of(Aim::FirstToken, "first_token_mass"),
        "separator" => of(Aim::Separators, "separator_mass"),
        "punctuation" => of(Aim::Punctuation, "punctuation_mass"),
        "broad" => of(Aim::Spread, "entropy_ratio"),
        _ => at(label.strip_prefix("offset:")?.parse().ok()?),
    })
}
