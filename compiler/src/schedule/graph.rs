//! A graph of timed nodes: earliest starts by longest path, or the shortest ring of waits.

use std::collections::VecDeque;

/// Nodes with durations and "starts after the end of, plus a lag" edges.
#[derive(Clone, Debug, Default)]
pub struct TimedGraph {
    durations: Vec<f64>,
    edges: Vec<(u32, u32, f64)>,
}

/// Edges of work spent on looking for a shorter ring; beyond it the shortest found so far is given.
const RING_SEARCH_EDGES: usize = 20_000_000;

impl TimedGraph {
    /// Adds a node and gives its number.
    pub fn node(&mut self, duration: f64) -> u32 {
        self.durations.push(duration);
        (self.durations.len() - 1) as u32
    }

    /// Lets `after` start no earlier than `lag` past the end of `before`.
    pub fn edge(&mut self, before: u32, after: u32, lag: f64) {
        self.edges.push((before, after, lag));
    }

    /// The duration of a node.
    pub fn duration(&self, node: u32) -> f64 {
        self.durations[node as usize]
    }

    /// All edges as (before, after, lag).
    pub fn edges(&self) -> &[(u32, u32, f64)] {
        &self.edges
    }

    /// Earliest starts from time 0.
    ///
    /// # Errors
    /// Where there is a cycle, the shortest one, in waiting order: each node waits for the one before it.
    pub fn earliest_starts(&self) -> Result<Vec<f64>, Vec<u32>> {
        let n = self.durations.len();
        let (first, targets) = self.successors();
        let mut waits = vec![0u32; n];
        for (_, after, _) in &self.edges {
            waits[*after as usize] += 1;
        }
        let mut start = vec![0.0f64; n];
        let mut ready: VecDeque<usize> = (0..n).filter(|i| waits[*i] == 0).collect();
        let mut done = 0;
        while let Some(i) = ready.pop_front() {
            done += 1;
            let end = start[i] + self.durations[i];
            for (after, lag) in &targets[first[i]..first[i + 1]] {
                let after = *after as usize;
                start[after] = start[after].max(end + lag);
                waits[after] -= 1;
                if waits[after] == 0 {
                    ready.push_back(after);
                }
            }
        }
        if done == n {
            Ok(start)
        } else {
            Err(self.shortest_ring(&waits, &first, &targets))
        }
    }

    fn successors(&self) -> (Vec<usize>, Vec<(u32, f64)>) {
        let n = self.durations.len();
        let mut first = vec![0usize; n + 1];
        for (before, _, _) in &self.edges {
            first[*before as usize + 1] += 1;
        }
        for i in 0..n {
            first[i + 1] += first[i];
        }
        let mut next = first.clone();
        let mut targets = vec![(0u32, 0.0); self.edges.len()];
        for (before, after, lag) in &self.edges {
            targets[next[*before as usize]] = (*after, *lag);
            next[*before as usize] += 1;
        }
        (first, targets)
    }

    /// Breadth first from every node that is stuck, never deeper than the best ring so far. Nodes that only wait for a
    /// ring without being in one are taken away first.
    fn shortest_ring(&self, waits: &[u32], first: &[usize], targets: &[(u32, f64)]) -> Vec<u32> {
        let n = self.durations.len();
        let mut stuck: Vec<bool> = waits.iter().map(|w| *w > 0).collect();
        let mut out: Vec<u32> = (0..n)
            .map(|i| {
                targets[first[i]..first[i + 1]]
                    .iter()
                    .filter(|(t, _)| stuck[*t as usize])
                    .count() as u32
            })
            .collect();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (b, a, _) in &self.edges {
            before[*a as usize].push(*b);
        }
        let mut leaves: Vec<usize> = (0..n).filter(|i| stuck[*i] && out[*i] == 0).collect();
        while let Some(i) = leaves.pop() {
            stuck[i] = false;
            for b in &before[i] {
                let b = *b as usize;
                if stuck[b] {
                    out[b] -= 1;
                    if out[b] == 0 {
                        leaves.push(b);
                    }
                }
            }
        }
        let mut best: Vec<u32> = Vec::new();
        let mut seen_from = vec![u32::MAX; n];
        let mut parent = vec![0u32; n];
        let mut budget = RING_SEARCH_EDGES;
        for origin in (0..n).filter(|i| stuck[*i]) {
            if !best.is_empty() && budget == 0 {
                break;
            }
            let mut queue = VecDeque::from([(origin, 1usize)]);
            seen_from[origin] = origin as u32;
            'search: while let Some((i, length)) = queue.pop_front() {
                if !best.is_empty() && length >= best.len() {
                    break;
                }
                for (after, _) in &targets[first[i]..first[i + 1]] {
                    budget = budget.saturating_sub(1);
                    let a = *after as usize;
                    if a == origin {
                        let mut ring = vec![i as u32];
                        while ring[ring.len() - 1] as usize != origin {
                            ring.push(parent[ring[ring.len() - 1] as usize]);
                        }
                        ring.reverse();
                        best = ring;
                        break 'search;
                    }
                    if stuck[a] && seen_from[a] != origin as u32 {
                        seen_from[a] = origin as u32;
                        parent[a] = i as u32;
                        queue.push_back((a, length + 1));
                    }
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::TimedGraph;

    #[test]
    fn longest_path_decides() {
        let mut graph = TimedGraph::default();
        let [a, b, c] = [2.0, 3.0, 1.0].map(|d| graph.node(d));
        graph.edge(a, c, 0.5);
        graph.edge(b, c, 0.0);
        assert_eq!(graph.earliest_starts(), Ok(vec![0.0, 0.0, 3.0]));
    }

    #[test]
    fn the_shorter_of_two_rings_is_found() {
        let mut graph = TimedGraph::default();
        let n: Vec<u32> = (0..6).map(|_| graph.node(1.0)).collect();
        for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 2), (4, 5)] {
            graph.edge(n[a], n[b], 0.0);
        }
        let mut ring = graph.earliest_starts().expect_err("there are rings");
        ring.sort_unstable();
        assert_eq!(ring, [2, 4]);
    }
}
