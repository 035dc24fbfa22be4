//! Resources: the `{-# … #-}` at the end of a file.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::super::error::{Failure, fail, report};
use super::super::text::hex_bytes;
use super::super::token::{Kind, Tok};
use super::Builder;
use crate::diag::Diagnostic;
use crate::ir::{Ident, ResourceGroup, ResourceValue};

/// Which part of the metadata is being read.
#[derive(Default)]
pub(super) struct Metadata {
    external: bool,
    /// The group that is being filled.
    group: usize,
    /// Groups by whether they are external, and owner.
    groups: HashMap<(bool, Ident), usize, FxBuildHasher>,
}

impl Builder<'_> {
    pub fn begin_metadata(&mut self, tok: Tok) -> Result<(), Failure> {
        self.only_at_top_level(tok)
    }

    pub fn end_metadata(&mut self) {}

    /// `dialect_resources` or `external_resources`
    pub fn metadata_key(&mut self, tok: Tok) -> Result<(), Failure> {
        let key = self.text_of(tok);
        self.metadata.external = match &*key {
            "dialect_resources" => false,
            "external_resources" => true,
            _ => {
                return Err(report(
                    Diagnostic::error(
                        "E0165",
                        tok.span(),
                        format!("unknown key '{key}' in file metadata dictionary"),
                    )
                    .help("keys are dialect_resources and external_resources"),
                ));
            }
        };
        Ok(())
    }

    /// The dialect or tool that the resources to come belong to.
    pub fn metadata_owner(&mut self, tok: Tok) -> Result<(), Failure> {
        let owner = self.name(tok);
        let external = self.metadata.external;
        if !external && self.cx.str(owner) != "builtin" {
            let dialect = self.shown(tok);
            return Err(report(
                Diagnostic::error(
                    "E0166",
                    tok.span(),
                    format!("unexpected 'resource' section for dialect '{dialect}'"),
                )
                .help("builtin is the dialect whose dense_resource attributes name resources"),
            ));
        }
        let resources = self.module.resources_mut();
        let groups = if external {
            &mut resources.external
        } else {
            &mut resources.dialects
        };
        let known = self.metadata.groups.entry((external, owner));
        self.metadata.group = *known.or_insert_with(|| {
            groups.push(ResourceGroup {
                owner,
                entries: Vec::new(),
            });
            groups.len() - 1
        });
        Ok(())
    }

    /// `key: "0x…"`, `key: "text"`, `key: true`
    pub fn resource(&mut self, key: Tok, value: Tok) -> Result<(), Failure> {
        let name = self.name(key);
        let external = self.metadata.external;
        let value = match value.kind {
            Kind::True => ResourceValue::Bool(true),
            Kind::False => ResourceValue::Bool(false),
            _ => {
                let bytes = self.string_bytes(value);
                match blob(&bytes) {
                    Some(blob) => blob,
                    None if bytes.starts_with(b"0x") || !external => {
                        let key = self.text_of(key);
                        return Err(report(
                            Diagnostic::error(
                                "E0167",
                                value.span(),
                                format!("expected hex string blob for key '{key}' to encode alignment in first 4 bytes"),
                            )
                            .help("a blob is \"0x\", the alignment as 4 little-endian bytes, and the data"),
                        ));
                    }
                    None => ResourceValue::String(bytes.into()),
                }
            }
        };
        if !external && !matches!(value, ResourceValue::Blob { .. }) {
            return Err(fail(
                "E0167",
                key.span(),
                "expected a hex string blob for a dialect resource",
            ));
        }
        let resources = self.module.resources_mut();
        let groups = if external {
            &mut resources.external
        } else {
            &mut resources.dialects
        };
        groups[self.metadata.group].entries.push((name, value));
        Ok(())
    }
}

/// Four bytes of alignment, a power of two or 0, and the data.
fn blob(text: &[u8]) -> Option<ResourceValue> {
    let bytes = hex_bytes(text)?;
    let (align, data) = bytes.split_first_chunk::<4>()?;
    let align = u32::from_le_bytes(*align);
    (align == 0 || align.is_power_of_two()).then(|| ResourceValue::Blob {
        align,
        bytes: data.into(),
    })
}
