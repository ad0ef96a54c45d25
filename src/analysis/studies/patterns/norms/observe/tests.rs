use super::*;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadOutput, HeadValues, ValueNorms};
use crate::sequences::fold::even::{UniformAttention, UniformRows};
use crate::sequences::fold::roles::{OFFSET_COUNT, offset_slot};
use crate::sequences::sequence::TokenKind::{self, FirstSpecial, Punctuation, Separator, Text};
use crate::sequences::test_support::sequence;
use proptest::prelude::*;

/// A head with all that observers see of it, computed in f64 by the definitions.
struct ExactHead {
    head_dim: usize,
    weights: Vec<f32>,
    values: Vec<f32>,
    bias: Vec<f32>,
    gram: Vec<f32>,
    norms: Vec<f32>,
    value_products: Vec<f32>,
    bias_product: Vec<f32>,
    contexts: Vec<f32>,
    products: Vec<f32>,
    input_norms: Vec<f32>,
}

#[expect(clippy::cast_possible_truncation, reason = "what is lent is f32")]
impl ExactHead {
    fn new(weights: &[f32], values: &[f32], bias: &[f32], gram: &[f32]) -> Self {
        let head_dim = bias.len();
        let n = values.len() / head_dim;
        let through = |row: &[f32]| -> Vec<f32> {
            let term = |r: usize, c: usize| f64::from(row[r]) * f64::from(gram[r * head_dim + c]);
            (0..head_dim).map(|c| (0..head_dim).map(|r| term(r, c)).sum::<f64>() as f32).collect()
        };
        let norm = |row: &[f32]| {
            let biased: Vec<f32> = row.iter().zip(bias).map(|(value, bias)| value + bias).collect();
            let terms = biased.iter().zip(through(&biased)).map(|(a, b)| f64::from(*a) * f64::from(b));
            terms.sum::<f64>().max(0.0).sqrt() as f32
        };
        let context = |i: usize, d: usize| {
            let terms = (0..n).map(|j| f64::from(weights[i * n + j]) * f64::from(values[j * head_dim + d]));
            terms.sum::<f64>() as f32
        };
        let contexts: Vec<f32> = (0..n).flat_map(|i| (0..head_dim).map(move |d| context(i, d))).collect();
        Self {
            head_dim,
            weights: weights.to_vec(),
            values: values.to_vec(),
            bias: bias.to_vec(),
            gram: gram.to_vec(),
            norms: values.chunks(head_dim).map(norm).collect(),
            value_products: values.chunks(head_dim).flat_map(through).collect(),
            bias_product: through(bias),
            products: contexts.chunks(head_dim).flat_map(through).collect(),
            contexts,
            input_norms: (0..n).map(|i| 2.0 + i as f32).collect(),
        }
    }

    fn observe(&self, kinds: &[TokenKind], buffers: &mut NormsBuffers) -> NormSums<f64> {
        self.observe_seen(kinds, Visibility::ALL, buffers)
    }

    fn observe_seen(&self, kinds: &[TokenKind], visibility: Visibility, buffers: &mut NormsBuffers) -> NormSums<f64> {
        let rows = |values| Rows::new(values, self.head_dim);
        let head = HeadActivations {
            attention: AttentionView::new(0, 0, kinds.len(), &self.weights),
            values: HeadValues { rows: rows(&self.values), bias: &self.bias },
            norms: ValueNorms {
                norms: &self.norms,
                products: rows(&self.value_products),
                bias_product: &self.bias_product,
                gram: &self.gram,
            },
            output: HeadOutput {
                contexts: rows(&self.contexts),
                products: rows(&self.products),
                gram: &self.gram,
                input_norms: &self.input_norms,
            },
        };
        sum_norms(&TokenRoles::new(&sequence(kinds)), visibility, &head, buffers)
    }
}

fn close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-6, "{actual}, not {expected}");
}

/// The example of docs/methodology/norms.md: `[CLS]` (0,1), and the words (3,4) and (-3,4).
fn example(values: &[f32], bias: &[f32]) -> (NormSums<f64>, f64) {
    let weights = [1.0, 0.0, 0.0, 0.6, 0.2, 0.2, 0.5, 0.5, 0.0];
    let mut buffers = NormsBuffers::default();
    let head = ExactHead::new(&weights, values, bias, &[1.0, 0.0, 0.0, 1.0]);
    let sums = head.observe(&[FirstSpecial, Text, Text], &mut buffers);
    let constant = buffers.vectors[..2].iter().map(|sum| sum * sum).sum::<f64>() / 2.0 / sums.square;
    (sums, constant)
}

#[test]
fn an_example_by_hand() {
    // .6 of 1, and .2 of 5 twice: .6 / 2.6. Half of 1, and half of 5: .5 / 3.
    let (sums, constant) = example(&[0.0, 1.0, 3.0, 4.0, -3.0, 4.0], &[0.0, 0.0]);
    close(sums.sink_mass[0] / 2.0, 0.198_718);
    // (0, 2.2) and (1.5, 2.5) have norms 2.2 and 2.915476 of 2.6 and 3.
    close(sums.output / sums.spent, 0.913_478);
    close(constant, 0.912_294);
    // |o_i| / |x_i| with |x_i| 3 and 4.
    close(sums.output_ratio, 2.2 / 3.0 + 2.915_476 / 4.0);
    assert_eq!((sums.without_norm, sums.output_ratio_silent), (0.0, 0.0));
}

#[test]
fn the_same_with_the_bias_taken_off() {
    let (sums, constant) = example(&[0.0, 0.0, 3.0, 3.0, -3.0, 3.0], &[0.0, 0.0]);
    assert_eq!(sums.sink_mass[0], 0.0);
    close(sums.output / sums.spent, 0.869_825);
    close(constant, 0.803_030);
}

#[test]
fn the_bias_is_in_norms_and_in_no_variance() {
    let (plain, _) = example(&[0.0, 1.0, 3.0, 4.0, -3.0, 4.0], &[0.0, 0.0]);
    let (bare, constant) = example(&[0.0, 0.0, 3.0, 3.0, -3.0, 3.0], &[0.0, 0.0]);
    let (biased, with_bias) = example(&[0.0, 0.0, 3.0, 3.0, -3.0, 3.0], &[0.0, 1.0]);
    close(biased.sink_mass[0], plain.sink_mass[0]);
    close(biased.output, plain.output);
    close(biased.spent, plain.spent);
    close(with_bias, constant);
    close(biased.square, bare.square);
}

#[test]
fn parts_of_sinks_by_hand() {
    // Values of one number: [CLS] 2, a 1, . 4, [SEP] -1; text rows of a and of the full stop.
    let weights = [1.0, 0.0, 0.0, 0.0, 0.5, 0.25, 0.25, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 1.0];
    let kinds = [FirstSpecial, Text, Punctuation, Separator];
    let mut buffers = NormsBuffers::default();
    // A projection that doubles: its Gram matrix is 4.
    let sums = ExactHead::new(&weights, &[2.0, 1.0, 4.0, -1.0], &[0.0], &[4.0]).observe(&kinds, &mut buffers);
    // z: 1 + .25 + 1 = 2.25, and 2 - .5 = 1.5; o is twice that.
    close(sums.square, 4.0 * (2.25 * 2.25 + 1.5 * 1.5));
    close(sums.bare_output, 2.0 * 3.75);
    close(sums.mean_square, 4.0 * 3.75 * 3.75 / 2.0);
    // s: 1 and 0; 0 and -.5; 1 and 2.
    let expected = [4.0 * 2.25, 4.0 * -0.75, 4.0 * (2.25 + 3.0)];
    (0..3).for_each(|sink| close(sums.sink_product[sink], expected[sink]));
    let expected = [4.0, 4.0 * 0.25, 4.0 * 5.0];
    (0..3).for_each(|sink| close(sums.sink_square[sink], expected[sink]));
    let expected = [4.0 / 2.0, 4.0 * 0.25 / 2.0, 4.0 * 9.0 / 2.0];
    (0..3).for_each(|sink| close(sums.sink_mean_square[sink], expected[sink]));
    // The last is of the first token, which no sequence of this model begins with as a word.
    assert_eq!(buffers.vectors, [3.75, 1.0, -0.5, 3.0, 0.0]);
    // Uniform: the mean value is 1.5, and the parts a quarter of each value.
    close(sums.uniform_square, 2.0 * 4.0 * 2.25);
    let expected = [2.0, -1.0, 4.0].map(|value| 2.0 * 4.0 * value / 4.0 * 1.5);
    (0..3).for_each(|sink| close(sums.uniform_sink_product[sink], expected[sink]));
}

#[test]
fn a_head_whose_values_are_0_has_no_shares() {
    let (sums, _) = example(&[0.0; 6], &[0.0, 0.0]);
    assert_eq!((sums.without_norm, sums.spent, sums.output, sums.square), (2.0, 0.0, 0.0, 0.0));
    assert_eq!(sums.offset_silent[offset_slot(1, 0)..=offset_slot(0, 1)], [1.0, 2.0, 1.0]);
    assert_eq!(sums.offset_mass, [0.0; OFFSET_COUNT]);
    assert_eq!(sums.output_ratio_silent, 0.0);
}

fn kinds() -> impl Strategy<Value = Vec<TokenKind>> {
    let kind = prop::sample::select(vec![Text, Text, Text, Punctuation, Separator]);
    prop::collection::vec(kind, 1..40).prop_map(|rest| [FirstSpecial].into_iter().chain(rest).collect())
}

proptest! {
    /// If all norms are equal, shares by norm are attention; and the chance level is a uniform head's own score.
    #[test]
    fn uniform_attention_scores_its_chance(
        kinds in kinds(),
        values in prop::collection::vec(-2.0..2.0_f32, 41 * 3),
        reach in prop::option::of(0..12_usize),
    ) {
        let n = kinds.len();
        let gram = [2.0, 0.5, 0.0, 0.5, 1.0, -0.25, 0.0, -0.25, 1.0];
        let visibility = reach.map_or(Visibility::ALL, Visibility::window);
        let mut even = UniformRows::default();
        let weights = even.view(UniformAttention::new(visibility, n)).rows().collect::<Vec<_>>().concat();
        let sums = ExactHead::new(&weights, &values[..n * 3], &[0.5, 0.0, -1.0], &gram)
            .observe_seen(&kinds, visibility, &mut NormsBuffers::default());
        let near = |a: f64, b: f64| (a - b).abs() <= 2e-4 * (1.0 + a.abs());
        let pairs = [
            (sums.window_mass, sums.uniform_window_mass),
            (sums.spent, sums.uniform_spent),
            (sums.output, sums.uniform_output),
            (sums.square, sums.uniform_square),
        ];
        for (own, chance) in pairs {
            prop_assert!(near(own, chance), "{own} {chance}");
        }
        for (own, chance) in [
            (&sums.offset_mass[..], &sums.uniform_offset_mass[..]),
            (&sums.sink_mass, &sums.uniform_sink_mass),
            (&sums.sink_product, &sums.uniform_sink_product),
        ] {
            prop_assert!(own.iter().zip(chance).all(|(own, chance)| near(*own, *chance)), "{own:?} {chance:?}");
        }
    }

    /// Nothing is larger than the squares allow: parts of means are not above those of each, and no norm of a sum is above
    /// the sum of norms.
    #[test]
    fn sums_are_in_order(
        kinds in kinds(),
        values in prop::collection::vec(-2.0..2.0_f32, 41 * 3),
        raw in prop::collection::vec(0.01..1.0_f32, 41 * 41),
    ) {
        let n = kinds.len();
        let rows = raw[..n * n].chunks(n);
        let weights: Vec<f32> = rows.flat_map(|row| row.iter().map(|weight| weight / row.iter().sum::<f32>())).collect();
        let gram = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let sums = ExactHead::new(&weights, &values[..n * 3], &[0.1, 0.2, 0.3], &gram).observe(&kinds, &mut NormsBuffers::default());
        let room = 1e-4;
        prop_assert!(sums.output <= sums.spent + room);
        prop_assert!(sums.mean_square <= sums.square + room);
        prop_assert!((0..SINK_KIND_COUNT).all(|sink| sums.sink_mean_square[sink] <= sums.sink_square[sink] + room));
        let queries = TokenRoles::new(&sequence(&kinds)).queries().count() as f64;
        prop_assert!(sums.sink_mass.iter().sum::<f64>() <= queries + room);
        prop_assert!((sums.offset_mass.iter().sum::<f64>()) <= queries + room);
    }
}
