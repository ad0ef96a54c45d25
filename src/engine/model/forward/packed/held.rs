//! Runs in which everything is held but the residual stream.

use anyhow::{Result, ensure};

use super::{PackedEncoder, Pass, Scratch, copied, project};
use crate::model::forward::HELD_SHOWS_ATTENTION;
use crate::model::forward::held::{LayerWrites, Writes};
use crate::model::forward::visitor::Needs;

impl PackedEncoder {
    /// Shows the attention of all layers after `first` with what the gates of its heads change of the residual stream, and with
    /// all that other heads and the feed-forward blocks wrote as it was: `scratch.states` are those that entered the first layer.
    /// Fails if more than attention is needed, or the numbers stop being finite.
    pub(super) fn run_held(&self, first: usize, writes: &Writes, pass: &mut Pass, scratch: &mut Scratch) -> Result<()> {
        ensure!(pass.needs == Needs::ATTENTION, HELD_SHOWS_ATTENTION);
        let (layers, hidden) = (self.parameters.order.len(), self.parameters.config.hidden_size);
        for (number, layer) in self.parameters.layers().enumerate().skip(first) {
            if number > first {
                self.project_heads(number, 2, pass, scratch);
                self.attend(number, pass, scratch)?;
            }
            if number + 1 == layers {
                break;
            }
            let LayerWrites { contexts, attention, feed_forward, .. } = writes.of_layer(number);
            let Scratch { states, context, update, .. } = &mut *scratch;
            if number == first {
                self.apply_gates(number, pass, copied(contexts, context));
                project(context, &layer.attention_output, hidden, update, pass.batch.tokens());
            } else {
                copied(attention, update);
            }
            self.add_attention(layer, update, states);
            self.add_feed_forward(layer, copied(feed_forward, update), states);
        }
        pass.end();
        Ok(())
    }

    /// Lets the gates of a layer act on the contexts of its heads, `[tokens, heads * head_dim]`.
    fn apply_gates(&self, number: usize, pass: &Pass<'_>, contexts: &mut [f32]) {
        let (width, head_dim) = (self.parameters.config.heads_width(), self.parameters.config.head_dim());
        for (input, span) in pass.batch.inputs.iter().zip(pass.batch.spans()) {
            for (head, gate) in pass.gates.of_layer(number) {
                let own = &mut contexts[span.start * width + head * head_dim..span.end * width];
                gate.apply(own, head_dim, width, input.classes);
            }
        }
    }
}
