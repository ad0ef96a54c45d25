//! Direct logit attribution: the direct effect of each residual-stream part on a task's answer (docs/methodology/direct.md).

mod section;
mod sums;

use crate::passes::pass::{CorpusPortion, Pass, Sequences};
use crate::sequences::derived::task::TaskKind;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Metric};
use crate::study::metrics::unit::Unit;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, columns,
};
use section::DirectResult;
use sums::{DirectSums, ItemEffects};

/// Study of direct effects on the logit difference between answer and foil.
pub struct DirectEffect;

impl Study for DirectEffect {
    type Section = DirectResult;

    const CARD: Card = Card {
        name: "direct",
        question: "What does each head add by itself to the answer of a task of yours?",
        needs: "cloze items (`--task`), and a pre-norm model whose logits are linear in its final norm (GPT-2, \
            GPT-NeoX, OPT, Llama, Qwen, Gemma); no corpus: one pass over a sample of the items",
        task_kinds: &[TaskKind::Cloze],
        needs_direct_effects: true,
        metrics: || metric::explanations_with_keys(METRICS),
        unit: |_| Unit::Nats,
        caveats: CAVEATS,
        figures: &["direct"],
        tables: &["direct_effects", "direct_effects_by_layer"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = Pass { sequences: Sequences::Task, portion: CorpusPortion::Sample, ..Pass::PLAIN };
        vec![PassSpec::new(pass, |subject| DirectSums::new(subject.grid))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &DirectSums = observed.first_sums();
        // Chance is 0: a head that writes nothing along the difference of the two tokens.
        let values = |items: &ItemEffects, head: Option<usize>| {
            let effect = head.map_or(0.0, |head| items.effect_of_head(head));
            vec![Fraction::mean(effect, items.items, items.units)]
        };
        let estimates = Estimates::from_blocks(&columns(self), context, &sums.blocks, values);
        let direct = DirectResult::new(sums, observed.left_out_sentences(), &estimates, context);
        (estimates, direct)
    }
}

const METRICS: &[Metric<()>] = &[Metric::single(()).with_explanation(Explanation {
    name: "direct_effect",
    measures: "How much the head adds by itself, without any layer after it, to the logit of the answer of a task less that of the \
        foil.",
    formula: "direct_effect = mean over items of <o_h, g (u_answer - u_foil)> / s at the position that predicts, in nats; o_h what the \
        head writes, g the weights of the final norm, s its scale in the whole run, u the vectors of tokens in the prediction head; where \
        the norm subtracts means both sides are without theirs",
    chance: "0: the head writes nothing along the difference of the two tokens",
    source: "The direct path from a head to the logits: Elhage et al. 2021, \"A Mathematical Framework for Transformer Circuits\"; \
        direct logit attribution of heads: Wang et al. 2022 (arXiv:2211.00593), section 3.",
    caveats: "What later layers make of the head's output is not in it: a head may act through them alone. A norm of what blocks write \
        acts with its scale in the whole run. Logits are those before any bound.",
})];

const CAVEATS: &[Caveat] = &[Caveat {
    id: "direct-path-alone",
    text: "A direct effect leaves out what later layers make of a head's output, and holds at the scale of the final norm in the whole \
            run: without the head that scale is another.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<DirectResult>(labelling.section).items > 0,
}];

#[cfg(test)]
mod tests;
