//! Token-level analysis as in the released `General_Analysis.ipynb`: all rows are queries, means are averaged over sequences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::stats::blocks::{Merge, merge_fields};
use crate::stats::exact::ExactSum;

/// Share of uniform attention that is mixed into each attention row before the row's entropy is computed.
const SMOOTHING_SHARE: f64 = 0.0001;

/// Mean attention and entropy of one attention head over one sequence of `n` tokens, or their sums or means over sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Means<N> {
    /// Mean attention of a token to itself: the sum over rows divided by `n`, as in the other fields unless stated otherwise.
    pub to_self: N,
    /// Mean attention to the next token.
    pub next: N,
    /// Mean attention to the previous token.
    pub previous: N,
    /// Mean attention to `[CLS]`.
    pub cls: N,
    /// Mean attention to both `[SEP]` together.
    pub sep: N,
    /// Attention of `[SEP]` to `[SEP]`: the sum over both rows divided by 2.
    pub sep_sep: N,
    /// Attention of other tokens to `[SEP]`: the sum over their rows divided by `n - 2`, for `n` tokens.
    pub rest_sep: N,
    /// Mean attention to `.` and `,`.
    pub punct: N,
    /// Mean entropy of the smoothed rows of attention, in nats.
    pub entropy: N,
    /// Entropy of the smoothed row of attention of `[CLS]`, in nats.
    pub entropy_cls: N,
}

merge_fields!(Means<ExactSum> { to_self, next, previous, cls, sep, sep_sep, rest_sep, punct, entropy, entropy_cls });

impl<N> Means<N> {
    /// Computes new means by applying `change` to every field.
    pub fn map<M>(&self, change: impl Fn(&N) -> M) -> Means<M> {
        Means {
            to_self: change(&self.to_self),
            next: change(&self.next),
            previous: change(&self.previous),
            cls: change(&self.cls),
            sep: change(&self.sep),
            sep_sep: change(&self.sep_sep),
            rest_sep: change(&self.rest_sep),
            punct: change(&self.punct),
            entropy: change(&self.entropy),
            entropy_cls: change(&self.entropy_cls),
        }
    }
}

/// Indices of the special and punctuation tokens of a sequence that the formulas use.
#[derive(Clone, Debug)]
pub struct SpecialTokenPlaces {
    /// Indices of `[SEP]`.
    separators: Vec<usize>,
    cls: Vec<usize>,
    /// Indices of `.` and `,`.
    punctuation: Vec<usize>,
}

/// Mean attention and entropies of every head ([`Means`]), summed over sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenMeans {
    grid: HeadGrid,
    /// Token ids of `.` and `,`.
    punctuation: Vec<u32>,
    pub sequences: u64,
    pub tokens: u64,
    /// Entropy of uniform attention in nats, summed over sequences.
    pub uniform_entropy: ExactSum,
    /// [`Means`] of each attention head, summed over sequences; `[layers * heads]`.
    pub heads: Vec<Means<ExactSum>>,
}

impl TokenMeans {
    pub fn new(grid: HeadGrid, punctuation: Vec<u32>) -> Self {
        let heads = vec![Means::default(); grid.head_count()];
        Self { grid, punctuation, sequences: 0, tokens: 0, uniform_entropy: ExactSum::default(), heads }
    }
}

merge_fields!(TokenMeans[grid, punctuation] { sequences, tokens, uniform_entropy, heads });

impl Sums for TokenMeans {
    type SequenceState = SpecialTokenPlaces;

    fn begin(&mut self, sequence: &Sequence) -> Option<SpecialTokenPlaces> {
        let n = sequence.ids.len();
        self.sequences += 1;
        self.tokens += n as u64;
        self.uniform_entropy += (n as f64).ln();
        let places = |wanted: &dyn Fn(usize) -> bool| (0..n).filter(|&place| wanted(place)).collect();
        Some(SpecialTokenPlaces {
            separators: places(&|place| sequence.kinds[place] == TokenKind::Separator),
            cls: places(&|place| sequence.kinds[place] == TokenKind::FirstSpecial),
            punctuation: places(&|place| self.punctuation.contains(&sequence.ids[place])),
        })
    }

    fn observe(&mut self, places: &mut SpecialTokenPlaces, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let view = input.attention();
        let sums = sequence_means(places, view).map(|&mean| {
            let mut sum = ExactSum::default();
            sum += mean;
            sum
        });
        self.heads[self.grid.index(view.layer, view.head)].merge(&sums);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.heads.len() == grid.head_count()
    }
}

/// Means of one head over one sequence.
fn sequence_means(places: &SpecialTokenPlaces, view: AttentionView<'_>) -> Means<f64> {
    let n = view.tokens();
    let mut means = Means::default();
    for query in 0..n {
        let row = view.row(query);
        let at = |key: usize| row.get(key).map_or(0.0, |&weight| f64::from(weight));
        let mass = |keys: &[usize]| keys.iter().map(|&key| at(key)).sum::<f64>();
        means.to_self += at(query);
        means.next += at(query + 1);
        means.previous += query.checked_sub(1).map_or(0.0, at);
        means.cls += mass(&places.cls);
        means.punct += mass(&places.punctuation);
        let separators = mass(&places.separators);
        means.sep += separators;
        if places.separators.contains(&query) {
            means.sep_sep += separators;
        } else {
            means.rest_sep += separators;
        }
        let entropy = smoothed_entropy(row);
        means.entropy += entropy;
        if query == 0 {
            means.entropy_cls = entropy;
        }
    }
    let all = n as f64;
    let each = [&mut means.to_self, &mut means.next, &mut means.previous, &mut means.cls, &mut means.sep];
    each.into_iter().chain([&mut means.punct, &mut means.entropy]).for_each(|sum| *sum /= all);
    means.sep_sep /= 2.0;
    means.rest_sep /= all - 2.0;
    means
}

/// Entropy of an attention row mixed with uniform attention, in nats.
fn smoothed_entropy(row: &[f32]) -> f64 {
    let uniform = SMOOTHING_SHARE / row.len() as f64;
    let smoothed = row.iter().map(|&weight| (1.0 - SMOOTHING_SHARE) * f64::from(weight) + uniform);
    -smoothed.map(|weight| weight * weight.ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::observer::FoldBuffers;
    use TokenKind::{FirstSpecial, Punctuation, Separator, Text};

    /// `[CLS] a [SEP] . [SEP]`; 9 is the id of the stop.
    fn sequence() -> Sequence {
        Sequence {
            index: 0,
            ids: vec![1, 5, 2, 9, 2],
            segments: vec![0; 5],
            kinds: vec![FirstSpecial, Text, Separator, Punctuation, Separator],
            ..Sequence::default()
        }
    }

    /// Rows in eighths.
    const WEIGHTS: [f32; 25] = [
        0.5, 0.25, 0.25, 0.0, 0.0, //
        0.25, 0.25, 0.25, 0.125, 0.125, //
        0.0, 0.0, 0.5, 0.25, 0.25, //
        0.125, 0.125, 0.25, 0.25, 0.25, //
        0.25, 0.0, 0.25, 0.25, 0.25,
    ];

    #[test]
    fn all_rows_are_queries() {
        let mut sums = TokenMeans::new(HeadGrid { layers: 1, heads: 1 }, vec![9]);
        let (sequence, mut folder) = (sequence(), FoldBuffers::default());
        let mut places = sums.begin(&sequence).unwrap();
        sums.observe(
            &mut places,
            &mut Event::Head(folder.head_input(&sequence, AttentionView::new(0, 0, 5, &WEIGHTS).into())),
        );
        let found = sums.heads[0].map(|sum| sum.value());
        // The diagonals: 1/2 + 1/4 + 1/2 + 1/4 + 1/4; above 1/4 + 1/4 + 1/4 + 1/4; below 1/4 + 0 + 1/4 + 1/4.
        let expected = [1.75 / 5.0, 1.0 / 5.0, 0.75 / 5.0];
        assert_eq!([found.to_self, found.next, found.previous], expected.map(|value: f64| near(value)));
        // Columns: [CLS] 1/2 + 1/4 + 0 + 1/8 + 1/4; the stop 0 + 1/8 + 1/4 + 1/4 + 1/4.
        assert_eq!([found.cls, found.punct], [1.125 / 5.0, 0.875 / 5.0].map(near));
        // The rows give both [SEP] 1/4, 3/8, 3/4, 1/2, 1/2; the third and the last row are of [SEP].
        assert_eq!([found.sep, found.sep_sep, found.rest_sep], [2.375 / 5.0, 1.25 / 2.0, 1.125 / 3.0].map(near));
        assert_eq!(sums.uniform_entropy.value(), near(5.0_f64.ln()));
    }

    /// The resolution of an [`ExactSum`].
    fn near(value: f64) -> f64 {
        let mut sum = ExactSum::default();
        sum += value;
        sum.value()
    }

    #[test]
    fn entropy_is_smoothed() {
        // 0.9999 + 0.0001 / 2 and 0.0001 / 2
        let expected = -(0.99995_f64 * 0.99995_f64.ln() + 0.00005 * 0.00005_f64.ln());
        assert!((smoothed_entropy(&[1.0, 0.0]) - expected).abs() < 1e-12);
    }
}
