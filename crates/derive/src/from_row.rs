use proc_macro2::TokenStream;
use quote::quote;

use crate::fields::{Role, Struct};

pub fn expand(input: &Struct<'_>) -> syn::Result<TokenStream> {
    let cassette = &input.cassette;
    let fields = input.members.iter().map(|member| {
        let (ident, ty) = (member.ident, member.ty);
        match &member.role {
            Role::Named(name) => quote!(#ident: row.get::<#ty>(#name)?),
            Role::Flatten => quote!(#ident: <#ty as #cassette::convert::FromRow>::from_row(row)?),
            Role::Skip => quote!(#ident: ::core::default::Default::default()),
        }
    });
    let body = quote! {
        fn from_row(row: &#cassette::Row<'_>) -> #cassette::Result<Self> {
            ::core::result::Result::Ok(Self { #(#fields,)* })
        }
    };
    let implemented = quote!(#cassette::convert::FromRow);
    Ok(input.implement(&implemented, &quote!(#cassette::convert::FromCql), &body))
}
