//! Token-level sums of one head: where its attention goes, how far, and how widely (METHODOLOGY, "Token level").

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::attention::AttentionView;
use crate::encode::{Encoded, TokenKind};

use super::exact::ExactSum;

/// The farthest offset that is kept apart: `offset_mass` runs over -8..=8.
pub const MAX_OFFSET: i32 = 8;

/// The same as a distance.
const REACH: usize = MAX_OFFSET as usize;

/// How many offsets that is: both directions and 0.
pub const OFFSETS: usize = 2 * REACH + 1;

/// The farthest distance that counts as local in `window_mass`.
pub const WINDOW: usize = 2;

/// What the token-level metrics must know of a sentence, worked out once for all its heads.
#[derive(Clone, Debug)]
pub struct TokenRoles {
    tokens: usize,
    /// The runs of tokens that are not special: one in a single sentence, two in a pair.
    text: Vec<Range<usize>>,
    first_special: Option<usize>,
    separators: Vec<usize>,
    /// The runs of tokens that are not separators.
    unseparated: Vec<Range<usize>>,
    punctuation: Vec<usize>,
}

impl TokenRoles {
    /// Sorts a sentence's tokens by the role they play.
    #[must_use]
    pub fn new(sentence: &Encoded) -> Self {
        let kinds = &sentence.kinds;
        let positions =
            |wanted: TokenKind| -> Vec<usize> { (0..kinds.len()).filter(|&token| kinds[token] == wanted).collect() };
        Self {
            tokens: kinds.len(),
            text: runs(kinds, |kind| !kind.is_special()),
            first_special: kinds.iter().position(|&kind| kind == TokenKind::FirstSpecial),
            separators: positions(TokenKind::Separator),
            unseparated: runs(kinds, |kind| kind != TokenKind::Separator),
            punctuation: positions(TokenKind::Punctuation),
        }
    }

    fn queries(&self) -> impl Iterator<Item = usize> {
        self.text.iter().cloned().flatten()
    }

    /// The tokens of text within `distance` of `query`, itself included.
    fn neighbours(&self, query: usize, distance: usize) -> impl Iterator<Item = Range<usize>> {
        let near = query.saturating_sub(distance)..query + distance + 1;
        self.text
            .iter()
            .map(move |run| run.start.max(near.start)..run.end.min(near.end))
            .filter(|overlap| overlap.start < overlap.end)
    }
}

/// The slot of the offset from `query` to `key`: 0 is -8.
fn slot(query: usize, key: usize) -> usize {
    key + REACH - query
}

/// The maximal ranges of tokens of a wanted kind.
fn runs(kinds: &[TokenKind], wanted: impl Fn(TokenKind) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (token, _) in kinds.iter().enumerate().filter(|&(_, &kind)| wanted(kind)) {
        match runs.last_mut() {
            Some(run) if run.end == token => run.end += 1,
            _ => runs.push(token..token + 1),
        }
    }
    runs
}

/// The numerators of one head's token-level metrics: `N` is f64 within a sentence and [`ExactSum`] across sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        let max_entropy = (roles.tokens as f64).ln();
        let mut queries = 0;
        for query in roles.queries() {
            queries += 1;
            for key in roles.neighbours(query, REACH).flatten() {
                self.offset_queries[slot(query, key)] += 1;
            }
        }
        self.queries += queries;
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
    for query in roles.queries() {
        sums.entropy += view.entropy(query);
        observe_query(&mut sums, roles, query, view.row(query));
    }
    for &separator in &roles.separators {
        sums.separator_self_mass += mass(view.row(separator), &roles.separators);
    }
    if let Some(first) = roles.first_special {
        sums.first_special_entropy = view.entropy(first);
    }
    sums
}

fn observe_query(sums: &mut TokenSums<f64>, roles: &TokenRoles, query: usize, row: &[f32]) {
    let confidence = roles.unseparated.iter().map(|run| largest(&row[run.clone()])).fold(0.0, f32::max);
    let most = roles.separators.iter().map(|&separator| row[separator]).fold(confidence, f32::max);
    let favourite = row.iter().position(|&weight| weight >= most);
    sums.confidence += f64::from(confidence);

    for key in roles.neighbours(query, REACH).flatten() {
        sums.offset_mass[slot(query, key)] += f64::from(row[key]);
        if favourite == Some(key) {
            sums.offset_argmax[slot(query, key)] += 1.0;
        }
    }
    let window: f64 = roles.neighbours(query, WINDOW).flatten().map(|key| f64::from(row[key])).sum();
    sums.window_mass += window - f64::from(row[query]);

    let (mut text_mass, mut distance) = (0.0, 0.0);
    for run in &roles.text {
        let before = run.start..run.end.min(query);
        let after = run.start.max(query)..run.end;
        for (part, sign) in [(before, -1.0), (after, 1.0)] {
            if part.start < part.end {
                let (mass, moment) = mass_and_moment(&row[part.clone()], part.start as f64 - query as f64);
                text_mass += mass;
                distance += sign * moment;
            }
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
}

/// Partial sums of a reduction, so that the compiler can keep them in one vector: 8 x f64 are the widest registers.
const LANES: usize = 8;

/// The sum of `weights`, and the sum of each weight times its place, the first at `start`.
fn mass_and_moment(weights: &[f32], start: f64) -> (f64, f64) {
    let (mut mass, mut moment) = ([0.0; LANES], [0.0; LANES]);
    let mut places: [f64; LANES] = std::array::from_fn(|lane| start + lane as f64);
    let mut add = |chunk: &[f32]| {
        for (lane, &weight) in chunk.iter().enumerate() {
            let weight = f64::from(weight);
            mass[lane] += weight;
            moment[lane] += weight * places[lane];
            places[lane] += LANES as f64;
        }
    };
    let chunks = weights.chunks_exact(LANES);
    let rest = chunks.remainder();
    chunks.for_each(&mut add);
    add(rest);
    (mass.iter().sum(), moment.iter().sum())
}

/// The largest weight; 0 of none.
fn largest(weights: &[f32]) -> f32 {
    let mut partial = [0.0_f32; 2 * LANES];
    let chunks = weights.chunks_exact(2 * LANES);
    let rest = chunks.remainder();
    let mut take = |chunk: &[f32]| partial.iter_mut().zip(chunk).for_each(|(most, &weight)| *most = most.max(weight));
    chunks.for_each(&mut take);
    take(rest);
    partial.into_iter().fold(0.0, f32::max)
}

/// The summed attention to `keys`.
fn mass(row: &[f32], keys: &[usize]) -> f64 {
    keys.iter().map(|&key| f64::from(row[key])).sum()
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
        // a b between [CLS] and [SEP]; both look at a and b with equal weight.
        let roles = TokenRoles::new(&sentence(&[FirstSpecial, Text, Text, Separator]));
        let weights = [0.25, 0.25, 0.25, 0.25, 0.125, 0.375, 0.375, 0.125].repeat(2);
        let (queries, others) = (&weights[4..8], &weights[..4]);
        let weights = [others, queries, queries, others].concat();
        let sums = observe(&roles, AttentionView::new(0, 0, 4, &weights));
        assert_eq!((sums.offset_argmax[8], sums.offset_argmax[7], sums.offset_argmax[9]), (1.0, 1.0, 0.0));
    }

    #[test]
    fn a_pair_of_segments_has_text_on_both_sides_of_a_separator() {
        // [CLS] a [SEP] b c [SEP]
        let roles = TokenRoles::new(&sentence(&[FirstSpecial, Text, Separator, Text, Text, Separator]));
        assert_eq!(roles.text, [1..2, 3..5]);
        assert_eq!(roles.unseparated, [0..2, 3..5]);
        let uniform = [1.0 / 6.0; 36];
        let sums = observe(&roles, AttentionView::new(0, 0, 6, &uniform));
        // Distances among a, b and c: (0 + 2 + 3 + 2 + 0 + 1 + 3 + 1 + 0) / 3 keys.
        assert!((sums.distance - 4.0).abs() < 1e-6);
        // +2: a to b; +1: b to c; +3: a to c.
        let mut exposure = TokenExposure::default();
        exposure.add(&roles);
        assert_eq!(exposure.offset_queries[9..12], [1, 1, 1]);
    }

    #[test]
    fn a_long_row_is_summed_in_lanes() {
        let weights: Vec<f32> = (0..37).map(|place| place as f32).collect();
        // sum of 0..37 = 666; sum of squares = 16206; places begin at 10.
        assert_eq!(mass_and_moment(&weights, 10.0), (666.0, 16_206.0 + 6660.0));
        assert_eq!(largest(&weights), 36.0);
        assert_eq!(largest(&[]), 0.0);
    }
}
