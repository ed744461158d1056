use super::*;

fn kinds(source: &str) -> Vec<(TokenKind, &str)> {
    let mut lexer = Lexer::new(source);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token();
        if matches!(token.kind, TokenKind::Eof | TokenKind::Error) {
            if token.kind == TokenKind::Error {
                tokens.push((token.kind, ""));
            }
            return tokens;
        }
        tokens.push((token.kind, &source[token.start as usize..token.end as usize]));
    }
}

fn spelled(source: &str) -> Vec<String> {
    kinds(source).into_iter().map(|(kind, text)| format!("{} {text}", kind.token_name())).collect()
}

#[test]
fn numbers_durations_and_ranges_end_where_cassandra_ends_them() {
    assert_eq!(
        spelled("1 -2 3.5 4. 5e3 -6.25E-7"),
        ["INTEGER 1", "INTEGER -2", "FLOAT 3.5", "FLOAT 4.", "FLOAT 5e3", "FLOAT -6.25E-7"]
    );
    assert_eq!(spelled("1..2"), ["INTEGER 1", "RANGE ..", "INTEGER 2"]);
    assert_eq!(spelled("1...2"), ["FLOAT 1.", "RANGE ..", "INTEGER 2"]);
    assert_eq!(spelled("a-1"), ["IDENT a", "INTEGER -1"]);
    assert_eq!(spelled("a - 1"), ["IDENT a", "'-' -", "INTEGER 1"]);
    assert_eq!(spelled("1y2mo3w4d5h6m7s8ms9us10µs11ns"), ["DURATION 1y2mo3w4d5h6m7s8ms9us10µs11ns"]);
    assert_eq!(
        spelled("-89h4m48s P1Y2M3DT4H5M6S -P3W PT5S P0001-02-03T04:05:06"),
        [
            "DURATION -89h4m48s",
            "DURATION P1Y2M3DT4H5M6S",
            "DURATION -P3W",
            "DURATION PT5S",
            "DURATION P0001-02-03T04:05:06"
        ]
    );
    assert_eq!(spelled("0xCAFE 0x"), ["HEXNUMBER 0xCAFE", "HEXNUMBER 0x"]);
    assert_eq!(
        spelled("NaN -nan Infinity -INFINITY"),
        [
            "K_POSITIVE_NAN NaN",
            "K_NEGATIVE_NAN -nan",
            "K_POSITIVE_INFINITY Infinity",
            "K_NEGATIVE_INFINITY -INFINITY"
        ]
    );
}

#[test]
fn uuids_are_told_from_words_and_numbers() {
    let digits = "123e4567-e89b-12d3-a456-426614174000";
    let letters = "abcdefab-cdef-abcd-efab-cdefabcdefab";
    assert_eq!(spelled(digits), [format!("UUID {digits}")]);
    assert_eq!(spelled(letters), [format!("UUID {letters}")]);
    assert_eq!(spelled("abcdefab"), ["IDENT abcdefab"]);
}

#[test]
fn quotes_are_undone() {
    for (raw, text) in [
        ("'it''s'", "it's"),
        ("''", ""),
        ("''''", "'"),
        ("\"a\"\"b\"", "a\"b"),
        ("$$it's$$", "it's"),
        ("$$$$", ""),
        ("$$a$b$$", "a$b"),
    ] {
        let tokens = kinds(raw);
        assert_eq!(tokens.len(), 1, "{raw}");
        assert_eq!(unquote(tokens[0].1), text, "{raw}");
    }
    assert_eq!(spelled("\"\""), ["EMPTY_QUOTED_NAME \"\""]);
}

#[test]
fn comments_are_blanks() {
    assert_eq!(spelled("a -- b\n c // d\r e /* f\n * / */ g"), ["IDENT a", "IDENT c", "IDENT e", "IDENT g"]);
}

#[test]
fn what_is_never_closed_is_an_error() {
    for source in ["'abc", "\"abc", "$$abc", "$$abc$", "/* abc *", "-- abc", "@", "$", "!", "é"] {
        assert_eq!(kinds(source).last().map(|(kind, _)| *kind), Some(TokenKind::Error), "{source}");
    }
}
