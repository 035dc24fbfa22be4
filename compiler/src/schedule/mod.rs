//! Pipeline schedules: one file per kind, one simulator, one proof, one search.
