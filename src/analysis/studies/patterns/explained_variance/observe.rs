//! Products of one head's attention with the cues (properties of queries and keys) of one sentence.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use multiversion::multiversion;

use super::cues::{
    COMMONNESS_CUE, COSINE_CUE, CUE_COUNT, FAR_LEFT_CUE, FIRST_OFFSET_CUE, FIRST_PAIR_CUE, FIRST_TAG_CUE,
    PAIR_CUE_COUNT,
};
use super::sentence::{ALL_KEYS, KEY_SET_COUNT, SentenceCues, TEXT_KEYS};
use crate::linalg::lanes::{dot, sum_any_length};
use crate::model::forward::attention::AttentionView;
use crate::sequences::fold::roles::{MAX_OFFSET_TOKENS, OFFSET_COUNT};
use crate::sequences::fold::text::TextAttention;

/// Buffers for attention summed by key, per key set (all keys, text keys); reused from head to head.
pub type ColumnSums = [Vec<f64>; KEY_SET_COUNT];

/// Number of sums over an attention row: keys far to the left, keys with each pair cue, and cosine-weighted text keys of
/// other token ids.
const PAIR_SUM_COUNT: usize = 1 + PAIR_CUE_COUNT + 1;

/// Products of one head's attention with each cue of a sentence, then the squared norms of the attention, per key set
/// (all keys, text keys). Attention is centred within rows.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn cue_products<'a>(
    cues: &'a SentenceCues,
    text: &'a TextAttention,
    view: AttentionView<'a>,
    columns: &'a mut ColumnSums,
) -> ([[f64; CUE_COUNT]; KEY_SET_COUNT], [f64; KEY_SET_COUNT]) {
    let [mut offsets_all, mut offsets_text] = [[0.0; OFFSET_COUNT]; KEY_SET_COUNT];
    let [mut pairs_all, mut pairs_text] = [[0.0; PAIR_SUM_COUNT]; KEY_SET_COUNT];
    let mut squares = [0.0; KEY_SET_COUNT];
    let mut uncounted_means = [0.0; CUE_COUNT];
    let [columns_all, columns_text] = columns;
    for columns in [&mut *columns_all, &mut *columns_text] {
        columns.clear();
        columns.resize(cues.row_width, 0.0);
    }
    for (number, &query) in cues.text_tokens.iter().enumerate() {
        let (row, weights, mass) = (text.row(query), view.row(query), text.row_sum(query));
        let own = f64::from(weights[query]);
        // A query without attention to other text tokens has no row over text keys.
        let scale = if mass > 0.0 { 1.0 / mass } else { 0.0 };
        for ((all, scaled), &weight) in offsets_all.iter_mut().zip(&mut offsets_text).zip(text.offset_weights(query)) {
            *all += f64::from(weight);
            *scaled = f64::from(weight).mul_add(scale, *scaled);
        }
        offsets_all[MAX_OFFSET_TOKENS] += own;
        for ((all, scaled), &weight) in columns_all.iter_mut().zip(&mut *columns_text).zip(row) {
            *all += f64::from(weight);
            *scaled = f64::from(weight).mul_add(scale, *scaled);
        }
        columns_all[query] += own;
        let pair_sums = pair_cue_sums(cues, number, row);
        for ((all, scaled), value) in pairs_all.iter_mut().zip(&mut pairs_text).zip(pair_sums) {
            *all += value;
            *scaled = value.mul_add(scale, *scaled);
        }
        let square = f64::from(dot(row, row));
        let mut special = own * own;
        for &(key, _) in &cues.special_cues {
            let weight = f64::from(weights[key]);
            columns_all[key] += weight;
            special += weight * weight;
        }
        squares[ALL_KEYS] += square + special - cues.uniform_weight(ALL_KEYS, number);
        if mass > 0.0 {
            squares[TEXT_KEYS] += square * scale * scale - cues.uniform_weight(TEXT_KEYS, number);
        } else {
            uncounted_means.iter_mut().zip(&cues.cue_means[TEXT_KEYS][number]).for_each(|(sum, mean)| *sum += mean);
        }
    }
    let mut products = cues.cue_mean_sums.map(|means| means.map(|mean| -mean));
    products[TEXT_KEYS].iter_mut().zip(uncounted_means).for_each(|(product, mean)| *product += mean);
    let sums = [(offsets_all, pairs_all, columns_all), (offsets_text, pairs_text, columns_text)];
    for (products, (window, others, columns)) in products.iter_mut().zip(sums) {
        products[FIRST_OFFSET_CUE..FIRST_OFFSET_CUE + OFFSET_COUNT]
            .iter_mut()
            .zip(window)
            .for_each(|(product, value)| *product += value);
        products[FAR_LEFT_CUE] += others[0];
        products[FIRST_PAIR_CUE..FIRST_PAIR_CUE + PAIR_CUE_COUNT]
            .iter_mut()
            .zip(&others[1..])
            .for_each(|(product, value)| *product += value);
        products[COSINE_CUE] += others[PAIR_SUM_COUNT - 1];
        add_key_cues(cues, columns, products);
    }
    (products, squares)
}

/// Sums the weights of the attention row with index `number` for each cue of query and key: `[keys far to the left, keys with
/// each of the five pair cues, text keys of other token ids times their cosines]`.
#[inline(always)]
fn pair_cue_sums(cues: &SentenceCues, number: usize, row: &[f32]) -> [f64; PAIR_SUM_COUNT] {
    let query = cues.text_tokens[number];
    let mut pair_sums = [0.0; PAIR_SUM_COUNT];
    pair_sums[0] = sum_any_length(&row[..query.saturating_sub(MAX_OFFSET_TOKENS)]);
    for (sum, add_key_cues) in pair_sums[1..].iter_mut().zip(&cues.keys_by_pair_cue[number]) {
        *sum = add_key_cues.iter().map(|&key| f64::from(row[key])).sum();
    }
    if !cues.cosines.is_empty() {
        pair_sums[PAIR_SUM_COUNT - 1] = f64::from(dot(row, &cues.cosines[number * cues.row_width..][..cues.row_width]));
    }
    pair_sums
}

/// Adds attention to keys with each cue that does not depend on the query. `columns` is the attention summed by key.
#[inline(always)]
fn add_key_cues(cues: &SentenceCues, columns: &[f64], products: &mut [f64; CUE_COUNT]) {
    for &(key, cue) in &cues.special_cues {
        if let Some(cue) = cue {
            products[cue] += columns[key];
        }
    }
    for &key in &cues.text_tokens {
        products[COMMONNESS_CUE] += columns[key] * cues.commonness[key];
        if let Some(tag) = cues.tags[key] {
            products[FIRST_TAG_CUE + tag] += columns[key];
        }
    }
}
