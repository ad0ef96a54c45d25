//! Activations kept from a pack, in the order in which the forward pass showed them.

use crate::model::config::Config;
use crate::model::forward::Encoder;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadView, Needs};
use crate::passes::observer::Event;
use crate::passes::observer::set::ObserverSet;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;

/// The activations of a first-stage pass that a second-stage pass needs.
#[derive(Clone, Copy, Debug)]
pub struct KeepRequest {
    /// The activations to keep. Only attention and contexts of heads, hidden states, and inputs of the query and key
    /// projections can be kept.
    pub needs: Needs,
    /// Whether the activations of this sequence are to be kept.
    pub applies_to: fn(&Sequence) -> bool,
}

/// `[events, values]`: the numbers of events and of f32 values that are kept for a sequence of `tokens` tokens.
fn event_and_value_counts(config: &Config, needs: Needs, tokens: usize) -> [usize; 2] {
    let layers = config.num_hidden_layers;
    let heads = layers * config.num_attention_heads;
    let per_head = [(needs.attention, tokens + 1), (needs.contexts, config.head_dim())];
    let states = layers + usize::from(needs.hidden_states);
    let row_events = [(needs.includes_states_at(0, layers), states), (needs.attention_inputs, layers)];
    let sum = |parts: [(bool, usize); 2]| parts.iter().map(|(is_needed, size)| usize::from(*is_needed) * size).sum();
    let [head_width, row_events]: [usize; 2] = [sum(per_head), sum(row_events)];
    let head_events = usize::from(head_width > 0) * heads;
    [head_events + row_events, tokens * (heads * head_width + row_events * config.hidden_size)]
}

/// The kept activations of one pack.
#[derive(Debug)]
pub struct KeptPack {
    layers: usize,
    /// The kinds of activations that are kept for each sequence of the pack, `[sequences]`.
    needs: Vec<Needs>,
    events: Vec<KeptEvent>,
    /// The values of all events, one event after the other.
    values: Vec<f32>,
    /// `[events, values]`: the numbers of events and of values once the pack is complete.
    expected_sizes: [usize; 2],
}

/// An activation that the forward pass showed, with the index of its first value in [`KeptPack::values`].
#[derive(Clone, Copy, Debug)]
struct KeptEvent {
    /// Index of the sequence in its pack.
    sequence: usize,
    layer: usize,
    /// Index of the first value in [`KeptPack::values`].
    start: usize,
    part: KeptKind,
}

/// The kind of a kept activation, with the widths and counts by which [`KeptPack::replay`] splits its values.
#[derive(Clone, Copy, Debug)]
enum KeptKind {
    /// Attention head. `attention` is `[number of attention weights, number of row entropies]`, and `context` the width of
    /// the head's contexts; `None` if they are not kept.
    Head {
        head: usize,
        attention: [usize; 2],
        context: Option<usize>,
    },
    HiddenStates(usize),
    AttentionInputs(usize),
}

impl KeptPack {
    /// Makes an empty record of a pack, for the activations that `keeps` requests.
    pub fn new(pack: &Pack, keeps: &[KeepRequest], config: &Config) -> Self {
        let applicable = |sequence| keeps.iter().filter(move |keep| (keep.applies_to)(sequence));
        let sequence_needs = |sequence| applicable(sequence).fold(Needs::default(), |needs, keep| needs | keep.needs);
        let needs: Vec<Needs> = pack.sequences.iter().map(sequence_needs).collect();
        let sequences = pack.sequences.iter().zip(&needs);
        let sizes = sequences.map(|(sequence, needs)| event_and_value_counts(config, *needs, sequence.ids.len()));
        let expected = sizes.fold([0, 0], |sums, sizes| [sums[0] + sizes[0], sums[1] + sizes[1]]);
        Self {
            layers: config.num_hidden_layers,
            needs,
            events: Vec::new(),
            values: Vec::new(),
            expected_sizes: expected,
        }
    }

    /// Number of bytes of the complete record.
    pub fn bytes(&self) -> u64 {
        let [events, values] = self.expected_sizes;
        (events * size_of::<KeptEvent>() + values * size_of::<f32>()) as u64
    }

    /// The kinds of activations that are kept for at least one sequence of the pack.
    pub fn needs(&self) -> Needs {
        self.needs.iter().fold(Needs::default(), |all, needs| all | *needs)
    }

    /// Records a head of a sequence, if it is to be kept.
    pub fn keep_head(&mut self, sequence: usize, view: &HeadView<'_>) {
        let needs = self.needs[sequence];
        if !needs.includes_heads() {
            return;
        }
        let HeadView { layer, head, .. } = *view;
        let (attention, context) = (needs.attention.then_some(view.attention), view.context.filter(|_| needs.contexts));
        let entropies = attention.and_then(|attention| attention.entropies()).unwrap_or_default();
        let weights = attention.map_or(0, |attention| attention.tokens().pow(2));
        let context_width = context.map(|rows| rows.width());
        let part = KeptKind::Head { head, attention: [weights, entropies.len()], context: context_width };
        self.push_event(sequence, layer, part);
        let rows = attention.iter().flat_map(AttentionView::rows);
        rows.for_each(|row| self.values.extend_from_slice(row));
        self.values.extend_from_slice(entropies);
        context.iter().flat_map(Rows::iter).for_each(|row| self.values.extend_from_slice(row));
    }

    /// Records the hidden states that enter a layer, if they are to be kept.
    pub fn keep_hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>) {
        if self.needs[sequence].includes_states_at(layer, self.layers) {
            self.keep_rows(sequence, layer, KeptKind::HiddenStates(states.width()), states);
        }
    }

    /// Records the inputs of a layer's query and key projections, if they are to be kept.
    pub fn keep_attention_inputs(&mut self, sequence: usize, layer: usize, inputs: Rows<'_>) {
        if self.needs[sequence].attention_inputs {
            self.keep_rows(sequence, layer, KeptKind::AttentionInputs(inputs.width()), inputs);
        }
    }

    /// Records an activation whose values are `rows`.
    fn keep_rows(&mut self, sequence: usize, layer: usize, part: KeptKind, rows: Rows<'_>) {
        self.push_event(sequence, layer, part);
        rows.iter().for_each(|row| self.values.extend_from_slice(row));
    }

    /// Records an activation, whose values the caller appends next.
    fn push_event(&mut self, sequence: usize, layer: usize, part: KeptKind) {
        if self.events.is_empty() {
            let [events, values] = self.expected_sizes;
            self.events.reserve_exact(events);
            self.values.reserve_exact(values);
        }
        self.events.push(KeptEvent { sequence, layer, start: self.values.len(), part });
    }

    /// Replays the kept activations of a pack to its observers, in the order of the forward pass. A head whose attention
    /// was not kept is shown with an attention view without rows.
    pub fn replay(&self, observers: &mut ObserverSet, pack: &Pack, encoder: &dyn Encoder) {
        for &KeptEvent { sequence, layer, start, part } in &self.events {
            let sentence = &pack.sequences[sequence];
            let tokens = sentence.ids.len();
            let values = &self.values[start..];
            let rows = |width: usize| Rows::new(&values[..tokens * width], width);
            match part {
                KeptKind::HiddenStates(width) => {
                    observers.observe(sequence, Event::HiddenStates { layer, states: rows(width) });
                }
                KeptKind::AttentionInputs(width) => {
                    observers.observe(sequence, Event::AttentionInputs { layer, inputs: rows(width), encoder });
                }
                KeptKind::Head { head, attention: [weights, entropies], context } => {
                    let (weights, values) = values.split_at(weights);
                    let (entropies, values) = values.split_at(entropies);
                    let attention = match (weights, entropies) {
                        ([], _) => AttentionView::without_rows(layer, head),
                        (weights, []) => AttentionView::new(layer, head, tokens, weights),
                        (weights, entropies) => AttentionView::from_strided(layer, head, tokens, weights, entropies),
                    };
                    let context = context.map(|width| Rows::new(&values[..tokens * width], width));
                    observers.observe_head(sequence, sentence, HeadView { context, ..HeadView::from(attention) });
                }
            }
        }
    }
}
