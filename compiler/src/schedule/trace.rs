//! A timeline as Chrome trace JSON, for `chrome://tracing` and Perfetto: one process per rank with a compute thread, a
//! communication thread, and a counter of activation memory. One unit of cost is shown as one microsecond.

use std::fmt::Write;

use super::action::{Action, Compute, Direction};
use super::cost::Memory;
use super::list::Schedule;
use super::memory::memory_curve;
use super::simulate::Timeline;

/// Writes the trace.
pub fn write_trace(schedule: &Schedule, timeline: &Timeline, memory: &Memory) -> String {
    let mut events: Vec<String> = Vec::new();
    for (r, list) in schedule.ranks().iter().enumerate() {
        events.push(format!(
            r#"{{"name":"process_name","ph":"M","pid":{r},"args":{{"name":"rank {r}"}}}}"#
        ));
        events.push(format!(
            r#"{{"name":"process_sort_index","ph":"M","pid":{r},"args":{{"sort_index":{r}}}}}"#
        ));
        events.push(format!(
            r#"{{"name":"thread_name","ph":"M","pid":{r},"tid":0,"args":{{"name":"compute"}}}}"#
        ));
        let curve = memory_curve(list, memory);
        for ((action, interval), held) in list.iter().zip(&timeline.computes[r]).zip(&curve) {
            let Some(t) = interval else { continue };
            let (ts, dur) = (t.start, t.end - t.start);
            let mut event = String::new();
            let _ = write!(
                event,
                r#"{{"name":"{action}","cat":"{}","ph":"X","pid":{r},"tid":0,"ts":{ts},"dur":{dur}"#,
                category(action),
            );
            if let [op, ..] = action.ops() {
                let _ = write!(
                    event,
                    r#","args":{{"stage":{},"microbatch":{}}}"#,
                    op.stage.0, op.microbatch.0,
                );
            }
            event.push('}');
            events.push(event);
            let counter = |ts: f64, held: f64| {
                format!(
                    r#"{{"name":"activations","ph":"C","pid":{r},"ts":{ts},"args":{{"held":{held:.6}}}}}"#
                )
            };
            events.push(counter(ts, held[0]));
            events.push(counter(t.end, held[1]));
        }
    }
    for (n, t) in timeline.transfers.iter().enumerate() {
        let from = schedule.stage_rank()[t.sender.index()].0;
        let to = schedule.stage_rank()[t.receiver.index()].0;
        let (ts, dur) = (t.interval.start, t.interval.end - t.interval.start);
        let word = if t.direction == Direction::Forward {
            "activation"
        } else {
            "gradient"
        };
        for (rank, verb) in [(from, "send"), (to, "receive")] {
            events.push(format!(
                r#"{{"name":"{verb} {}{}","cat":"{word}","ph":"X","pid":{rank},"tid":1,"ts":{ts},"dur":{dur}}}"#,
                t.direction.letter(),
                t.microbatch.0,
            ));
        }
        events.push(format!(
            r#"{{"name":"{word}","cat":"flow","ph":"s","id":{n},"pid":{from},"tid":1,"ts":{ts}}}"#
        ));
        events.push(format!(
            r#"{{"name":"{word}","cat":"flow","ph":"f","bp":"e","id":{n},"pid":{to},"tid":1,"ts":{}}}"#,
            t.interval.end
        ));
    }
    format!(
        "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
        events.join(",\n")
    )
}

fn category(action: &Action) -> &'static str {
    match action {
        Action::Overlap(_) => "overlap",
        Action::Compute(op) => match op.kind {
            Compute::Forward => "forward",
            Compute::InputGrad => "input gradient",
            Compute::WeightGrad => "weight gradient",
            Compute::Backward => "backward",
        },
        _ => "optimizer",
    }
}
