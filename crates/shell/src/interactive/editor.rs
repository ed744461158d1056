//! The line editor.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cassette_cql::keywords::KeywordClass;
use cassette_cql::lexer::{Lexer, TokenKind};
use nu_ansi_term::{Color, Style};
use reedline::{
    ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory, Highlighter, History,
    HistoryItem, HistoryItemId, HistorySessionId, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, SearchQuery, Span, StyledText, Suggestion,
    ValidationResult, Validator, default_emacs_keybindings,
};

use super::complete::{Names, complete};
use crate::input::split;

const MENU: &str = "completion";
/// Inputs that the history keeps.
const HISTORY_LENGTH: usize = 10_000;

/// Creates the editor.
///
/// # Errors
/// If the history cannot be read.
pub fn editor(
    history: Option<PathBuf>,
    names: Arc<Mutex<Names>>,
    colored: bool,
) -> Result<Reedline, reedline::ReedlineError> {
    let mut keys = default_emacs_keybindings();
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]),
    );
    keys.add_binding(
        KeyModifiers::ALT,
        KeyCode::Enter,
        ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
    );
    let history: Box<dyn History> = match history {
        Some(path) => Box::new(CarefulHistory(FileBackedHistory::with_file(HISTORY_LENGTH, path)?)),
        None => Box::new(CarefulHistory(FileBackedHistory::new(HISTORY_LENGTH)?)),
    };
    let editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_completer(Box::new(SchemaCompleter(names)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(ColumnarMenu::default().with_name(MENU))))
        .with_validator(Box::new(Statements))
        .with_history(history)
        .with_ansi_colors(colored);
    Ok(if colored { editor.with_highlighter(Box::new(Tokens)) } else { editor })
}

/// Continues input until its last statement is complete.
struct Statements;

impl Validator for Statements {
    fn validate(&self, line: &str) -> ValidationResult {
        let text = format!("{line}\n");
        if split(&text).incomplete.is_some() {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

/// Colors tokens by their kind.
struct Tokens;

impl Highlighter for Tokens {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        let mut styled = StyledText::new();
        // A comment ends with a line feed.
        let text = format!("{line}\n");
        let mut lexer = Lexer::new(&text);
        let mut at = 0;
        loop {
            let token = lexer.next_token();
            let (start, end) = (token.start as usize, (token.end as usize).min(line.len()));
            let gap = line.get(at..start.min(line.len())).unwrap_or_default();
            styled.push((Style::new().fg(Color::DarkGray), gap.to_owned()));
            if matches!(token.kind, TokenKind::Eof | TokenKind::Error) {
                let rest = line.get(start.min(line.len())..).unwrap_or_default();
                styled.push((Style::new().fg(Color::Red), rest.to_owned()));
                return styled;
            }
            styled.push((style(token.kind), line.get(start..end).unwrap_or_default().to_owned()));
            at = end;
        }
    }
}

fn style(kind: TokenKind) -> Style {
    match kind {
        TokenKind::Keyword(keyword) if matches!(keyword.class(), KeywordClass::Type(_)) => {
            Style::new().fg(Color::Cyan)
        }
        TokenKind::Keyword(_) => Style::new().fg(Color::Blue).bold(),
        TokenKind::String => Style::new().fg(Color::Yellow),
        TokenKind::Integer
        | TokenKind::Float
        | TokenKind::Boolean
        | TokenKind::Duration
        | TokenKind::Uuid
        | TokenKind::Hex
        | TokenKind::NegativeNaN
        | TokenKind::NegativeInfinity => Style::new().fg(Color::Green),
        _ => Style::new(),
    }
}

/// Completes names of the schema and keywords.
struct SchemaCompleter(Arc<Mutex<Names>>);

impl Completer for SchemaCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, words) = complete(line, position, &names);
        let suggestions: Vec<Suggestion> = words
            .into_iter()
            .map(|word| Suggestion {
                append_whitespace: !word.ends_with(['.', '(']),
                value: word,
                span: Span::new(start, position),
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

/// The prompt of cqlsh: user and keyspace.
pub struct ShellPrompt {
    text: String,
    keyspace_length: usize,
}

impl ShellPrompt {
    /// Creates the prompt for a user and a keyspace.
    pub fn new(user: Option<&str>, keyspace: Option<&str>) -> Self {
        let user = user.map_or_else(String::new, |user| format!("{user}@"));
        let text = match keyspace {
            Some(keyspace) => format!("{user}cql:{keyspace}> "),
            None => format!("{user}cql> "),
        };
        Self { keyspace_length: text.chars().count(), text }
    }
}

impl Prompt for ShellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.text)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Owned(format!("{:>width$} ", "...", width = self.keyspace_length.saturating_sub(1)))
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}

/// A history that keeps no passwords.
struct CarefulHistory(FileBackedHistory);

impl History for CarefulHistory {
    fn save(&mut self, item: HistoryItem) -> reedline::Result<HistoryItem> {
        if has_password(&item.command_line) { Ok(item) } else { self.0.save(item) }
    }

    fn load(&self, id: HistoryItemId) -> reedline::Result<HistoryItem> {
        self.0.load(id)
    }

    fn count(&self, query: SearchQuery) -> reedline::Result<i64> {
        self.0.count(query)
    }

    fn search(&self, query: SearchQuery) -> reedline::Result<Vec<HistoryItem>> {
        self.0.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> reedline::Result<()> {
        self.0.update(id, updater)
    }

    fn clear(&mut self) -> reedline::Result<()> {
        self.0.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> reedline::Result<()> {
        self.0.delete(id)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.0.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.0.session()
    }
}

/// Returns whether an input can contain a password.
fn has_password(text: &str) -> bool {
    let text = text.trim_start().to_lowercase();
    text.contains("password") || text.starts_with("login")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_with_passwords_are_not_kept() {
        assert!(has_password("CREATE ROLE a WITH PASSWORD = 'x'"));
        assert!(has_password(" LOGIN ada 'x'"));
        assert!(!has_password("SELECT * FROM logins"));
    }

    #[test]
    fn highlighting_keeps_the_text() {
        for text in ["SELECT 1 -- x", "SELECT 'open", "INSERT INTO t (k) VALUES (0xca, 'a''b');", "日本 ~"]
        {
            assert_eq!(Tokens.highlight(text, 0).raw_string(), text);
        }
    }

    #[test]
    fn the_prompt_names_user_and_keyspace() {
        let prompt = ShellPrompt::new(Some("ada"), Some("shop"));
        assert_eq!(prompt.render_prompt_left(), "ada@cql:shop> ");
        assert_eq!(prompt.render_prompt_multiline_indicator().len(), "ada@cql:shop> ".len());
        assert_eq!(ShellPrompt::new(None, None).render_prompt_left(), "cql> ");
    }
}
