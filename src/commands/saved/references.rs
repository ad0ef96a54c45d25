//! The papers that the sources of labels and metrics name. docs/methodology/references.md lists the same.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Paper {
    /// As sources name it: authors and year.
    pub key: &'static str,
    /// Its title, and where it is.
    pub title: &'static str,
}

impl Paper {
    /// The whole reference.
    pub fn reference(&self) -> String {
        format!("{}. {}", self.key, self.title)
    }

    /// The surnames that a citation names: `Searle, Casella & McCulloch`, `Clark et al.`.
    pub fn authors(&self) -> &'static str {
        self.key.rsplit_once(' ').map_or(self.key, |(authors, _)| authors)
    }

    /// The year of its publication.
    pub fn year(&self) -> &'static str {
        self.key.rsplit_once(' ').map_or("", |(_, year)| year)
    }

    /// Its number on arXiv.
    pub fn arxiv(&self) -> Option<&'static str> {
        let (_, number) = self.title.split_once("arXiv:")?;
        Some(number.trim_end_matches([')', '.']))
    }

    /// Whether a source names it, by authors and year or by its number on arXiv.
    pub fn is_named_in(&self, source: &str) -> bool {
        source.contains(self.key) || self.arxiv().is_some_and(|number| source.contains(&format!("arXiv:{number}")))
    }
}

const fn paper(key: &'static str, title: &'static str) -> Paper {
    Paper { key, title }
}

/// Every paper.
pub const PAPERS: &[Paper] = &[
    paper("Abnar & Zuidema 2020", "Quantifying Attention Flow in Transformers. ACL (arXiv:2005.00928)."),
    paper(
        "Ainslie et al. 2023",
        "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints. EMNLP.",
    ),
    paper(
        "Benjamini & Hochberg 1995",
        "Controlling the False Discovery Rate: A Practical and Powerful Approach to Multiple Testing. Journal of the Royal Statistical Society B.",
    ),
    paper("Berger 1982", "Multiparameter Hypothesis Testing and Acceptance Sampling. Technometrics."),
    paper(
        "Bondarenko et al. 2023",
        "Quantizable Transformers: Removing Outliers by Helping Attention Heads Do Nothing. NeurIPS.",
    ),
    paper("Clark et al. 2019", "What Does BERT Look At? An Analysis of BERT's Attention. BlackboxNLP."),
    paper(
        "Clark et al. 2020",
        "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators. ICLR, arXiv:2003.10555.",
    ),
    paper(
        "Clopper & Pearson 1934",
        "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial. Biometrika.",
    ),
    paper("Cohen 1960", "A Coefficient of Agreement for Nominal Scales. Educational and Psychological Measurement."),
    paper("Cordonnier et al. 2020", "Multi-Head Attention: Collaborate Instead of Concatenate. arXiv:2006.16362."),
    paper(
        "Devlin et al. 2019",
        "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding. NAACL.",
    ),
    paper("Efron & Tibshirani 1993", "An Introduction to the Bootstrap. Chapman & Hall."),
    paper("Elhage et al. 2021", "A Mathematical Framework for Transformer Circuits. transformer-circuits.pub."),
    paper("Fisher 1935", "The Design of Experiments. Oliver & Boyd."),
    paper("Fisher 1936", "The Use of Multiple Measurements in Taxonomic Problems. Annals of Eugenics."),
    paper("Fesser et al. 2026", "A Unifying View of Attention Sinks: Two Algorithms, Two Solutions. arXiv:2606.08105."),
    paper("Frisch & Waugh 1933", "Partial Time Regressions as Compared with Individual Trends. Econometrica."),
    paper(
        "Gu et al. 2025",
        "When Attention Sink Emerges in Language Models: An Empirical View. ICLR, arXiv:2410.10781.",
    ),
    paper("Hewitt & Liang 2019", "Designing and Interpreting Probes with Control Tasks. EMNLP-IJCNLP."),
    paper(
        "Hewitt et al. 2021",
        "Conditional Probing: Measuring Usable Information beyond a Baseline. EMNLP, arXiv:2109.09234.",
    ),
    paper("Hyndman & Fan 1996", "Sample Quantiles in Statistical Packages. The American Statistician."),
    paper("Kauf & Ivanova 2023", "A Better Way to Do Masked Language Model Scoring. ACL, arXiv:2305.10588."),
    paper(
        "Klein & Manning 2004",
        "Corpus-Based Induction of Syntactic Structure: Models of Dependency and Constituency. ACL.",
    ),
    paper("Kobayashi et al. 2020", "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms. EMNLP."),
    paper(
        "Kobayashi et al. 2021",
        "Incorporating Residual and Normalization Layers into Analysis of Masked Language Models. EMNLP.",
    ),
    paper("Kendall & Gibbons 1990", "Rank Correlation Methods. Oxford University Press."),
    paper("Kelley 1935", "An Unbiased Correlation Ratio Measure. Proceedings of the National Academy of Sciences."),
    paper("Kish 1965", "Survey Sampling. Wiley."),
    paper("Kornblith et al. 2019", "Similarity of Neural Network Representations Revisited. ICML."),
    paper("Kovaleva et al. 2019", "Revealing the Dark Secrets of BERT. EMNLP-IJCNLP."),
    paper("Li et al. 2018", "Multi-Head Attention with Disagreement Regularization. EMNLP."),
    paper(
        "Liu & Nocedal 1989",
        "On the Limited Memory BFGS Method for Large Scale Optimization. Mathematical Programming.",
    ),
    paper(
        "McNemar 1947",
        "Note on the Sampling Error of the Difference Between Correlated Proportions or Percentages. Psychometrika.",
    ),
    paper("Michel et al. 2019", "Are Sixteen Heads Really Better than One? NeurIPS, arXiv:1905.10650."),
    paper(
        "Molchanov et al. 2017",
        "Pruning Convolutional Neural Networks for Resource Efficient Inference. ICLR, arXiv:1611.06440.",
    ),
    paper(
        "Murphy et al. 2024",
        "Correcting Biased Centered Kernel Alignment Measures in Biological and Artificial Neural Networks. arXiv:2405.01012.",
    ),
    paper(
        "Nguyen et al. 2021",
        "Do Wide and Deep Networks Learn the Same Things? Uncovering How Neural Network Representations Vary with Width and Depth. ICLR.",
    ),
    paper(
        "Olsson et al. 2022",
        "In-context Learning and Induction Heads. Transformer Circuits Thread, arXiv:2209.11895.",
    ),
    paper("Radford et al. 2019", "Language Models are Unsupervised Multitask Learners. OpenAI."),
    paper(
        "Raganato & Tiedemann 2018",
        "An Analysis of Encoder Representations in Transformer-Based Machine Translation. BlackboxNLP.",
    ),
    paper("Rao et al. 2021", "Transformer Protein Language Models are Unsupervised Structure Learners. ICLR."),
    paper("Reimers & Gurevych 2019", "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. EMNLP."),
    paper(
        "Satterthwaite 1946",
        "An Approximate Distribution of Estimates of Variance Components. Biometrics Bulletin.",
    ),
    paper(
        "Schuirmann 1987",
        "A Comparison of the Two One-Sided Tests Procedure and the Power Approach for Assessing the Equivalence of Average Bioavailability. Journal of Pharmacokinetics and Biopharmaceutics.",
    ),
    paper(
        "Schwaller et al. 2021",
        "Extraction of Organic Chemistry Grammar from Unsupervised Learning of Chemical Reactions. Science Advances.",
    ),
    paper(
        "Sandoval-Segura et al. 2026",
        "Identifying and Evaluating Inactive Heads in Pretrained LLMs. ICLR, arXiv:2504.03889.",
    ),
    paper("Searle, Casella & McCulloch 1992", "Variance Components. Wiley."),
    paper("Song et al. 2012", "Feature Selection via Dependence Maximization. Journal of Machine Learning Research."),
    paper("Sun et al. 2024", "Massive Activations in Large Language Models. COLM."),
    paper("Sundararajan et al. 2017", "Axiomatic Attribution for Deep Networks. ICML, arXiv:1703.01365."),
    paper(
        "Székely & Rizzo 2014",
        "Partial Distance Correlation with Methods for Dissimilarities. The Annals of Statistics.",
    ),
    paper("Torgerson 1952", "Multidimensional Scaling: I. Theory and Method. Psychometrika."),
    paper("Vig & Belinkov 2019", "Analyzing the Structure of Attention in a Transformer Language Model. BlackboxNLP."),
    paper(
        "Vig et al. 2020",
        "Investigating Gender Bias in Language Models Using Causal Mediation Analysis. NeurIPS, arXiv:2004.12265.",
    ),
    paper(
        "Vig et al. 2021",
        "BERTology Meets Biology: Interpreting Attention in Protein Language Models. ICLR, arXiv:2006.15222.",
    ),
    paper("Voita & Titov 2020", "Information-Theoretic Probing with Minimum Description Length. EMNLP."),
    paper(
        "Voita et al. 2019",
        "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be Pruned. ACL.",
    ),
    paper(
        "Wang et al. 2022",
        "Interpretability in the Wild: a Circuit for Indirect Object Identification in GPT-2 small. arXiv:2211.00593.",
    ),
    paper(
        "Welch 1938",
        "The Significance of the Difference Between Two Means when the Population Variances are Unequal. Biometrika.",
    ),
    paper(
        "Wilson 1927",
        "Probable Inference, the Law of Succession, and Statistical Inference. Journal of the American Statistical Association.",
    ),
    paper(
        "Warstadt et al. 2020",
        "BLiMP: The Benchmark of Linguistic Minimal Pairs for English. TACL, arXiv:1912.00582.",
    ),
    paper("Xiao et al. 2024", "Efficient Streaming Language Models with Attention Sinks. ICLR, arXiv:2309.17453."),
    paper(
        "Zhang & Nanda 2024",
        "Towards Best Practices of Activation Patching in Language Models: Metrics and Methods. ICLR, arXiv:2309.16042.",
    ),
    paper(
        "Zhao, Small & Su 2019",
        "Multiple Testing When Many p-Values are Uniformly Conservative, with Application to Testing Qualitative Interaction in Educational Interventions. Journal of the American Statistical Association.",
    ),
    paper(
        "Zou & Donner 2008",
        "Construction of Confidence Limits About Effect Measures: A General Approach. Statistics in Medicine.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_the_same_papers() {
        let page = include_str!("../../../docs/methodology/references.md");
        let of_sources = page.lines().take_while(|line| !line.starts_with("## "));
        let listed: Vec<&str> = of_sources.filter_map(|line| line.strip_prefix("- ")).collect();
        assert_eq!(listed, PAPERS.iter().map(Paper::reference).collect::<Vec<_>>());
    }
}
