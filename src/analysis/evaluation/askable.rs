//! Finds the studies that do not apply to a model (an encoder, a protein model, a pruned model), and the reason.

use crate::model::Model;
use crate::model::parameters::Objective;
use crate::passes::observation::identity::ModelInfo;
use crate::studies::registry;
use crate::study::AnyStudy;

/// Properties of a model that decide which studies apply to it.
#[derive(Clone, Copy, Debug)]
pub struct ModelTraits {
    /// Whether the model's tokens are residues of proteins. Studies of words do not apply to such a model.
    pub has_residue_tokens: bool,
    pub is_decoder: bool,
    /// Whether the checkpoint has the token-prediction layer of its training. A model without that layer has no
    /// loss.
    pub predicts_tokens: bool,
    pub lacks_heads: bool,
}

impl ModelTraits {
    pub fn from_model(model: &Model) -> Self {
        Self {
            has_residue_tokens: model.tokenizer.parting.is_some(),
            is_decoder: model.is_decoder(),
            predicts_tokens: model.objective.is_some_and(Objective::has_token_loss),
            lacks_heads: !model.pruned_heads().is_empty(),
        }
    }

    /// Reads the traits from the description of the model in a saved report.
    pub fn from_info(model: &ModelInfo) -> Self {
        Self {
            has_residue_tokens: model.residues,
            is_decoder: model.visibility.are_causal(),
            predicts_tokens: model.objective.is_some_and(Objective::has_token_loss),
            lacks_heads: !model.absent.is_empty(),
        }
    }

    /// The reason why `study` does not apply to the model, as a clause whose subject is the model; `None` if the
    /// study applies.
    pub fn refusal_reason(self, study: &dyn AnyStudy) -> Option<String> {
        let card = study.card();
        if self.has_residue_tokens && card.needs_language {
            return Some("knows no words: its tokens are residues of proteins".to_owned());
        }
        if card.is_for_decoders_only && !self.is_decoder {
            return Some("is no decoder: it does not predict the next token from those before it".to_owned());
        }
        if card.is_for_decoders_only && !self.predicts_tokens {
            return Some("has no head that predicts the next token".to_owned());
        }
        if self.lacks_heads && !card.allows_absent_heads {
            return Some("lacks heads (pruned_heads), and this study asks about all".to_owned());
        }
        card.decoder_refusal.filter(|_| self.is_decoder).map(|why| format!("is a decoder, which {why}"))
    }

    /// As [`Self::refusal_reason`], with one more reason: the study needs a loss, and the checkpoint lacks its
    /// token-prediction layer.
    pub fn refusal_reason_with_loss(self, study: &dyn AnyStudy) -> Option<String> {
        let lacks_loss = || !self.predicts_tokens && needs_loss(study);
        let without = "has no head by which it was trained, and so no loss";
        self.refusal_reason(study).or_else(|| lacks_loss().then(|| without.to_owned()))
    }
}

/// Whether the study, or a study whose results it needs, has a pass that predicts tokens.
fn needs_loss(study: &dyn AnyStudy) -> bool {
    let own = study.passes_for(false).iter().any(|spec| spec.pass.predicts());
    own || study.card().builds_on.iter().filter_map(|name| registry::find_study(name)).any(needs_loss)
}

/// Whether a study runs on the items of the user's task (`--task`) and on no corpus.
pub fn is_task_only(study: &dyn AnyStudy) -> bool {
    study.passes_for(false).iter().any(|spec| spec.pass.sequences.are_task_items())
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;

    use super::*;

    #[test]
    fn a_loss_is_asked_of_models_that_have_one() {
        let named = |name: &str| registry::find_study(name).unwrap();
        let encoder =
            ModelTraits { has_residue_tokens: false, is_decoder: false, predicts_tokens: false, lacks_heads: false };
        let need_loss = ["effect", "pruning", "gradient"];
        for name in need_loss {
            assert!(encoder.refusal_reason(named(name)).is_none(), "{name}");
            let predicting = ModelTraits { predicts_tokens: true, ..encoder };
            assert_eq!(predicting.refusal_reason_with_loss(named(name)), None, "{name}");
        }
        assert_eq!(encoder.refusal_reason_with_loss(named("examples")), None);
        let pruned = ModelTraits { lacks_heads: true, ..encoder };
        assert_eq!(["attention", "effect"].map(|name| pruned.refusal_reason(named(name))), [None, None]);
        let proteins = ModelTraits { has_residue_tokens: true, ..encoder };
        let without_loss = need_loss.map(|name| encoder.refusal_reason_with_loss(named(name)));
        let refused = [(encoder, "in-context"), (pruned, "edges"), (proteins, "coreference")];
        let refused = refused.map(|(model, name)| model.refusal_reason(named(name)));
        insta::assert_snapshot!(without_loss.into_iter().chain(refused).map(Option::unwrap).join("\n"), @"
        has no head by which it was trained, and so no loss
        has no head by which it was trained, and so no loss
        has no head by which it was trained, and so no loss
        is no decoder: it does not predict the next token from those before it
        lacks heads (pruned_heads), and this study asks about all
        knows no words: its tokens are residues of proteins
        ");
    }
}
