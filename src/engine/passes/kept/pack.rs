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

/// The activations that a second-stage pass needs from a first-stage pass over the same sequences.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// The activations to keep: attention and contexts of heads, hidden states, inputs of the query and key projections. No
    /// others can be kept.
    pub needs: Needs,
    /// Whether the activations of a given sequence are needed.
    pub of: fn(&Sequence) -> bool,
}

#[derive(Clone, Copy, Debug)]
pub struct PackWidths {
    layers: usize,
    heads: usize,
    head_dim: usize,
    hidden: usize,
}

impl PackWidths {
    pub fn of(config: &Config) -> Self {
        let (layers, heads) = (config.num_hidden_layers, config.num_attention_heads);
        Self { layers, heads, head_dim: config.head_dim(), hidden: config.hidden_size }
    }

    /// `[events, values]`: how many of each are kept for a sequence of `tokens` tokens.
    fn of_sequence(self, needs: Needs, tokens: usize) -> [usize; 2] {
        let Self { layers, heads, head_dim, hidden } = self;
        let of_head = [(needs.attention, tokens + 1), (needs.contexts, head_dim)];
        let states = layers + usize::from(needs.hidden_states);
        let of_rows = [(needs.states_of(0, layers), states), (needs.attention_inputs, layers)];
        let sum =
            |parts: [(bool, usize); 2]| parts.iter().map(|(is_needed, size)| usize::from(*is_needed) * size).sum();
        let [in_heads, in_rows]: [usize; 2] = [sum(of_head), sum(of_rows)];
        let of_heads = usize::from(in_heads > 0) * layers * heads;
        [of_heads + in_rows, tokens * (layers * heads * in_heads + in_rows * hidden)]
    }
}

/// The activations of a pack that a later pass needs.
#[derive(Debug)]
pub struct KeptPack {
    layers: usize,
    needs: Vec<Needs>,
    events: Vec<KeptEvent>,
    /// The values of all events, one after the other.
    values: Vec<f32>,
    /// `[events, values]`: how many of each the complete pack has.
    expected: [usize; 2],
}

/// An event of the forward pass over a sequence, with the index of its first value.
#[derive(Clone, Copy, Debug)]
struct KeptEvent {
    sequence: usize,
    layer: usize,
    start: usize,
    part: KeptPart,
}

/// The kind of a kept activation, with the width of its rows.
#[derive(Clone, Copy, Debug)]
enum KeptPart {
    /// A head: its numbers of attention weights and of row entropies in `attention`, and the width of its contexts in `context`.
    Head {
        head: usize,
        attention: [usize; 2],
        context: Option<usize>,
    },
    HiddenStates(usize),
    AttentionInputs(usize),
}

impl KeptPack {
    /// An empty record of the activations that `keeps` asks for in a pack.
    pub fn of(pack: &Pack, keeps: &[Keep], widths: PackWidths) -> Self {
        let wanted = |sequence| keeps.iter().filter(move |keep| (keep.of)(sequence));
        let of_sequence = |sequence| wanted(sequence).fold(Needs::default(), |needs, keep| needs | keep.needs);
        let needs: Vec<Needs> = pack.sentences.iter().map(of_sequence).collect();
        let of_each = pack.sentences.iter().zip(&needs);
        let sizes = of_each.map(|(sequence, needs)| widths.of_sequence(*needs, sequence.ids.len()));
        let expected = sizes.fold([0, 0], |[events, values], [more, further]| [events + more, values + further]);
        Self { layers: widths.layers, needs, events: Vec::new(), values: Vec::new(), expected }
    }

    pub fn bytes(&self) -> u64 {
        let [events, values] = self.expected;
        (events * size_of::<KeptEvent>() + values * size_of::<f32>()) as u64
    }

    pub fn needs(&self) -> Needs {
        self.needs.iter().fold(Needs::default(), |all, needs| all | *needs)
    }

    pub fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        let needs = self.needs[sequence];
        if !needs.heads() {
            return;
        }
        let HeadView { layer, head, .. } = *view;
        let (attention, context) = (needs.attention.then_some(view.attention), view.context.filter(|_| needs.contexts));
        let entropies = attention.and_then(|attention| attention.entropies()).unwrap_or_default();
        let weights = attention.map_or(0, |attention| attention.tokens().pow(2));
        let context_width = context.map(|rows| rows.width());
        let part = KeptPart::Head { head, attention: [weights, entropies.len()], context: context_width };
        self.push(sequence, layer, part);
        let rows = attention.iter().flat_map(AttentionView::rows);
        rows.for_each(|row| self.values.extend_from_slice(row));
        self.values.extend_from_slice(entropies);
        context.iter().flat_map(Rows::iter).for_each(|row| self.values.extend_from_slice(row));
    }

    pub fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>) {
        if self.needs[sequence].states_of(layer, self.layers) {
            self.rows(sequence, layer, KeptPart::HiddenStates(states.width()), states);
        }
    }

    /// Keeps the inputs of a layer's query and key projections, if they are needed.
    pub fn attention_inputs(&mut self, sequence: usize, layer: usize, inputs: Rows<'_>) {
        if self.needs[sequence].attention_inputs {
            self.rows(sequence, layer, KeptPart::AttentionInputs(inputs.width()), inputs);
        }
    }

    fn rows(&mut self, sequence: usize, layer: usize, part: KeptPart, rows: Rows<'_>) {
        self.push(sequence, layer, part);
        rows.iter().for_each(|row| self.values.extend_from_slice(row));
    }

    fn push(&mut self, sequence: usize, layer: usize, part: KeptPart) {
        if self.events.is_empty() {
            let [events, values] = self.expected;
            self.events.reserve_exact(events);
            self.values.reserve_exact(values);
        }
        self.events.push(KeptEvent { sequence, layer, start: self.values.len(), part });
    }

    /// Replays the kept activations to the observers of the pack, in the order of the forward pass. A head whose attention was
    /// not needed gets an attention view without rows.
    pub fn show(&self, observers: &mut ObserverSet, pack: &Pack, encoder: &dyn Encoder) {
        for &KeptEvent { sequence, layer, start, part } in &self.events {
            let sentence = &pack.sentences[sequence];
            let tokens = sentence.ids.len();
            let values = &self.values[start..];
            let rows = |width: usize| Rows::new(&values[..tokens * width], width);
            match part {
                KeptPart::HiddenStates(width) => {
                    observers.observe(sequence, Event::HiddenStates { layer, states: rows(width) });
                }
                KeptPart::AttentionInputs(width) => {
                    observers.observe(sequence, Event::AttentionInputs { layer, inputs: rows(width), encoder });
                }
                KeptPart::Head { head, attention: [weights, entropies], context } => {
                    let (weights, values) = values.split_at(weights);
                    let (entropies, values) = values.split_at(entropies);
                    let attention = match (weights, entropies) {
                        ([], _) => AttentionView::without_rows(layer, head),
                        (weights, []) => AttentionView::new(layer, head, tokens, weights),
                        (weights, entropies) => AttentionView::strided(layer, head, tokens, weights, entropies),
                    };
                    let context = context.map(|width| Rows::new(&values[..tokens * width], width));
                    observers.head(sequence, sentence, HeadView { context, ..HeadView::from(attention) });
                }
            }
        }
    }
}
