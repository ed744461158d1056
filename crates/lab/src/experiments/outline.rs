//! What a run would do, before it starts: parts, phases, disk space and time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::file::{ExperimentFile, PhaseSpec};
use super::perform::{ReadyWorkload, planned_operations, planned_seconds, workloads};
use super::plan::{Plan, Setup};
use super::store::PartResult;
use crate::LabError;
use crate::format::{bytes, duration, grouped};

/// Returns the outline of a run. `text` is the source of `file`; `earlier` are the parts of earlier
/// runs at the same scale, from which the time is estimated.
///
/// # Errors
/// If a workload cannot be prepared.
pub fn outline(
    file: &ExperimentFile,
    text: &str,
    plan: &Plan,
    scale: f64,
    earlier: &[PartResult],
) -> Result<String, LabError> {
    let mut out = format!("{}: {}\n\n{}\n", file.name.get_ref(), file.title, file.description.trim());
    let _ = writeln!(out, "\n{} parts at scale {scale}, in this order:", plan.parts.len());
    for part in &plan.parts {
        let _ = writeln!(out, "  {:>3}  repeat {}: {}", part.number, part.repeat, part.label());
    }
    let _ = writeln!(out, "\nconfigurations:");
    for setup in &plan.setups {
        let options = setup.options.iter().map(|(name, value)| format!("{name}={value}"));
        let settings: Vec<String> =
            options.chain((!setup.table.is_empty()).then(|| setup.table.clone())).collect();
        let settings = if settings.is_empty() { "defaults".to_owned() } else { settings.join(" ") };
        let _ = writeln!(out, "  {}, {}: {settings}", setup.engine.label(), setup.configuration);
    }
    let _ = writeln!(out, "\nphases:");
    let mut disk = 0;
    for setup in &plan.setups {
        let ready = workloads(file, setup, scale)?;
        disk =
            disk.max(file.phase.iter().map(|phase| loaded_bytes(phase.get_ref(), &ready)).max().unwrap_or(0));
    }
    if let Some(setup) = plan.setups.first() {
        let ready = workloads(file, setup, scale)?;
        for phase in &file.phase {
            let phase = phase.get_ref();
            let only: Vec<&str> = phase.engines.iter().map(|name| name.get_ref().as_str()).collect();
            let only = if only.is_empty() { String::new() } else { format!(" (only {})", only.join(", ")) };
            let _ = writeln!(out, "  {}{only}{}", phase.label(), described(phase, &ready, scale));
        }
    }
    if disk > 0 {
        let _ = writeln!(
            out,
            "\ndisk: at least {} for the records of a part; it is freed after each",
            bytes(disk)
        );
    }
    let _ = writeln!(out, "time: {}", time(file, plan, scale, earlier));
    for note in unmeasured(file, text, plan) {
        let _ = writeln!(out, "{note}");
    }
    Ok(out)
}

/// Returns a line for each engine of the file that the plan leaves out: how to measure it, or why
/// this build cannot.
pub fn unmeasured(file: &ExperimentFile, text: &str, plan: &Plan) -> Vec<String> {
    let is_measured = |label: &str| plan.setups.iter().any(|setup| setup.engine.label() == label);
    let labels = file.engine.iter().map(|engine| engine.get_ref().label());
    let note = |label: &str| match Plan::new(file, text, &[label.to_owned()]) {
        Ok(_) => format!("not measured: {label}; `--engine {label}` does"),
        Err(error) => format!("not measured: {label}: {}", error.message),
    };
    labels.filter(|label| !is_measured(label)).map(note).collect()
}

/// Returns the bytes of the values that a phase loads; 0 if it loads none, or if statements
/// determine them.
fn loaded_bytes(phase: &PhaseSpec, ready: &BTreeMap<String, ReadyWorkload>) -> u64 {
    let workload = phase.load.as_ref().and_then(|name| ready.get(name));
    workload.map_or(0, |workload| workload.records().saturating_mul(workload.record_bytes().unwrap_or(0)))
}

/// Describes how much work a phase is; empty for phases without operations.
fn described(phase: &PhaseSpec, ready: &BTreeMap<String, ReadyWorkload>, scale: f64) -> String {
    let Some(workload) = phase.workload().and_then(|name| ready.get(name)) else { return String::new() };
    let mut parts = Vec::new();
    if phase.load.is_some() {
        let size = workload.record_bytes().map_or_else(String::new, |size| format!(" of {}", bytes(size)));
        parts.push(format!("{} records{size}", grouped(workload.records())));
    } else {
        let operations = planned_operations(phase, workload.core(), scale);
        parts.extend(operations.map(|operations| format!("{} operations", grouped(operations))));
        parts.extend(planned_seconds(phase, scale).map(|seconds| {
            let most = if operations.is_some() { "at most " } else { "" };
            format!("{most}{seconds} s")
        }));
    }
    if let Some(bound) = phase.p99_us {
        parts.push(format!("for each rate, until p99 exceeds {bound} µs"));
    }
    if let Some(rate) = phase.rate {
        parts.push(phase.rate_to.map_or(format!("{rate}/s"), |to| format!("{rate} to {to}/s")));
    }
    parts.push(format!("{} in flight", phase.threads.unwrap_or(1)));
    format!(": {}", parts.join(", "))
}

/// Estimates the time of all parts: from earlier runs of the same parts, or from the phases with a
/// duration.
fn time(file: &ExperimentFile, plan: &Plan, scale: f64, earlier: &[PartResult]) -> String {
    let mut total = 0.0;
    let mut is_known = !plan.parts.is_empty();
    for part in &plan.parts {
        let same = earlier.iter().filter(|old| old.stopped.is_none() && old.part.label() == part.label());
        let seconds: Vec<f64> = same.map(|old| old.seconds).collect();
        is_known &= !seconds.is_empty();
        total += seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
    }
    if is_known {
        return format!("about {}, as earlier runs", duration(Duration::from_secs_f64(total)));
    }
    let applies = |phase: &PhaseSpec, setup: &Setup| {
        phase.engines.is_empty() || phase.engines.iter().any(|name| name.get_ref() == setup.engine.label())
    };
    let mut least = 0.0;
    let mut is_open = false;
    for setup in plan.parts.iter().filter_map(|part| plan.setup(part)) {
        for phase in file.phase.iter().map(toml::Spanned::get_ref).filter(|phase| applies(phase, setup)) {
            match planned_seconds(phase, scale) {
                Some(seconds) if phase.operations.is_none() => least += seconds,
                _ => is_open |= phase.workload().is_some() || phase.action.is_some(),
            }
        }
    }
    let text = duration(Duration::from_secs_f64(least));
    match (is_open, least > 0.0) {
        (true, true) => {
            format!("at least {text}; phases without a duration last as long as the engines need for them")
        }
        (true, false) => "as long as the engines need for the operations; no phase has a duration".to_owned(),
        (false, _) => format!("about {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::part;
    use crate::experiments::builtin;
    use crate::experiments::file::tests::NOOP;

    fn outlined(text: &str, earlier: &[PartResult]) -> String {
        let file = ExperimentFile::parse(text).unwrap();
        let plan = Plan::new(&file, text, &[]).unwrap();
        outline(&file, text, &plan, 10.0, earlier).unwrap()
    }

    #[test]
    fn the_outline_has_the_order_the_work_the_space_and_the_time() {
        let text = outlined(NOOP, &[]);
        for line in [
            "4 parts at scale 10, in this order:",
            "    1  repeat 1: noop, ",
            "    4  repeat 2: noop, ",
            "  noop, two: defaults",
            "  load a: 1,000 records of 1.0 kB, 1 in flight",
            "  run a: 2,000 operations, 2 in flight",
            "disk: at least 1.0 MB for the records of a part; it is freed after each",
            "time: as long as the engines need",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_time_is_that_of_earlier_parts_or_of_the_phases() {
        let timed =
            NOOP.replace("load = \"a\"", "wait = 600").replace("threads = 2", "threads = 2\nseconds = 30");
        let text = outlined(&timed, &[]);
        assert!(
            text.contains("run a: 30 s, 2 in flight") && text.contains("time: about 42 min 0 s\n"),
            "{text}"
        );
        let stopped = PartResult { stopped: Some("interrupted".into()), ..part(3, "two", 1.0) };
        let text = outlined(&timed, &[part(1, "one", 1.0), stopped.clone()]);
        assert!(text.contains("time: about 42 min"), "{text}");
        let text = outlined(&timed, &[part(1, "one", 1.0), part(2, "two", 1.0), stopped]);
        assert!(text.contains("time: about 40 s, as earlier runs\n"), "{text}");
    }

    #[test]
    fn engines_that_are_left_out_are_named_with_what_measures_them() {
        let text = NOOP.replace(
            "[[configuration]]\nname = \"one\"",
            "[[engine]]\nkind = \"embedded\"\noptional = true\n\n[[engine]]\nkind = \"fjall\"\noptional = true\n\n\
             [[configuration]]\nname = \"one\"",
        );
        let text = outlined(&text, &[]);
        assert!(text.contains("not measured: embedded; `--engine embedded` does\n"), "{text}");
        let fjall = if cfg!(feature = "fjall") { "`--engine fjall` does" } else { "`--features fjall`" };
        assert!(text.contains("not measured: fjall") && text.contains(fjall), "{text}");
    }

    #[test]
    fn every_built_in_experiment_has_an_outline() {
        for (name, text) in builtin::BUILT_IN {
            let file = ExperimentFile::parse(text).unwrap();
            // Engines that this build does not have are those of other tests.
            let Ok(plan) = Plan::new(&file, text, &[]) else { continue };
            assert!(
                outline(&file, text, &plan, 1.0, &[]).is_ok_and(|text| text.contains("time: ")),
                "{name}"
            );
        }
    }
}
