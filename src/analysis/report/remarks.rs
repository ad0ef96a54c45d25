//! Facts about a run to know before its labels.

use super::{ModelInfo, Report, caveats};
use crate::studies::registry;
use crate::system::counted::{plural, ranges};

impl Report {
    /// What intervals and tests are about more of.
    pub fn unit(&self) -> String {
        let [sentence, _] = self.model.text_units();
        self.corpus.unit.to_string().replace("sentence", sentence)
    }

    /// The facts to know before the labels, a sentence each without its full stop: of the model, and of the corpus.
    pub fn remarks(&self) -> [Vec<String>; 2] {
        let shared = self.model.heads_per_group().map(|heads| {
            format!("every {heads} heads of a layer share their keys and values: what is counted are heads of queries")
        });
        let of_model =
            windows(&self.model).chain(shared).chain(self.of_proteins()).chain(self.of_headless_decoder()).collect();
        let is_of_proteins = caveats::is_read_as_text(&self.model, &self.corpus);
        let as_text = is_of_proteins.then(|| "it is FASTA, and the model is not one of proteins".to_owned());
        let of_text = self.corpus.text.iter().flat_map(|text| text.remarks(self.model.text_units()));
        [of_model, as_text.into_iter().chain(of_text).collect()]
    }

    /// The studies that a model of proteins leaves out; `None` of another model.
    fn of_proteins(&self) -> Option<String> {
        let asked = |name: &&String| registry::named(name).is_none_or(|study| !study.card().of_language);
        let left_out: Vec<&str> =
            self.settings.protocol.left_out.iter().filter(|name| !asked(name)).map(String::as_str).collect();
        let known = || match left_out.split_last() {
            None => "its tokens are residues of proteins, and it knows no words".to_owned(),
            Some((last, others)) => {
                let (joint, names) = (if others.is_empty() { "" } else { " and " }, others.join(", "));
                format!(
                    "its tokens are residues of proteins, and it knows no words: left out are the studies of them, {names}{joint}{last}"
                )
            }
        };
        self.model.residues.then(known)
    }

    /// The studies that a decoder leaves out which was saved without its head; `None` of another model.
    fn of_headless_decoder(&self) -> Option<String> {
        let of_decoders = |name: &&String| registry::named(name).is_some_and(|study| study.card().of_decoders);
        let left_out = self.settings.protocol.left_out.iter().find(of_decoders)?;
        Some(format!("its checkpoint has no head that predicts the next token: the study {left_out} is left out"))
    }
}

/// The layers whose queries do not see every key.
fn windows(model: &ModelInfo) -> impl Iterator<Item = String> {
    Vec::from(model.visibility.clone()).into_iter().filter_map(|class| {
        let (visibility, layers) = (class.visibility(), class.layers);
        let seen = visibility.words()?;
        let layers = match layers.len() {
            0 => "all layers".to_owned(),
            count => format!("{} {}", plural(&count, "layer", "layers"), ranges(&layers)),
        };
        Some(format!("{layers}: a token sees {seen}"))
    })
}
