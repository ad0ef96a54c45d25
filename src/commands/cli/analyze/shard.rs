//! `--shard`: parses the shard, given as numbers or taken from the environment of a job array.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::anyhow;
use itertools::Itertools as _;

use crate::commands::cli::shared::UsageError;
use crate::passes::observation::partial;
use crate::sequences::shard::Shard;
use crate::system::errors::ErrorExt;
use crate::system::printable::{one_line, shorten};

/// Value of `--shard`: a shard, or the number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardArgument {
    /// Shard I of N, given as numbers.
    Explicit(Shard),
    /// `auto/N`: the job's number in an array of N jobs decides the shard. The value holds shard 1 of N, and so the count N.
    Auto(Shard),
}

/// A scheduler that runs job arrays and tells each job its number.
struct JobScheduler {
    name: &'static str,
    /// Environment variable that holds the number of the job.
    job_number_variable: &'static str,
    /// Number of the job that runs shard 1.
    first_job_number: u32,
    /// Environment variables with the first and the last job number of the array; empty if the scheduler sets none.
    job_range_variables: &'static [&'static str],
}

/// Schedulers whose job numbers `auto/N` reads from environment variables. Sources for the variables:
/// <https://slurm.schedmd.com/job_array.html>, <https://kubernetes.io/docs/concepts/workloads/controllers/job/>,
/// <https://docs.aws.amazon.com/batch/latest/userguide/array_jobs.html>.
const JOB_SCHEDULERS: [JobScheduler; 3] = [
    JobScheduler {
        name: "Slurm array",
        job_number_variable: "SLURM_ARRAY_TASK_ID",
        // The user numbers the jobs of a Slurm array. An array that reruns missing shards does not begin with the first,
        // so the least number says nothing: jobs are numbered like shards, from 1.
        first_job_number: 1,
        job_range_variables: &["SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX"],
    },
    JobScheduler {
        name: "Kubernetes Indexed Job",
        job_number_variable: "JOB_COMPLETION_INDEX",
        first_job_number: 0,
        job_range_variables: &[],
    },
    JobScheduler {
        name: "AWS Batch array",
        job_number_variable: "AWS_BATCH_JOB_ARRAY_INDEX",
        first_job_number: 0,
        job_range_variables: &[],
    },
];

impl JobScheduler {
    /// Shard of a job in an array of `of` jobs. `value` is the job's number, from the environment variable `variable`.
    /// Fails if `value` is no job number of such an array.
    fn shard_of_job(&self, variable: &str, value: &str, of: u32) -> Result<Shard, UsageError> {
        let number: Option<u32> = value.parse().ok();
        let shard = number.and_then(|number| number.checked_add(1)?.checked_sub(self.first_job_number));
        let shard = shard.and_then(|number| Shard::try_from((number, of)).ok());
        let (first, last) = (self.first_job_number, of - 1 + self.first_job_number);
        shard.ok_or_else(|| {
            anyhow!(
                "--shard auto/{of}: {variable} is `{}`, and the jobs of a {} for {of} shards have the numbers {first} to \
                 {last}",
                excerpt(value),
                self.name
            )
            .with_value(value)
        })
    }
}

/// Value of a variable on one line, shortened for an error.
fn excerpt(value: &str) -> String {
    shorten(&one_line(value))
}

impl ShardArgument {
    /// Returns the shard. `variable` looks up an environment variable.
    /// Fails for `auto/N` unless exactly one scheduler gives the job a number within its array.
    pub(super) fn resolve_shard(self, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, UsageError> {
        let of = match self {
            Self::Explicit(shard) => return Ok(shard),
            Self::Auto(first) => first.shard_count(),
        };
        let set_variables =
            JOB_SCHEDULERS.iter().filter_map(|scheduler| Some((scheduler, variable(scheduler.job_number_variable)?)));
        match &set_variables.collect::<Vec<_>>()[..] {
            [] => {
                let known_schedulers = JOB_SCHEDULERS
                    .map(|scheduler| format!("{} ({})", scheduler.job_number_variable, scheduler.name))
                    .join(", ");
                Err(anyhow!("--shard auto/{of}: this is no job of an array, none of these is set: {known_schedulers}")
                    .hint(format!("say --shard I/{of}")))
            }
            [(scheduler, value)] => {
                // If an array is numbered differently, all its jobs fail, not only the last.
                for bound in scheduler.job_range_variables {
                    if let Some(value) = variable(bound) {
                        scheduler.shard_of_job(bound, &value, of)?;
                    }
                }
                scheduler.shard_of_job(scheduler.job_number_variable, value, of)
            }
            several => {
                let set = several
                    .iter()
                    .map(|(scheduler, value)| format!("{}={}", scheduler.job_number_variable, excerpt(value)))
                    .join(" and ");
                Err(anyhow!("--shard auto/{of}: {set} are set, so this job has two numbers")
                    .hint(format!("say --shard I/{of}")))
            }
        }
    }
}

impl FromStr for ShardArgument {
    type Err = Box<dyn Error + Send + Sync>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const MISSING_COUNT_HINT: &str = "say of how many shards: auto/N";
        match text.strip_prefix("auto/") {
            Some(of) => Ok(Self::Auto(format!("1/{of}").parse()?)),
            None if text == "auto" => Err(anyhow!(MISSING_COUNT_HINT)
                .with_included_hint(MISSING_COUNT_HINT)
                .reallocate_into_boxed_dyn_error_without_backtrace()),
            None => Ok(Self::Explicit(text.parse()?)),
        }
    }
}

/// Path of the shard's partial in the folder `output`; `None` unless `output` is a folder or ends with a slash.
/// `is_after`: whether the shard belongs to a second stage (`--after`).
pub(super) fn path_in_folder(output: &Path, shard: Shard, is_after: bool) -> Option<PathBuf> {
    let is_folder = output.as_os_str().as_encoded_bytes().ends_with(b"/") || output.is_dir();
    is_folder.then(|| output.join(partial::file_name(shard, is_after)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::printable::is_unprintable;

    fn auto(of: u32, set: &[(&str, &str)]) -> Result<String, String> {
        let asked: ShardArgument = format!("auto/{of}").parse().unwrap();
        let value = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
        asked.resolve_shard(value).map(|shard| shard.to_string()).map_err(|usage| format!("{usage:#}"))
    }

    #[test]
    fn each_engine_counts_as_it_does() {
        assert_eq!(auto(8, &[("SLURM_ARRAY_TASK_ID", "3")]).unwrap(), "3/8");
        assert_eq!(auto(8, &[("JOB_COMPLETION_INDEX", "0")]).unwrap(), "1/8");
        assert_eq!(auto(8, &[("AWS_BATCH_JOB_ARRAY_INDEX", "7")]).unwrap(), "8/8");
    }

    #[test]
    fn a_part_of_an_array_that_is_submitted_again_keeps_its_numbers() {
        let again =
            |id| auto(9, &[("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_MIN", "3"), ("SLURM_ARRAY_TASK_MAX", "9")]);
        assert_eq!(["3", "7", "9"].map(|id| again(id).unwrap()), ["3/9", "7/9", "9/9"]);
    }

    #[test]
    fn an_array_that_is_numbered_otherwise_is_refused_as_a_whole() {
        let of_zero = [("SLURM_ARRAY_TASK_ID", "4"), ("SLURM_ARRAY_TASK_MIN", "0"), ("SLURM_ARRAY_TASK_MAX", "7")];
        let error = auto(8, &of_zero).unwrap_err();
        insta::assert_snapshot!(error, @"--shard auto/8: SLURM_ARRAY_TASK_MIN is `0`, and the jobs of a Slurm array for 8 shards have the numbers 1 to 8");
        let too_many = [("SLURM_ARRAY_TASK_ID", "4"), ("SLURM_ARRAY_TASK_MAX", "9")];
        insta::assert_snapshot!(auto(8, &too_many).unwrap_err(), @"--shard auto/8: SLURM_ARRAY_TASK_MAX is `9`, and the jobs of a Slurm array for 8 shards have the numbers 1 to 8");
        let foreign_numbers = [
            ("SLURM_ARRAY_TASK_ID", "0"),
            ("SLURM_ARRAY_TASK_ID", "9"),
            ("SLURM_ARRAY_TASK_ID", ""),
            ("SLURM_ARRAY_TASK_ID", "-1"),
            ("SLURM_ARRAY_TASK_ID", "4294967295"),
            ("JOB_COMPLETION_INDEX", "8"),
            ("AWS_BATCH_JOB_ARRAY_INDEX", "one"),
        ];
        insta::assert_snapshot!(foreign_numbers.iter().map(|set| auto(8, &[*set]).unwrap_err()).join("\n"), @"
        --shard auto/8: SLURM_ARRAY_TASK_ID is `0`, and the jobs of a Slurm array for 8 shards have the numbers 1 to 8
        --shard auto/8: SLURM_ARRAY_TASK_ID is `9`, and the jobs of a Slurm array for 8 shards have the numbers 1 to 8
        --shard auto/8: SLURM_ARRAY_TASK_ID is ``, and the jobs of a Slurm array for 8 shards have the numbers 1 to 8
        --shard auto/8: SLURM_ARRAY_TASK_ID is `-1`, and the jobs of a Slurm array for 8 shards have the numbers 1 to 8
        --shard auto/8: SLURM_ARRAY_TASK_ID is `4294967295`, and the jobs of a Slurm array for 8 shards have the numbers 1 to 8
        --shard auto/8: JOB_COMPLETION_INDEX is `8`, and the jobs of a Kubernetes Indexed Job for 8 shards have the numbers 0 to 7
        --shard auto/8: AWS_BATCH_JOB_ARRAY_INDEX is `one`, and the jobs of a AWS Batch array for 8 shards have the numbers 0 to 7
        ");
    }

    #[test]
    fn no_engine_and_two_engines_are_refused() {
        insta::assert_snapshot!(auto(8, &[]).unwrap_err(), @"--shard auto/8: this is no job of an array, none of these is set: SLURM_ARRAY_TASK_ID (Slurm array), JOB_COMPLETION_INDEX (Kubernetes Indexed Job), AWS_BATCH_JOB_ARRAY_INDEX (AWS Batch array): say --shard I/8");
        let error = auto(8, &[("SLURM_ARRAY_TASK_ID", "1"), ("JOB_COMPLETION_INDEX", "0")]).unwrap_err();
        insta::assert_snapshot!(error, @"--shard auto/8: SLURM_ARRAY_TASK_ID=1 and JOB_COMPLETION_INDEX=0 are set, so this job has two numbers: say --shard I/8");
    }

    #[test]
    fn a_value_is_shown_in_brief_and_not_obeyed() {
        let hostile = format!("\u{1b}[31mred\u{7}{}", "9".repeat(5000));
        for set in [
            &[("SLURM_ARRAY_TASK_ID", &*hostile)][..],
            &[("JOB_COMPLETION_INDEX", &*hostile), ("SLURM_ARRAY_TASK_ID", "1")],
        ] {
            let error = auto(8, set).unwrap_err();
            assert!(error.contains("\\u{1b}[31mred\\u{7}99"), "{error}");
            assert!(!error.contains(is_unprintable) && error.len() < 400, "{error}");
        }
    }

    #[test]
    fn the_number_of_shards_is_said() {
        assert_eq!("auto".parse::<ShardArgument>().unwrap_err().to_string(), "say of how many shards: auto/N");
        for text in ["auto/", "auto/0", "auto/x", "auto/99999999", "auto/8/8"] {
            assert!(text.parse::<ShardArgument>().is_err(), "{text}");
        }
        assert_eq!("2/3".parse::<ShardArgument>().unwrap(), ShardArgument::Explicit("2/3".parse().unwrap()));
    }
}
