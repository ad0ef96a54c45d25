//! Finds the studies that do not apply to a model (an encoder, a protein model, a pruned model), and the reason.

use crate::model::Model;
use crate::model::parameters::Objective;
use crate::passes::observation::identity::ModelInfo;
use crate::studies::registry;
use crate::study::AnyStudy;

#[derive(Clone, Copy, Debug)]
pub struct Askable {
    /// Whether the model's tokens are residues of proteins, so that the model knows no words.
    pub of_residues: bool,
    pub is_decoder: bool,
    /// Whether the checkpoint has the token-prediction layer that it was trained with, so that it has a loss.
    pub predicts: bool,
    pub lacks_heads: bool,
}

impl Askable {
    pub fn of_model(model: &Model) -> Self {
        Self {
            of_residues: model.tokenizer.parting.is_some(),
            is_decoder: model.is_decoder(),
            predicts: model.objective.is_some_and(Objective::is_of_tokens),
            lacks_heads: !model.absent().is_empty(),
        }
    }

    /// The traits of the model of a saved report.
    pub fn of(model: &ModelInfo) -> Self {
        Self {
            of_residues: model.residues,
            is_decoder: model.visibility.are_causal(),
            predicts: model.objective.is_some_and(Objective::is_of_tokens),
            lacks_heads: !model.absent.is_empty(),
        }
    }

    /// Why `study` does not apply to the model, as a sentence without its subject, the model; `None` if it applies.
    pub fn why_not(self, study: &dyn AnyStudy) -> Option<String> {
        let card = study.card();
        if self.of_residues && card.of_language {
            return Some("knows no words: its tokens are residues of proteins".to_owned());
        }
        if card.decoders_only && !self.is_decoder {
            return Some("is no decoder: it does not predict the next token from those before it".to_owned());
        }
        if card.decoders_only && !self.predicts {
            return Some("has no head that predicts the next token".to_owned());
        }
        if self.lacks_heads && !card.allows_absent_heads {
            return Some("lacks heads (pruned_heads), and this study asks about all".to_owned());
        }
        card.why_not_decoders.filter(|_| self.is_decoder).map(|why| format!("is a decoder, which {why}"))
    }

    /// As [`Self::why_not`]. A study that needs a loss is also refused if the checkpoint lacks its token-prediction layer.
    pub fn why_not_with_loss(self, study: &dyn AnyStudy) -> Option<String> {
        let lacks_loss = || !self.predicts && needs_loss(study);
        let without = "has no head by which it was trained, and so no loss";
        self.why_not(study).or_else(|| lacks_loss().then(|| without.to_owned()))
    }
}

/// Whether a study, or a study that it builds on, has a pass that predicts tokens.
fn needs_loss(study: &dyn AnyStudy) -> bool {
    let own = study.passes_of(false).iter().any(|spec| spec.pass.predicts());
    own || study.card().builds_on.iter().filter_map(|name| registry::named(name)).any(needs_loss)
}

/// Whether a study runs on the items of the user's task (`--task`) and on no corpus.
pub fn is_task_only(study: &dyn AnyStudy) -> bool {
    study.passes_of(false).iter().any(|spec| spec.pass.sequences.are_items())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_asked_of_models_that_have_one() {
        let named = |name: &str| registry::named(name).unwrap();
        let encoder = Askable { of_residues: false, is_decoder: false, predicts: false, lacks_heads: false };
        for name in ["effect", "pruning", "gradient"] {
            assert!(encoder.why_not(named(name)).is_none(), "{name}");
            assert!(encoder.why_not_with_loss(named(name)).unwrap().ends_with("no loss"), "{name}");
            let predicting = Askable { predicts: true, ..encoder };
            assert_eq!(predicting.why_not_with_loss(named(name)), None, "{name}");
        }
        assert_eq!(encoder.why_not_with_loss(named("examples")), None);
        assert!(encoder.why_not(named("in-context")).unwrap().starts_with("is no decoder"));
        let pruned = Askable { lacks_heads: true, ..encoder };
        assert!(pruned.why_not(named("edges")).unwrap().starts_with("lacks heads"));
        assert_eq!(["attention", "effect"].map(|name| pruned.why_not(named(name))), [None, None]);
        let proteins = Askable { of_residues: true, ..encoder };
        assert!(proteins.why_not(named("coreference")).unwrap().starts_with("knows no words"));
    }
}
