use proc_macro2::TokenStream;
use quote::quote;

use crate::fields::{Role, Struct};

pub fn expand(input: &Struct<'_>) -> syn::Result<TokenStream> {
    let cassette = &input.cassette;
    let named = input
        .named()
        .map(|(ident, name)| quote!(#name => return out.push(&self.#ident, marker).map(|()| true)));
    let flattened =
        input.members.iter().filter(|member| matches!(member.role, Role::Flatten)).map(|member| {
            let ident = member.ident;
            quote! {
                if #cassette::convert::BindNamed::bind_marker(&self.#ident, marker, out)? {
                    return ::core::result::Result::Ok(true);
                }
            }
        });
    let body = quote! {
        fn bind_marker(
            &self,
            marker: &#cassette::convert::ColumnSpec,
            out: &mut #cassette::convert::Encoded,
        ) -> #cassette::Result<bool> {
            match &*marker.name {
                #(#named,)*
                _ => {}
            }
            #(#flattened)*
            ::core::result::Result::Ok(false)
        }
    };
    let bound = quote!(#cassette::convert::ToCql);
    let bind_named = input.implement(&quote!(#cassette::convert::BindNamed), &bound, &body);
    let body = quote! {
        fn bind(
            &self,
            markers: &[#cassette::convert::ColumnSpec],
            out: &mut #cassette::convert::Encoded,
        ) -> #cassette::Result<()> {
            #cassette::convert::bind_by_name(self, markers, out)
        }
    };
    let bind_values = input.implement(&quote!(#cassette::convert::BindValues), &bound, &body);
    Ok(quote!(#bind_named #bind_values))
}
