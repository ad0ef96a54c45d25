//! Facts about a run to know before its labels.

use super::{ContextInfo, ModelInfo, Report, caveats};
use crate::sequences::reading::{Bos, Context, Reading};
use crate::studies::registry;
use crate::system::boxed;
use crate::system::counted::{counted, plural, ranges};
use crate::system::printable::printable;

impl Report {
    /// The population that intervals and tests generalise to.
    pub fn unit(&self) -> String {
        let [sentence, _] = self.model.text_units();
        self.corpus.unit.to_string().replace("sentence", sentence)
    }

    /// The facts to know before the labels, a sentence each without its full stop: of the model, and of the corpus.
    pub fn remarks(&self) -> [Vec<String>; 2] {
        let shared = self.model.heads_per_group().map(|heads| {
            format!("every {heads} heads of a layer share their keys and values: what is counted are heads of queries")
        });
        let absent = match self.model.absent.len() {
            0 => None,
            count => Some(format!("its checkpoint was saved without {}: they are in no count", counted(count, "head"))),
        };
        let removed = &self.settings.protocol.removed;
        let removed = (!removed.is_empty()).then(|| {
            let names: Vec<String> = removed.iter().map(ToString::to_string).collect();
            format!("it runs without {} (`--remove`): they are in no count", names.join(", "))
        });
        let repeated = self.model.stored_layers.map(|stored| {
            let (layers, stored) = (self.model.layers, counted(stored, "layer"));
            format!(
                "its {layers} layers share the weights of {stored}: `pruning`, `gates` and `prune` remove a head from \
                 all of them at once, other studies from one layer"
            )
        });
        let of_model = windows(&self.model)
            .chain(shared)
            .chain(absent)
            .chain(removed)
            .chain(repeated)
            .chain(self.of_proteins())
            .chain(self.of_headless_decoder())
            .collect();
        let is_of_proteins = caveats::is_read_as_text(&self.model, &self.corpus);
        let as_text = is_of_proteins.then(|| "it is FASTA, and the model is not one of proteins".to_owned());
        let of_text = self.corpus.text.iter().flat_map(|text| text.remarks(self.model.text_units()));
        let read = self.corpus.context.as_ref().zip(self.settings.protocol.reading.as_ref());
        let read = read.map(|(context, reading)| read_in(context, reading));
        let unhealthy = self.corpus.unhealthy_beside_reading(&self.model);
        let overlap = boxed::overlap(&self.model.id, &self.corpus.name).map(str::to_owned);
        let of_corpus = overlap.into_iter().chain(read).chain(as_text).chain(of_text).chain(unhealthy);
        let of_corpus = of_corpus.chain(self.without_links()).filter(|_| self.is_of_corpus());
        [of_model, of_corpus.collect()]
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

    /// A remark where an option asks for links and the corpus has none.
    fn without_links(&self) -> Option<String> {
        let protocol = &self.settings.protocol;
        let study = registry::with_option("links-from");
        let (_, section) = self.sections.0.iter().find(|(known, _)| known.card().name == study)?;
        let asked = protocol.links_from.as_ref().map(|from| format!("--links-from {from}"));
        let asked = asked.or_else(|| (!protocol.links.is_empty()).then(|| "its options".to_owned()))?;
        section.view(&self.settings.policy).lacks_subject.then(|| format!("it has no link that {asked} could find"))
    }

    /// The studies that a decoder leaves out which was saved without its head; `None` of another model.
    fn of_headless_decoder(&self) -> Option<String> {
        let of_decoders = |name: &&String| registry::named(name).is_some_and(|study| study.card().of_decoders);
        let left_out = self.settings.protocol.left_out.iter().find(of_decoders)?;
        Some(format!("its checkpoint has no head that predicts the next token: the study {left_out} is left out"))
    }
}

/// The sequences that a decoder read, and the token that they begin with.
fn read_in(ContextInfo { sequences, sentences, tokens }: &ContextInfo, reading: &Reading) -> String {
    let (mean, most) = (tokens.mean, tokens.largest);
    let read = match reading.context {
        Context::Document => format!(
            "it was read in {} of documents, of {:.1} sentences and {mean:.1} tokens in the mean and at most {} and {most}",
            counted(*sequences, "window"),
            sentences.mean,
            sentences.largest
        ),
        Context::Sentence => {
            format!("sentences were read one by one, of {mean:.1} tokens in the mean and at most {most}")
        }
    };
    let begins = match (&reading.begins_with, reading.bos) {
        (Some(token), Bos::Auto) => format!("each begins with {}, which the tokenizer puts there", printable(token)),
        (Some(token), _) => format!("each begins with {} (--bos always)", printable(token)),
        (None, Bos::Never) => "no special token stands before its text (--bos never)".to_owned(),
        (None, _) => "the tokenizer puts no special token before a text".to_owned(),
    };
    let counted = match reading.context {
        Context::Document => "; where evidence is counted in sentences, each window is one",
        Context::Sentence => "",
    };
    format!("{read}; {begins}{counted}")
}

/// The layers whose queries do not see every key.
fn windows(model: &ModelInfo) -> impl Iterator<Item = String> {
    Vec::from(model.visibility.clone()).into_iter().filter_map(|class| {
        let (visibility, layers) = (class.visibility(), class.layers);
        let seen = visibility.words()?;
        let layers = match layers.len() {
            0 => "in all layers".to_owned(),
            count => format!("in {} {}", plural(&count, "layer", "layers"), ranges(&layers)),
        };
        Some(format!("{layers} a token sees {seen}"))
    })
}
