//! Token-level sums of one head: where its attention goes, how far, and how widely (METHODOLOGY, "Token level").

use crate::attention::AttentionView;
use crate::encode::{Encoded, TokenKind};

use super::exact::ExactSum;

/// The farthest offset that is kept apart: `offset_mass` runs over -8..=8.
pub const MAX_OFFSET: usize = 8;

/// How many offsets that is: both directions and 0.
pub const OFFSETS: usize = 2 * MAX_OFFSET + 1;

/// The farthest distance that counts as local in `window_mass`.
pub const WINDOW: usize = 2;

/// What the token-level metrics must know of a sentence, worked out once for all its heads.
#[derive(Clone, Debug)]
pub struct TokenRoles {
    tokens: usize,
    /// The queries and keys that are not special tokens, ascending.
    text: Vec<usize>,
    is_text: Vec<bool>,
    first_special: Option<usize>,
    separators: Vec<usize>,
    is_separator: Vec<bool>,
    punctuation: Vec<usize>,
}

impl TokenRoles {
    /// Sorts a sentence's tokens by the role they play.
    #[must_use]
    pub fn new(sentence: &Encoded) -> Self {
        let positions = |wanted: fn(TokenKind) -> bool| -> Vec<usize> {
            (0..sentence.kinds.len()).filter(|&position| wanted(sentence.kinds[position])).collect()
        };
        Self {
            tokens: sentence.kinds.len(),
            text: positions(|kind| !kind.is_special()),
            is_text: sentence.kinds.iter().map(|kind| !kind.is_special()).collect(),
            first_special: sentence.kinds.iter().position(|&kind| kind == TokenKind::FirstSpecial),
            separators: positions(|kind| kind == TokenKind::Separator),
            is_separator: sentence.kinds.iter().map(|&kind| kind == TokenKind::Separator).collect(),
            punctuation: positions(|kind| kind == TokenKind::Punctuation),
        }
    }

    /// The key at `offset` index `slot` (0 is -8) from `query`, if it is there and not special.
    fn text_at(&self, query: usize, slot: usize) -> Option<usize> {
        (query + slot).checked_sub(MAX_OFFSET).filter(|&key| key < self.tokens && self.is_text[key])
    }
}

/// The numerators of one head's token-level metrics: `N` is f64 within a sentence and [`ExactSum`] across sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSums<N> {
    /// Attention to the token at each offset, -8 first.
    pub offset_mass: [N; OFFSETS],
    /// Queries whose most attended key is at each offset, -8 first.
    pub offset_argmax: [N; OFFSETS],
    /// Attention to text tokens at most two away, the token itself left out.
    pub window_mass: N,
    /// Mean distance of the attention that stays on text, summed over queries.
    pub distance: N,
    /// Queries with any attention on text: the denominator of the distance.
    pub distance_queries: N,
    /// Attention to the first special token.
    pub first_special_mass: N,
    /// Attention to separators.
    pub separator_mass: N,
    /// Attention of separators to separators.
    pub separator_self_mass: N,
    /// Attention to punctuation.
    pub punctuation_mass: N,
    /// Entropy of the text queries' rows, nats.
    pub entropy: N,
    /// Entropy of the first special token's row, nats.
    pub first_special_entropy: N,
    /// Largest weight of each text query's row, separators left out.
    pub confidence: N,
}

impl<N> TokenSums<N> {
    fn cells(&self) -> impl Iterator<Item = &N> {
        self.offset_mass.iter().chain(&self.offset_argmax).chain([
            &self.window_mass,
            &self.distance,
            &self.distance_queries,
            &self.first_special_mass,
            &self.separator_mass,
            &self.separator_self_mass,
            &self.punctuation_mass,
            &self.entropy,
            &self.first_special_entropy,
            &self.confidence,
        ])
    }

    fn cells_mut(&mut self) -> impl Iterator<Item = &mut N> {
        self.offset_mass.iter_mut().chain(&mut self.offset_argmax).chain([
            &mut self.window_mass,
            &mut self.distance,
            &mut self.distance_queries,
            &mut self.first_special_mass,
            &mut self.separator_mass,
            &mut self.separator_self_mass,
            &mut self.punctuation_mass,
            &mut self.entropy,
            &mut self.first_special_entropy,
            &mut self.confidence,
        ])
    }
}

impl TokenSums<ExactSum> {
    /// Adds one sentence's sums.
    pub fn add(&mut self, sentence: &TokenSums<f64>) {
        self.cells_mut().zip(sentence.cells()).for_each(|(sum, &value)| *sum += value);
    }

    /// Adds another block's or worker's sums.
    pub fn merge(&mut self, other: &Self) {
        self.cells_mut().zip(other.cells()).for_each(|(sum, &value)| *sum += value);
    }
}

/// The denominators of the token-level metrics: they depend on the sentences, not on the head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenExposure {
    /// Text queries.
    pub queries: u64,
    /// Queries with a text token at each offset, -8 first.
    pub offset_queries: [u64; OFFSETS],
    /// First special tokens.
    pub first_specials: u64,
    /// Separators.
    pub separators: u64,
    /// The sum of `ln n` over text queries: the entropy of uniform attention, nats.
    ///
    /// A sentence of one token adds 0 here and to the entropies, so it does not count in their ratio.
    pub max_entropy: ExactSum,
    /// The sum of `ln n` over the rows of first special tokens.
    pub first_special_max_entropy: ExactSum,
}

impl TokenExposure {
    /// Counts one sentence.
    pub fn add(&mut self, roles: &TokenRoles) {
        let queries = roles.text.len() as u64;
        let max_entropy = (roles.tokens as f64).ln();
        self.queries += queries;
        for &query in &roles.text {
            for (slot, count) in self.offset_queries.iter_mut().enumerate() {
                *count += u64::from(roles.text_at(query, slot).is_some());
            }
        }
        self.separators += roles.separators.len() as u64;
        if roles.first_special.is_some() {
            self.first_specials += 1;
            self.first_special_max_entropy += max_entropy;
        }
        self.max_entropy += max_entropy * queries as f64;
    }

    /// Adds another block's counts.
    pub fn merge(&mut self, other: &Self) {
        self.queries += other.queries;
        self.offset_queries.iter_mut().zip(other.offset_queries).for_each(|(sum, count)| *sum += count);
        self.first_specials += other.first_specials;
        self.separators += other.separators;
        self.max_entropy += other.max_entropy;
        self.first_special_max_entropy += other.first_special_max_entropy;
    }
}

/// Sums what one head does in one sentence.
#[must_use]
pub fn observe(roles: &TokenRoles, view: AttentionView<'_>) -> TokenSums<f64> {
    let mut sums = TokenSums::default();
    for &query in &roles.text {
        observe_query(&mut sums, roles, query, view.row(query));
    }
    for &separator in &roles.separators {
        sums.separator_self_mass += mass(view.row(separator), &roles.separators);
    }
    if let Some(first) = roles.first_special {
        sums.first_special_entropy = entropy(view.row(first));
    }
    sums
}

fn observe_query(sums: &mut TokenSums<f64>, roles: &TokenRoles, query: usize, row: &[f32]) {
    let favourite = argmax(row);
    for slot in 0..OFFSETS {
        if let Some(key) = roles.text_at(query, slot) {
            sums.offset_mass[slot] += f64::from(row[key]);
            if key == favourite {
                sums.offset_argmax[slot] += 1.0;
            }
        }
    }
    let (mut text_mass, mut distance) = (0.0, 0.0);
    for &key in &roles.text {
        let weight = f64::from(row[key]);
        let away = key.abs_diff(query);
        text_mass += weight;
        distance += weight * away as f64;
        if (1..=WINDOW).contains(&away) {
            sums.window_mass += weight;
        }
    }
    if text_mass > 0.0 {
        sums.distance += distance / text_mass;
        sums.distance_queries += 1.0;
    }
    if let Some(first) = roles.first_special {
        sums.first_special_mass += f64::from(row[first]);
    }
    sums.separator_mass += mass(row, &roles.separators);
    sums.punctuation_mass += mass(row, &roles.punctuation);
    sums.entropy += entropy(row);
    let others = row.iter().zip(&roles.is_separator).filter(|&(_, &separator)| !separator);
    sums.confidence += f64::from(others.map(|(&weight, _)| weight).fold(0.0, f32::max));
}

/// The summed attention to `keys`.
fn mass(row: &[f32], keys: &[usize]) -> f64 {
    keys.iter().map(|&key| f64::from(row[key])).sum()
}

/// The lowest index of the largest weight.
fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (key, weight) in row.iter().enumerate() {
        if weight > &row[best] {
            best = key;
        }
    }
    best
}

/// `-sum a ln a` in nats, with `0 ln 0 = 0`.
fn entropy(row: &[f32]) -> f64 {
    -row.iter().filter(|&&weight| weight > 0.0).map(|&weight| f64::from(weight)).map(|a| a * a.ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::test_support::sentence;
    use TokenKind::{FirstSpecial, Punctuation, Separator, Text};

    /// `[CLS] a b . [SEP]`
    const KINDS: [TokenKind; 5] = [FirstSpecial, Text, Text, Punctuation, Separator];

    /// Rows in eighths, so that sums are exact.
    const WEIGHTS: [f32; 25] = [
        0.25, 0.25, 0.25, 0.25, 0.0, //
        0.125, 0.5, 0.25, 0.125, 0.0, // a
        0.25, 0.5, 0.0, 0.0, 0.25, // b
        0.0, 0.125, 0.25, 0.25, 0.375, // .
        0.0, 0.0, 0.0, 0.25, 0.75,
    ];

    fn observed() -> TokenSums<f64> {
        let roles = TokenRoles::new(&sentence(&KINDS));
        observe(&roles, AttentionView::new(0, 0, 5, &WEIGHTS))
    }

    fn exposure() -> TokenExposure {
        let mut exposure = TokenExposure::default();
        exposure.add(&TokenRoles::new(&sentence(&KINDS)));
        exposure
    }

    #[test]
    fn offsets_stay_on_text() {
        let (sums, counts) = (observed(), exposure());
        let at = |offset: i32| usize::try_from(offset + 8).unwrap();
        // -1: b to a 1/2, . to b 1/4; a has only [CLS] before it.
        assert_eq!((sums.offset_mass[at(-1)], counts.offset_queries[at(-1)]), (0.75, 2));
        // 0: 1/2 + 0 + 1/4
        assert_eq!((sums.offset_mass[at(0)], counts.offset_queries[at(0)]), (0.75, 3));
        // +1: a to b 1/4, b to . 0
        assert_eq!((sums.offset_mass[at(1)], counts.offset_queries[at(1)]), (0.25, 2));
        // +2: a to .
        assert_eq!((sums.offset_mass[at(2)], counts.offset_queries[at(2)]), (0.125, 1));
        assert_eq!((sums.offset_mass[at(3)], counts.offset_queries[at(3)]), (0.0, 0));
    }

    #[test]
    fn the_most_attended_key_may_be_special() {
        let sums = observed();
        // a looks at itself, b at a, . at [SEP], which is no offset.
        assert_eq!(sums.offset_argmax[8], 1.0);
        assert_eq!(sums.offset_argmax[7], 1.0);
        assert_eq!(sums.offset_argmax.iter().sum::<f64>(), 2.0);
    }

    #[test]
    fn masses_by_kind_of_token() {
        let sums = observed();
        // a: b 1/4 + . 1/8; b: a 1/2 + . 0; .: b 1/4 + a 1/8
        assert_eq!(sums.window_mass, 0.375 + 0.5 + 0.375);
        assert_eq!(sums.first_special_mass, 0.125 + 0.25 + 0.0);
        assert_eq!(sums.separator_mass, 0.0 + 0.25 + 0.375);
        assert_eq!(sums.separator_self_mass, 0.75);
        assert_eq!(sums.punctuation_mass, 0.125 + 0.0 + 0.25);
        // The largest weights away from [SEP]: 1/2, 1/2, 1/4.
        assert_eq!(sums.confidence, 0.5 + 0.5 + 0.25);
    }

    #[test]
    fn distance_is_over_the_mass_on_text() {
        let sums = observed();
        // a: (1/4 x 1 + 1/8 x 2) / (7/8) = 4/7; b: (1/2 x 1) / (1/2) = 1; .: (1/8 x 2 + 1/4 x 1) / (5/8) = 4/5
        assert!((sums.distance - (4.0 / 7.0 + 1.0 + 0.8)).abs() < 1e-15);
        assert_eq!(sums.distance_queries, 3.0);
    }

    #[test]
    fn entropy_in_nats() {
        let ln2 = std::f64::consts::LN_2;
        // a: 1/2, 1/4, 1/8, 1/8 = 1.75 bits; b: 1/2, 1/4, 1/4 = 1.5 bits;
        // .: 1/8 x 3 + 1/4 x 2 + 1/4 x 2 bits and 3/8 ln(8/3) nats
        let last = (0.375 + 1.0) * ln2 + 0.375 * (8.0_f64 / 3.0).ln();
        assert!((observed().entropy - (3.25 * ln2 + last)).abs() < 1e-12);
        // [CLS]: four quarters, 2 bits.
        assert!((observed().first_special_entropy - 2.0 * ln2).abs() < 1e-12);
        assert!((exposure().max_entropy.value() - 3.0 * 5.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_row_without_mass_on_text_has_no_distance() {
        let roles = TokenRoles::new(&sentence(&[FirstSpecial, Text, Separator]));
        let weights = [1.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 1.0];
        let sums = observe(&roles, AttentionView::new(0, 0, 3, &weights));
        assert_eq!((sums.distance, sums.distance_queries), (0.0, 0.0));
    }

    #[test]
    fn ties_go_to_the_lowest_index() {
        assert_eq!(argmax(&[0.25, 0.375, 0.375]), 1);
    }
}
