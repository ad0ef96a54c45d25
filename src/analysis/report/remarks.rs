//! Remarks on the model and on the corpus of a report, which the summary prints before the labels.

use itertools::Itertools as _;

use super::Report;
use super::caveats::reads_proteins_as_text;
use super::corpus::ContextInfo;
use crate::passes::observation::identity::ModelInfo;
use crate::sequences::reading::{Bos, Context, Reading};
use crate::studies::registry;
use crate::system::counts::{format_count, format_ranges, join_with_and, plural};
use crate::system::embedded;
use crate::system::printable::escape_controls;

impl Report {
    /// The population to which intervals and tests generalise, in words. It follows from the sampling unit of the
    /// corpus.
    pub fn unit_in_words(&self) -> String {
        let [sentence, _] = self.model.text_units();
        self.corpus.unit.to_string().replace("sentence", sentence)
    }

    /// Remarks that the summary prints before the labels, as sentences without a full stop: `[on the model, on the
    /// corpus]`.
    pub fn remarks(&self) -> [Vec<String>; 2] {
        let shared = self.model.query_heads_per_group().map(|heads| {
            format!("every {heads} heads of a layer share their keys and values: what is counted are heads of queries")
        });
        let count = self.model.absent.len();
        let absent = (count > 0)
            .then(|| format!("its checkpoint was saved without {}: they are in no count", format_count(count, "head")));
        let removed = &self.settings.protocol.removed;
        let removed = (!removed.is_empty())
            .then(|| format!("it runs without {} (`--remove`): they are in no count", removed.iter().join(", ")));
        let repeated = self.model.stored_layers.map(|stored| {
            let (layers, stored) = (self.model.layers, format_count(stored, "layer"));
            format!(
                "its {layers} layers share the weights of {stored}: `pruning`, `gates` and `prune` remove a head from \
                 all of them at once, other studies from one layer"
            )
        });
        let of_model = window_remarks(&self.model)
            .chain(shared)
            .chain(absent)
            .chain(removed)
            .chain(repeated)
            .chain(self.protein_remark())
            .chain(self.headless_decoder_remark())
            .collect();
        let is_of_proteins = reads_proteins_as_text(&self.model, &self.corpus);
        let as_text = is_of_proteins.then(|| "it is FASTA, and the model is not one of proteins".to_owned());
        let of_text = self.corpus.text.iter().flat_map(|text| text.remarks(self.model.text_units()));
        let read = self.corpus.context.as_ref().zip(self.settings.protocol.reading.as_ref());
        let read = read.map(|(context, reading)| sequences_remark(context, reading));
        let unhealthy = self.corpus.minor_check_messages(&self.model);
        let overlap = embedded::overlap_warning(&self.model.id, &self.corpus.name).map(str::to_owned);
        let of_corpus = overlap.into_iter().chain(read).chain(as_text).chain(of_text).chain(unhealthy);
        let of_corpus = of_corpus.chain(self.missing_links_remark()).filter(|_| self.analyses_corpus());
        [of_model, of_corpus.collect()]
    }

    /// A remark on the studies that a protein model leaves out; `None` for other models.
    fn protein_remark(&self) -> Option<String> {
        const NO_WORDS: &str = "its tokens are residues of proteins, and it knows no words";
        let is_of_language =
            |name: &&String| registry::find_study(name).is_some_and(|study| study.card().needs_language);
        let left_out: Vec<String> = self.settings.protocol.left_out.iter().filter(is_of_language).cloned().collect();
        let studies = match &left_out[..] {
            [] => String::new(),
            names => format!(": left out are the studies of them, {}", join_with_and(names)),
        };
        self.model.residues.then(|| format!("{NO_WORDS}{studies}"))
    }

    /// A remark that the corpus has no links between words although an option asks for them; `None` otherwise.
    fn missing_links_remark(&self) -> Option<String> {
        let protocol = &self.settings.protocol;
        let study = registry::study_name_of_option("links-from");
        let (_, section) = self.sections.0.iter().find(|(known, _)| known.card().name == study)?;
        let source = protocol.links_from.as_ref().map(|from| format!("--links-from {from}"));
        let source = source.or_else(|| (!protocol.links.is_empty()).then(|| "its options".to_owned()))?;
        section.view(self.view_context()).lacks_subject.then(|| format!("it has no link that {source} could find"))
    }

    /// A remark on the study that is left out because a decoder lacks its token-prediction layer; `None` for other
    /// models.
    fn headless_decoder_remark(&self) -> Option<String> {
        let decoders_only =
            |name: &&String| registry::find_study(name).is_some_and(|study| study.card().is_for_decoders_only);
        let left_out = self.settings.protocol.left_out.iter().find(decoders_only)?;
        Some(format!("its checkpoint has no head that predicts the next token: the study {left_out} is left out"))
    }
}

/// Writes how many sequences a decoder read, how long they were, and with which token each begins.
fn sequences_remark(ContextInfo { sequences, sentences, tokens }: &ContextInfo, reading: &Reading) -> String {
    let (mean, most) = (tokens.mean, tokens.largest);
    let read = match reading.context {
        Context::Document => format!(
            "it was read in {} of whole sentences, with {:.1} sentences (at most {}) and {mean:.1} tokens (at most {most}) each on average",
            format_count(*sequences, "window"),
            sentences.mean,
            sentences.largest
        ),
        Context::Sentence => {
            format!("sentences were read one by one, with {mean:.1} tokens each on average (at most {most})")
        }
    };
    let begins = match (&reading.begins_with, reading.bos) {
        (Some(token), Bos::Auto) => {
            format!("each begins with {}, which the tokenizer puts there", escape_controls(token))
        }
        (Some(token), _) => format!("each begins with {} (--bos always)", escape_controls(token)),
        (None, Bos::Never) => "no special token stands before its text (--bos never)".to_owned(),
        (None, _) => "the tokenizer puts no special token before a text".to_owned(),
    };
    format!("{read}; {begins}")
}

/// A remark for each class of layers in which a query sees only some of the keys.
fn window_remarks(model: &ModelInfo) -> impl Iterator<Item = String> {
    Vec::from(model.visibility.clone()).into_iter().filter_map(|class| {
        let (visibility, layers) = (class.visibility(), class.layers);
        let seen = visibility.description()?;
        let layers = match layers.len() {
            0 => "in all layers".to_owned(),
            count => format!("in {} {}", plural(&count, "layer", "layers"), format_ranges(&layers)),
        };
        Some(format!("{layers} a token sees {seen}"))
    })
}
