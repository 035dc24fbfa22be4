//! Functions and their signatures.

use raddle_dialect::ir::{Attr, BlockId, Loc, NewOp, OpId, Position, Rewriter, ValueId};

/// A function that is to be made: what it is called and when it runs.
pub(super) struct Signature<'a> {
    pub name: String,
    pub kind: &'a str,
    /// More attributes.
    pub attrs: Vec<(&'a str, Attr)>,
}

/// Makes a function without arguments and results, and its block.
pub(super) fn create(
    rewriter: &mut Rewriter,
    at: Position,
    loc: Loc,
    signature: &Signature,
) -> (OpId, BlockId) {
    let cx = rewriter.cx().clone();
    let mut attrs = vec![(cx.ident("dist.kind"), cx.string(signature.kind))];
    let more = signature.attrs.iter();
    attrs.extend(more.map(|&(name, value)| (cx.ident(name), value)));
    let ty = cx.type_attr(cx.function_type(&[], &[]));
    rewriter.set_insertion_point(at);
    let function = rewriter.create(NewOp {
        regions: 1,
        props: cx.dict(vec![
            (cx.ident("sym_name"), cx.string(&signature.name)),
            (cx.ident("function_type"), ty),
        ]),
        attrs: cx.dict(attrs),
        ..NewOp::new(cx.ident("func.func"), loc, &cx)
    });
    let region = rewriter.regions(function)[0];
    let block = rewriter.append_block(region);
    (function, block)
}

/// Ends a function: returns the values, and states types and attributes of arguments and results.
pub(super) fn finish(
    rewriter: &mut Rewriter,
    function: OpId,
    arguments: &[Attr],
    returned: &[(ValueId, Attr)],
) {
    let cx = rewriter.cx().clone();
    let block = rewriter.body(function);
    let loc = rewriter.loc(function);
    let values: Vec<_> = returned.iter().map(|r| r.0).collect();
    rewriter
        .at_end(block)
        .build("func.return", loc, &values, &[], &[]);
    let inputs: Vec<_> = rewriter
        .args(block)
        .iter()
        .map(|&v| rewriter.ty(v))
        .collect();
    let results: Vec<_> = values.iter().map(|&v| rewriter.ty(v)).collect();
    let ty = cx.type_attr(cx.function_type(&inputs, &results));
    let mut props = cx.dict_with(rewriter.props(function), "function_type", Some(ty));
    let results: Vec<_> = returned.iter().map(|r| r.1).collect();
    for (name, dicts) in [("arg_attrs", arguments), ("res_attrs", &results)] {
        let any = dicts.iter().any(|&d| d != cx.empty_dict());
        props = cx.dict_with(props, name, any.then(|| cx.array(dicts)));
    }
    rewriter.set_props(function, props);
}
