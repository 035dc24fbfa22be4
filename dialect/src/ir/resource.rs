//! Resources: named data outside the program's text proper, in the `{-# … #-}` trailer of a file.

use super::context::Ident;

/// A resource's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResourceValue {
    /// `true`
    Bool(bool),
    /// `"text"`
    String(Box<[u8]>),
    /// `"0x04000000…"`: four little-endian bytes of alignment, then the data.
    Blob {
        /// Alignment in bytes; a power of two, or 0.
        align: u32,
        /// The data.
        bytes: Box<[u8]>,
    },
}

/// The resources under one name, in the order of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceGroup {
    /// A dialect for dialect resources; anything for external ones.
    pub owner: Ident,
    /// Keys and values.
    pub entries: Vec<(Ident, ResourceValue)>,
}

/// All resources of a file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Resources {
    /// `dialect_resources`: what `dense_resource<key>` names. Only those that the program names are printed.
    pub dialects: Vec<ResourceGroup>,
    /// `external_resources`: other tools' data, kept as they are.
    pub external: Vec<ResourceGroup>,
}

impl Resources {
    /// The dialect resource that `dense_resource<key>` names, if the text had one; of several the last.
    pub fn dialect_resource(&self, dialect: Ident, key: Ident) -> Option<&ResourceValue> {
        let groups = self.dialects.iter().filter(|g| g.owner == dialect);
        groups
            .flat_map(|g| &g.entries)
            .rfind(|e| e.0 == key)
            .map(|e| &e.1)
    }
}
