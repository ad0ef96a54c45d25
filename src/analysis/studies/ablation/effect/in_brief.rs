//! What removing heads costs, in a sentence.

use super::section::{Effects, HeadEffect};
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::show::in_brief::{InBrief, Shortage};

/// The head that costs most, beside all heads, and how many have each verdict.
pub(super) fn in_brief(effects: &Effects, policy: &Policy) -> InBrief {
    let Effects { loss, loss_without_heads, heads, masked_tokens, sentences, verdicts, .. } = effects;
    let removed: Vec<&HeadEffect> = heads.iter().filter(|head| head.effect.is_some()).collect();
    let costliest = removed.iter().max_by(|a, b| a.effect.unwrap_or(0.0).total_cmp(&b.effect.unwrap_or(0.0)));
    let found = costliest.zip(loss.zip(*loss_without_heads)).map(|(head, (loss, bare))| {
        format!(
            "Of heads removed one at a time {} costs most, {:.3}{} nats a token; removing all costs {:.3} (the loss is {loss:.3}); of {} \
             {}.",
            head.place,
            head.effect.unwrap_or(0.0),
            head.ci95.map_or_else(String::new, |ci95| format!(" [{:.3}, {:.3}]", ci95.low(), ci95.high())),
            bare - loss,
            removed.len(),
            verdicts.words()
        )
    });
    // It is of a sample: more text alone adds nothing to it.
    let short = |count: u64, least, things: [&str; 2]| {
        let asked = policy.count(least);
        let shortage = || Shortage::new("verdicts on removed heads", [count, asked], things.map(str::to_owned));
        (count < asked).then(|| Shortage { times: None, ..shortage() })
    };
    let tokens = || short(*masked_tokens, &MIN_QUERIES, ["scored token of the sample", "scored tokens of the sample"]);
    let few = short(*sentences, &MIN_SENTENCES, ["sentence of the sample", "sentences of the sample"]).or_else(tokens);
    InBrief { found, shortage: few }
}
