//! Lua's patterns (section 6.4.1 of the manual), with a budget: the C library can spend hours on a
//! short text without executing an instruction.

use super::budget::Budget;

/// The maximum number of captures, as in Lua.
const CAPTURES_MAX: usize = 32;
/// The maximum depth of the recursion, as in Lua.
const DEPTH_MAX: u32 = 200;
/// The number of steps between two checks of the budget.
const STEPS_PER_CHECK: u32 = 4096;

/// A text that is searched for a pattern.
pub(super) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: u32,
    steps: u32,
    budget: &'a Budget,
}

#[derive(Debug, Clone, Copy)]
struct Capture {
    start: usize,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The capture is not closed yet.
    Open,
    /// The capture is a position.
    Position,
    At(usize),
}

/// A captured part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Captured<'a> {
    Text(&'a [u8]),
    /// Counted from 1.
    Position(usize),
}

impl<'a> Matcher<'a> {
    /// Returns a matcher of a pattern, which does not begin with the anchor `^`.
    pub fn new(text: &'a [u8], pattern: &'a [u8], budget: &'a Budget) -> Self {
        Self { text, pattern, captures: Vec::new(), depth: 0, steps: 0, budget }
    }

    /// Returns where the match that starts at `start` ends; `None` if there is none.
    pub fn match_at(&mut self, start: usize) -> mlua::Result<Option<usize>> {
        self.captures.clear();
        self.depth = 0;
        self.run(start, 0)
    }

    /// Returns the captures of the last match of `start..end`, or the whole match if the pattern
    /// has none.
    pub fn captured(&self, start: usize, end: usize) -> mlua::Result<Vec<Captured<'a>>> {
        if self.captures.is_empty() {
            return Ok(vec![Captured::Text(self.part(start, end))]);
        }
        self.captures.iter().map(|capture| self.resolve(*capture)).collect()
    }

    /// Returns the captures of the last match, without the whole match.
    pub fn captured_only(&self) -> mlua::Result<Vec<Captured<'a>>> {
        self.captures.iter().map(|capture| self.resolve(*capture)).collect()
    }

    fn part(&self, start: usize, end: usize) -> &'a [u8] {
        self.text.get(start..end).unwrap_or_default()
    }

    fn resolve(&self, capture: Capture) -> mlua::Result<Captured<'a>> {
        match capture.end {
            End::Open => Err(error("unfinished capture")),
            End::Position => Ok(Captured::Position(capture.start + 1)),
            End::At(end) => Ok(Captured::Text(self.part(capture.start, end))),
        }
    }

    fn step(&mut self) -> mlua::Result<()> {
        self.steps += 1;
        if self.steps == STEPS_PER_CHECK {
            self.steps = 0;
            self.budget.spend(u64::from(STEPS_PER_CHECK))?;
        }
        Ok(())
    }

    /// Matches the pattern from `p` on at `s`.
    fn run(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        if self.depth == DEPTH_MAX {
            return Err(error("pattern too complex"));
        }
        self.depth += 1;
        let result = self.run_within(s, p);
        self.depth -= 1;
        result
    }

    fn run_within(&mut self, mut s: usize, mut p: usize) -> mlua::Result<Option<usize>> {
        loop {
            self.step()?;
            let Some(&first) = self.pattern.get(p) else { return Ok(Some(s)) };
            let second = self.pattern.get(p + 1).copied();
            match (first, second) {
                (b'(', Some(b')')) => return self.open(s, p + 2, End::Position),
                (b'(', _) => return self.open(s, p + 1, End::Open),
                (b')', _) => return self.close(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(error("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = s.checked_sub(1).and_then(|at| self.text.get(at)).copied().unwrap_or(0);
                    let here = self.text.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p, end) || !self.in_set(here, p, end) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.repeated(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    let matches = self.single(s, p, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if matches && let Some(found) = self.run(s + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.longest(s, p, end),
                        Some(b'+') if matches => return self.longest(s + 1, p, end),
                        Some(b'-') => return self.shortest(s, p, end),
                        Some(b'+') => return Ok(None),
                        _ if !matches => return Ok(None),
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        }
    }

    fn open(&mut self, s: usize, p: usize, end: End) -> mlua::Result<Option<usize>> {
        if self.captures.len() == CAPTURES_MAX {
            return Err(error("too many captures"));
        }
        let captures = self.captures.len();
        self.captures.push(Capture { start: s, end });
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures.truncate(captures);
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        let open = self.captures.iter().rposition(|capture| capture.end == End::Open);
        let Some(at) = open else { return Err(error("invalid pattern capture")) };
        self.captures[at].end = End::At(s);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[at].end = End::Open;
        }
        Ok(found)
    }

    /// `%bxy`; `p` is the position of `x`.
    fn balanced(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(error("malformed pattern (missing arguments to '%b')"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for at in s + 1..self.text.len() {
            self.step()?;
            let byte = self.text[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: the text of an earlier capture.
    fn repeated(&self, s: usize, digit: u8) -> mlua::Result<Option<usize>> {
        let capture = usize::from(digit).checked_sub(usize::from(b'1')).and_then(|at| self.captures.get(at));
        let text = match capture.map(|capture| self.resolve(*capture)) {
            Some(Ok(Captured::Text(text))) => text,
            _ => return Err(error(&format!("invalid capture index %{}", char::from(digit)))),
        };
        let rest = self.text.get(s..).unwrap_or_default();
        Ok(rest.starts_with(text).then(|| s + text.len()))
    }

    fn longest(&mut self, s: usize, p: usize, end: usize) -> mlua::Result<Option<usize>> {
        let mut last = s;
        while self.single(last, p, end) {
            self.step()?;
            last += 1;
        }
        loop {
            if let Some(found) = self.run(last, end + 1)? {
                return Ok(Some(found));
            }
            if last == s {
                return Ok(None);
            }
            last -= 1;
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> mlua::Result<Option<usize>> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Returns where the class of one character at `p` ends.
    fn class_end(&self, p: usize) -> mlua::Result<usize> {
        match self.pattern.get(p) {
            Some(b'%') if p + 1 < self.pattern.len() => Ok(p + 2),
            Some(b'%') => Err(error("malformed pattern (ends with '%')")),
            Some(b'[') => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // The first character belongs to the set, also if it is a bracket.
                let mut is_first = true;
                loop {
                    match self.pattern.get(at) {
                        None => return Err(error("malformed pattern (missing ']')")),
                        Some(b']') if !is_first => return Ok(at + 1),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    is_first = false;
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the character at `s` belongs to the class `p..end`.
    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern.get(p) {
            Some(b'.') => true,
            Some(b'%') => self.pattern.get(p + 1).is_some_and(|class| in_class(byte, *class)),
            Some(b'[') => self.in_set(byte, p, end),
            Some(literal) => *literal == byte,
            None => false,
        }
    }

    /// Whether a character belongs to the set `[…]` at `p..end`.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let inner = self.pattern.get(p + 1..end.saturating_sub(1)).unwrap_or_default();
        let (is_negated, mut rest) = match inner.split_first() {
            Some((b'^', rest)) => (true, rest),
            _ => (false, inner),
        };
        let mut found = false;
        while let Some((&first, tail)) = rest.split_first() {
            (found, rest) = match (first, tail) {
                (b'%', [class, tail @ ..]) => (found || in_class(byte, *class), tail),
                (low, [b'-', high, tail @ ..]) => (found || (low <= byte && byte <= *high), tail),
                (literal, tail) => (found || literal == byte, tail),
            };
        }
        found != is_negated
    }
}

/// Whether a character belongs to the class `%class`.
fn in_class(byte: u8, class: u8) -> bool {
    let belongs = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0B,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    belongs != class.is_ascii_uppercase()
}

fn error(message: &str) -> mlua::Error {
    mlua::Error::runtime(message)
}
