//! Messages between the driver of `cassette lab run` and its agents.
//!
//! ```text
//! u8 0: a message to an agent; else: a message of one
//! the message
//! ```

use cassette_lab::agents::job::Job;
use cassette_lab::agents::message::{FromAgent, ToAgent};

use super::split;
use crate::Target;

pub const TARGET: Target = Target {
    name: "agents",
    run,
    seeds,
    words: &[
        b"{\"job\":",
        b"\"finished\":",
        b"\"slices\":",
        b"\"response\":",
        b"\"kind\":",
        b"{\"Named\":255}",
        b"[[",
        b"]]",
        b",",
        b"null",
        b"-1",
        b"1e999",
        b"9007199254740992",
        b"18446744073709551615",
    ],
    inputs: 1500,
};

/// Each histogram has a fixed size, so many of them exceed what an input may allocate.
const HISTOGRAMS_MAX: usize = 50;

fn run(input: &[u8]) {
    let (side, text) = split(input);
    if side == 0 {
        if let Ok(ToAgent::Job(job)) = serde_json::from_slice(text)
            && job.check().is_ok()
        {
            if let Some(statements) = &job.statements {
                drop(statements.build());
            }
            let again = serde_json::to_vec(&job).expect("a job that was read");
            let again: Job = serde_json::from_slice(&again).expect("a job that was written");
            // The last digit of a rate may differ.
            assert_eq!(
                (&job.client, &job.properties, job.keys),
                (&again.client, &again.properties, again.keys)
            );
        }
        return;
    }
    let histograms = text.windows(b"\"response\"".len()).filter(|word| *word == b"\"response\"").count();
    if let Ok(FromAgent::Finished(finished)) = serde_json::from_slice(text)
        && histograms <= HISTOGRAMS_MAX
        && let Ok(recorder) = finished.records.recorder()
    {
        assert_eq!(recorder.operations, finished.records.operations());
        assert_eq!(recorder.operations_from(0), recorder.operations);
        // Two agents may have the same results.
        let mut merged = finished.records.recorder().expect("records that were read");
        merged.merge(&recorder);
        assert_eq!(merged.operations, 2 * recorder.operations);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let job = br#"{"job":{"phase":"run a","client":{"contacts":["db:9042"],"connections":2,"protocol":5,
        "keyspace":"ycsb","consistency":"QUORUM","login":false,"tls":true},
        "properties":{"recordcount":"1000","readproportion":"0.5"},
        "statements":{"create":["CREATE TABLE lab.t (k text PRIMARY KEY)"],"drop":[],
        "values":{"k":{"type":"text","from":"number","format":"user{}"}},
        "operations":[{"name":"INSERT","weight":0.0,"inserts":true,
        "steps":[{"cql":"INSERT INTO lab.t (k) VALUES (:k)","consistency":null,"expect":"any"}]}]},
        "keys":{"run":{"bounds":{"end":1000,"next":1010},"turn":1,"agents":3}},"seed":7,"in_flight":16,"workers":2,
        "first_worker":2,"all_workers":6,"operations":100000,"seconds":60.0,"rate":[1000.0,2000.0]}}"#;
    let finished = br#"{"finished":{"records":{"slices":[{"operations":3,"latencies":[
        {"kind":"Read","response":[[1023,2],[4000000,1]],"service":[[1000,3]]},{"kind":{"Named":3},"response":[]}]}],
        "failures":{"timeout":{"count":1,"first":"x"}},"operations":3,"failed":1,"rows":3,"bytes":300},
        "seconds":1.5,"new_keys":4,"process":{"role":"laboratory","pid":7,"user_seconds":0.5,"system_seconds":0.1,
        "rss_bytes_max":1000000,"threads":3}}}"#;
    let progress = br#"{"progress":{"buckets":[[70,5],[71,6]],"failures":1}}"#;
    let with = |side: u8, text: &[u8]| [&[side], text].concat();
    vec![with(0, job), with(1, finished), with(1, progress), with(0, b"\"clock\"")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_valid_messages() {
        let seeds = seeds();
        let ToAgent::Job(job) = serde_json::from_slice(&seeds[0][1..]).unwrap() else { panic!("no job") };
        job.check().unwrap();
        job.statements.unwrap().build().unwrap();
        let FromAgent::Finished(finished) = serde_json::from_slice(&seeds[1][1..]).unwrap() else {
            panic!("no result")
        };
        finished.records.recorder().unwrap();
        serde_json::from_slice::<FromAgent>(&seeds[2][1..]).unwrap();
        serde_json::from_slice::<ToAgent>(&seeds[3][1..]).unwrap();
    }
}
