//! One head over one sentence: the products of its attention with the cues.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use multiversion::multiversion;

use super::cues::{COMMONNESS, COSINE, CUES, FAR_LEFT, LIST, OFFSET, TAG};
use super::sentence::{ALL_KEYS, FORMS, SentenceCues, TEXT};
use crate::model::forward::attention::AttentionView;
use crate::sequences::roles::REACH;
use crate::system::lanes::{LANES, moments};

/// One head's attention in one sentence, centred within rows, in both forms.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its products with each cue.
    pub products: [[f64; CUES]; FORMS],
    /// Its squares.
    pub squares: [f64; FORMS],
}

/// Room for one row and for sums over columns; reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// The weights on other tokens of text.
    row: Vec<f32>,
    columns: [Vec<f64>; FORMS],
}

/// Multiplies a head's attention with the cues of a sentence; `forms` are those that the sentence has.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn observe<'a>(cues: &'a SentenceCues, forms: [bool; FORMS], view: AttentionView<'a>, room: &'a mut Room) -> Seen {
    let mut seen = Seen { products: [[0.0; CUES]; FORMS], squares: [0.0; FORMS] };
    let (n, Room { row, columns }) = (view.tokens(), room);
    row.clear();
    row.resize(cues.width, 0.0);
    for columns in &mut *columns {
        columns.clear();
        columns.resize(n, 0.0);
    }
    for (number, &query) in cues.text.iter().enumerate() {
        let weights = view.row(query);
        for ((kept, &weight), is_text) in row.iter_mut().zip(weights).zip(&cues.is_text) {
            *kept = weight * is_text;
        }
        let own = f64::from(std::mem::take(&mut row[query]));
        let (mass, squares) = moments(row, row);
        let mut here = [0.0; CUES];
        pairs(cues, number, row, &mut here);
        let [all, text] = &mut seen.products;
        if forms[ALL_KEYS] {
            add(all, &here, 1.0);
            all[OFFSET + REACH] += own;
            add(all, cues.means(ALL_KEYS, number), -1.0);
            columns[ALL_KEYS].iter_mut().zip(weights).for_each(|(sum, &weight)| *sum += f64::from(weight));
            let special: f64 = cues.special.iter().map(|&(key, _)| f64::from(weights[key]).powi(2)).sum();
            seen.squares[ALL_KEYS] += squares + own * own + special - 1.0 / n as f64;
        }
        // A query without any attention on other tokens of text has no row in this form.
        if forms[TEXT] && mass > 0.0 {
            add(text, &here, 1.0 / mass);
            add(text, cues.means(TEXT, number), -1.0);
            columns[TEXT].iter_mut().zip(&*row).for_each(|(sum, &weight)| *sum += f64::from(weight) / mass);
            seen.squares[TEXT] += squares / (mass * mass) - 1.0 / (cues.text.len() - 1) as f64;
        }
    }
    for (products, columns) in seen.products.iter_mut().zip(&*columns) {
        keys(cues, columns, products);
    }
    seen
}

/// Adds the weights of a row, `[width]` with its own place empty, on the cues that depend on query and key.
#[inline(always)]
fn pairs(cues: &SentenceCues, number: usize, row: &[f32], here: &mut [f64; CUES]) {
    let query = cues.text[number];
    let (start, end) = (query.saturating_sub(REACH), row.len().min(query + REACH + 1));
    let window = &mut here[OFFSET + start + REACH - query..OFFSET + end + REACH - query];
    window.iter_mut().zip(&row[start..end]).for_each(|(sum, &weight)| *sum = f64::from(weight));
    here[FAR_LEFT] = row[..start].iter().map(|&weight| f64::from(weight)).sum();
    for (list, keys) in cues.listed[number].iter().enumerate() {
        here[LIST + list] = keys.iter().map(|&key| f64::from(row[key])).sum();
    }
    if !cues.cosines.is_empty() {
        debug_assert!(cues.width.is_multiple_of(LANES), "whole vectors");
        here[COSINE] = moments(row, &cues.cosines[number * cues.width..][..cues.width]).1;
    }
}

/// Adds the weights on the cues that depend on the key alone, from the sums over columns.
#[inline(always)]
fn keys(cues: &SentenceCues, columns: &[f64], products: &mut [f64; CUES]) {
    for &(key, cue) in &cues.special {
        if let Some(cue) = cue {
            products[cue] += columns[key];
        }
    }
    for &key in &cues.text {
        products[COMMONNESS] += columns[key] * cues.commonness[key];
        if let Some(tag) = cues.tags[key] {
            products[TAG + tag] += columns[key];
        }
    }
}

#[inline(always)]
fn add(sums: &mut [f64; CUES], values: &[f64; CUES], times: f64) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += times * value);
}
