//! Validation of an experiment file: known names, and consistent values.

use clap::ValueEnum;
use toml::Spanned;

use super::file::{EngineSpec, ExperimentFile, PhaseSpec, WorkloadSpec, consistency};
use crate::engine::EngineKind;

impl ExperimentFile {
    /// Validates what serde cannot: known names, and consistent values. Returns the position of an
    /// error.
    ///
    /// The order of the checks is that of the file's sections, so that the first error reported is
    /// the first one in the text.
    pub(super) fn check(&self) -> Result<(), (usize, String)> {
        let name_ok = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        if !name_ok(self.name.get_ref()) {
            return Err((self.name.span().start, "a name is made of letters, digits, - and _".into()));
        }
        if *self.repeats.get_ref() == 0 {
            return Err((self.repeats.span().start, "repeats must be at least 1".into()));
        }
        check_engines(&self.engine)?;
        let engines: Vec<&str> = self.engine.iter().map(|engine| engine.get_ref().label()).collect();
        let known_engine = |name: &Spanned<String>| {
            if engines.contains(&name.get_ref().as_str()) {
                Ok(())
            } else {
                Err((
                    name.span().start,
                    format!("no engine is called {:?}; there are: {}", name.get_ref(), engines.join(", ")),
                ))
            }
        };
        let mut seen = Vec::new();
        for configuration in &self.configuration {
            let at = configuration.span().start;
            let configuration = configuration.get_ref();
            if seen.contains(&&configuration.name) {
                return Err((at, format!("two configurations are called {:?}", configuration.name)));
            }
            seen.push(&configuration.name);
            configuration.engines.iter().try_for_each(known_engine)?;
        }
        for (name, values) in &self.matrix {
            let at = values.span().start;
            if values.get_ref().is_empty() {
                return Err((at, format!("{name} has no value: the matrix would be empty")));
            }
            let distinct = values.get_ref().iter().enumerate();
            for (index, value) in distinct {
                if values.get_ref()[..index].contains(value) {
                    return Err((at, format!("{name} has the value {value} twice")));
                }
            }
        }
        check_workloads(&self.workload)?;
        for phase in &self.phase {
            let at = phase.span().start;
            let phase = phase.get_ref();
            phase.engines.iter().try_for_each(known_engine)?;
            phase.check().map_err(|message| (at, message))?;
            if let Some(name) = phase.workload()
                && !self.workload.iter().any(|workload| workload.get_ref().name == name)
            {
                return Err((at, format!("no workload is called {name:?}")));
            }
        }
        let measured = |phase: &Spanned<PhaseSpec>| phase.get_ref().workload().is_some();
        if !self.phase.iter().any(measured) {
            return Err((0, "no phase loads, runs or searches: nothing would be measured".into()));
        }
        if let Some(baseline) = &self.baseline
            && !self.configuration.iter().any(|known| known.get_ref().name == *baseline.get_ref())
            && self.matrix.is_empty()
        {
            let at = baseline.span().start;
            return Err((at, format!("no configuration is called {:?}", baseline.get_ref())));
        }
        Ok(())
    }
}

fn check_engines(engines: &[Spanned<EngineSpec>]) -> Result<(), (usize, String)> {
    for (index, engine) in engines.iter().enumerate() {
        let at = engine.span().start;
        let engine = engine.get_ref();
        let kinds: Vec<String> = EngineKind::value_variants()
            .iter()
            .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
            .collect();
        if engine.kind().is_none() {
            let message = format!(
                "no kind of engine is called {:?}; there are: {}",
                engine.kind.get_ref(),
                kinds.join(", ")
            );
            return Err((engine.kind.span().start, message));
        }
        if engines[..index].iter().any(|other| other.get_ref().label() == engine.label()) {
            return Err((at, format!("two engines are called {:?}", engine.label())));
        }
        if engine.kind() == Some(EngineKind::Cql) && engine.contact.is_empty() {
            return Err((at, "an engine of kind cql needs its contact: [\"127.0.0.1:9042\"]".into()));
        }
        engine.check_security().map_err(|message| (at, message))?;
        if let Some(level) = &engine.consistency {
            consistency(level)?;
        }
    }
    if engines.is_empty() {
        return Err((0, "there is no engine to measure".into()));
    }
    Ok(())
}

fn check_workloads(workloads: &[Spanned<WorkloadSpec>]) -> Result<(), (usize, String)> {
    for (index, workload) in workloads.iter().enumerate() {
        let at = workload.span().start;
        let workload = workload.get_ref();
        if workloads[..index].iter().any(|other| other.get_ref().name == workload.name) {
            return Err((at, format!("two workloads are called {:?}", workload.name)));
        }
        if let Some(letter) = &workload.ycsb
            && !["a", "b", "c", "d", "e", "f"].contains(&letter.get_ref().as_str())
        {
            let message =
                format!("unknown core workload {:?}: expected a, b, c, d, e or f", letter.get_ref());
            return Err((letter.span().start, message));
        }
        let of_statements = !workload.schema.is_empty();
        if of_statements == (workload.ycsb.is_some() || !workload.property_files.is_empty()) {
            return Err((at, "a workload is either YCSB's (ycsb, property-files) or has a schema".into()));
        }
        if of_statements && workload.insert.is_none() {
            return Err((at, "a workload with a schema needs an insert".into()));
        }
        if !of_statements && (!workload.operation.is_empty() || workload.insert.is_some()) {
            return Err((at, "statements need a schema".into()));
        }
        for operation in workload.insert.iter().chain(&workload.operation) {
            if operation.cql.is_some() != operation.steps.is_empty() {
                return Err((at, "an operation has either cql or steps".into()));
            }
            let steps = operation.steps.iter().filter_map(|step| step.consistency.as_ref());
            for level in operation.consistency.iter().chain(steps) {
                consistency(level)?;
            }
        }
    }
    Ok(())
}

impl EngineSpec {
    /// Validates the settings of logins and TLS.
    fn check_security(&self) -> Result<(), String> {
        use EngineKind::{Cassandra, Cells, Cql, Served};
        let has_server = matches!(self.kind(), Some(Cassandra | Cells | Cql | Served));
        for (name, is_set, required, is_met) in [
            (
                "user",
                self.user.is_some(),
                "a kind that is a server: cells, cql, served or cassandra",
                has_server,
            ),
            (
                "tls-ca",
                self.tls_ca.is_some(),
                "a kind that is a server: cells, cql, served or cassandra",
                has_server,
            ),
            ("password-file", self.password_file.is_some(), "user", self.user.is_some()),
            ("tls-certificate", self.tls_certificate.is_some(), "tls-ca", self.tls_ca.is_some()),
            ("tls-key", self.tls_key.is_some(), "tls-certificate", self.tls_certificate.is_some()),
            (
                "metrics-token-file",
                self.metrics_token_file.is_some(),
                "metrics of kind cql, or kind served",
                self.kind() == Some(Served) || (self.kind() == Some(Cql) && self.metrics.is_some()),
            ),
            (
                "metrics with https",
                self.metrics.as_ref().is_some_and(|address| address.starts_with("https://")),
                "tls-ca",
                self.tls_ca.is_some(),
            ),
        ] {
            if is_set && !is_met {
                return Err(format!("{name} needs {required}"));
            }
        }
        Ok(())
    }
}

impl PhaseSpec {
    fn check(&self) -> Result<(), String> {
        let kinds = [
            self.load.is_some(),
            self.run.is_some(),
            self.search.is_some(),
            self.cql.is_some(),
            self.action.is_some(),
            self.wait.is_some(),
        ];
        if kinds.iter().filter(|given| **given).count() != 1 {
            return Err("a phase is exactly one of load, run, search, cql, action and wait".into());
        }
        let positive = [
            ("seconds", self.seconds),
            ("rate", self.rate),
            ("rate-to", self.rate_to),
            ("p99-us", self.p99_us),
            ("threads", self.threads.map(|threads| threads as f64)),
        ];
        for (name, value) in positive {
            if value.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
                return Err(format!("{name} must be above 0"));
            }
        }
        for (name, value) in [("wait", self.wait), ("warm-up", self.warm_up)] {
            if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                return Err(format!("{name} must be 0 or more seconds"));
            }
        }
        if self.rate_to.is_some() && (self.rate.is_none() || self.seconds.is_none()) {
            return Err("rate-to needs the rate at the beginning, and seconds".into());
        }
        if self.search.is_some() != self.p99_us.is_some() {
            return Err("a search needs p99-us, the bound to keep, and only a search has it".into());
        }
        if self.search.is_some() && self.seconds.is_none() {
            return Err("a search needs seconds, for each rate it tries".into());
        }
        if (self.load.is_some() || self.search.is_some()) && self.rate.is_some() {
            return Err("only a run has a rate".into());
        }
        Ok(())
    }
}
