//! What `raddle-opt` prints about itself: passes, dialects, and the files generated from the op definitions.

use std::collections::BTreeSet;
use std::io::{self, Write};

use raddle_compiler::pass::registry;
use raddle_dialect::ops;

use crate::options::{Listing, describe};

/// Prints what was asked for; false if nothing was.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(listing: &Listing, out: &mut impl Write) -> io::Result<bool> {
    if listing.list_passes {
        passes(out)?;
    } else if listing.show_dialects {
        writeln!(out, "Available Dialects: {}", dialects().join(","))?;
    } else if listing.dialect_docs {
        write!(out, "{}", ops::docs())?;
    } else if listing.dialect_irdl {
        write!(out, "{}", ops::irdl())?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn passes(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Passes:")?;
    for def in registry::ALL {
        let text = describe(def);
        let mut lines = text.lines();
        writeln!(
            out,
            "  --{:<24} - {}",
            def.name,
            lines.next().unwrap_or_default()
        )?;
        for line in lines.filter(|line| !line.is_empty()) {
            writeln!(out, "      {line}")?;
        }
    }
    Ok(())
}

/// The dialects that have registered ops.
fn dialects() -> Vec<&'static str> {
    let names: BTreeSet<_> = ops::definitions()
        .filter_map(|def| def.name.split_once('.'))
        .map(|(dialect, _)| dialect)
        .collect();
    names.into_iter().collect()
}
