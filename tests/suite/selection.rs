//! Which studies run, as a table of options, corpora and models.

use std::sync::Arc;

use headscope::commands::analyze::selection::{AbsenceReason, RunSubject, StudyRequest, StudySelection};
use headscope::evaluation::askable::ModelTraits;
use headscope::evaluation::presets;
use headscope::sequences::derived::task::TaskKind;
use headscope::sequences::derived::task::file::TaskFile;
use headscope::study::AnyStudy;

const ENCODER: ModelTraits =
    ModelTraits { has_residue_tokens: false, is_decoder: false, predicts_tokens: true, lacks_heads: false };

/// A request and a model, parsed from words: `with=a,b`, `task=pair`, `decoder` and so on.
fn request(words: &str) -> (StudyRequest, Option<ModelTraits>) {
    let (mut request, mut model) = (StudyRequest { has_counts: true, ..StudyRequest::default() }, None);
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        let names = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
        match word.split_once('=').unwrap_or((word, "")) {
            ("with", list) => request.with_studies = names(list),
            ("without", list) => request.without_studies = names(list),
            ("preset", name) => request.presets = vec![presets::find_preset(name).unwrap()],
            ("task", kind) => {
                let kinds = [TaskKind::Cloze, TaskKind::Pair, TaskKind::Triple];
                let kind = kinds.into_iter().find(|known| known.to_string() == kind).unwrap();
                let (path, name, sha256) = ("items.jsonl".into(), String::new(), String::new());
                request.task = Some(Arc::new(TaskFile { path, name, sha256, kind, items: Vec::new() }));
            }
            ("join", _) => request.may_join = true,
            ("first-run", _) => request.subject = RunSubject::BuiltInCorpus,
            ("no-corpus", _) => request.subject = RunSubject::TaskOnly,
            ("read-once", _) => request.has_counts = false,
            ("encoder", _) => model = Some(ENCODER),
            ("headless", _) => model = Some(ModelTraits { predicts_tokens: false, ..model.unwrap() }),
            ("decoder", _) => model = Some(ModelTraits { is_decoder: true, ..ENCODER }),
            ("residues", _) => model = Some(ModelTraits { has_residue_tokens: true, ..ENCODER }),
            ("pruned", _) => model = Some(ModelTraits { lacks_heads: true, ..ENCODER }),
            _ => panic!("{word}"),
        }
    }
    (request, model)
}

/// The difference from the default studies, or the error. `+` marks an additional study, and `-` a missing study with
/// its reason.
fn outcome(words: &str) -> String {
    let (request, model) = request(words);
    let selected = StudySelection::new(request).and_then(|selection| match model {
        Some(model) => selection.for_model("m", model),
        None => Ok(selection),
    });
    let selection = match selected {
        Ok(selection) => selection,
        Err(error) => return format!("{error}"),
    };
    let studies = selection.studies().iter().filter(|study| !study.card().is_default);
    let more = studies.map(|study| format!("+{}", study.card().name));
    let is_told = |(study, why): &&(&'static dyn AnyStudy, AbsenceReason)| {
        study.card().is_default || !matches!(why, AbsenceReason::Unrequested | AbsenceReason::SwitchedOff)
    };
    let fewer = selection.absent_studies().iter().filter(is_told).map(|(study, why)| match why {
        AbsenceReason::Unrequested => format!("-{}", study.card().name),
        AbsenceReason::SwitchedOff => format!("-{} (off)", study.card().name),
        AbsenceReason::WithoutCounts => format!("-{} (uncounted)", study.card().name),
        AbsenceReason::Inapplicable(why) => {
            format!("-{} ({})", study.card().name, why.split([',', ':']).next().unwrap())
        }
    });
    more.chain(fewer).collect::<Vec<_>>().join(" ")
}

#[test]
fn options_corpus_and_model_decide_which_studies_run() {
    const ALL: &str = "attention,trees,dependency,links,words,classes,frequency,explained-variance";
    for (words, expected) in [
        ("", ""),
        ("first-run", "+coreference +choice"),
        ("first-run without=choice", "+coreference"),
        ("without=words,trees", "-trees (off) -words (off)"),
        (&format!("without={ALL}"), "every study is switched off: there is nothing to analyse"),
        ("with=words without=words", "--with words and --without words: which of them?"),
        // A study brings the studies that it builds on. With `join`, a study that builds on two requested studies joins
        // them.
        ("with=pruning", "+effect +gradient +pruning"),
        ("with=pruning without=effect", "--without effect: the study pruning asks about what it finds"),
        ("with=effect,similarity", "+effect +similarity"),
        ("with=effect,similarity join", "+effect +similarity +cluster-effect"),
        ("with=effect,similarity without=cluster-effect join", "+effect +similarity"),
        // A task brings its study.
        ("task=pair", "+task"),
        ("task=pair without=task", ""),
        ("task=pair with=pruning", "+task +pruning"),
        // Without a corpus no other study runs by default, not even on a decoder.
        ("task=pair no-corpus", &format!("+task -{}", ALL.replace(',', " -"))),
        ("task=pair no-corpus decoder", &format!("+task -{}", ALL.replace(',', " -"))),
        (
            "task=pair with=interchange",
            "--with interchange: it takes items of kind cloze, and `items.jsonl` has items of kind \
             pair: leave it out",
        ),
        (
            "task=triple preset=michel2019",
            "--preset michel2019: it takes items of kind classify or tag or cloze or pair, and \
             `items.jsonl` has items of kind triple: leave it out",
        ),
        ("with=task", "--with task: there is no task: give --task FILE"),
        ("preset=blimp", "--preset blimp: there is no task: give --task FILE"),
        ("preset=clark2019", "+clark2019"),
        // Requests that depend on the corpus.
        ("read-once", "-frequency (uncounted)"),
        (
            "with=frequency read-once",
            "--with frequency: it must count the tokens of the corpus beforehand, which can be read \
             only once: name a file, or give --counts FILE, which `headscope counts` writes",
        ),
        // Requests that depend on the model.
        ("encoder", ""),
        (
            "encoder with=in-context-effect",
            "--with in-context-effect: `m` is no decoder: it does not predict the next token from \
             those before it: leave it out",
        ),
        ("decoder", "+repeats +in-context"),
        ("decoder without=repeats", "+in-context"),
        ("decoder headless", "+repeats -in-context (has no head that predicts the next token)"),
        (
            "residues",
            "-trees (knows no words) -dependency (knows no words) -words (knows no words) -frequency \
             (knows no words)",
        ),
        (
            "residues preset=clark2019",
            "--preset clark2019: `m` knows no words: its tokens are residues of proteins: leave it out",
        ),
        (
            "residues without=attention,links,classes,explained-variance",
            "no study can be asked of `m`: it knows no words: its tokens are residues of proteins",
        ),
        ("pruned", "-links (lacks heads (pruned_heads)) -classes (lacks heads (pruned_heads))"),
        (
            "pruned with=edges",
            "--with edges: `m` lacks heads (pruned_heads), and this study asks about all: leave it out",
        ),
        (
            "pruned with=pruning",
            "--with pruning: `m` lacks heads (pruned_heads), and this study asks about all: leave it out",
        ),
    ] {
        assert_eq!(outcome(words), expected, "{words}");
    }
}

#[test]
fn task_run_reads_the_corpus_only_for_a_study() {
    for (words, expected) in [
        ("task=pair", true),
        ("task=pair no-corpus", false),
        ("task=pair with=pruning no-corpus", false),
        ("task=pair with=words no-corpus", true),
        ("", true),
    ] {
        let (request, _) = request(words);
        assert_eq!(StudySelection::new(request).unwrap().measures_corpus(), expected, "{words}");
    }
}
