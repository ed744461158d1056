//! Files of experiments (TOML) and of YCSB's properties.

use cassette_lab::experiments::ExperimentFile;
use cassette_lab::ycsb::CoreWorkload;

use super::split;
use crate::Target;

pub const TARGET: Target = Target {
    name: "experiments",
    run,
    seeds,
    words: &[
        b"[[engine]]",
        b"[[workload]]",
        b"[matrix]",
        b"= ",
        b"\"",
        b"'''",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\n",
        b"#",
        b"repeats",
        b"inf",
        b"nan",
        b"1e400",
        b"-1",
        b"9223372036854775808",
    ],
    inputs: 1500,
};

fn run(input: &[u8]) {
    let (mode, text) = split(input);
    let text = String::from_utf8_lossy(text);
    if mode == 1 {
        if let Some(mut workload) = CoreWorkload::core('a')
            && workload.set_file(&text).is_ok()
        {
            drop(workload.check());
        }
        return;
    }
    if let Err(error) = ExperimentFile::parse(&text) {
        let lines = text.split('\n').count();
        assert!((1..=lines).contains(&error.line), "line {} of {lines}: {}", error.line, error.message);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let builtin = cassette_lab::experiments::builtin::BUILT_IN;
    let mut seeds: Vec<Vec<u8>> = builtin.iter().map(|(_, text)| [&[0], text.as_bytes()].concat()).collect();
    seeds.push(
        b"\x01recordcount=1000\nreadproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian\n# x\n"
            .to_vec(),
    );
    seeds
}
