//! The tables of a function (`paddle.program`) and of a class (`paddle.ranks`), to and from IR attributes.

use std::collections::BTreeMap;

use prost::Message;
use raddle_dialect::ir::{Attr, AttrData, Context, DYNAMIC, Type};

use super::form::{Form, Forms};
use super::mapping::{data_type, element_type};
use super::mesh_file::Rings;
use super::program::{Header, Program};
use super::proto::{
    LodTensorDesc, OpVersion, OpVersionMap, OpVersionPair, TensorDesc, VarDesc, VarType, Version,
};
use super::value::{bytes_attr, i32_attr};

/// What a function keeps of its program.
#[derive(Debug)]
pub(super) struct ProgramTable {
    pub header: Header,
    pub forms: Vec<Form>,
    pub vars: Vec<VarEntry>,
}

/// A variable's description.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct VarEntry {
    pub desc: VarDesc,
    /// No op of the program as imported reads or writes it.
    pub unused: bool,
}

/// What a class keeps of one rank.
#[derive(Clone, Default, Debug)]
pub(super) struct RankTable {
    /// The rank; `None` stands for all of the class.
    pub rank: Option<usize>,
    pub rings: Rings,
    /// Names in the functions to this rank's.
    pub renames: BTreeMap<String, String>,
    /// Variables of the main program in this rank's order, if renaming and sorting does not give it.
    pub main_vars: Option<Vec<VarEntry>>,
    /// Variables of the startup program likewise.
    pub startup_vars: Option<Vec<VarEntry>>,
}

/// The type of a plain dense tensor variable.
pub(super) fn tensor_type(cx: &Context, desc: &VarDesc) -> Option<Type> {
    let tensor = match (desc.r#type.r#type, &desc.r#type.lod_tensor) {
        (7, Some(lod)) => &lod.tensor,
        _ => return None,
    };
    let element = element_type(cx, tensor.data_type)?;
    let shape: Vec<i64> = tensor
        .dims
        .iter()
        .map(|&d| match d {
            -1 => Some(DYNAMIC),
            d if d >= 0 => Some(d),
            _ => None,
        })
        .collect::<Option<_>>()?;
    Some(cx.tensor(&shape, element))
}

/// The message part that says a tensor's type; `None` if Paddle has no such element type.
pub(super) fn tensor_desc(cx: &Context, ty: Type) -> Option<TensorDesc> {
    let (shape, element) = cx.as_tensor(ty)?;
    Some(TensorDesc {
        data_type: data_type(cx, element)?,
        dims: shape
            .iter()
            .map(|&d| if d == DYNAMIC { -1 } else { d })
            .collect(),
    })
}

impl VarEntry {
    fn to_attr(&self, cx: &Context) -> Attr {
        let name = bytes_attr(cx, &self.desc.name);
        let mut entries = vec![(cx.ident("name"), name)];
        match self.plain(cx) {
            Some(plain) => entries.extend(plain),
            None => {
                let raw = bytes_attr(cx, &self.desc.encode_to_vec());
                entries.push((cx.ident("raw"), raw));
            }
        }
        if self.unused {
            entries.push((cx.ident("unused"), cx.unit()));
        }
        cx.dict(entries)
    }

    /// Readable entries, if they say everything.
    fn plain(&self, cx: &Context) -> Option<Vec<(raddle_dialect::ir::Ident, Attr)>> {
        let mut entries = vec![(cx.ident("type"), cx.type_attr(tensor_type(cx, &self.desc)?))];
        let lod = self.desc.r#type.lod_tensor.as_ref()?.lod_level;
        entries.extend(lod.map(|lod| (cx.ident("lod"), i32_attr(cx, lod))));
        for (name, flag) in flags(&self.desc) {
            entries.extend(flag.map(|flag| (cx.ident(name), cx.bool_attr(flag))));
        }
        let back = Self::from_entries(cx, &self.desc.name, cx.dict(entries.clone()))?;
        (back == self.desc).then_some(entries)
    }

    fn from_entries(cx: &Context, name: &[u8], dict: Attr) -> Option<VarDesc> {
        let flag = |name| cx.dict_get(dict, name).and_then(|a| cx.as_bool(a));
        let ty = cx.as_type(cx.dict_get(dict, "type")?)?;
        let lod = cx.dict_get(dict, "lod").and_then(|a| cx.as_i64(a));
        Some(VarDesc {
            name: name.to_vec(),
            r#type: VarType {
                r#type: 7,
                lod_tensor: Some(LodTensorDesc {
                    tensor: tensor_desc(cx, ty)?,
                    lod_level: lod.and_then(|l| i32::try_from(l).ok()),
                }),
                ..VarType::default()
            },
            persistable: flag("persistable"),
            need_check_feed: flag("need_check_feed"),
            is_parameter: flag("is_parameter"),
            stop_gradient: flag("stop_gradient"),
            attrs: Vec::new(),
        })
    }

    fn from_attr(cx: &Context, attr: Attr) -> Option<Self> {
        let name = bytes(cx, cx.dict_get(attr, "name")?)?;
        let desc = match cx.dict_get(attr, "raw") {
            Some(raw) => VarDesc::decode(bytes(cx, raw)?).ok()?,
            None => Self::from_entries(cx, name, attr)?,
        };
        Some(Self {
            desc,
            unused: cx.dict_get(attr, "unused").is_some(),
        })
    }
}

fn flags(desc: &VarDesc) -> [(&'static str, Option<bool>); 4] {
    [
        ("persistable", desc.persistable),
        ("need_check_feed", desc.need_check_feed),
        ("is_parameter", desc.is_parameter),
        ("stop_gradient", desc.stop_gradient),
    ]
}

fn bytes(cx: &Context, attr: Attr) -> Option<&[u8]> {
    match cx.attr_data(attr) {
        AttrData::String { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn vars_attr(cx: &Context, vars: &[VarEntry]) -> Attr {
    let items: Vec<_> = vars.iter().map(|v| v.to_attr(cx)).collect();
    cx.array(&items)
}

fn vars_from(cx: &Context, attr: Attr) -> Option<Vec<VarEntry>> {
    cx.as_array(attr)?
        .iter()
        .map(|&a| VarEntry::from_attr(cx, a))
        .collect()
}

/// The variables of a program, with those that no op names marked.
pub(super) fn var_entries(program: &Program) -> Vec<VarEntry> {
    let used: std::collections::HashSet<&str> = program
        .ops
        .iter()
        .flat_map(|op| op.inputs.iter().chain(&op.outputs))
        .flat_map(|slot| slot.args.iter().map(String::as_str))
        .collect();
    program
        .vars
        .iter()
        .map(|var| VarEntry {
            desc: var.desc.clone(),
            unused: !used.contains(var.name.as_str()),
        })
        .collect()
}

impl ProgramTable {
    /// The attribute of a program's function.
    pub(super) fn to_attr(cx: &Context, program: &Program, forms: &Forms) -> Attr {
        let Header {
            version,
            op_versions,
            forward_block,
        } = &program.header;
        let mut entries = vec![
            (cx.ident("forms"), forms.to_attr(cx)),
            (cx.ident("vars"), vars_attr(cx, &var_entries(program))),
        ];
        if let Some(version) = version {
            let number = version.version.map_or(cx.unit(), |v| cx.i64_attr(v));
            entries.push((cx.ident("version"), number));
        }
        if let Some(versions) = op_versions {
            let pairs: Vec<_> = versions
                .pair
                .iter()
                .map(|pair| {
                    let version = i32_attr(cx, pair.op_version.version);
                    cx.array(&[bytes_attr(cx, &pair.op_name), version])
                })
                .collect();
            entries.push((cx.ident("op_versions"), cx.array(&pairs)));
        }
        entries.extend(forward_block.map(|b| (cx.ident("forward_block"), i32_attr(cx, b))));
        cx.dict(entries)
    }

    /// Reads the attribute back; `None` if it is not one.
    pub(super) fn from_attr(cx: &Context, attr: Attr) -> Option<Self> {
        let int = |attr| cx.as_i64(attr).and_then(|v| i32::try_from(v).ok());
        let forms = cx
            .as_array(cx.dict_get(attr, "forms")?)?
            .iter()
            .map(|&a| Form::from_attr(cx, a))
            .collect::<Option<_>>()?;
        let pair = |&item: &Attr| match cx.as_array(item) {
            Some(&[name, version]) => Some(OpVersionPair {
                op_name: bytes(cx, name)?.to_vec(),
                op_version: OpVersion {
                    version: int(version)?,
                },
            }),
            _ => None,
        };
        let op_versions = match cx.dict_get(attr, "op_versions") {
            Some(list) => {
                let pairs = cx.as_array(list)?.iter().map(pair);
                Some(OpVersionMap {
                    pair: pairs.collect::<Option<_>>()?,
                })
            }
            None => None,
        };
        Some(Self {
            header: Header {
                version: cx.dict_get(attr, "version").map(|v| Version {
                    version: cx.as_i64(v),
                }),
                op_versions,
                forward_block: cx.dict_get(attr, "forward_block").and_then(int),
            },
            forms,
            vars: vars_from(cx, cx.dict_get(attr, "vars")?)?,
        })
    }
}

impl RankTable {
    /// The entry of `paddle.ranks`.
    pub(super) fn to_attr(&self, cx: &Context) -> Attr {
        let id = |id: &i64| cx.ident(&id.to_string());
        let axes = self.rings.axes.iter();
        let axes = axes.map(|(ring, axes)| (id(ring), cx.string_array(axes)));
        let others = self.rings.others.iter();
        let others = others.map(|(ring, members)| (id(ring), cx.i64_array(members)));
        let mut entries = vec![(cx.ident("rings"), cx.dict(axes.chain(others).collect()))];
        entries.extend(self.rank.map(|r| (cx.ident("rank"), cx.i64_attr(r as i64))));
        if !self.renames.is_empty() {
            let renames = self.renames.iter();
            let renames = renames.map(|(from, to)| (cx.ident(from), cx.string(to)));
            entries.push((cx.ident("names"), cx.dict(renames.collect())));
        }
        for (name, vars) in [
            ("main_vars", &self.main_vars),
            ("startup_vars", &self.startup_vars),
        ] {
            entries.extend(vars.as_ref().map(|v| (cx.ident(name), vars_attr(cx, v))));
        }
        cx.dict(entries)
    }

    /// Reads an entry back; `None` if it is not one.
    pub(super) fn from_attr(cx: &Context, attr: Attr) -> Option<Self> {
        let mut table = Self::default();
        if let Some(rank) = cx.dict_get(attr, "rank") {
            table.rank = Some(usize::try_from(cx.as_i64(rank)?).ok()?);
        }
        for &(id, ring) in cx.dict_entries(cx.dict_get(attr, "rings")?) {
            let id: i64 = cx.str(id).parse().ok()?;
            match cx.as_string_array(ring) {
                Some(axes) => {
                    let axes = axes.into_iter().map(str::to_owned).collect();
                    table.rings.axes.insert(id, axes);
                }
                None => {
                    table.rings.others.insert(id, cx.as_i64_array(ring)?);
                }
            }
        }
        if let Some(names) = cx.dict_get(attr, "names") {
            for &(from, to) in cx.dict_entries(names) {
                table
                    .renames
                    .insert(cx.str(from).to_owned(), cx.as_str(to)?.to_owned());
            }
        }
        let vars = |name| match cx.dict_get(attr, name) {
            Some(vars) => vars_from(cx, vars).map(Some),
            None => Some(None),
        };
        table.main_vars = vars("main_vars")?;
        table.startup_vars = vars("startup_vars")?;
        Some(table)
    }
}
