use proc_macro2::TokenStream;
use quote::quote;

use crate::fields::{Role, Struct};

pub fn expand(input: &Struct<'_>) -> syn::Result<TokenStream> {
    let cassette = &input.cassette;
    if let Some(member) = input.members.iter().find(|member| matches!(member.role, Role::Flatten)) {
        let message = "cannot flatten: a field of a user-defined type is one value";
        return Err(syn::Error::new_spanned(member.ident, message));
    }
    let rust_name = input.name.to_string();
    let (idents, names): (Vec<_>, Vec<_>) = input.named().unzip();
    let body = quote! {
        fn write(
            &self,
            data_type: &#cassette::convert::DataType,
            out: &mut ::std::vec::Vec<u8>,
        ) -> #cassette::Result<#cassette::convert::Written> {
            #cassette::convert::write_udt(#rust_name, &[#((#names, &self.#idents)),*], data_type, out)
        }
    };
    let to_cql = quote!(#cassette::convert::ToCql);
    let writes = input.implement(&to_cql, &to_cql, &body);
    let fields = input.members.iter().map(|member| {
        let ident = member.ident;
        match &member.role {
            Role::Named(name) => quote!(#ident: udt.get(#name)?),
            Role::Flatten | Role::Skip => quote!(#ident: ::core::default::Default::default()),
        }
    });
    let body = quote! {
        fn read(
            data_type: &#cassette::convert::DataType,
            bytes: ::core::option::Option<&[u8]>,
        ) -> #cassette::Result<Self> {
            let udt = #cassette::convert::UdtReader::new(#rust_name, data_type, bytes)?;
            ::core::result::Result::Ok(Self { #(#fields,)* })
        }
    };
    let from_cql = quote!(#cassette::convert::FromCql);
    let reads = input.implement(&from_cql, &from_cql, &body);
    Ok(quote!(#writes #reads))
}
