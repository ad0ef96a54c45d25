//! How far the last hidden states of a sequence move when heads are removed.

use serde::{Deserialize, Serialize};

use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Needs;
use crate::passes::ablation::PassConditions;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Merge, merge_fields};
use crate::stats::exact::ExactSum;
use crate::studies::ablation::removal::{PerTokenChange, RemovalQuantity};

/// Sum of `1 - cos` between vectors in the run with all heads and the matching vectors in a run without some heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShiftSum {
    pub sum: ExactSum,
    /// Number of vector pairs in the sum; pairs with a vector of zeros are left out.
    pub vectors: u64,
}

impl ShiftSum {
    fn add(&mut self, baseline: &[f64], without: &[f64]) {
        if let Some(shift) = cosine_distance(baseline, without) {
            self.sum += shift;
            self.vectors += 1;
        }
    }
}

merge_fields!(ShiftSum { sum, vectors });

/// Shifts of a model's last hidden states in one ablation variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputShifts {
    /// Shift of the last hidden state of each text token.
    pub output: ShiftSum,
    /// Shift of the mean last hidden state of each sequence, special tokens included.
    pub pooled: ShiftSum,
}

merge_fields!(OutputShifts { output, pooled });

/// Output shifts summed over a block of the corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputShiftTotals {
    /// Number of text tokens.
    pub tokens: u64,
    /// Number of sequences with a text token.
    pub sequences: u64,
    /// Number of sentences with a text token; each group of dependent sentences counts once.
    pub sentences: u64,
    /// Summed shifts of each ablation variant, `[variants]`.
    pub without: Vec<OutputShifts>,
}

impl OutputShiftTotals {
    /// Shifts in the last variant, which removes all heads.
    pub fn without_all_heads(&self) -> &OutputShifts {
        self.without.last().expect("the last variant has no head")
    }
}

merge_fields!(OutputShiftTotals { tokens, sequences, sentences, without });

impl PerTokenChange for OutputShiftTotals {
    fn tokens(&self) -> u64 {
        self.tokens
    }

    fn change(&self, variant: usize) -> f64 {
        self.without[variant].output.sum.value()
    }
}

#[derive(Debug)]
pub struct OutputShiftState {
    /// Positions of the sequence's text tokens.
    text_positions: Vec<usize>,
    /// Last hidden states of the sequence in the run with all heads.
    baseline: LastHiddenStates,
}

impl RemovalQuantity for OutputShiftTotals {
    type State = OutputShiftState;

    fn needs(_: &PassConditions) -> Needs {
        Needs { hidden_states: true, ..Needs::default() }
    }

    fn new(variants: usize) -> Self {
        Self { tokens: 0, sequences: 0, sentences: 0, without: vec![OutputShifts::default(); variants] }
    }

    fn begin(&mut self, sequence: &Sequence, variants: usize) -> Option<OutputShiftState> {
        let text: Vec<usize> = sequence.text_positions().collect();
        if text.is_empty() || variants == 0 {
            return None;
        }
        self.tokens += text.len() as u64;
        self.sequences += 1;
        self.sentences += u64::from(sequence.family.is_first);
        Some(OutputShiftState { text_positions: text, baseline: LastHiddenStates::default() })
    }

    fn add_hidden_states(&mut self, state: &mut OutputShiftState, variant: Option<usize>, states: Rows<'_>) {
        let current = LastHiddenStates::new(states, &state.text_positions);
        match variant {
            None => state.baseline = current,
            Some(variant) => self.without[variant].merge(&current.shifts(&state.baseline, states.width())),
        }
    }

    fn has_variants(&self, variants: usize) -> bool {
        self.without.len() == variants
    }
}

/// Last hidden states of a sequence in one run.
#[derive(Debug, Default)]
pub struct LastHiddenStates {
    /// Last hidden states of the text tokens, `[text tokens, width]`.
    text_states: Vec<f64>,
    /// Mean last hidden state of all tokens, special tokens included, `[width]`.
    mean_state: Vec<f64>,
}

impl LastHiddenStates {
    pub fn new(states: Rows<'_>, text: &[usize]) -> Self {
        let mut pooled = vec![0.0; states.width()];
        for row in states.iter() {
            pooled.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        pooled.iter_mut().for_each(|sum| *sum /= states.count() as f64);
        Self {
            text_states: text.iter().flat_map(|&token| states.row(token)).copied().map(f64::from).collect(),
            mean_state: pooled,
        }
    }

    /// Shifts of these hidden states from `baseline`, the hidden states of the run with all heads; `width` is the
    /// width of a hidden state.
    pub fn shifts(&self, baseline: &Self, width: usize) -> OutputShifts {
        let mut shifts = OutputShifts::default();
        let pairs = baseline.text_states.chunks_exact(width).zip(self.text_states.chunks_exact(width));
        pairs.for_each(|(baseline, without)| shifts.output.add(baseline, without));
        shifts.pooled.add(&baseline.mean_state, &self.mean_state);
        shifts
    }
}

/// `1 - cos` of two vectors, from 0 to 2; `None` if either vector is zero.
///
/// Computed as half of the squared distance between the unit vectors: exactly 0 for equal vectors, precise for small angles.
pub fn cosine_distance(a: &[f64], b: &[f64]) -> Option<f64> {
    let [a_length, b_length] = [a, b].map(|vector| vector.iter().map(|value| value * value).sum::<f64>().sqrt());
    if a_length == 0.0 || b_length == 0.0 {
        return None;
    }
    let squares = a.iter().zip(b).map(|(a, b)| (a / a_length - b / b_length).powi(2)).sum::<f64>();
    Some((squares / 2.0).min(2.0))
}
