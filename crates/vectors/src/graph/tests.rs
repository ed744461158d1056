use super::*;
use crate::reciprocal_length;

/// A generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn float(&mut self) -> f32 {
        // The sum of several is about normally distributed.
        let sum: u64 = (0..4).map(|_| self.next() % 1000).sum();
        sum as f32 / 1000.0 - 2.0
    }

    /// Vectors around some centers.
    fn clustered(&mut self, count: usize, dimension: usize) -> Vec<Vec<f32>> {
        let centers: Vec<Vec<f32>> =
            (0..20).map(|_| (0..dimension).map(|_| 3.0 * self.float()).collect()).collect();
        let around = |random: &mut Self| {
            let center = &centers[random.next() as usize % centers.len()];
            center.iter().map(|element| element + random.float()).collect()
        };
        (0..count).map(|_| around(self)).collect()
    }
}

fn graph_of(similarity: Similarity, vectors: &[Vec<f32>]) -> Graph {
    let mut graph = Graph::new(similarity, vectors[0].len(), 1);
    for batch in vectors.chunks(64) {
        let first = graph.append(batch.iter().map(Vec::as_slice));
        (first..).take(batch.len()).for_each(|node| graph.connect(node));
    }
    graph
}

/// Returns the nearest living nodes, by comparing all.
fn exact(graph: &Graph, query: &[f32], count: usize) -> Vec<NodeId> {
    let reciprocal = reciprocal_length(query);
    let mut all: Vec<(f32, NodeId)> = (0..graph.len() as NodeId)
        .filter(|node| graph.is_alive(*node))
        .map(|node| (graph.distance(query, reciprocal, node), node))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter().take(count).map(|(_, node)| node).collect()
}

fn recall(graph: &Graph, queries: &[Vec<f32>]) -> f64 {
    let found = |query: &Vec<f32>| {
        let nearest = exact(graph, query, 10);
        let found: Vec<NodeId> = graph.search(query, 100).iter().take(10).map(|found| found.node).collect();
        nearest.iter().filter(|node| found.contains(node)).count()
    };
    let hits: usize = queries.iter().map(found).sum();
    hits as f64 / (10 * queries.len()) as f64
}

#[test]
fn a_graph_finds_the_nearest_vectors_of_every_similarity() {
    let mut random = Random(7);
    let mut vectors = random.clustered(4000, 24);
    let queries = vectors.split_off(3900);
    for similarity in [Similarity::Cosine, Similarity::Euclidean, Similarity::DotProduct] {
        let graph = graph_of(similarity, &vectors);
        let recall = recall(&graph, &queries);
        assert!(recall >= 0.95, "{similarity:?}: {recall}");
    }
}

#[test]
fn dead_nodes_are_not_returned_until_they_are_revived() {
    let mut random = Random(8);
    let vectors = random.clustered(2000, 16);
    let graph = graph_of(Similarity::Euclidean, &vectors);
    for node in (0..2000).filter(|node| node % 3 != 0) {
        graph.kill(node, graph.state(node));
    }
    assert_eq!(graph.dead(), 1333);
    let queries = random.clustered(50, 16);
    assert!(recall(&graph, &queries) >= 0.95);
    assert!(graph.search(&vectors[1], 50).iter().all(|found| found.node % 3 == 0));
    graph.revive(1);
    assert_eq!(graph.search(&vectors[1], 50)[0].node, 1);
    assert_eq!(graph.dead(), 1332);
}

#[test]
fn a_node_that_was_revived_meanwhile_is_not_killed() {
    let graph = graph_of(Similarity::Euclidean, &[vec![1.0], vec![2.0]]);
    let before = graph.state(0);
    graph.revive(0);
    graph.kill(0, before);
    assert!(graph.is_alive(0));
    graph.kill(0, graph.state(0));
    assert!(!graph.is_alive(0));
}

#[test]
fn the_same_seed_makes_the_same_graph() {
    let vectors = Random(9).clustered(1000, 8);
    let (a, b) = (graph_of(Similarity::Cosine, &vectors), graph_of(Similarity::Cosine, &vectors));
    for vector in &vectors[..50] {
        assert_eq!(a.search(vector, 30), b.search(vector, 30));
    }
}

#[test]
fn nodes_are_connected_and_searched_by_several_threads() {
    let mut random = Random(10);
    let vectors = random.clustered(3000, 16);
    let mut graph = Graph::new(Similarity::Cosine, 16, 1);
    graph.append(vectors.iter().map(Vec::as_slice));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (graph, vectors) = (&graph, &vectors);
            scope.spawn(move || {
                for node in (thread..3000).step_by(4) {
                    graph.connect(node);
                    graph.search(&vectors[node as usize], 10);
                }
            });
        }
    });
    let queries = random.clustered(50, 16);
    assert!(recall(&graph, &queries) >= 0.95);
}

#[test]
fn an_empty_graph_finds_nothing() {
    let graph = Graph::new(Similarity::Cosine, 3, 1);
    assert!(graph.is_empty() && graph.search(&[1.0, 2.0, 3.0], 10).is_empty());
}

fn identity(vector: &[f32]) -> u64 {
    vector.iter().fold(0, |hash: u64, element| hash.rotate_left(7) ^ u64::from(element.to_bits()))
}

/// Restores a graph of these vectors from the links of `bytes`.
fn restored(bytes: &[u8], vectors: &[Vec<f32>]) -> Graph {
    let saved = SavedLinks::read(bytes).unwrap();
    let mut graph = Graph::new(Similarity::Cosine, vectors[0].len(), 1);
    let mut nodes = std::collections::HashMap::new();
    for vector in vectors {
        if let Some((number, level)) = saved.find(identity(vector)) {
            nodes.insert(number, graph.append_with_level(vector, level));
        }
    }
    graph.restore(&saved, &nodes);
    graph
}

#[test]
fn a_restored_graph_finds_what_the_saved_one_found() {
    let mut random = Random(11);
    let mut vectors = random.clustered(2000, 16);
    let graph = graph_of(Similarity::Cosine, &vectors);
    let bytes = graph.save(identity);
    let queries = random.clustered(50, 16);
    // In another order, and without a few vectors.
    vectors.reverse();
    vectors.truncate(1950);
    let again = restored(&bytes, &vectors);
    assert_eq!(again.len(), 1950);
    assert!(recall(&again, &queries) >= 0.95);
}

#[test]
fn damaged_links_are_rejected_or_lead_to_saved_nodes() {
    let vectors = Random(12).clustered(100, 4);
    let bytes = graph_of(Similarity::Cosine, &vectors).save(identity);
    for length in 0..bytes.len() {
        assert!(SavedLinks::read(&bytes[..length]).is_none(), "{length} bytes");
    }
    let mut random = Random(13);
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        let at = random.next() as usize % damaged.len();
        damaged[at] ^= 1 << (random.next() % 8);
        if SavedLinks::read(&damaged).is_some() {
            restored(&damaged, &vectors).search(&vectors[0], 10);
        }
    }
}
