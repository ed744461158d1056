//! Values of types without a name in CQL as texts of their classes: components of composites are
//! separated by colons, and those of dynamic composites begin with their type: `i@5:UTF8Type@a`.

use cassette_rows::DataType;
use cassette_rows::types::{CustomType, write_component};

use super::ValueError;
use super::class_text::{from_class_text, split_items, to_class_text};
use super::text::parse_uuid;

/// Parses the text of a value.
pub(super) fn parse(custom: &CustomType, text: &str) -> Result<Vec<u8>, ValueError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if *custom == CustomType::LexicalUuid {
        return match parse_uuid(text) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(ValueError::invalid(format!("unable to make UUID from '{text}'"))),
        };
    }
    let mut out = Vec::new();
    for (index, part) in split_items(text).into_iter().enumerate() {
        let end = match part {
            "!" => 1,
            "_" => -1_i8,
            part => {
                parse_component(custom, index, part, &mut out)?;
                continue;
            }
        };
        if let Some(last) = out.last_mut() {
            *last = end as u8;
        }
        break;
    }
    Ok(out)
}

fn parse_component(
    custom: &CustomType,
    index: usize,
    part: &str,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let (name, data_type, text) = match custom {
        CustomType::Composite(types) => match types.get(index) {
            Some(data_type) => (None, data_type.clone(), part),
            None => return Err(ValueError::invalid("Too many bytes for comparator")),
        },
        _ => {
            let (name, text) = part.split_once('@').unwrap_or((part, ""));
            if text.trim_end_matches('@').contains('@') {
                return Err(ValueError::invalid(format!("Invalid component representation: {part}")));
            }
            let Some((data_type, _)) = custom.component_type(name) else {
                return Err(ValueError::invalid(format!("Cannot find comparator for component {index}")));
            };
            let CustomType::DynamicComposite(aliases) = custom else {
                return Err(ValueError::invalid("a UUID has no components"));
            };
            let is_alias = aliases.iter().any(|alias| [alias.name] == *name.as_bytes());
            (Some((name.as_bytes(), is_alias)), data_type.into_owned(), text.trim_end_matches('@'))
        }
    };
    let value = from_class_text(&data_type, &unescape(text))?;
    if value.len() > usize::from(u16::MAX) {
        return Err(ValueError::invalid(format!(
            "component {index}: expected at most {} bytes, found {}",
            u16::MAX,
            value.len()
        )));
    }
    write_component(out, name, &value, 0);
    Ok(())
}

fn unescape(text: &str) -> String {
    let text = text.replace("\\:", ":");
    text.strip_suffix('!').map(str::to_owned).unwrap_or(text)
}

fn escape(text: &str) -> String {
    let text = text.replace(':', "\\:");
    if text.ends_with(['\\', '!']) { text + "!" } else { text }
}

/// Returns the text of a value.
pub(super) fn format(custom: &CustomType, bytes: &[u8]) -> String {
    if *custom == CustomType::LexicalUuid {
        return uuid::Uuid::from_slice(bytes).map_or_else(|_| String::new(), |uuid| uuid.to_string());
    }
    let mut out = String::new();
    for component in custom.components(bytes) {
        if !out.is_empty() {
            out.push(':');
        }
        if let Some(name) = component.named {
            out.push_str(&String::from_utf8_lossy(name));
            out.push('@');
        }
        let data_type: &DataType = &component.data_type;
        out.push_str(&escape(&to_class_text(data_type, component.value)));
        match component.end {
            0 => {}
            end => {
                out.push_str(if end < 0 { ":_" } else { ":!" });
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use cassette_rows::types::parse_class_name;

    use super::*;

    #[test]
    fn texts_of_composites_parse_to_the_values_that_they_were_made_of() {
        let composite = parse_class_name("CompositeType(Int32Type,UTF8Type)").unwrap().0;
        let dynamic = parse_class_name("DynamicCompositeType(i=>Int32Type,s=>UTF8Type)").unwrap().0;
        for (data_type, text) in [
            (&composite, "1:a"),
            (&composite, "1"),
            (&composite, "1:a\\:b"),
            (&composite, "1:a:!"),
            (&composite, "1:a:_"),
            (&composite, "1:a!!"),
            (&composite, ""),
            (&dynamic, "i@5:s@x"),
            (&dynamic, "Int32Type@5:s@a\\:b"),
        ] {
            let value = from_class_text(data_type, text).unwrap();
            assert_eq!(to_class_text(data_type, &value), text);
        }
        for (data_type, text) in [
            (&composite, "x"),
            (&composite, "1:a:b"),
            (&dynamic, "x@5"),
            (&dynamic, "i@5@6"),
            (&dynamic, "i@a"),
        ] {
            assert!(from_class_text(data_type, text).is_err(), "{text}");
        }
    }
}
