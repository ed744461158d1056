//! What nodes of Cassandra send to a sender of SSTables, which decodes it piece by piece.

use cassette_migration::fuzzing::Message;

use crate::Target;

pub const TARGET: Target = Target {
    name: "streams",
    run,
    seeds,
    words: &[&[8, 0, 0, 0, 1], &[8, 0, 0, 0, 0], &[3], &[5], &[6], &[7], &ID],
    inputs: 20_000,
};

const ID: [u8; 16] = [7; 16];

fn run(mut input: &[u8]) {
    while let Ok(Some((message, length))) = Message::decode(input) {
        assert!((1..=input.len()).contains(&length));
        for received in [0, 1, length / 2, length - 1].into_iter().filter(|received| *received < length) {
            assert_eq!(Message::decode(&input[..received]), Ok(None), "{received} bytes of {message:?}");
        }
        assert_eq!(Message::decode(&input[..length]), Ok(Some((message, length))));
        input = &input[length..];
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let received = [&[3][..], &ID, &[0, 0, 0, 7]].concat();
    let prepared = [&[8, 0, 0, 0, 1][..], &ID, &[0, 0, 0, 2], &[0; 8]].concat();
    let session = [&prepared[..], &[7], &received, &[5, 6]].concat();
    vec![session, vec![8, 0, 0, 0, 0, 5]]
}
